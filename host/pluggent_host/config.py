"""Files, environment and flags become HostSettings; every problem of one source at once.

Standard library only: listing plugins reads settings too. One table, KEYS, says of each setting
what it may be, how a later source combines with an earlier one, and which way is tighter.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

from pluggent_hookspecs.errors import ConfigError

from pluggent_host.nearest import nearest
from pluggent_host.settings import NOTHING, HostSettings

FILE_NAME = "pluggent.toml"
MAX_BYTES = 1_048_576
_PREFIX = "PLUGGENT_"
_NUMBER_MAX = 1e12
_SHOWN = 60
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Trust(Protocol):
    """Who knows which files of a working directory were accepted; see trust.py."""

    def is_trusted(self, path: Path, content: bytes | None = None) -> bool: ...


class Loaded(NamedTuple):
    """Settings, and where each came from: a file, a variable or the command line.

    ``origins`` has dotted keys (``limits.tool_rounds``, ``plugins.acme.region``); a key that is
    not there has its default. ``notes`` are sentences for the person: what was ignored and why.
    """

    settings: HostSettings
    origins: Mapping[str, str]
    notes: tuple[str, ...]


def load_settings(
    *,
    config: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] = NOTHING,
    cwd: Path,
    trust: Trust | None = None,
) -> Loaded:
    """Return the settings in force, later sources over earlier ones.

    The user's own file, then *config* (naming it is consent) or else ``pluggent.toml`` in *cwd*,
    then ``PLUGGENT_…`` variables, then *flags* (dotted keys). Blocked plugins add up; tables are
    merged entry by entry. Of a file in *cwd* that *trust* does not know only what tightens counts.

    Raises ConfigError, with all problems of one source, for a file that cannot be read or is no
    TOML, unknown keys, wrong types and numbers out of range.
    """
    book = _Book()
    _add_file(book, user_config(environ))
    if config is not None:
        book.add(str(config), _read(config, _load(config)))
    else:
        _add_file(book, cwd / FILE_NAME, trust or _NoTrust())
    for variable, values in _environment(environ, book.notes):
        book.add(variable, values)
    book.add("the command line", _checked("the command line", _flag_values(flags)))
    return book.loaded()


def user_config(environ: Mapping[str, str]) -> Path:
    """Return where the user's own settings are, whether or not there is such a file."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config") / "pluggent" / FILE_NAME


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for sessions, trust and caches. Whoever writes there makes it, mode 0700."""
    if own := environ.get("PLUGGENT_STATE_DIR"):
        return Path(own)
    if sys.platform == "darwin" and not environ.get("XDG_STATE_HOME"):
        return _home(environ) / "Library" / "Application Support" / "pluggent"
    return _folder(environ, "XDG_STATE_HOME", ".local/state") / "pluggent"


def _folder(environ: Mapping[str, str], variable: str, otherwise: str) -> Path:
    given = Path(environ.get(variable, ""))
    return given if given.is_absolute() else _home(environ) / otherwise  # a relative one is to be ignored (XDG)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


# ---- what a value may be ---------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """What a setting may be. ``parse`` reads it from text; None: it cannot be given as text.

    ``entry`` is the kind of each entry of a table.
    """

    expected: str
    fits: Callable[[Any], bool]
    make: Callable[[Any], Any] = _same
    parse: Callable[[str], Any] | None = None
    entry: Kind | None = None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_number(value: object, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _whole(least: int) -> Kind:
    def fits(value: Any) -> bool:
        return _is_number(value, (int,)) and least <= value <= _NUMBER_MAX

    return Kind(f"a whole number of at least {least}", fits, parse=int)


def _above_zero(what: str) -> Kind:
    def fits(value: Any) -> bool:
        return _is_number(value, (int, float)) and 0 < value <= _NUMBER_MAX and math.isfinite(value)

    return Kind(f"{what} above 0", fits, float, float)


def _or_none(kind: Kind) -> Kind:
    def fits(value: Any) -> bool:
        return value == "none" or kind.fits(value)

    def make(value: Any) -> Any:
        return None if value == "none" else kind.make(value)

    def parse(text: str) -> Any:
        return text if text == "none" or kind.parse is None else kind.parse(text)

    return Kind(f'{kind.expected}, or "none"', fits, make, parse)


def _choice(*names: str) -> Kind:
    def fits(value: Any) -> bool:
        return _is_text(value) and value in names

    return Kind(f"one of {', '.join(names)}", fits, parse=str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(name, str) and name for name in cast("Sequence[Any]", value)
    )


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _table(entry: Kind) -> Kind:
    return Kind("a table", _is_table, MappingProxyType, entry=entry)


_TEXT = Kind("text", _is_text, parse=str)
_BOOLEAN = Kind("true or false", _is_boolean, parse=_boolean)
_NAMES = Kind("a list of names", _is_names, _distinct)
_LISTABLE = _NAMES._replace(parse=_listed)
_SECONDS = _above_zero("a number of seconds")
_FREE = Kind("a table", _is_table, MappingProxyType)


# ---- how sources combine ---------------------------------------------------------------


def _later(_: Any, new: Any) -> Any:
    return new


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return _distinct([*old, *new])


def _entries(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({**old, **new})


def _options(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    return _entries(old, {name: _entries(old.get(name, NOTHING), options) for name, options in new.items()})


def _either(old: bool, new: bool) -> bool:  # noqa: FBT001 (a setting is a value here)
    return old or new


def _least(old: float | None, new: float | None) -> float | None:
    return new if old is None else old if new is None else min(old, new)


def _towards(*tighter: str) -> Callable[[str, str], str]:
    """Return a tightening along *tighter*, loosest first."""
    return lambda old, new: max(old, new, key=tighter.index)


class Key(NamedTuple):
    """One setting. ``tighten`` says what an untrusted file may do to it; None: nothing."""

    kind: Kind
    merge: Callable[[Any, Any], Any] = _later
    tighten: Callable[[Any, Any], Any] | None = None


def _limit(kind: Kind) -> Key:
    return Key(kind, tighten=_least)


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "model": Key(_TEXT),
        "system": Key(_TEXT),
        "strict": Key(_BOOLEAN, tighten=_either),
        "on_ask": Key(_choice("console", "deny"), tighten=_towards("console", "deny")),
        "stream": Key(_choice("held", "provisional"), tighten=_towards("provisional", "held")),
        "fsync": Key(_choice("off", "effects"), tighten=_towards("off", "effects")),
        "selection.mode": Key(_choice("all", "allow", "safe"), tighten=_towards("all", "allow", "safe")),
        "selection.allow": Key(_LISTABLE),
        "selection.block": Key(_LISTABLE, _union, _union),
        "selection.any_version": Key(_BOOLEAN),
        "grants.security": Key(_NAMES),
        "grants.may_allow": Key(_NAMES),
        "grants.may_respond": Key(_NAMES),
        "grants.approvers": Key(_NAMES),
        "grants.retriers": Key(_NAMES),
        "grants.optional": Key(_NAMES),
        "grants.handled": Key(_NAMES),
        "limits.model_calls": _limit(_whole(1)),
        "limits.tool_rounds": _limit(_whole(0)),
        "limits.tool_timeout_s": _limit(_SECONDS),
        "limits.result_bytes": _limit(_whole(256)),
        "limits.wall_s": _limit(_or_none(_SECONDS)),
        "limits.tokens": _limit(_or_none(_whole(1))),
        "limits.cost_usd": _limit(_or_none(_above_zero("a number of dollars"))),
        "limits.repeats": _limit(_whole(1)),
        "limits.asks": _limit(_whole(0)),
        "limits.denials": _limit(_whole(0)),
        "limits.delegation_depth": _limit(_whole(0)),
        "timeouts.provide_s": Key(_SECONDS),
        "timeouts.hook_s": Key(_SECONDS),
        "timeouts.observe_s": Key(_SECONDS),
        "timeouts.approver_s": Key(_SECONDS),
        "timeouts.open_s": Key(_SECONDS),
        "timeouts.close_s": Key(_SECONDS),
        "timeouts.source_s": Key(_SECONDS),
        "timeouts.model_s": Key(_SECONDS),
        "required": Key(_table(_NAMES), _entries),
        "order": Key(_NAMES),
        "aliases": Key(_table(_TEXT), _entries),
        "effects": Key(_table(_NAMES), _entries),
        "plugins": Key(_table(_FREE), _options),
    }
)
_SECTIONS = frozenset(path.partition(".")[0] for path in KEYS if "." in path)
_VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        _PREFIX + path.removeprefix("selection.").replace(".", "_").upper(): path
        for path, key in KEYS.items()
        if key.kind.parse
    }
)
_WORDS = frozenset(variable[len(_PREFIX) :] for variable in _VARIABLES)  # alike only by chance, without the prefix
_OTHER_VARIABLES = ("PLUGGENT_STATE_DIR",)


# ---- putting it together ---------------------------------------------------------------


class _NoTrust:
    def is_trusted(self, path: Path, content: bytes | None = None) -> bool:
        return False


class _Book:
    """The settings so far, and where they came from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {path: _default(path) for path in KEYS}
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []

    def add(self, where: str, values: Mapping[str, Any]) -> None:
        for path, value in values.items():
            self.values[path] = KEYS[path].merge(self.values[path], value)
            self.origins |= dict.fromkeys(_spots(path, value), where)

    def tighten(self, where: Path, values: Mapping[str, Any]) -> None:
        ignored: list[str] = []
        for path, value in values.items():
            tighten = KEYS[path].tighten
            old = self.values[path]
            new = tighten(old, value) if tighten else old
            if new != old:
                self.values[path] = new
                self.origins[path] = str(where)
            elif value != old:
                ignored += _spots(path, value)
        if ignored:
            self.notes.append(
                f"{where} is not trusted, so it may only tighten; ignored: {', '.join(ignored)}."
                f" Read it, then accept it: pluggent trust {where}"
            )

    def loaded(self) -> Loaded:
        changed: dict[str, Any] = {}
        for name, default in HostSettings()._asdict().items():
            if name in _SECTIONS:
                mine = {
                    path.partition(".")[2]: value for path, value in self.values.items() if path.startswith(f"{name}.")
                }
                changed[name] = default._replace(**mine)
            else:
                changed[name] = self.values[name]
        return Loaded(HostSettings(**changed), MappingProxyType(self.origins), tuple(self.notes))


def _default(path: str) -> Any:
    value: Any = HostSettings()
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _spots(path: str, value: Any) -> list[str]:
    """Return the dotted keys that one setting fills: those of its entries if it is a table."""
    if not isinstance(value, Mapping):
        return [path]
    found: list[str] = []
    for name, entry in cast("Mapping[str, Any]", value).items():
        found += _spots(f"{path}.{name}", entry) if path == "plugins" else [f"{path}.{name}"]
    return found


# ---- files -----------------------------------------------------------------------------


def _add_file(book: _Book, path: Path, trust: Trust | None = None) -> None:
    """Add a file that need not be there; *trust* says whether it may do more than tighten."""
    try:
        content = _load(path)
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        raise
    values = _read(path, content)
    # The same bytes are judged and used: the file may change meanwhile.
    if trust is None or trust.is_trusted(path, content):
        book.add(str(path), values)
    else:
        book.tighten(path, values)


def _load(path: Path) -> bytes:
    try:
        # Without O_NONBLOCK a named pipe lying there would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(str(path), ["is not a regular file"])
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error
    if len(content) > MAX_BYTES:
        raise ConfigError(str(path), [f"is longer than {MAX_BYTES} bytes; settings are never that long"])
    return content


def _read(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"is not UTF-8 text (byte {error.start})"]) from error
    except tomllib.TOMLDecodeError as error:
        why, _, place = str(error).rstrip(")").partition(" (at ")
        raise ConfigError(str(path), [f"{place or 'somewhere'}: {why}"]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), [f"is not usable TOML: {error}"]) from error
    return _checked(str(path), _document_values(document))


def _document_values(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and values: those inside sections, and the others as they stand."""
    for name, value in document.items():
        if name not in _SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in cast("dict[str, Any]", value).items())
        else:
            yield name, value


# ---- environment and flags -------------------------------------------------------------


def _environment(environ: Mapping[str, str], notes: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for variable in sorted(name for name in environ if name.startswith(_PREFIX) and environ[name]):
        if variable in _VARIABLES:
            path = _VARIABLES[variable]
            yield variable, _checked(variable, [(path, _from_text(KEYS[path].kind, environ[variable]))])
        elif variable not in _OTHER_VARIABLES and (meant := nearest(variable[len(_PREFIX) :], _WORDS)):
            meant = meant.replace("'", f"'{_PREFIX}", 1)
            notes.append(f"{variable} is set, but no such variable is known{meant}")


def _flag_values(flags: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for path, value in flags.items():
        known = KEYS.get(path)
        yield path, _from_text(known.kind, value) if known and isinstance(value, str) else value


def _from_text(kind: Kind, text: str) -> Any:
    """Return what *text* says; *text* itself if it says nothing of this kind, for the check to name."""
    if kind.parse is None:
        return text
    try:
        return kind.parse(text.strip())
    except ValueError:
        return text


# ---- checking --------------------------------------------------------------------------


def _checked(where: str, values: Any) -> Mapping[str, Any]:
    problems: list[str] = []
    made: dict[str, Any] = {}
    for path, value in values:
        if path in KEYS:
            made[path] = _made(path, value, KEYS[path].kind, problems)
        else:
            problems.append(_unknown(path))
    if problems:
        raise ConfigError(where, problems)
    return made


def _made(path: str, value: Any, kind: Kind, problems: list[str]) -> Any:
    if not kind.fits(value):
        problems.append(f"{path}: expected {kind.expected}, got {_shown(value)}")
        return None
    if kind.entry:
        make = partial(_made, kind=kind.entry, problems=problems)
        value = {name: make(f"{path}.{name}", entry) for name, entry in value.items()}
    return kind.make(value)


def _unknown(path: str) -> str:
    section, dot, name = path.partition(".")
    if section in _SECTIONS and not dot:
        return f"{path}: expected a table, [{path}]"
    known = [key.partition(".") for key in KEYS]
    within = [inner for outer, _, inner in known if outer == section] if dot else [outer for outer, _, _ in known]
    return f"{path}: is not a known setting{nearest(name if dot else path, within)}"


def _shown(value: object) -> str:
    if _is_number(value, (int, float)):
        return "a huge number" if _NUMBER_MAX < abs(cast("float", value)) < math.inf else str(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
    if isinstance(value, bool):
        return str(value).lower()
    names = {"dict": "a table", "list": "a list", "tuple": "a list"}
    kind = type(value).__name__
    return names.get(kind, kind)
