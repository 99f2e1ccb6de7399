"""Every setting in force with its value and its origin, as a person may see it. Pure.

Texts among the settings of plugins are withheld: only a plugin knows which of its settings are
secret, and listing imports none. References to secrets (``env:NAME``) are shown. Standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pluggent_host.settings import HostSettings

from pluggent_cli.config.command_settings import CommandSettings
from pluggent_cli.config.keys import KEYS
from pluggent_cli.config.origins import Origin
from pluggent_cli.config.sources import value_at

WITHHELD = "(text, not shown)"
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[^\s]+|keyring:[^\s/]+/[^\s/]+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NONE = CommandSettings()


class Setting(NamedTuple):
    """One setting. ``key`` is as TOML writes it, ``value`` as JSON has it, ``origin`` None for a default.

    Where ``withheld``, some text in it has been replaced by WITHHELD.
    """

    key: str
    value: Any
    origin: Origin | None
    withheld: bool = False

    @property
    def text(self) -> str:
        """The value as TOML writes it, nearly: there is no TOML for what was withheld."""
        return _toml(self.value)


def effective(
    settings: HostSettings, origins: Mapping[str, Origin], command: CommandSettings = _NONE
) -> Iterator[Setting]:
    """Yield all settings, those of tables entry by entry.

    >>> [str(one.value) for one in effective(HostSettings(model="a/b"), {}) if one.key == "model"]
    ['a/b']
    """
    for path in KEYS:
        value = value_at(path, settings, command)
        for names, entry in _entries((*path.split("."),), value):
            shown = _shown(entry, secret=names[0] == "plugins")
            yield Setting(_key(names), shown, origins.get(".".join(names)), WITHHELD in _toml(shown))


def is_reference(text: str) -> bool:
    """Say whether *text* is a reference to a secret, not a secret.

    >>> is_reference("env:ACME_KEY"), is_reference("s3cret")
    (True, False)
    """
    return _REFERENCE.fullmatch(text) is not None


def _entries(names: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what stands alone: an entry of a table, an option of a plugin, anything else as it is."""
    if not isinstance(value, Mapping) or not value:
        yield names, value
        return
    for name, entry in cast("Mapping[str, Any]", value).items():
        if names == ("plugins",):
            yield from _entries((*names, name), entry)
        else:
            yield (*names, name), entry


def _shown(value: Any, *, secret: bool) -> Any:
    if isinstance(value, str):
        return WITHHELD if secret and not is_reference(value) else value
    if hasattr(value, "_asdict"):  # a named tuple of settings.py
        return {name: each for name, each in value._asdict().items() if each is not None}
    if isinstance(value, Mapping):
        return {str(name): _shown(each, secret=secret) for name, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_shown(each, secret=secret) for each in cast("Sequence[Any]", value)]
    return value if isinstance(value, bool | int | float) or value is None else str(value)


def _key(names: Sequence[str]) -> str:
    return ".".join(name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False) for name in names)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return f"{{{', '.join(f'{_key([name])} = {_toml(each)}' for name, each in entries)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
    if value == WITHHELD:
        return WITHHELD
    return '"none"' if value is None else json.dumps(value, ensure_ascii=False)
