"""Finds and signals the descendants of a server, in any process group or session. Linux only.

It finds processes of our user with the server's mark in their initial environment, which children
inherit, and descendants of processes found before. A process that cleared its environment or
changed its user, and whose parent has ended, is not found.
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


class ProcessId(NamedTuple):
    """A process: pids are reused, but a pid with its start time is unique."""

    pid: int
    began: int


class ProcessInfo(NamedTuple):
    """A process and its parent's pid."""

    process: ProcessId
    parent: int


def new_mark() -> str:
    """Return a unique mark."""
    return secrets.token_hex(16)


def marks_with(mark: str, outer: str) -> str:
    """Return the value of MARKS for a server below a process whose own is *outer*.

    >>> marks_with("b2", "a1"), marks_with("b2", "")
    ('a1,b2', 'b2')
    """
    return f"{outer},{mark}" if outer else mark


class ProcessTree:
    """The known processes of the server with *mark*."""

    def __init__(self, mark: str, root: int) -> None:
        self._mark = mark.encode()
        self._root = root
        self._known: frozenset[ProcessId] = frozenset()

    def scan(self) -> None:
        """Update the known processes. Early and often: the parent of a process is unknown once that has ended."""
        self._known = frozenset(_below(list(_own_processes()), self._mark, self._root, self._known))

    def signal_all(self, number: int) -> bool:
        """Send *number* to all known live processes except the root; return whether there are any."""
        left = [process for process in self._known if process.pid != self._root and send_signal(process, number)]
        return bool(left)


def _below(processes: Sequence[ProcessInfo], mark: bytes, root: int, known: frozenset[ProcessId]) -> set[ProcessId]:
    """Return those among *processes* that have *mark*, were *known*, are *root*, or descend from one of these."""
    others = [each for each in processes if each.process.pid != os.getpid()]
    found = {each.process for each in others if each.process in known or _has(each.process.pid, mark)}
    # Our own child: its pid is not reused before we have reaped it.
    found |= {each.process for each in others if each.process.pid == root and each.parent == os.getpid()}
    grown = True
    while grown:
        parents = {process.pid: process.began for process in found}
        children = {each.process for each in others if each.process.began >= parents.get(each.parent, sys.maxsize)}
        grown = not children <= found
        found |= children
    return found


def _own_processes() -> Iterator[ProcessInfo]:
    """Return all processes of our user."""
    if sys.platform == "linux":
        with suppress(OSError):
            pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (it is the quickest)
            yield from filter(None, map(process_info, pids))


def process_info(pid: int) -> ProcessInfo | None:
    """Return the process *pid*; None if it has ended or belongs to another user."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():  # noqa: PTH116 (as above)
            return None
        # The name before the last bracket may be anything.
        fields = _read(pid, "stat").rpartition(b")")[2].decode("ascii").split()
        if fields[_STATE] in _DEAD:
            return None
        return ProcessInfo(ProcessId(pid, int(fields[_BEGAN])), int(fields[_PARENT]))
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


def send_signal(process: ProcessId, number: int) -> bool:
    """Send signal *number* to *process* if it is still alive; return whether it is."""
    if sys.platform != "linux":
        return False
    try:
        # Held open, so that the pid cannot be reused between the check and the signal.
        held = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return False
    except OSError:
        held = -1  # a system without pidfd: a short race remains
    try:
        now = process_info(process.pid)
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
