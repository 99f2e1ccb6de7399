"""Finds what a server has started, in whatever group or session it is by now, and ends it. Linux only.

Found are processes of our user that have the server's mark in the environment they were started
with, which children inherit, and those that descend from one that was seen before. What wiped its
environment, or became another user, and whose parent has ended, is not found.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

MARKS = "PLUGGENT_MCP_MARKS"
"""The environment variable with the marks of all servers below which a process runs, outermost first."""

_MARKED = f"{MARKS}=".encode()
_STATE, _PARENT, _BEGAN = 0, 1, 19
"""Fields of /proc/<pid>/stat behind the name, see proc(5)."""
_DEAD = "ZX"


class Running(NamedTuple):
    """A process. A pid is given away again; together with when it began it means one process alone."""

    pid: int
    began: int


class Seen(NamedTuple):
    """A process and its parent's pid."""

    process: Running
    parent: int


def new_mark() -> str:
    """Return a mark that nobody else has."""
    return secrets.token_hex(16)


def marks_with(mark: str, outer: str) -> str:
    """Return the value of MARKS for a server below a process whose own is *outer*.

    >>> marks_with("b2", "a1"), marks_with("b2", "")
    ('a1,b2', 'b2')
    """
    return f"{outer},{mark}" if outer else mark


class Kin:
    """What belongs to the server that has *mark*, as far as it was seen."""

    def __init__(self, mark: str, root: int) -> None:
        self._mark = mark.encode()
        self._root = root
        self._known: frozenset[Running] = frozenset()

    def look(self) -> None:
        """Look who is there. Soon, and often: whose child a process is nobody knows once its parent has ended."""
        self._known = frozenset(_below(list(_ours()), self._mark, self._root, self._known))

    def signalled(self, number: int) -> bool:
        """Send *number* to all that are known and still there, but for the root; return whether there are any."""
        left = [process for process in self._known if process.pid != self._root and send(process, number)]
        return bool(left)


def _below(all_seen: Sequence[Seen], mark: bytes, root: int, known: frozenset[Running]) -> set[Running]:
    """Return those among *all_seen* that have *mark*, were *known*, are *root*, or descend from one of these."""
    others = [each for each in all_seen if each.process.pid != os.getpid()]
    found = {each.process for each in others if each.process in known or _has(each.process.pid, mark)}
    # Our own child: its number is nobody else's before we have heard of its end.
    found |= {each.process for each in others if each.process.pid == root and each.parent == os.getpid()}
    grown = True
    while grown:
        parents = {process.pid: process.began for process in found}
        children = {each.process for each in others if each.process.began >= parents.get(each.parent, sys.maxsize)}
        grown = not children <= found
        found |= children
    return found


def _ours() -> Iterator[Seen]:
    """Return all processes of our user."""
    if sys.platform == "linux":
        with suppress(OSError):
            pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (it is the quickest)
            yield from filter(None, map(seen, pids))


def seen(pid: int) -> Seen | None:
    """Return the process *pid*; None if it has ended or is somebody else's."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():  # noqa: PTH116 (as above)
            return None
        # The name before the last bracket may be anything.
        fields = _read(pid, "stat").rpartition(b")")[2].decode("ascii").split()
        if fields[_STATE] in _DEAD:
            return None
        return Seen(Running(pid, int(fields[_BEGAN])), int(fields[_PARENT]))
    except (OSError, ValueError, IndexError):
        return None


def _has(pid: int, mark: bytes) -> bool:
    with suppress(OSError):
        for entry in _read(pid, "environ").split(b"\0"):
            if entry.startswith(_MARKED):
                return mark in entry.removeprefix(_MARKED).split(b",")
    return False


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 (as above)
        return file.read()


def send(process: Running, number: int) -> bool:
    """Send signal *number* to *process*, if its pid still means it; return whether it does."""
    if sys.platform != "linux":
        return False
    try:
        # Held, so that between the look and the signal the number cannot pass to somebody else.
        held = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return False
    except OSError:
        held = -1  # a system that has none; what is left is the moment between the two
    try:
        now = seen(process.pid)
        if now is None or now.process != process:
            return False
        if held < 0:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(held, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if held >= 0:
            os.close(held)
    return True
