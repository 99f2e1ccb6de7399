"""Finds and ends the processes of a server: its descendants, in any process group or session, and orphans.

On Linux it finds processes of our user with the server's mark in their initial environment, which
children inherit, and descendants of processes found before. A process that cleared its environment
or changed its user, and whose parent has ended, is not found. Elsewhere it knows the process group.

``main`` is the guard of a host's servers, a program of its own: it ends them when the host has died
without stopping them, by SIGKILL for example. So this imports the standard library, and what needs no more.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pluggent_process_engine.process_table import (
    ProcessId,
    ProcessInfo,
    has_no_owner,
    marks_of,
    owner_of,
    process_info,
    processes,
    send_signal,
)

MARKS = "PLUGGENT_MCP_MARKS"
"""The environment variable with the marks of all servers below which a process runs, outermost first."""

MOST_LOOKS = 5
"""Rounds of killing, for processes that are started meanwhile."""
LOOK_S = 0.02
"""Poll interval for processes that are ending: there is no event for grandchildren."""
PARENT_S = 5.0
"""How often the guard looks for its parent where no event tells of its end."""


class ProcessTree:
    """The processes of the server with *mark*, that *owner* started as the process, and group, *root*.

    *leader* is that process, if it is known already: once it has been reaped, its pid may be given to a stranger.
    """

    def __init__(self, mark: str, root: int, owner: int | None = None, leader: ProcessId | None = None) -> None:
        self._mark = mark.encode()
        self._root = root
        self._leader = leader
        self._owner = os.getpid() if owner is None else owner
        self._known: frozenset[ProcessId] = frozenset()

    @property
    def begun(self) -> bool:
        """Whether its first process is known."""
        return self._root > 0

    def scan(self) -> None:
        """Update the known processes. Early and often: the parent of a process is unknown once that has ended."""
        living = [each for each in _own_processes() if each.process.pid != os.getpid()]
        # Until its parent has reaped it, the pid of a child is not reused.
        root = {each.process for each in living if each.process.pid == self._root and each.parent == self._owner}
        if self._leader is None:
            self._leader = next(iter(root), None)
        root &= {self._leader}
        marked = {each.process for each in living if self._mark in marks_of(each.process.pid, MARKS)}
        self._known = frozenset(_with_descendants(living, self._known | root | marked))

    def signal_all(self, number: int) -> bool:
        """Send *number* to the group and to known processes that left it; return whether any exist."""
        left = [process for process in self._known if process.pid != self._root and send_signal(process, number)]
        return self._signal_group(number) or bool(left)

    def end(self, grace_s: float) -> None:
        """End all: wait until the first process has ended by itself, SIGTERM, wait, SIGKILL."""
        self.scan()
        _wait_until(lambda: not self._signal_group(0), grace_s)
        self.scan()
        if self.signal_all(signal.SIGTERM):
            _wait_until(lambda: not self.signal_all(0), grace_s)
            self.kill()

    def kill(self) -> None:
        """Kill all, and scan again: a killed process may have started another one just before."""
        for _ in range(MOST_LOOKS):
            self.scan()
            if not self.signal_all(signal.SIGKILL):
                return

    def _signal_group(self, number: int) -> bool:
        """Send *number* to the group unless its number is that of another process by now; return whether it exists."""
        now = process_info(self._root) if self._leader is not None else None
        if self._root <= 0 or (now is not None and now.process != self._leader):
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._root, number)
            return True
        return False


def _wait_until(over: Callable[[], bool], limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while not over() and time.monotonic() < until:
        time.sleep(LOOK_S)


def _with_descendants(living: Sequence[ProcessInfo], roots: frozenset[ProcessId]) -> set[ProcessId]:
    """Return those among *living* that are in *roots* or descend from one of these."""
    found = {each.process for each in living if each.process in roots}
    grown = True
    while grown:
        parents = {process.pid: process.began for process in found}
        children = {each.process for each in living if each.process.began >= parents.get(each.parent, sys.maxsize)}
        grown = not children <= found
        found |= children
    return found


def _own_processes() -> Iterator[ProcessInfo]:
    """Yield all processes of our user."""
    for each in processes():
        with suppress(OSError):
            if os.stat(f"/proc/{each.process.pid}").st_uid == os.geteuid():  # noqa: PTH116 (it is the quickest)
                yield each


# ---- orphans -----------------------------------------------------------------------------


def end_orphans(inherited: str, grace_s: float) -> int:
    """End the processes of servers whose host has died, and their descendants; return how many there were.

    Those that share a mark with us (*inherited*, our own MARKS) are left: we run below the same
    server. So is every process whose owner is in another PID namespace or of another user. Blocks.
    """
    found = _orphans(set(inherited.encode().split(b",")))
    left = [process for process in found if send_signal(process, signal.SIGTERM)]
    _wait_until(lambda: not [process for process in left if send_signal(process, 0)], grace_s if left else 0)
    for _ in range(MOST_LOOKS if left else 0):
        found |= _orphans(set(inherited.encode().split(b",")))
        if not [process for process in found if send_signal(process, signal.SIGKILL)]:
            break
    return len(left)


def _orphans(ours: set[bytes]) -> set[ProcessId]:
    us = owner_of(os.getpid())
    if us is None:
        return set()
    living = [each for each in _own_processes() if each.process.pid != os.getpid()]
    ended: dict[bytes, bool] = {}
    found: set[ProcessId] = set()
    for each in living:
        marks = marks_of(each.process.pid, MARKS)
        ended |= {mark: has_no_owner(mark, us[:2]) for mark in marks if mark not in ended}
        if ours.isdisjoint(marks) and any(ended[mark] for mark in marks):
            found.add(each.process)
    return _with_descendants(living, frozenset(found)) if found else set()


# ---- the guard ---------------------------------------------------------------------------


class _Guarded(NamedTuple):
    """The processes of a server, and how long they may take to end."""

    tree: ProcessTree
    grace_s: float


def main(owner: str) -> None:
    """Wait until the process *owner*, our parent, has died; then end the servers that it has named on our stdin.

    A line is ``+ MARK PID GRACE_S``, PID 0 before the server is there, or ``- MARK`` once it has ended.
    """
    guarded: dict[str, _Guarded] = {}
    descriptors: list[int] = []
    wait_s: float | None = PARENT_S
    # Another process may have inherited the other end of our stdin, so its end alone does not tell.
    with suppress(OSError, AttributeError):
        descriptors, wait_s = [os.pidfd_open(int(owner))], None
    unread, alive = b"", True
    while alive or select.select([0], [], [], 0)[0]:  # what it wrote last counts, too
        alive = os.getppid() == int(owner)
        if 0 in select.select([0, *descriptors], [], [], wait_s if alive else 0)[0]:
            if not (said := os.read(0, 4_096)):
                break
            *lines, unread = (unread + said).split(b"\n")
            for line in lines:
                _note(guarded, line.decode().split(), int(owner))
    _end_all(guarded.values())


def _note(guarded: dict[str, _Guarded], words: Sequence[str], owner: int) -> None:
    if words[0] == "-":
        guarded.pop(words[1], None)
        return
    _, mark, pid, grace_s = words
    tree = ProcessTree(mark, int(pid), owner)
    if tree.begun:
        tree.scan()
    guarded[mark] = _Guarded(tree, float(grace_s))


def _end_all(guarded: Iterable[_Guarded]) -> None:
    """End all, each in a process of its own: none waits for the others."""
    for each in guarded:
        if os.fork() == 0:
            try:
                each.tree.end(each.grace_s)
            finally:
                os._exit(0)
