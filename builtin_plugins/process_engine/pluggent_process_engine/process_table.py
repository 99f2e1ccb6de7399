"""The processes of this machine, one by one: who they are, who marked them, and signals that hit no stranger.

Linux: /proc. A pid counts together with the start time of its process, so that a reused pid is never signalled.
Standard library alone: programs that run without any other code import it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

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


def processes() -> Iterator[ProcessInfo]:
    """Yield all that live; none where there is no /proc."""
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


# ---- marks -------------------------------------------------------------------------------


def new_mark() -> str:
    """Return a unique mark; on Linux with what identifies this process, its owner."""
    owner = owner_of(os.getpid())
    return ".".join((*(f"{number:x}" for number in owner or ()), os.urandom(16).hex()))


def marks_with(mark: str, outer: str) -> str:
    """Return the value of a variable of marks for a program below a process whose own is *outer*.

    >>> marks_with("b2", "a1"), marks_with("b2", "")
    ('a1,b2', 'b2')
    """
    return f"{outer},{mark}" if outer else mark


def owner_of(pid: int) -> tuple[int, int, int, int] | None:
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


def marks_of(pid: int, variable: str) -> list[bytes]:
    """Return the marks in the environment *variable* that the process *pid* was started with."""
    named = f"{variable}=".encode()
    with suppress(OSError):
        for entry in _read(pid, "environ").split(b"\0"):
            if entry.startswith(named):
                return entry.removeprefix(named).split(b",")
    return []


def has_no_owner(mark: bytes, where: tuple[int, int]) -> bool:
    """Return whether the owner of *mark* was *where* we are, PID namespace and user, and has ended."""
    try:
        namespace, user, pid, began, _ = (int(part, 16) for part in mark.split(b"."))
    except ValueError:
        return False  # not a mark that names its owner
    if (namespace, user) != where:
        return False
    info = process_info(pid)
    return info is None or info.process != (pid, began)
