"""MCP over a process's stdin and stdout, a message a line; bounded, and forgiving about what can be forgiven.

In the place of the SDK's own transport, which dies of one wrong byte, reads lines of any length
and can't say why a server ended.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process as Child
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from pluggent_mcp.link import Link

READ_BYTES = 65_536
MOST_JUNK = 100
"""Lines in a row that are no messages, after which a server is taken for something else."""
WAITING = 64
"""Messages that may wait for a server that does not read."""
LAST_WORDS_S = 0.5
"""How long the exit code and the rest of stderr are waited for."""

Incoming = SessionMessage | Exception


class _TooLongError(Exception):
    """A line that is longer than it may be."""


@asynccontextmanager
async def spoken_to(
    child: Child, link: Link, max_bytes: int, patience_s: float
) -> AsyncGenerator[tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]]:
    """Yield the streams of messages from and to *child*. Whatever ends them is told to *link* first.

    A server may leave what it is sent unread for *patience_s*.
    """
    incoming, read = anyio.create_memory_object_stream[Incoming](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](WAITING)
    async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
        listening = asyncio.Event()
        tasks.start_soon(_listen, child, link, listening)
        tasks.start_soon(_read, child, link, incoming, max_bytes, listening)
        tasks.start_soon(_write, child, link, outgoing, patience_s)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()


async def _listen(child: Child, link: Link, over: asyncio.Event) -> None:
    assert child.stderr is not None
    while data := await child.stderr.read(READ_BYTES):
        link.said(data)
    over.set()


async def _read(
    child: Child, link: Link, incoming: ObjectSendStream[Incoming], max_bytes: int, silent: asyncio.Event
) -> None:
    async with incoming:
        try:
            await _forward(child, link, incoming, max_bytes)
        except _TooLongError:
            link.end(f"it sent a message longer than {max_bytes:,} bytes (max_message_bytes)")
        except OSError as error:
            link.end(f"its stdout broke: {error}")
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(child.wait(), silent.wait()), LAST_WORDS_S)
            link.end(_ending(child))


def _ending(child: Child) -> str:
    code = child.returncode
    if code is None:
        return "it closed its stdout"
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


async def _forward(child: Child, link: Link, incoming: ObjectSendStream[Incoming], max_bytes: int) -> None:
    assert child.stdout is not None
    pieces: list[bytes] = []
    size = junk = 0
    while chunk := await child.stdout.read(READ_BYTES):
        size += len(chunk)
        pieces.append(chunk)
        if b"\n" not in chunk:
            if size > max_bytes:
                raise _TooLongError
            continue
        *lines, rest = b"".join(pieces).split(b"\n")
        pieces, size = [rest], len(rest)
        for line in lines:
            if len(line) > max_bytes:
                raise _TooLongError
            message = _message(line) if line.strip() else None
            if message is not None:
                junk = 0
                await incoming.send(SessionMessage(message))
            elif line.strip():
                junk += 1
                link.strayed(line)
                if junk >= MOST_JUNK:
                    link.end(f"it wrote {MOST_JUNK} lines to stdout that are no messages")
                    return


def _message(line: bytes) -> JSONRPCMessage | None:
    """Return the message in *line*; bytes that are no UTF-8 become U+FFFD."""
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


async def _write(child: Child, link: Link, outgoing: ObjectReceiveStream[SessionMessage], patience_s: float) -> None:
    assert child.stdin is not None
    try:
        async for item in outgoing:
            child.stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            async with asyncio.timeout(patience_s):
                await child.stdin.drain()
    except TimeoutError:
        link.end(f"it did not read what it was sent for {patience_s:g} s")
    except (OSError, RuntimeError):
        # It does not read any more. Whether it has ended, and how, the reader will see.
        link.log.debug("its stdin is closed")
