"""Finds and signals the descendants of a process, in any group or session, and orphans of hosts that died.

Linux: /proc. Elsewhere only the process group of a program is known. A pid counts together with the start time
of its process, so that a reused pid is never signalled. Standard library alone: ``launch`` imports it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from pluggent_process_engine.process_table import (
    ProcessId,
    ProcessInfo,
    has_no_owner,
    marks_of,
    owner_of,
    processes,
    send_signal,
)

MARKS = "PLUGGENT_PROCESS_MARKS"
"""The environment variable with the marks of all programs below which a process runs, outermost first."""
_ROUNDS = 5
_PAUSE_S = 0.02


def descendants(root: int) -> list[ProcessId]:
    """Return the living descendants of the process *root*, without it."""
    return _below(processes(), {root})


def _below(processes: Iterable[ProcessInfo], roots: set[int]) -> list[ProcessId]:
    children: dict[int, list[ProcessId]] = {}
    for each in processes:
        children.setdefault(each.parent, []).append(each.process)
    found: list[ProcessId] = []
    waiting, seen = list(roots), set(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                waiting.append(child.pid)
    return found


def signal_group(group: int, number: int) -> bool:
    """Send *number* to the process group, which the kernel does at once for all of it; return whether there is one."""
    if group > 0:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
            return True
    return False


# ---- marks and orphans -------------------------------------------------------------------


def kill_marked(mark: str) -> int:
    """Kill all processes with *mark* and their descendants; return how many there were. Blocks."""
    return _kill_all(lambda: _marked({mark.encode()}))


def kill_orphans(inherited: str = "") -> int:
    """Kill the processes of programs whose owner has died, and their descendants; return how many. Blocks.

    Those that share a mark with us (*inherited*, our own MARKS) are left: we run below the same program. So is
    every process whose owner is in another PID namespace or of another user. The launcher of a program ends it
    when the owner dies; this finds what is left where both were killed.
    """
    ours = set(inherited.encode().split(b","))
    us = owner_of(os.getpid())
    return 0 if us is None else _kill_all(lambda: _orphans(ours, us[:2]))


def _kill_all(find: Callable[[], list[ProcessId]]) -> int:
    killed: set[ProcessId] = set()
    for _ in range(_ROUNDS):
        found = find()
        if not [process for process in found if send_signal(process, signal.SIGKILL)]:
            break
        killed.update(found)
        time.sleep(_PAUSE_S)
    return len(killed)


def _marked(marks: set[bytes]) -> list[ProcessId]:
    living = list(processes())
    roots = {each.process for each in living if not marks.isdisjoint(marks_of(each.process.pid, MARKS))}
    return _with_descendants(living, roots)


def _orphans(ours: set[bytes], where: tuple[int, int]) -> list[ProcessId]:
    living = list(processes())
    ended: dict[bytes, bool] = {}
    roots: set[ProcessId] = set()
    for each in living:
        marks = marks_of(each.process.pid, MARKS)
        ended |= {mark: has_no_owner(mark, where) for mark in marks if mark not in ended}
        if ours.isdisjoint(marks) and any(ended[mark] for mark in marks):
            roots.add(each.process)
    return _with_descendants(living, roots)


def _with_descendants(processes: Sequence[ProcessInfo], roots: set[ProcessId]) -> list[ProcessId]:
    below = _below(processes, {process.pid for process in roots})
    return [process for process in {*roots, *below} if process.pid != os.getpid()]
