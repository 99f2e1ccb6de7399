"""A server over HTTP that answers by hand, so that it can do what no library does."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

JSON = "application/json"
Pour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GREETING = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"o","version":"1"}}}'
)
LIST = b'{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"act","inputSchema":{"type":"object"}}]}}'
OLD = {
    "initialize": (200, JSON, GREETING),
    "notifications/initialized": (202, JSON, b""),
    "notifications/cancelled": (202, JSON, b""),
    "tools/list": (200, JSON, LIST),
    "tools/call": (200, JSON, b'{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"acted"}]}}'),
}
"""What a server of the first era answers, by method; ids are what the SDK counts."""


@asynccontextmanager
async def answering(answer: Any, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """Serve HTTP by hand: *answer* gets method, body and headers, and returns status, type and body.

    None in the place of the body is a stream without an end, None in the place of all a broken connection.
    Instead of the three it may return bytes, which are sent as they are, of a list the last ones again and
    again; or a function that does what it likes with the two streams.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method = head[0].split()[0]
                said: Any = (405, JSON, b"") if method != "POST" else await answer(method, body, headers)
                if said is None:
                    return
                if callable(said):
                    await cast("Pour", said)(reader, writer)
                    return
                if isinstance(said, bytes | list):
                    await poured(cast("bytes | list[bytes]", said), reader, writer)
                    return
                status, kind, content = said
                session = "mcp-session-id: s1\r\n" if b'"initialize"' in body else ""
                start = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{session}"
                if content is None:
                    writer.write(f"{start}\r\n: waiting\n\n".encode())
                    await reader.read()
                    return
                writer.write(f"{start}content-length: {len(content)}\r\n\r\n".encode() + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def poured(said: bytes | list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send *said*; of a list the last again and again. Then wait until the other side has gone."""
    if isinstance(said, bytes):
        writer.write(said)
        await reader.read()
        return
    *first, last = said
    writer.writelines(first)
    while not reader.at_eof():
        writer.write(last)
        await writer.drain()
        await asyncio.sleep(0)


TAKEN = b"HTTP/1.1 202 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def old_transport(first_call: Any) -> AsyncGenerator[str]:
    """Serve the transport of old servers by hand; *first_call* is given the streams of the first call, and that of all.

    That is: who reads what is posted, who answers it, and who writes the events.
    """
    streams: list[asyncio.StreamWriter] = []
    calls = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /say\n\n")
            streams.append(writer)
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        message = json.loads(await reader.readexactly(length))
        calls += message["method"] == "tools/call"
        if message["method"] == "tools/call" and calls == 1:
            await first_call(reader, writer, streams[-1])
        else:
            writer.write(TAKEN)
            if "id" in message:
                answer = json.loads(OLD[message["method"]][2]) | {"id": message["id"]}
                streams[-1].write(b"event: message\ndata: " + json.dumps(answer).encode() + b"\n\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
        finally:
            for stream in streams:
                stream.close()
