"""MCP over HTTP: the SDK's transports, with a client whose answers are bounded and can be given up."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from typing import Any, TypeAlias
from urllib.request import getproxies

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from pluggent_mcp.client.body import Body
from pluggent_mcp.client.link import Link
from pluggent_mcp.client.posts import Post, current
from pluggent_mcp.settings import Server

CONNECT_S = 10.0
SILENCE_S = 60.0
"""How long an answer may be silent at least; who waits for it has a limit of its own."""
STREAM = "text/event-stream"

Sending: TypeAlias = Callable[[], Awaitable[httpx2.Response]]
Signing: TypeAlias = Callable[[httpx2.Request, Sending], Awaitable[httpx2.Response]]
"""Sends a request once it says who asks; its answer is the server's, or that nobody may ask."""

_ONE_AT_A_TIME = threading.Lock()


async def send_unsigned(request: httpx2.Request, send: Sending) -> httpx2.Response:  # noqa: ARG001 (it stays as it is)
    """Send a request as it is."""
    return await send()


def transport(
    server: Server, link: Link, signing: Signing = send_unsigned
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Return the SDK's transport to *server*, whose requests are sent by *signing*."""
    return _old(server, link, signing) if server.kind == "sse" else _streamable(server, link, signing)


@asynccontextmanager
async def _old(server: Server, link: Link, signing: Signing) -> AsyncGenerator[tuple[Any, Any]]:
    certificates = await certificates_for(server.url)

    def factory(
        headers: dict[str, str] | None = None,  # noqa: ARG001 (what the SDK would give, our client has)
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001 (the same)
        auth: httpx2.Auth | None = None,  # noqa: ARG001 (the same)
    ) -> httpx2.AsyncClient:
        return HttpClient(server, link, certificates, signing)

    async with sse_client(
        server.url, timeout=CONNECT_S, sse_read_timeout=SILENCE_S, httpx_client_factory=factory
    ) as streams:
        yield streams


@asynccontextmanager
async def _streamable(server: Server, link: Link, signing: Signing) -> AsyncGenerator[tuple[Any, Any]]:
    async with (
        HttpClient(server, link, await certificates_for(server.url), signing) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=server.max_message_bytes) as streams,
    ):
        yield streams


class HttpClient(httpx2.AsyncClient):
    """A client with *server*'s headers; proxies are the environment's. What it does is told to *link*.

    Bodies are bounded. Event streams go on for long: of those the SDK bounds each event.
    """

    def __init__(
        self, server: Server, link: Link, certificates: ssl.SSLContext, signing: Signing = send_unsigned
    ) -> None:
        super().__init__(
            headers={"Accept-Encoding": "gzip", **server.headers},
            # Who waits for a free connection waits as long as for an answer.
            timeout=httpx2.Timeout(CONNECT_S, read=max(SILENCE_S, server.call_timeout_s), pool=None),
            verify=certificates,
        )
        self._server = server
        self._signing = signing
        self._link = link
        self._old = server.kind == "sse"
        self._unasked = Post(most=sys.maxsize)
        """What is not done for a message: the stream of what the server says by itself, and the goodbye."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send *request* for the message that is sent now; where nobody waits for it, answer it with nothing."""
        post = current() or self._unasked
        response: httpx2.Response | None = None
        if post.wanted():
            with post.waiting():
                if request.method == "GET":
                    await post.paced()
                    # It may be silent as long as it likes.
                    request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": None}
                try:
                    response = await self._signing(request, partial(super().send, request, **options))
                except httpx2.HTTPError as error:
                    self._broken(request, error)
                    raise
        if response is None:
            # What the SDK takes for an answer without a body, and for a stream that cannot be taken up again.
            return httpx2.Response(202 if request.method == "POST" else 410, request=request)
        self._note(response)
        streams = self._streams(response)
        limit = None if streams else self._server.max_message_bytes
        packed = response.headers.pop("content-encoding", "").strip().lower()
        response.stream = Body(response.stream, post, limit, packed, partial(self._broken, request))
        return response

    def _note(self, response: httpx2.Response) -> None:
        post = response.request.method == "POST"
        if post or self._old:
            self._link.answered(response.status_code, response.headers.get("www-authenticate", ""))
        if post and self._old and not response.is_success:
            self._link.end("it refused a message")
        here, onward = response.request.url, response.next_request
        if (
            onward is not None
            and onward.url.host == here.host
            and (here.scheme, onward.url.scheme) == ("http", "https")
        ):
            # There is nothing to check it against, and what is secret has been sent in the open already.
            where = onward.url.copy_with(userinfo=b"", query=None, fragment=None)
            self._link.end(f"it is at {where}: write that into its url")

    def _broken(self, request: httpx2.Request, error: Exception) -> None:
        if self._old and request.method == "POST":
            # The SDK stops sending then, and says so to nobody.
            self._link.end(f"it did not take a message: {type(error).__name__}: {error}")

    def _streams(self, response: httpx2.Response) -> bool:
        """Say whether the SDK reads *response* event by event; all else it reads to the end first."""
        stream = response.headers.get("content-type", "").lower().startswith(STREAM)
        reads = not self._old or response.request.method == "GET"
        return stream and reads and response.is_success


async def certificates_for(url: str) -> ssl.SSLContext:
    """Return what servers are checked against; nothing, which trusts nobody, where there is nothing to check."""
    if url.startswith("https:") or any(proxy.startswith("https:") for proxy in getproxies().values()):
        # In a thread: it takes as long as starting a small process.
        return await asyncio.to_thread(_trusted_now)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _trusted_now() -> ssl.SSLContext:
    with _ONE_AT_A_TIME:
        return _trusted(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


@cache
def _trusted(file: str, folder: str) -> ssl.SSLContext:  # noqa: ARG001 (what it is made of stands in the environment)
    return httpx2.create_ssl_context()
