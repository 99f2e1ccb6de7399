"""Finds and signals the descendants of a process, in any group or session, and orphans of hosts that died.

Linux: /proc. Elsewhere only the process group of a program is known. A pid counts together with the start time
of its process, so that a reused pid is never signalled. Standard library alone: ``launch`` imports it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

MARKS = "PLUGGENT_PROCESS_MARKS"
"""The environment variable with the marks of all programs below which a process runs, outermost first."""
_MARKED = f"{MARKS}=".encode()
_STATE, _PARENT, _BEGAN = 0, 1, 19
"""Fields of /proc/<pid>/stat behind the name, see proc(5)."""
_DEAD = "ZX"
_ROUNDS = 5
_PAUSE_S = 0.02


class ProcessId(NamedTuple):
    """A process: pids are reused, but a pid with its start time is unique."""

    pid: int
    began: int


class ProcessInfo(NamedTuple):
    """A process and its parent's pid."""

    process: ProcessId
    parent: int


def process_info(pid: int) -> ProcessInfo | None:
    """Return the process *pid*; None if there is none, or it has ended."""
    try:
        # The name before the last bracket may be anything.
        fields = _read(pid, "stat").rpartition(b")")[2].decode("ascii").split()
        if fields[_STATE] in _DEAD:
            return None
        return ProcessInfo(ProcessId(pid, int(fields[_BEGAN])), int(fields[_PARENT]))
    except (OSError, ValueError, IndexError):
        return None


def descendants(root: int) -> list[ProcessId]:
    """Return the living descendants of the process *root*, without it."""
    return _below(_processes(), {root})


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


def _processes() -> Iterator[ProcessInfo]:
    if sys.platform == "linux":
        with suppress(OSError):
            pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (it is the quickest)
            yield from filter(None, map(process_info, pids))


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 (as above)
        return file.read()


def send_signal(process: ProcessId, number: int) -> bool:
    """Send signal *number* to *process* if it is still alive; return whether it is."""
    if sys.platform != "linux":
        return False
    held = -1
    try:
        # Held open, so that the pid cannot be reused between the check and the signal.
        held = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError):
        pass  # a system without pidfd: a short race remains
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


def signal_group(group: int, number: int) -> bool:
    """Send *number* to the process group, which the kernel does at once for all of it; return whether there is one."""
    if group > 0:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
            return True
    return False


# ---- marks and orphans -------------------------------------------------------------------


def new_mark() -> str:
    """Return a unique mark; on Linux with what identifies this process, its owner."""
    owner = _owner(os.getpid())
    return ".".join((*(f"{number:x}" for number in owner or ()), os.urandom(16).hex()))


def marks_with(mark: str, outer: str) -> str:
    """Return the value of MARKS for a program below a process whose own is *outer*.

    >>> marks_with("b2", "a1"), marks_with("b2", "")
    ('a1,b2', 'b2')
    """
    return f"{outer},{mark}" if outer else mark


def _owner(pid: int) -> tuple[int, int, int, int] | None:
    """Return PID namespace, user, pid and start of the process *pid*; None where they cannot be known."""
    try:
        # A /proc of another PID namespace has other processes under these pids.
        if sys.platform != "linux" or os.readlink("/proc/self") != str(os.getpid()):  # noqa: PTH115 (as above)
            return None
        namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 (as above)
    except OSError:
        return None
    info = process_info(pid)
    return None if info is None else (namespace, os.geteuid(), info.process.pid, info.process.began)


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
    us = _owner(os.getpid())
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
    processes = list(_processes())
    roots = {each.process for each in processes if not marks.isdisjoint(_marks_of(each.process.pid))}
    return _with_descendants(processes, roots)


def _orphans(ours: set[bytes], where: tuple[int, int]) -> list[ProcessId]:
    processes = list(_processes())
    ended: dict[bytes, bool] = {}
    roots: set[ProcessId] = set()
    for each in processes:
        marks = _marks_of(each.process.pid)
        ended |= {mark: _has_no_owner(mark, where) for mark in marks if mark not in ended}
        if ours.isdisjoint(marks) and any(ended[mark] for mark in marks):
            roots.add(each.process)
    return _with_descendants(processes, roots)


def _with_descendants(processes: Sequence[ProcessInfo], roots: set[ProcessId]) -> list[ProcessId]:
    below = _below(processes, {process.pid for process in roots})
    return [process for process in {*roots, *below} if process.pid != os.getpid()]


def _marks_of(pid: int) -> list[bytes]:
    with suppress(OSError):
        for entry in _read(pid, "environ").split(b"\0"):
            if entry.startswith(_MARKED):
                return entry.removeprefix(_MARKED).split(b",")
    return []


def _has_no_owner(mark: bytes, where: tuple[int, int]) -> bool:
    """Return whether the owner of *mark* was *where* we are, PID namespace and user, and has ended."""
    try:
        namespace, user, pid, began, _ = (int(part, 16) for part in mark.split(b"."))
    except ValueError:
        return False  # not a mark that names its owner
    if (namespace, user) != where:
        return False
    info = process_info(pid)
    return info is None or info.process != (pid, began)
