"""The launcher of one program, a process of its own: starts it, limits it, and ends it with all its descendants.

It adopts descendants whose parent has ended (Linux), so that none is lost, and does not depend on its owner: when
that dies, the program is ended. Standard library alone, and little of that, because its start is part of every
program's. ``supervise`` reads what to do from a socket:

    from the owner   4 bytes of length, JSON of the program; then "E" (SIGTERM, later SIGKILL) or "K" (SIGKILL)
    to the owner     lines of JSON: {"started": pid} or {"failed": errno, "stage": …}, then {"exited": …},
                     then {"left": number}, then the end of file
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from pluggent_process_engine import landlock
from pluggent_process_engine.process_table import send_signal
from pluggent_process_engine.process_tree import descendants, signal_group

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
_LOOK_S = 0.1
"""How often the number of processes, and the owner where no event announces its end, are looked at."""
_KILLING_S = 0.01
_LEFT_S = 0.5
_LONGEST_KILLING_S = 10.0
"""A killed process may still wait in the kernel, for a disk for example. It is not waited for longer."""
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


class Supervisor:
    """One program and all its descendants."""

    def __init__(self, channel: socket.socket, owner: int, program: Mapping[str, Any]) -> None:
        self._channel = channel
        self._owner = owner
        self._program = program
        self._pid = 0
        self._over = False
        self._why = ""
        self._left = 0
        self._childless = False
        self._why_at_end = "time limit"
        self._end_at = self._kill_at = float("inf")
        self._tasks = _tasks()
        self._status = -1
        self._status_text = b""

    def run(self) -> None:
        """Start the program and return once nothing of it is left."""
        signal.signal(signal.SIGCHLD, _wake)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked_to_end)
        wakeup, written = os.pipe()
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        begun = time.monotonic()
        if not self._start():
            return
        if (limit := self._program["wall_s"]) is not None:
            self._end_at = begun + limit
        watched = [wakeup, self._channel.fileno(), *_held(self._owner)]
        while True:
            self._reap(begun)
            if self._over and not self._alive():
                break
            self._look(watched, wakeup)
        self._say(left=self._left)

    def _asked_to_end(self, _number: int, _frame: object) -> None:
        self._end("ended", self._program["grace_s"])

    # ---- starting ------------------------------------------------------------------------

    def _start(self) -> bool:
        told, saying = os.pipe()
        argv = list(self._program["argv"])
        status = -1
        if self._program["bubblewrap"]:
            self._status, status = os.pipe()
            os.set_inheritable(status, True)  # noqa: FBT003 (it has no name)
            argv = [word if word != "{status}" else str(status) for word in argv]
        self._pid = os.fork()
        if self._pid == 0:
            _become(self._program, argv, saying)
        os.close(saying)
        if status >= 0:
            os.close(status)
        # The pipes of the program are its own: here they would never see an end.
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        os.close(silent)
        failure = _read_all(told)
        if failure:
            stage, _, code = failure.decode().partition(":")
            os.waitpid(self._pid, 0)
            self._say(failed=int(code), stage=stage)
            return False
        self._say(started=self._pid)
        return True

    # ---- the program's life ----------------------------------------------------------------

    def _look(self, watched: list[int], wakeup: int) -> None:
        """Wait for something to happen, and act on it."""
        now = time.monotonic()
        pause = _KILLING_S if now >= self._kill_at else max(0.0, min(_LOOK_S, self._end_at - now, self._kill_at - now))
        ready = set(select.select(watched, [], [], pause)[0])
        if wakeup in ready:
            os.read(wakeup, 512)
        if self._channel.fileno() in ready:
            self._command(watched)
        elif watched[1:] and (not ready.isdisjoint(watched[2:]) or os.getppid() != self._owner):
            watched[:] = [wakeup]
            self._end("ended", self._program["grace_s"])
        now = time.monotonic()
        if now >= self._kill_at:
            self._kill()
        elif now >= self._end_at:
            # What the program left behind is not worth as much patience.
            grace_s = self._program["grace_s"]
            if self._over and sys.platform == "linux":
                self._left = len(descendants(os.getpid()))
            self._end(self._why_at_end, min(grace_s, _LEFT_S) if self._over else grace_s)
        elif self._too_many():
            self._end("process limit", 0)

    def _command(self, watched: list[int]) -> None:
        said = b""
        with suppress(OSError):
            said = self._channel.recv(64)
        if not said:  # the owner has died, or waits no longer
            del watched[1:]
        self._end("ended", 0 if b"K" in said else self._program["grace_s"])

    def _end(self, why: str, grace_s: float) -> None:
        """Send SIGTERM to all, and have SIGKILL follow after *grace_s*."""
        self._why = self._why or why
        now = time.monotonic()
        first = self._kill_at == float("inf")
        self._kill_at = min(self._kill_at, now + grace_s)
        self._end_at = float("inf")
        if grace_s <= 0:
            self._kill()
        elif first:
            self._signal_all(signal.SIGTERM)
            self._signal_all(signal.SIGCONT)

    def _kill(self) -> None:
        signal_group(self._pid, signal.SIGKILL)
        if not self._over:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        for process in descendants(os.getpid()):
            send_signal(process, signal.SIGKILL)
        if time.monotonic() > self._kill_at + _LONGEST_KILLING_S:
            os._exit(1)

    def _signal_all(self, number: int) -> None:
        # bubblewrap itself would end at once, and the program with it, by SIGKILL.
        spared = self._pid if self._program["bubblewrap"] and not self._over else 0
        if not spared:
            signal_group(self._pid, number)
        for process in descendants(os.getpid()):
            if process.pid != spared:
                send_signal(process, number)

    def _reap(self, begun: float) -> None:
        ended: int | None = None
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._pid:
                    ended = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self._childless = True  # on Linux, where it adopts them, that is to have no descendants
        if ended is not None:
            self._exited(ended, time.monotonic() - begun)

    def _exited(self, code: int, duration_s: float) -> None:
        self._over = True
        ran = True
        if self._status >= 0:
            text = _read_all(self._status)
            ran = b'"exit-code"' in text or code < 0
        self._say(exited=code, why=self._why or "exited", duration_s=duration_s, ran=ran or bool(self._why))
        self._why = self._why or "exited"
        if self._alive():
            # What it left behind may finish, for a moment.
            self._end_at = time.monotonic() + self._program["linger_s"]
            self._why_at_end = "exited"

    def _alive(self) -> bool:
        """Return whether any process is left, once the program has ended."""
        return not self._childless if sys.platform == "linux" else signal_group(self._pid, 0)

    def _too_many(self) -> bool:
        most: int | None = self._program["processes"]
        if most is None or sys.platform != "linux":
            return False
        # One number for the whole machine is quickly read; only where that grew are ours counted.
        return _tasks() - self._tasks > most and len(descendants(os.getpid())) > most

    def _say(self, **facts: object) -> None:
        with suppress(OSError):  # an owner that died hears nothing
            self._channel.sendall(json.dumps(facts).encode() + b"\n")


def _wake(_number: int, _frame: object) -> None:
    """Do nothing: that a signal came is read from the wakeup pipe."""


def _become(program: Mapping[str, Any], argv: list[str], failing: int) -> NoReturn:
    """Turn this process into the program; write to *failing* why it cannot be."""
    stage = "prepare"
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for name in _IGNORED_BY_PYTHON:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "folder"
        os.chdir(program["cwd"])
        stage = "limits"
        _limit(program["rlimits"], program["processes"])
        stage = "confinement"
        if program["landlock"] is not None:
            landlock.confine(program["landlock"])
        # Last, because a change of privileges takes it back.
        _die_with_parent()
        stage = "program"
        os.execvpe(argv[0], argv, program["env"])  # noqa: S606 (no shell is wanted)
    except BaseException as error:  # noqa: BLE001 (whatever it is, this copy of the launcher must not run on)
        code = getattr(error, "errno", None) or 0
        os.write(failing, f"{stage}:{code}".encode())
    os._exit(127)


def _limit(rlimits: Mapping[str, int], processes: int | None) -> None:
    import resource  # it is not on Windows

    if processes is not None and sys.platform == "linux" and os.geteuid() != 0:
        # The kernel counts all threads of the user, and none of root's.
        rlimits = {**rlimits, "RLIMIT_NPROC": _threads_of(os.geteuid()) + processes}
    for name, value in rlimits.items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (most, most))


def _die_with_parent() -> None:
    if sys.platform == "linux":
        parent = os.getppid()
        _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)


def _prctl(option: int, value: int) -> None:
    none = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(ctypes.c_int(option), ctypes.c_ulong(value), none, none, none)


def _tasks() -> int:
    """Return the number of threads on this machine, 0 where it is not known."""
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:  # noqa: PTH123 (pathlib costs 5 ms at the start)
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _held(owner: int) -> list[int]:
    """Return a descriptor that becomes readable when *owner* dies; the socket may have been inherited by others."""
    try:
        return [os.pidfd_open(owner)]
    except (OSError, AttributeError):
        return []


def _read_all(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 4_096):
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces)


def _receive(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(min(size - len(data), 1 << 20))
        if not piece:
            os._exit(0)  # the owner has died, or changed its mind
        data += piece
    return bytes(data)


def supervise(descriptor: str, owner: str) -> None:
    """Run the program that the owner describes on the socket *descriptor*."""
    channel = socket.socket(fileno=int(descriptor))
    channel.set_inheritable(False)
    size = int.from_bytes(_receive(channel, 4), "big")
    program = json.loads(_receive(channel, size))
    if sys.platform == "linux":
        _prctl(_SET_SUBREAPER, 1)
    Supervisor(channel, int(owner), program).run()
    channel.close()
    # Nothing is left to be tidied up, and that of the interpreter takes 5 ms.
    os._exit(0)


def probe() -> None:
    """Print which of Landlock and namespaces this machine has, as JSON."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(OSError):
            landlock.leave([], network=True)
            code = 0
        os._exit(code)
    alone = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    sys.stdout.write(json.dumps({"landlock": landlock.abi(), "netns": alone}))


def _threads_of(user: int) -> int:
    found = 0
    with suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208 (it is the quickest)
            if name.isdecimal():
                with suppress(OSError):
                    task = os.stat(f"/proc/{name}/task")  # noqa: PTH116 (as above)
                    found += task.st_nlink - 2 if task.st_uid == user else 0
    return found
