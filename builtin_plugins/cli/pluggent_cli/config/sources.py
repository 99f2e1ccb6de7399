"""Files, environment and flags become HostSettings, each with its origin; one error reports all problems of a source.

Standard library only: listing plugins reads settings too. What each setting may be, and how a
later source combines with an earlier one, is in keys.py.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import home_folder, state_folder
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.discovery import normalised
from pluggent_plugin_loader.settings import NOTHING

from pluggent_cli.config.command_settings import CommandSettings
from pluggent_cli.config.environment import variables
from pluggent_cli.config.keys import (
    KEYS,
    LOCK,
    SECTIONS,
    Kind,
    Lock,
    check_system_file,
    check_system_folder,
    contradictions,
    lock_of,
    sifted,
)
from pluggent_cli.config.origins import Origin, lines_of, section_of, with_line

FILE_NAME = "pluggent.toml"
MAX_BYTES = 1_048_576
COMMAND_LINE = "the command line"


class Trust(Protocol):
    """Who knows which files of a working directory were accepted; see pluggent_cli.trust."""

    def is_trusted(self, path: Path, content: bytes | None = None) -> bool: ...


class Loaded(NamedTuple):
    """Settings, and where each came from: a file, a variable or the command line.

    ``origins`` has dotted keys (``limits.tool_rounds``, ``plugins.acme.region``); a key that is
    not there has its default. ``notes`` are sentences for the person: what was ignored and why. ``command`` are
    the settings that are the command's own.
    """

    settings: HostSettings
    origins: Mapping[str, Origin]
    notes: tuple[str, ...]
    command: CommandSettings = CommandSettings()


class Source(NamedTuple):
    """A file of settings that counts, whether it is there or not.

    ``role``: the system's, which all others may only tighten; the user's own; the one that was named
    on the command line; that of the working directory, which has to be trusted, or is only to tighten.
    """

    path: Path
    role: Literal["system", "user", "named", "project", "tightening"]


def load_settings(
    *,
    config: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] = NOTHING,
    cwd: Path,
    trust: Trust | None = None,
    system: Path | None = None,
) -> Loaded:
    """Return the settings in force, later sources over earlier ones.

    The *system*'s file (default: see ``system_config``), which the others may only tighten, the
    user's own, then *config* (naming it is consent) or else ``pluggent.toml`` in *cwd*, then
    ``PLUGGENT_…`` variables, then *flags* (dotted keys). Blocked plugins and grants add up; tables are merged
    entry by entry. Of a file in *cwd* that *trust* does not know only what tightens counts.

    Raises ConfigError, with all problems of one source, for a file that cannot be read or is no
    TOML, unknown keys, wrong types and numbers out of range.
    """
    loaded, errors = read_settings(config=config, environ=environ, flags=flags, cwd=cwd, trust=trust, system=system)
    for error in errors:
        raise error
    return loaded


def read_settings(
    *,
    config: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] = NOTHING,
    cwd: Path,
    trust: Trust | None = None,
    system: Path | None = None,
    own: bool = False,
) -> tuple[Loaded, tuple[ConfigError, ...]]:
    """Return what ``load_settings`` would, of all settings that are right, and an error for each source with others.

    *own*: of the file in *cwd* only what tightens counts, trusted or not.
    """
    merger = _SettingsMerger()
    errors: list[ConfigError] = []
    for source in sources(config=config, environ=environ, cwd=cwd, system=system):
        if own and source.role == "project":
            source = source._replace(role="tightening")  # noqa: PLW2901 (the same file, read otherwise)
        try:
            _add_file(merger, source, trust or _NoTrust())
        except ConfigError as error:
            errors.append(error)
    for variable, path, text in variables(environ, merger.notes):
        merger.add(Origin("variable", variable), *sifted([(path, _from_text(KEYS[path].kind, text))]))
    merger.add(Origin("flag", COMMAND_LINE), *sifted(_flag_values(flags)))
    errors += (ConfigError(where, problems) for where, problems in merger.problems.items())
    return merger.loaded(), tuple(errors)


def sources(
    *, config: Path | None = None, environ: Mapping[str, str], cwd: Path, system: Path | None = None
) -> tuple[Source, ...]:
    """Return the files that are read, in order; see ``load_settings``. Reads none of them."""
    last = Source(cwd / FILE_NAME, "project") if config is None else Source(config, "named")
    return (Source(system or system_config(), "system"), Source(user_config(environ), "user"), last)


def system_config() -> Path:
    """Return where the settings of the whole system are, which no option and no variable replaces."""
    folder = "/Library/Application Support/pluggent" if sys.platform == "darwin" else "/etc/pluggent"
    return Path(folder) / FILE_NAME


def user_config(environ: Mapping[str, str]) -> Path:
    """Return where the user's own settings are, whether or not there is such a file."""
    given = Path(environ.get("XDG_CONFIG_HOME", ""))
    folder = given if given.is_absolute() else Path(home_folder(environ), ".config")  # a relative one is ignored (XDG)
    return folder / "pluggent" / FILE_NAME


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for sessions, trust and caches. The first writer makes it, mode 0700. Raises ConfigError."""
    return Path(state_folder(environ))


# ---- putting it together ---------------------------------------------------------------


class _NoTrust:
    def is_trusted(self, path: Path, content: bytes | None = None) -> bool:
        return False


NOT_TRUSTED = "is not trusted, so it may only tighten\nRead it, then accept it: pluggent trust {}"
ONLY_OWN = "only tightens here, where it is about your own settings\nSettings of a project are written by hand"


class _SettingsMerger:
    """The settings so far, and where they came from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {path: _default(path) for path in KEYS}
        self.origins: dict[str, Origin] = {}
        self.notes: list[str] = []
        self.problems: dict[str, Sequence[str]] = {}
        self.lock: Lock | None = None

    def add(
        self, origin: Origin, values: Mapping[str, Any], problems: Sequence[str], lines: Mapping[str, int] = NOTHING
    ) -> None:
        self._complain(origin, problems, lines)
        if self.lock is not None:
            values, held, ignored = self.lock.admit(self.values, values)
            self._hold(origin, held, lines)
            self._note_held(origin, ignored)
        for path, value in values.items():
            before = self.origins.get(path) if KEYS[path].adds_up else None
            also = (*before.also, before._replace(also=())) if before else ()
            self.values[path] = KEYS[path].merge(self.values[path], value)
            for spot in _spots(path, value):
                self.origins[spot] = origin._replace(line=lines.get(spot), also=also)

    def hold(self, lock: Lock, origin: Origin, lines: Mapping[str, int]) -> None:
        """Forbid later sources to loosen what *lock* has; what its file configures is required."""
        self.lock = lock
        required = self.values["required"]
        for plugin, key in lock.configured().items():
            if plugin not in map(normalised, required):
                required = {**required, plugin: ()}
            self.origins.setdefault(f"required.{plugin}", origin._replace(line=lines.get(key)))
        self.values["required"] = required

    def _hold(self, origin: Origin, held: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        for path, value in held.items():
            if value != self.values[path]:
                self.values[path] = value
                for spot in _spots(path, value):
                    self.origins[spot] = origin._replace(line=lines.get(spot))

    def _note_held(self, origin: Origin, ignored: Sequence[str]) -> None:
        if ignored and self.lock is not None:
            self.notes.append(f"{origin.where}: ignored, because {self.lock.where} fixes it: {', '.join(ignored)}")

    def tighten(
        self, origin: Origin, values: Mapping[str, Any], problems: Sequence[str], lines: Mapping[str, int], why: str
    ) -> None:
        self._complain(origin, problems, lines)
        ignored: list[str] = []
        for path, value in values.items():
            tighten = KEYS[path].tighten
            old = self.values[path]
            new = tighten(old, value) if tighten else old
            if new != old:
                self.values[path] = new
                for spot in _spots(path, value):
                    self.origins[spot] = origin._replace(line=lines.get(spot))
            elif value != old:
                ignored += _spots(path, value)
        if ignored:
            what, _, todo = why.partition("\n")
            self.notes.append(f"{origin.where} {what}; ignored: {', '.join(ignored)}. {todo}")

    def _complain(self, origin: Origin, problems: Sequence[str], lines: Mapping[str, int]) -> None:
        if problems:
            self.problems[origin.where] = [with_line(problem, lines) for problem in problems]

    def loaded(self) -> Loaded:
        if self.lock is not None:
            mode, allow = self.values["selection.mode"], self.values["selection.allow"]
            self.values["selection.allow"] = kept = self.lock.list_of(allow, mode)
            if more := kept[len(allow) :]:
                names = ", ".join(more)
                self.notes.append(f"selection.allow leaves out {names}, which {self.lock.where} configures: it runs")
        changed = self._fields(HostSettings())
        sections: Mapping[str, Mapping[str, Any]] = changed["plugins"]
        changed["plugins"] = {plugin: section_of(plugin, section, self.origins) for plugin, section in sections.items()}
        command = CommandSettings(**self._fields(CommandSettings()))
        return Loaded(HostSettings(**changed), MappingProxyType(self.origins), tuple(self.notes), command)

    def _fields(self, defaults: HostSettings | CommandSettings) -> dict[str, Any]:
        """Return the values of all fields of *defaults*, those of a section together."""
        fields: dict[str, Any] = {}
        for name, default in defaults._asdict().items():
            if name in SECTIONS:
                mine = {
                    path.partition(".")[2]: value for path, value in self.values.items() if path.startswith(f"{name}.")
                }
                fields[name] = default._replace(**mine)
            else:
                fields[name] = self.values[name]
        return fields


def _default(path: str) -> Any:
    return value_at(path, HostSettings(), CommandSettings())


def value_at(path: str, settings: HostSettings, command: CommandSettings) -> Any:
    """Return the value at the dotted key *path*."""
    first, *rest = path.split(".")
    value: Any = getattr(command if first in CommandSettings._fields else settings, first)
    for name in rest:
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


def _add_file(merger: _SettingsMerger, source: Source, trust: Trust) -> None:
    """Add a file; only one that was named has to be there."""
    path = source.path
    if source.role == "system":
        check_system_folder(str(path.parent))
    try:
        content = load_bytes(path, check_system_file if source.role == "system" else None)
    except ConfigError as error:
        # A link of the system's that leads nowhere is not the same as no file: what it fixed would be gone.
        lost = source.role == "system" and path.is_symlink()
        if source.role != "named" and isinstance(error.__cause__, FileNotFoundError) and not lost:
            return
        raise
    document, lines = _read(path, content)
    origin = Origin("file", str(path))
    if source.role in ("project", "tightening"):
        document = _impersonal(merger, origin, document)
    if source.role == "system":
        document = {**document, "plugins": _in_home(document["plugins"])} if "plugins" in document else document
        values, problems = sifted(_document_values({name: each for name, each in document.items() if name != LOCK}))
        lock, wrong = lock_of(str(path), document, values)
        merger.add(origin, values, [*problems, *wrong, *contradictions(lock)], lines)
        merger.hold(lock, origin, lines)
        return
    # The same bytes are judged and used: the file may change meanwhile.
    if source.role == "tightening":
        merger.tighten(origin, *sifted(_document_values(document)), lines, ONLY_OWN)
    elif source.role != "project" or trust.is_trusted(path, content):
        merger.add(origin, *sifted(_document_values(document)), lines)
    else:
        # The name of a cloned folder is as foreign as what lies in it, and this line is there to be copied.
        quoted = shlex.quote(origin.where)
        merger.tighten(origin, *sifted(_document_values(document)), lines, NOT_TRUSTED.format(quoted))


def _impersonal(merger: _SettingsMerger, origin: Origin, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *document* without what the file of a project never sets, trusted or not."""
    personal = [name for name in document if name in KEYS and KEYS[name].personal]
    if personal:
        names = ", ".join(personal)
        merger.notes.append(f"{origin.where}: ignored, because only your own settings and the system's set it: {names}")
    return {name: value for name, value in document.items() if name not in personal}


def _in_home(value: Any) -> Any:
    """Return *value* with the home of the system's own list of users for ``~/``: $HOME is the user's to change."""
    if isinstance(value, dict):
        return {name: _in_home(entry) for name, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_in_home(entry) for entry in cast("Sequence[Any]", value)]
    if not (isinstance(value, str) and value.startswith("~/")):
        return value
    try:
        return f"{pwd.getpwuid(os.getuid()).pw_dir}{value[1:]}"
    except KeyError:
        return value


def load_bytes(path: Path, check: Callable[[str, os.stat_result], None] | None = None) -> bytes:
    """Return what is in a file of settings, once *check* has agreed. Raises ConfigError for what cannot be one."""
    try:
        # Without O_NONBLOCK a named pipe lying there would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(str(path), ["is not a regular file"])
            if check is not None:
                check(str(path), os.fstat(descriptor))
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error
    if len(content) > MAX_BYTES:
        raise ConfigError(str(path), [f"is longer than {MAX_BYTES} bytes; settings are never that long"])
    return content


def _read(path: Path, content: bytes) -> tuple[Mapping[str, Any], Mapping[str, int]]:
    try:
        text = content.decode("utf-8-sig")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"is not UTF-8 text (byte {error.start})"]) from error
    except tomllib.TOMLDecodeError as error:
        why, _, place = str(error).rstrip(")").partition(" (at ")
        raise ConfigError(str(path), [f"{place or 'somewhere'}: {why}"]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), [f"is not usable TOML: {error}"]) from error
    return document, lines_of(text)


def _document_values(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and values: those inside sections, and the others as they stand."""
    for name, value in document.items():
        if name not in SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in cast("dict[str, Any]", value).items())
        else:
            yield name, value


# ---- flags -------------------------------------------------------------


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
