"""Environment variables that set something: ``PLUGGENT_MODEL`` is ``model``, ``PLUGGENT_LIMITS_ASKS`` ``limits.asks``.

Each setting of keys.py that can be written as text has one. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli.config.keys import KEYS

_PREFIX = "PLUGGENT_"
_VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        _PREFIX + path.removeprefix("selection.").replace(".", "_").upper(): path
        for path, key in KEYS.items()
        if key.kind.parse
    }
)
_WORDS = frozenset(variable[len(_PREFIX) :] for variable in _VARIABLES)  # alike only by chance, without the prefix
_OTHER_VARIABLES = ("PLUGGENT_STATE_DIR",)


def variables(environ: Mapping[str, str], notes: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each variable that is set, with the dotted key that it means and its text."""
    for variable in sorted(name for name in environ if name.startswith(_PREFIX) and environ[name]):
        if variable in _VARIABLES:
            yield variable, _VARIABLES[variable], environ[variable]
        elif variable not in _OTHER_VARIABLES and (meant := did_you_mean(variable[len(_PREFIX) :], _WORDS)):
            meant = meant.replace("'", f"'{_PREFIX}", 1)
            notes.append(f"{variable} is set, but no such variable is known{meant}")
