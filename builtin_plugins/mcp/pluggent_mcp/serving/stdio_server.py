"""MCP over this process's own stdin and stdout, which then belong to the protocol alone.

The SDK's own transport reads stdin in a thread that nothing can end before the client closes it,
and reads lines of any length. Here two daemon threads do what may block, so that a signal ends
the process whatever the client does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import attrs
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from pluggent_mcp.serving.calls import BUSY

T = TypeVar("T")

READ_BYTES = 65_536
MOST_UNDER_WAY = 256
"""Requests without a response; further ones wait for a time and are then refused."""
PATIENCE_S = 1.0
UNWRITABLE = "the answer holds what cannot be written as JSON"

_LOG = logging.getLogger("pluggent.mcp.serve")

Incoming = SessionMessage | Exception


@attrs.frozen
class Wire:
    """Descriptors of the client's pipes."""

    incoming: int
    outgoing: int


def claim() -> Wire:
    """Reserve stdin and stdout for the protocol: later prints go to stderr."""
    wire = Wire(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire


async def serve(server: Server[Any], wire: Wire, max_bytes: int) -> None:
    """Answer one client until it closes its end."""
    async with _streams(wire, max_bytes) as (read, write):
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def _streams(
    wire: Wire, max_bytes: int
) -> AsyncGenerator[tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]]:
    incoming, read = anyio.create_memory_object_stream[Incoming](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
        with anyio.CancelScope() as serving:
            # If the client does not read any more, serving ends.
            writer, requests = _Writer(wire.outgoing, serving.cancel), _Requests()
            tasks.start_soon(_read, wire.incoming, incoming, writer, requests, max_bytes)
            tasks.start_soon(_write, outgoing, writer, requests)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()


class _Requests:
    """Counts the requests that have no answer yet."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_UNDER_WAY)

    async def begin(self) -> bool:
        """Count one more; return whether the limit allowed it in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._free.acquire()
        except TimeoutError:
            return False

    async def end(self) -> None:
        """Count one less: it was answered, or never will be."""
        self._free.release()


async def _read(
    descriptor: int, incoming: ObjectSendStream[Incoming], writer: _Writer, requests: _Requests, max_bytes: int
) -> None:
    async with incoming:
        async for line in _lines(descriptor, max_bytes):
            if line is None:
                await writer.write(_refusal(INVALID_REQUEST, f"a message is at most {max_bytes:,} bytes long"))
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                await writer.write(_refusal(PARSE_ERROR, "that line is not a message of JSON-RPC"))
                continue
            if isinstance(message, JSONRPCRequest) and not await requests.begin():
                # A client that reads no responses has to read this one before its next message is read.
                text = f"{MOST_UNDER_WAY} requests are under way already; try again later"
                await writer.write(_refusal(BUSY, text, message.id))
                continue
            unanswered = ServerMessageMetadata(on_request_unanswered=requests.end)
            await incoming.send(SessionMessage(message, unanswered))


async def _lines(descriptor: int, max_bytes: int) -> AsyncGenerator[bytes | None]:
    """Yield lines; None for one that is too long, and nothing behind it."""
    rest = b""
    async for data in _pieces(descriptor):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield None if len(line) > max_bytes else line
        if len(rest) > max_bytes:
            yield None
            return


async def _pieces(descriptor: int) -> AsyncGenerator[bytes]:
    """Yield what is read, until its end. One piece is read ahead."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    wanted = threading.Semaphore(1)

    def read() -> None:
        data = b"more"
        while data:
            wanted.acquire()
            try:
                data = os.read(descriptor, READ_BYTES)
            except OSError:
                data = b""
            if not _call_in_loop(loop, pieces.put_nowait, data):
                return

    threading.Thread(target=read, name="pluggent-mcp-stdin", daemon=True).start()
    while data := await pieces.get():
        wanted.release()
        yield data


def _call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[T], object], what: T) -> bool:
    try:
        loop.call_soon_threadsafe(callback, what)
    except RuntimeError:  # the loop is closed
        return False
    return True


# ---- writing -----------------------------------------------------------------------------


async def _write(outgoing: ObjectReceiveStream[SessionMessage], writer: _Writer, requests: _Requests) -> None:
    async for item in outgoing:
        if line := _line(item.message):
            await writer.write(line)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            await requests.end()


def _line(message: JSONRPCMessage) -> bytes:
    """Return *message* as it is written; empty for a notification that cannot be written."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except Exception as error:  # noqa: BLE001 (what a tool has said may be anything; it must not end the others' calls)
        _LOG.warning("a message cannot be written as JSON: %s", type(error).__name__)
    if isinstance(message, JSONRPCResponse | JSONRPCError):
        return _refusal(INTERNAL_ERROR, UNWRITABLE, message.id)
    return b""


def _refusal(code: int, message: str, id: RequestId | None = None) -> bytes:
    error = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message))
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


class _Writer:
    """Writes whole lines, one after the other, however slowly they are read."""

    def __init__(self, descriptor: int, gone: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._gone = gone
        self._lines: queue.SimpleQueue[tuple[bytes, Callable[[bool], None]]] = queue.SimpleQueue()
        self._lock = asyncio.Lock()
        threading.Thread(target=self._work, name="pluggent-mcp-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write *line*; report a closed pipe."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[bool] = loop.create_future()

        def set_unless_cancelled(fine: bool) -> None:  # noqa: FBT001 (what became of it)
            if not written.done():
                written.set_result(fine)

        def done(fine: bool) -> None:  # noqa: FBT001 (the same)
            _call_in_loop(loop, set_unless_cancelled, fine)

        async with self._lock:
            self._lines.put((line + b"\n", done))
            if not await written:
                self._gone()

    def _work(self) -> None:
        fine = True
        while True:
            line, done = self._lines.get()
            fine = fine and self._whole(line)
            done(fine)

    def _whole(self, line: bytes) -> bool:
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return False
        return True
