"""Runs programs in asyncio: starts the launcher of each, reads its output, and waits for the end of all it started.

POSIX; elsewhere a start fails with StartError. No threads, and nothing blocks the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from pluggent_process_engine.confinement import choose
from pluggent_process_engine.launch_request import request_for
from pluggent_process_engine.mechanisms import Mechanisms, launcher, mechanisms
from pluggent_process_engine.process_table import new_mark
from pluggent_process_engine.process_tree import kill_marked
from pluggent_process_engine.program import OPEN, Confined, Outcome, Program, StartError, Why

Stream: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = Callable[[Stream, bytes], Awaitable[None] | None]
"""Called with each piece of output. While it is awaited nothing more is read, and the program waits in time."""

READ_BYTES = 65_536
_LAST_WORDS_S = 0.25
"""How long a pipe is read after the end of all processes that are known: another one may hold it."""
_LAUNCHER_S = 5.0
"""How much longer than promised a launcher is waited for before it is killed, too."""
_REAP_S = 0.005
_TAIL_BYTES = 500
_FOR_LAUNCHER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
"""Environment variables without which some interpreters do not start."""


async def run(program: Program, on_output: OnOutput | None = None, *, found: Mechanisms | None = None) -> Outcome:
    """Run *program* to its end and return how it ended; *found*: mechanisms to choose from, instead of all.

    Cancelling it ends the program and all its descendants before it returns, within the program's ``grace_s``;
    cancelling it a second time ends them at once. Raises StartError if it cannot be started, ConfinementError if
    it cannot be confined as required.
    """
    process = await start(program, found=found)
    try:
        return await process.finished(on_output)
    finally:
        await process.aclose()


async def start(program: Program, *, found: Mechanisms | None = None) -> Process:
    """Start *program*; the caller awaits ``finished`` and, in any case, ``aclose``. Raises as ``run``."""
    if sys.platform == "win32":
        raise StartError("programs cannot be started on Windows yet")
    available = found if found is not None or program.confinement is None else await mechanisms()
    confined = choose(program.confinement, available or Mechanisms())
    mark = new_mark()
    message = request_for(program, confined, available or Mechanisms(), mark)
    process = Process(program, confined, mark)
    try:
        process.launch()
        await process.send(message)
        await process.started()
    except BaseException:
        await process.aclose()
        raise
    return process


class Process:
    """A program that was started, below its launcher."""

    def __init__(self, program: Program, confined: Confined, mark: str) -> None:
        self.program = program
        self.confined = confined
        self._mark = mark
        self._launcher: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._pipes: dict[Stream, int] = {}
        self._heard = b""
        self._exited: dict[str, Any] = {}
        self._left = 0
        self._why_ended: Why | None = None
        self._total = self._delivering = 0
        self._writer = -1
        self._tail = b""
        self._closing: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._pumps: list[asyncio.Task[None]] = []

    def launch(self) -> None:
        """Start the launcher. Raises StartError."""
        ours, theirs = socket.socketpair()
        self._channel = ours
        ours.setblocking(False)  # noqa: FBT003 (it has no name)
        given: list[int] = []
        try:
            out = self._pipe("stdout", given)
            err = out if self.program.merged else self._pipe("stderr", given)
            stdin = self._stdin(given)
            call = f"supervise({theirs.fileno()}, {os.getpid()})"
            self._launcher = subprocess.Popen(  # noqa: S603 (this interpreter)
                launcher(call), stdin=stdin, stdout=out, stderr=err, cwd="/", start_new_session=True,
                pass_fds=(theirs.fileno(),), env={n: os.environ[n] for n in _FOR_LAUNCHER if n in os.environ},
            )  # fmt: skip
        except OSError as error:
            raise StartError(f"no process can be started: {error}") from error
        finally:
            theirs.close()
            for descriptor in given:
                os.close(descriptor)

    def _stdin(self, given: list[int]) -> int:
        """Return what the program reads, closed here once it is *given*."""
        data = self.program.stdin
        if data is OPEN:
            reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            given.append(reader)
        else:
            given.append(_input(data))
        return given[-1]

    def _pipe(self, stream: Stream, given: list[int]) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._pipes[stream] = reader
        given.append(writer)
        return writer

    async def write(self, data: bytes) -> None:
        """Write all of *data* to the stdin of a program that has it OPEN; waits where the program does not read.

        Raises BrokenPipeError if the program reads no longer, or ``close_stdin`` was called.
        """
        left = memoryview(data)
        while left:
            if self._writer < 0:
                raise BrokenPipeError(f"the stdin of {self.program.argv[0]!r} is closed")
            try:
                left = left[os.write(self._writer, left) :]
            except BlockingIOError:
                await _writable(self._writer)

    def close_stdin(self) -> None:
        """Let the program see the end of its stdin."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    async def send(self, message: bytes) -> None:
        """Send the launcher what to run."""
        assert self._channel is not None
        try:
            await asyncio.get_running_loop().sock_sendall(self._channel, message)
        except OSError as error:
            raise StartError(f"its launcher has ended: {error}") from error

    async def started(self) -> None:
        """Wait until the program runs. Raises StartError with the reason why it cannot."""
        said = await self._next()
        if "started" not in said:
            raise StartError(self._why_failed(said))

    def _why_failed(self, said: Mapping[str, Any]) -> str:
        name = self.program.argv[0]
        if not said:
            words = self._last_words()
            return f"the launcher of {name!r} has ended{': ' + words if words else ''}"
        code, reason = int(said["failed"]), os.strerror(int(said["failed"]))
        match str(said["stage"]), code:
            case "folder", _:
                return f"its folder {str(self.program.cwd)!r} cannot be entered: {reason}"
            case "program", errno.ENOENT:
                return f"there is no program {name!r}; install it, or give its whole path"
            case "program", errno.ENOEXEC:
                return f"{name!r} is not a program: it is a script without a first line such as #!/bin/sh"
            case "program", errno.E2BIG:
                return f"the arguments of {name!r} are too long for this system; give them in a file"
            case "program", _:
                return f"{name!r} cannot be run: {reason}"
            case stage, _:
                return f"{name!r} was not run: its {stage} failed: {reason}"

    async def finished(self, on_output: OnOutput | None = None) -> Outcome:
        """Read all output until the program and all its descendants have ended. Raises StartError if nothing ran.

        Called once. An error of *on_output* is raised here.
        """
        self._pumps = [
            asyncio.create_task(self._pump(stream, on_output), name="pluggent-output") for stream in self._pipes
        ]
        try:
            await self._wait_for_end()
        finally:
            for pump in self._pumps:
                pump.cancel()
        for pump in self._pumps:
            if pump.done() and not pump.cancelled() and (error := pump.exception()) is not None:
                raise error
        return self._outcome()

    async def _wait_for_end(self) -> None:
        over = self._heard_all()
        waiting: set[asyncio.Task[None]] = {over, *self._pumps}
        while not over.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() is not None for task in done):
                return
        # What is in the pipes is read, however slow its reader is; a pipe that stays open is given up.
        await self._drain(waiting)

    def _heard_all(self) -> asyncio.Task[None]:
        """Return the task that takes the messages of the launcher, until it has ended."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="pluggent-launcher")
        return self._listening

    async def _drain(self, pumps: set[asyncio.Task[None]]) -> None:
        read = -1
        while pumps and (read != self._total or self._delivering):
            read = self._total
            _, pumps = await asyncio.wait(pumps, timeout=_LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)

    async def _listen(self) -> None:
        while said := await self._next():
            if "exited" in said:
                self._exited = said
            self._left = max(self._left, int(said.get("left", 0)))

    async def _pump(self, stream: Stream, on_output: OnOutput | None) -> None:
        descriptor = self._pipes[stream]
        while data := await self._read(descriptor):
            self._total += len(data)
            self._tail = data[-_TAIL_BYTES:]
            if self._total > self.program.limits.output_bytes:
                self._stop("output limit")
                return
            if on_output is not None and (answer := on_output(stream, data)) is not None:
                self._delivering += 1
                await answer
                self._delivering -= 1
            await asyncio.sleep(0)  # a program that always writes must not keep the event loop

    async def _read(self, descriptor: int) -> bytes:
        while True:
            try:
                return os.read(descriptor, READ_BYTES)
            except BlockingIOError:
                await _readable(descriptor)

    def _stop(self, why: Why) -> None:
        self._why_ended = self._why_ended or why
        self._command(b"K")

    def _command(self, command: bytes) -> None:
        if self._channel is not None:
            with suppress(OSError):
                self._channel.send(command)

    def _outcome(self) -> Outcome:
        said = self._exited
        if not said:
            raise StartError(f"the launcher of {self.program.argv[0]!r} was killed; what it ran was ended")
        if not said["ran"]:
            words = _last_line(self._tail)
            raise StartError(f"{self.confined.how} could not run {self.program.argv[0]!r}: {words}")
        code = int(said["exited"])
        why: Why = self._why_ended or said["why"]
        return Outcome(
            exit_code=code if code >= 0 else None, signal=-code if code < 0 else None, why=why,
            duration_s=float(said["duration_s"]), left_behind=self._left, confined=self.confined,
        )  # fmt: skip

    async def _next(self) -> dict[str, Any]:
        """Return the next message of the launcher, an empty one at its end."""
        assert self._channel is not None
        while b"\n" not in self._heard:
            try:
                data = self._channel.recv(READ_BYTES)
            except BlockingIOError:
                await _readable(self._channel.fileno())
                continue
            except OSError:
                data = b""
            if not data:
                return {}
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def _last_words(self) -> str:
        with suppress(OSError):
            return _last_line(os.read(self._pipes["stdout"], READ_BYTES))
        return ""

    # ---- the end -------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End the program and all its descendants, if they run, and return when they have ended.

        A cancellation meanwhile ends them at once, and is raised afterwards.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="pluggent-process-end")
        cancelled: asyncio.CancelledError | None = None
        while not self._closing.done():
            try:
                await asyncio.shield(self._closing)
            except asyncio.CancelledError as error:
                cancelled = error
                self._command(b"K")
        if cancelled is not None:
            raise cancelled
        self._closing.result()

    async def _ended(self, process: subprocess.Popen[bytes]) -> int:
        """End the launcher, which ends what it runs; return its exit status."""
        self._command(b"E")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.program.grace_s + _LAUNCHER_S):
                await asyncio.shield(self._heard_all())
                return await _reaped(process)
        process.kill()
        return await _reaped(process)

    async def _close(self) -> None:
        try:
            if self._launcher is not None and await self._ended(self._launcher) != 0:
                # It could not see to the end itself, so what it ran is looked for by its mark.
                await asyncio.to_thread(kill_marked, self._mark)
        finally:
            helpers = [*self._pumps, *([self._listening] if self._listening is not None else [])]
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self.close_stdin()
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            for descriptor in self._pipes.values():
                os.close(descriptor)
            self._pipes = {}


async def _reaped(process: subprocess.Popen[bytes]) -> int:
    """Wait until *process*, which ends a moment after its last message, has ended; return its exit status."""
    try:
        ended = os.pidfd_open(process.pid)
    except (OSError, AttributeError):  # a system without pidfd has no event for it
        while process.poll() is None:  # noqa: ASYNC110 (there is no event)
            await asyncio.sleep(_REAP_S)
        return process.wait()
    try:
        await _readable(ended)
    finally:
        os.close(ended)
    return process.wait()


def _last_line(data: bytes) -> str:
    return data.decode(errors="replace").strip().rpartition("\n")[2]


def _input(data: bytes | None) -> int:
    """Return a file with *data*, at its beginning: a program that does not read it blocks nothing."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)
