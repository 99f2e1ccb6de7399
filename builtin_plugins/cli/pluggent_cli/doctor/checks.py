"""Checks of what is around the plugins: versions, folders and who may use them, the terminal, other programs."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import pluggent_hookspecs
from pluggent_hookspecs.errors import ConfigError
from pluggent_host import __version__
from pluggent_state_files.listing import FOLDER, places

from pluggent_cli.config.sources import sources
from pluggent_cli.host_access import Setup
from pluggent_cli.terminal.console import Console, is_terminal
from pluggent_cli.terminal.tty import can_ask
from pluggent_cli.trust.known_hook_plugins import FILE as HOOKS, aside

_OLDEST, _NEWEST = (3, 11), (3, 14)
_LITTLE = 50_000_000
_MEGA = 1_000_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PROGRAMS = (
    ("bwrap", "confines what tools start"),
    ("npx", "starts MCP servers written in JavaScript"),
    ("uvx", "starts MCP servers written in Python"),
    ("git", "is what many tools work with"),
)


class Check(NamedTuple):
    """One thing that was looked at, and the command that mends it where it is a problem."""

    area: str
    state: Literal["ok", "note", "problem"]
    text: str
    mend: str


# ---- environment ------------------------------------------------------------------------


def environment() -> Iterator[Check]:
    """Look at Python and versions."""
    area = "environment"
    contract = pluggent_hookspecs.__version__
    fits = contract.split(".")[:2] == __version__.split(".")[:2]
    mend = "" if fits else "pip install --upgrade pluggent-host pluggent-hookspecs"
    yield Check(area, "ok" if fits else "problem", f"pluggent {__version__}, contract {contract}", mend)
    tested = _OLDEST <= sys.version_info[:2] <= _NEWEST
    untested = "" if tested else f"; tested are 3.{_OLDEST[1]} to 3.{_NEWEST[1]}"
    state: Literal["ok", "note"] = "ok" if tested else "note"
    yield Check(area, state, f"Python {platform.python_version()} at {sys.executable}{untested}", "")
    yield Check(area, "ok", platform.platform(), "")
    found = shutil.which("pluggent")
    yield Check(area, "ok" if found else "note", f"command {found}" if found else "no 'pluggent' on PATH", "")


# ---- folders ----------------------------------------------------------------------------


def folders(setup: Setup) -> Iterator[Check]:
    """Look at where settings, sessions and trust are kept, and who else may."""
    for source in sources(environ=os.environ, cwd=Path.cwd())[1:2]:
        yield from _settings_file(source.path)
    state = setup.state_dir
    found = list(_folder("state", state, _OTHERS_WRITE))
    yield from found
    sessions = state / FOLDER
    if _is_there(sessions):
        yield from _folder("sessions", sessions, _OTHERS)
        yield from _sessions(sessions)
    if all(check.state == "ok" for check in found):  # else the store says the same again
        yield from _trust(setup)
        yield from _remembered(setup)
    yield from _space(state)


def _is_there(path: Path) -> bool:
    """Say whether there is such a file or folder, as far as this user may know."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _command(words: str, *paths: object) -> str:
    """Return the command *words* about *paths*, as it can be copied whatever their names are."""
    return " ".join([words, *(shlex.quote(str(path)) for path in paths)])


def _settings_file(path: Path) -> Iterator[Check]:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        yield Check("folders", "ok", f"settings {path}: not there, so everything has its default", "")
        return
    except OSError as error:
        yield Check("folders", "problem", f"settings {path}: {error.strerror}", _command("ls -ld", path.parent))
        return
    if mode & _OTHERS_WRITE:
        text = f"settings {path} can be written by others (mode {stat.S_IMODE(mode):04o})"
        yield Check("folders", "problem", text, _command("chmod go-w", path))
    else:
        yield Check("folders", "ok", f"settings {path}", "")


def _folder(name: str, path: Path, forbidden: int) -> Iterator[Check]:
    try:
        status = path.stat()
    except FileNotFoundError:
        yield Check("folders", "ok", f"{name} {path}: not there yet", "")
        return
    except OSError as error:
        yield Check("folders", "problem", f"{name} {path}: {error.strerror}", _command("ls -ld", path.parent))
        return
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
    if not stat.S_ISDIR(status.st_mode):
        yield Check("folders", "problem", f"{name} {path} is not a folder", _command("mv", path, f"{path}.old"))
    elif status.st_uid != os.geteuid():
        text = f"{name} {path} belongs to user {status.st_uid}, not to you"
        yield Check("folders", "problem", text, _command(f"sudo chown {os.geteuid()}", path))
    elif status.st_mode & forbidden:
        does = "read" if forbidden == _OTHERS else "write"
        mend = _command(f"chmod {'go-rwx' if forbidden == _OTHERS else 'go-w'}", path)
        yield Check("folders", "problem", f"others may {does} {name} {path} ({mode})", mend)
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Check("folders", "problem", f"{name} {path} cannot be written ({mode})", _command("chmod u+rwx", path))
    else:
        yield Check("folders", "ok", f"{name} {path} ({mode})", "")


def _sessions(folder: Path) -> Iterator[Check]:
    try:
        found = places(folder)
    except Exception as error:  # noqa: BLE001 (whatever it is, the rest is examined all the same)
        yield Check("folders", "problem", str(error), f"ls -ld {folder}")
    else:
        yield Check("folders", "ok", f"{len(found):,} sessions", "")


def _trust(setup: Setup) -> Iterator[Check]:
    try:
        for problem in setup.trust.store.problems():
            yield Check("folders", "problem", problem, "pluggent trust --list")
    except ConfigError as error:
        yield Check("folders", "problem", str(error), "")


def _remembered(setup: Setup) -> Iterator[Check]:
    path = setup.state_dir / HOOKS
    try:
        if problem := setup.remembered().problem():
            text = f"{path}, which plugins with hooks ran here, is damaged ({problem}), so nothing runs"
            yield Check("folders", "problem", text, aside(path))
    except ConfigError as error:
        yield Check("folders", "problem", str(error), "")


def _space(path: Path) -> Iterator[Check]:
    place = next((folder for folder in (path, *path.absolute().parents) if _is_there(folder)), Path("/"))
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        yield Check("folders", "problem", f"{place}: {error.strerror}", "")
        return
    little = free < _LITTLE
    text = f"{free // _MEGA:,} MB free on the disk of {place}"
    yield Check("folders", "problem" if little else "ok", text, f"df -h {place}" if little else "")


# ---- terminal and other programs --------------------------------------------------------


def terminal(console: Console) -> Iterator[Check]:
    """Look at what can be shown and asked here."""
    area = "terminal"
    ends = {"input": sys.stdin, "output": sys.stdout, "errors": sys.stderr}
    there = [name for name, stream in ends.items() if is_terminal(stream)]
    size = f", {console.width} columns" if console.out_is_terminal else ""
    colours = "with colours" if console.ink.on else "without colours"
    term = os.environ.get("TERM", "") or "not set"
    yield Check(area, "ok", f"terminal: {', '.join(there) or 'none'}; TERM {term}, {colours}{size}", "")
    if can_ask():
        yield Check(area, "ok", "you can be asked for approvals", "")
    else:
        yield Check(area, "note", "there is no terminal to ask at, so what needs an approval is denied", "")
    encoding = (getattr(sys.stdout, "encoding", None) or "unknown").lower().replace("-", "")
    if encoding != "utf8":
        text = f"the output is {encoding}: what it cannot show comes as escapes"
        yield Check(area, "note", text, "export LC_ALL=C.UTF-8")


def optional() -> Iterator[Check]:
    """Look for programs that some plugins can use."""
    for name, what in _PROGRAMS:
        found = shutil.which(name)
        yield Check("optional", "ok" if found else "note", f"{name} {what}: {found or 'not found'}", "")
    keyring = "found" if find_spec("keyring") else "not found"
    mend = "" if keyring == "found" else "pip install keyring"
    yield Check("optional", "ok" if not mend else "note", f"keyring holds secrets (keyring:…): {keyring}", mend)
