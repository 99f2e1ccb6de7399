"""What could be typed next: the shell calls it each time Tab is pressed.

Starts about as fast as ``--version``: no parser, no settings, no third-party package, no plugin. The
options of every command are data (table.json, written by make_table.py). Names of plugins, tools and
commands are left out where a shell could take them for more than a word.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from time import localtime, strftime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pluggent_contract_values.escape import escape_all

from pluggent_cli.table import COMMANDS, SHELLS

if TYPE_CHECKING:  # both are imported by what returns them
    from pathlib import Path

    # as above
    from pluggent_plugin_loader.discovery import Distribution

    from pluggent_cli.config.command_settings import CommandSettings  # the same

Options = Mapping[str, Sequence[str]]
"""For each option the placeholder of its value (empty: it takes none), and its help."""
WORDS, FILES, FOLDERS = "words", "files", "folders"
ACTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "plugins": {"show": "PLUGIN"},
        "models": {"list": "", "show": "", "diff": "FILE", "refresh": "FILE"},
        "tools": {"schema": "TOOL", "call": "TOOL"},
        "sessions": {"list": "", "show": "ID", "search": "", "export": "ID", "delete": "ID…"},
        "approvals": {"list": "", "show": "ID", "approve": "ID", "deny": "ID", "expire": ""},
        "config": {"show": "", "check": "", "path": "", "example": ""},
    }
)
"""The actions of commands, and what each takes."""
ARGUMENTS: Mapping[str, str] = MappingProxyType(
    {
        "help": "COMMAND",
        "hooks": "HOOK",
        "models": "PROVIDER",
        "setup": "PROVIDER",
        "trust": "FILE",
        "completion": "SHELL",
        "resume": "ID",
        "explain": "ID",
        "last": "ID",
    }
)
"""What other commands take, and ``models`` in the place of an action."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LIST = "…"
_TOOL_NAMES = "tool-names"
_MOST_BYTES = 65_536
Candidates = Iterable[tuple[str, str]]


def complete(arguments: Sequence[str]) -> int:
    """Write what the last of *arguments* could become: a shell's name, then the words after ``pluggent``.

    The first line says what follows: words, each with its description behind a tab, or that the
    shell is to offer ``files`` or ``folders``. Raises OSError where it cannot be written.
    """
    shell, *typed = arguments or [""]
    try:
        kind, candidates = _next(typed or [""], joined=shell == "fish")
        lines = [f"{word}\t{escape_all(about)}".rstrip() for word, about in candidates]
    except Exception:  # noqa: BLE001 (an error cannot be shown in the middle of a line)
        return 1
    sys.stdout.write("\n".join((kind, *lines, "")))
    sys.stdout.flush()
    return 0


@cache
def table() -> Mapping[str, Any]:
    """Return ``options`` (by command; under "" those of every command, and ``--version``) and ``hooks``."""
    place = os.path.join(os.path.dirname(__file__), "table.json")  # noqa: PTH118, PTH120 (pathlib costs 4 ms)
    with open(place, encoding="utf-8") as file:  # noqa: PTH123 (as above)
        read: Mapping[str, Any] = json.load(file)
    return read


def remember_tools(folder: str, names: Iterable[str]) -> None:
    """Keep *names* in *folder*, for this user alone, so that completing a tool loads no plugin."""
    text = "".join(f"{name}\n" for name in names)
    if text.split() == list(_remembered_tools(folder)):
        return
    # Here and not above: completing reads alone.
    from pluggent_hookspecs.folders import private_folder

    place = os.path.join(folder, _TOOL_NAMES)  # noqa: PTH118 (as above)
    temporary = f"{place}.{os.getpid()}"
    with suppress(OSError):  # completion is a convenience
        private_folder(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 (a descriptor)
            file.write(text)
        os.replace(temporary, place)  # noqa: PTH105 (as above)


def _remembered_tools(folder: str) -> Sequence[str]:
    try:
        with open(os.path.join(folder, _TOOL_NAMES), encoding="utf-8") as file:  # noqa: PTH118, PTH123 (as above)
            return file.read(_MOST_BYTES).split()
    except (OSError, ValueError):
        return ()


def _next(typed: Sequence[str], *, joined: bool) -> tuple[str, Candidates]:
    *before, current = typed
    command, behind = _split(before)
    options = _options(command)
    option, value = _asked(before, current, options)
    if option:
        metavar = options[option][0]
        head = f"{option}=" if joined and current.startswith("--") else ""
        return _of_kind(metavar, value, behind, head if metavar not in PATHS else "")
    if current.startswith("-") and "--" not in behind:
        return WORDS, _beginning(current, ((name, about) for name, (_, about) in options.items()))
    if not command:
        return _of_kind("COMMAND", current, behind)
    words = _words(behind, options)
    return _of_kind(_positional(command, words), current, words)


def _options(command: str) -> Options:
    """Return the options of *command*, its own first; a plugin's command has those that only it knows."""
    options: Mapping[str, Options] = table()["options"]
    if not command:
        return options[""]
    own = options.get(command)
    common = {name: option for name, option in options[""].items() if name not in ("-V", "--version")}
    return {} if own is None else {**own, **common}


def _split(before: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command among the words, and the words behind it."""
    at, common = 0, _options("")
    while at < len(before) and before[at].startswith("-"):
        at += 2 if common.get(before[at], ("",))[0] else 1
    return (before[at], before[at + 1 :]) if at < len(before) else ("", ())


def _asked(before: Sequence[str], current: str, options: Options) -> tuple[str, str]:
    """Return the option whose value is being typed, and what there is of it.

    bash takes ``--option=value`` apart into three words, others do not.
    """
    name, equals, value = current.partition("=")
    if equals and options.get(name, ("",))[0]:
        return name, value
    *earlier, last = before or [""]
    if current == "=" and options.get(last, ("",))[0]:
        return last, ""
    if last == "=" and earlier and options.get(earlier[-1], ("",))[0]:
        return earlier[-1], current
    return (last, current) if options.get(last, ("",))[0] else ("", "")


def _words(behind: Sequence[str], options: Options) -> list[str]:
    """Return the words that are neither options nor values of options."""
    words: list[str] = []
    is_value = False
    for word in behind:
        if not is_value and not word.startswith("-") and word != "=":
            words.append(word)
        is_value = bool(options.get(word, ("",))[0]) or (is_value and word == "=")
    return words


def _positional(command: str, words: Sequence[str]) -> str:
    """Return what the next word of *command* is."""
    actions = ACTIONS.get(command)
    if actions is not None:
        taken = actions.get(words[0], "") if words else "ACTION"
        return f"{command} ACTION" if not words else taken if len(words) == 1 or taken.endswith(_LIST) else ""
    if command in table()["options"] or command == "help":
        return ARGUMENTS.get(command, "") if not words else ""
    return "FILE"  # a plugin's command takes what only it knows


# ---- what there is ----------------------------------------------------------------------


PATHS = {"FILE": FILES, "PATH": FILES, "SCHEMA": FILES, "DIR": FOLDERS}


def _of_kind(kind: str, current: str, words: Sequence[str], head: str = "") -> tuple[str, Candidates]:
    if kind in PATHS:
        return PATHS[kind], ()
    many = kind.endswith(_LIST)
    command, _, action = kind.partition(" ")
    if action:
        known: Candidates = [(name, "") for name in ACTIONS[command]]
        if (other := OFFERS.get(ARGUMENTS.get(command, ""))) is not None:
            known = [*known, *other()]
    else:
        offer = OFFERS.get(kind.removesuffix(_LIST))
        known = offer() if offer else ()
    start, comma, rest = current.rpartition(",") if kind == "PLUGIN" else ("", "", current)
    head += start + comma
    found = _beginning(rest, known)
    return WORDS, [(head + word, about) for word, about in found if not (many and word in words)]


def _beginning(current: str, known: Candidates) -> Candidates:
    return [(word, about) for word, about in known if word.startswith(current)]


def _commands() -> Iterator[tuple[str, str]]:
    from pluggent_cli.installed_plugins import announced  # looks along sys.path: only where a command is typed

    yield from ((command.name, command.help) for command in COMMANDS)
    yield "help", "explain a command"
    yield from _harmless(announced())


def _plugins() -> Candidates:
    return _harmless([(item.name, f"{item.version} {item.summary}") for item in _installed()])


def _providers() -> Candidates:
    return _harmless(_entries("pluggent.providers"))


def _tools() -> Candidates:
    return _harmless([*_entries("pluggent.tools"), *((name, "") for name in _remembered_tools(str(_state())))])


def _sessions() -> Candidates:
    from pluggent_state_files.listing import FOLDER, places  # only where a session is typed

    return [(place.id, strftime("%Y-%m-%d %H:%M", localtime(place.modified_s))) for place in places(_state() / FOLDER)]


def _aliases() -> Candidates:
    return _harmless(_own_settings().models.aliases.items())


def _templates() -> Candidates:
    return _harmless((name, str(fields["prompt"])) for name, fields in _own_settings().templates.items())


def _own_settings() -> CommandSettings:
    from pathlib import Path  # only where something of them is typed

    from pluggent_cli.config.sources import read_settings  # the same

    # Without what is trusted: of a file in this folder nothing counts that could be offered.
    return read_settings(environ=os.environ, cwd=Path.cwd())[0].command


def _entries(group: str) -> Candidates:
    return [
        (entry.name, f"{item.name} {item.version}")
        for item in _installed()
        for entry in item.entry_points
        if entry.group == group
    ]


def _installed() -> Sequence[Distribution]:
    from pluggent_cli.installed_plugins import installed  # only where a name of a plugin is typed

    return [item for item in installed().distributions if not item.shadowed_by]


def _state() -> Path:
    from pluggent_cli.config.sources import state_dir  # only where something of it is typed

    return state_dir(os.environ)


def _harmless(named: Candidates) -> Candidates:
    """Return those whose name is nothing but a word to every shell; the first of each name."""
    safe: dict[str, str] = {}
    for name, about in named:
        if name and _PLAIN.issuperset(name) and not name.startswith("-"):
            safe.setdefault(name, about)
    return safe.items()


OFFERS: Mapping[str, Callable[[], Candidates]] = MappingProxyType(
    {
        "COMMAND": _commands,
        "PLUGIN": _plugins,
        "PROVIDER": _providers,
        "TOOL": _tools,
        "ID": _sessions,
        "MODEL": _aliases,
        "TEMPLATE": _templates,
        "HOOK": lambda: ((hook, "") for hook in table()["hooks"]),
        "SHELL": lambda: ((shell, "") for shell in SHELLS),
        "WHEN": lambda: ((when, "") for when in ("auto", "always", "never")),
        "FORMAT": lambda: ((form, "") for form in ("json", "markdown")),
    }
)
