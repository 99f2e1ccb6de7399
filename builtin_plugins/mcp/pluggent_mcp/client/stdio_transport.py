"""MCP over the stdin and stdout of a process, one message a line; bounded, and tolerant of stray output.

It replaces the SDK's transport, which fails on one invalid byte, reads lines of any length and
does not report why a server ended. The pipes are read and written without a task and a queue in
between, which would cost a tenth of a call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest, jsonrpc_message_adapter

from pluggent_mcp.client.process import READ_BYTES, Child
from pluggent_mcp.client.status import ServerStatus

MOST_JUNK = 100
"""Consecutive lines that are not messages after which the connection is ended."""
UNREAD_BYTES = 65_536
MOST_UNREAD_BYTES = 1 << 20
"""Unread bytes, besides those in the pipe, before the sender of a request waits, and of other messages."""
AT_ONCE = 64
"""Lines that are read before other tasks may run."""
LAST_WORDS_S = 0.5
"""How long to wait for the pipes of a process that has exited: its children may hold them open."""
HALF_CLOSED_S = 2.0
"""How long to wait for the exit of a process that has closed a pipe."""


@asynccontextmanager
async def stdio_streams(
    child: Child, status: ServerStatus, max_bytes: int, patience_s: float = 60.0
) -> AsyncGenerator[tuple[Lines, Pipe]]:
    """Yield the streams of messages from and to *child*. *status* has the reason of their end first.

    A server may leave what it is sent unread for *patience_s*.
    """
    heard, silent = asyncio.Event(), asyncio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, child, status, silent)
        tasks.start_soon(_watch, child, status, heard, silent)
        try:
            yield Lines(child, status, max_bytes, heard), Pipe(child, status, patience_s)
        finally:
            tasks.cancel_scope.cancel()


async def _listen(child: Child, status: ServerStatus, over: asyncio.Event) -> None:
    assert child.stderr is not None
    while data := await child.stderr.read(READ_BYTES):
        status.add_stderr(data)
    over.set()


async def _watch(child: Child, status: ServerStatus, heard: asyncio.Event, silent: asyncio.Event) -> None:
    """Record how *child* ended, once all its output has been read."""
    await child.exited.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_S):
            await heard.wait()
            await silent.wait()
    status.end(_ending(child))
    child.close()


async def _reason(status: ServerStatus, otherwise: str) -> None:
    """Wait for the reason why a pipe was closed: usually the process is ending; *otherwise* is the reason if not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HALF_CLOSED_S):
            await status.ended.wait()
    status.end(otherwise)


class Lines:
    """The messages that a process writes. *heard* is set when there are no more."""

    def __init__(self, child: Child, status: ServerStatus, max_bytes: int, heard: asyncio.Event) -> None:
        assert child.stdout is not None
        self._stdout = child.stdout
        self._status = status
        self._max_bytes = max_bytes
        self._heard = heard
        self._waiting: deque[bytes] = deque()
        self._pieces: list[bytes] = []
        self._size = 0
        self._junk = self._read = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while not self._status.ended.is_set():
            while self._waiting:
                message = self._taken(self._waiting.popleft())
                self._read += 1
                if self._read % AT_ONCE == 0:
                    await asyncio.sleep(0)  # let other tasks run
                if message is not None:
                    return SessionMessage(message)
            if not self._status.ended.is_set():
                await self._fill()
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage:
        return await anext(self)

    async def aclose(self) -> None:
        self._waiting.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _fill(self) -> None:
        """Wait for more lines, or for the end."""
        try:
            chunk = await self._stdout.read(READ_BYTES)
        except OSError as error:
            self._status.end(f"its stdout broke: {error}")
            return
        if not chunk:
            await self._finish()
            return
        self._pieces.append(chunk)
        self._size += len(chunk)
        if b"\n" in chunk:
            *lines, rest = b"".join(self._pieces).split(b"\n")
            self._waiting.extend(lines)
            self._pieces, self._size = [rest], len(rest)
        elif self._size > self._max_bytes:
            self._too_long()

    async def _finish(self) -> None:
        """Take a last line without a line end; without one, wait for the reason of the end."""
        if self._size:
            self._waiting.append(b"".join(self._pieces))
            self._pieces, self._size = [], 0
            return
        self._heard.set()
        await _reason(self._status, "it closed its stdout")

    def _taken(self, line: bytes) -> JSONRPCMessage | None:
        if len(line) > self._max_bytes:
            self._too_long()
            return None
        if not line or line.isspace():
            return None
        message = _message(line)
        if message is not None:
            self._junk = 0
            return message
        self._junk += 1
        self._status.add_stray_output(line)
        if self._junk >= MOST_JUNK:
            self._waiting.clear()
            self._status.end(f"it wrote {MOST_JUNK} lines to stdout that are not messages")
        return None

    def _too_long(self) -> None:
        self._waiting.clear()
        self._status.end(f"it sent a message longer than {self._max_bytes:,} bytes (max_message_bytes)")


class Pipe:
    """The messages that a process reads."""

    def __init__(self, child: Child, status: ServerStatus, patience_s: float) -> None:
        assert child.stdin is not None
        self._stdin = child.stdin
        self._status = status
        self._patience_s = patience_s
        self._alone = asyncio.Lock()

    async def send(self, item: SessionMessage) -> None:
        if self._stdin.is_closing() or self._status.ended.is_set():
            await _reason(self._status, "it closed its stdin")
            raise anyio.ClosedResourceError
        self._stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        # A cancelled call must not wait for the server to read the cancellation.
        most = UNREAD_BYTES if isinstance(item.message, JSONRPCRequest) else MOST_UNREAD_BYTES
        if self._stdin.transport.get_write_buffer_size() > most:
            await self._drained()

    async def _drained(self) -> None:
        try:
            async with asyncio.timeout(self._patience_s), self._alone:
                await self._stdin.drain()
        except TimeoutError:
            self._status.end(f"it did not read what it was sent for {self._patience_s:g} s")
            raise anyio.BrokenResourceError from None
        except OSError as error:
            await _reason(self._status, "it closed its stdin")
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Leave the pipe open: the owner of the process closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _ending(child: Child) -> str:
    code = child.returncode
    assert code is not None
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def _message(line: bytes) -> JSONRPCMessage | None:
    """Return the message in *line*; bytes that are not UTF-8 become U+FFFD."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        text = line.decode(errors="replace")
    if "\ufffd" not in text:
        return None
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return None
