"""MCP over HTTP: the SDK's transports, with a client whose answers are bounded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from pluggent_mcp.link import Link
from pluggent_mcp.settings import Server

CONNECT_S = 10.0
SILENCE_S = 60.0
"""How long an answer may be silent at least; who waits for it has a limit of its own."""


class TooLongError(httpx2.StreamError):
    """An answer is longer than it may be. The SDK makes an error of that one request of it."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                raise TooLongError(f"the answer is longer than {self._limit:,} bytes (max_message_bytes)")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def http_client(server: Server, link: Link) -> httpx2.AsyncClient:
    """Return a client with *server*'s headers; proxies and certificates are the environment's.

    Bodies are bounded. Event streams go on for long: of those the SDK bounds each event.
    """

    async def sent(request: httpx2.Request) -> None:
        if request.method == "GET":
            # The stream of what the server says unasked may be silent for as long as it likes.
            request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": None}

    async def received(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            link.answered(response.status_code)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, server.max_message_bytes)

    return httpx2.AsyncClient(
        headers=dict(server.headers),
        timeout=httpx2.Timeout(CONNECT_S, read=max(SILENCE_S, server.call_timeout_s)),
        event_hooks={"request": [sent], "response": [received]},
    )


def transport(server: Server, link: Link) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Return the SDK's transport to *server*."""
    if server.kind == "sse":

        def factory(
            headers: dict[str, str] | None = None,  # noqa: ARG001 (what the SDK would give, our client has)
            timeout: httpx2.Timeout | None = None,  # noqa: ARG001 (the same)
            auth: httpx2.Auth | None = None,  # noqa: ARG001 (the same)
        ) -> httpx2.AsyncClient:
            return http_client(server, link)

        return sse_client(
            server.url,
            timeout=CONNECT_S,
            sse_read_timeout=SILENCE_S,
            httpx_client_factory=factory,
        )
    return _streamable(server, link)


@asynccontextmanager
async def _streamable(server: Server, link: Link) -> AsyncGenerator[tuple[Any, Any]]:
    async with (
        http_client(server, link) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=server.max_message_bytes) as streams,
    ):
        yield streams
