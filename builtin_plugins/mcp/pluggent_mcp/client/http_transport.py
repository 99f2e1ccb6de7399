"""MCP over HTTP: the SDK's transports, with a client whose answers are bounded and can be cancelled."""

from __future__ import annotations

import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import Context, ContextVar
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from pluggent_checked_http.certificates import trusted
from pluggent_checked_http.failures import reason

from pluggent_mcp.client.status import ServerStatus
from pluggent_mcp.settings import Server

CONNECT_S = 10.0
SILENCE_S = 60.0
"""Least read timeout of a response; the caller has a time limit of its own."""
STREAM = "text/event-stream"

Sending: TypeAlias = Callable[[], Awaitable[httpx2.Response]]
Authorizing: TypeAlias = Callable[[httpx2.Request, Sending], Awaitable[httpx2.Response]]
"""Adds credentials to a request and sends it; returns the response of the server, or a 401 if there are none."""


async def send_unchanged(request: httpx2.Request, send: Sending) -> httpx2.Response:  # noqa: ARG001 (it stays as it is)
    """Send a request as it is."""
    return await send()


def transport(
    server: Server, status: ServerStatus, authorizing: Authorizing = send_unchanged
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Return the SDK's transport to *server*, whose requests are sent by *authorizing*."""
    return _sse(server, status, authorizing) if server.kind == "sse" else _streamable(server, status, authorizing)


@asynccontextmanager
async def _sse(server: Server, status: ServerStatus, authorizing: Authorizing) -> AsyncGenerator[tuple[Any, Any]]:
    certificates = await certificates_for(server.url)

    def factory(
        headers: dict[str, str] | None = None,  # noqa: ARG001 (what the SDK would give, our client has)
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001 (the same)
        auth: httpx2.Auth | None = None,  # noqa: ARG001 (the same)
    ) -> httpx2.AsyncClient:
        return HttpClient(server, status, certificates, authorizing)

    async with sse_client(
        server.url, timeout=CONNECT_S, sse_read_timeout=SILENCE_S, httpx_client_factory=factory
    ) as streams:
        yield streams


@asynccontextmanager
async def _streamable(
    server: Server, status: ServerStatus, authorizing: Authorizing
) -> AsyncGenerator[tuple[Any, Any]]:
    async with (
        HttpClient(server, status, await certificates_for(server.url), authorizing) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=server.max_message_bytes) as streams,
    ):
        yield streams


class HttpClient(httpx2.AsyncClient):
    """A client with *server*'s headers; proxies are the environment's. Responses are recorded in *status*.

    Bodies are bounded. Of event streams, which may be endless, the SDK bounds each event.
    """

    def __init__(
        self,
        server: Server,
        status: ServerStatus,
        certificates: ssl.SSLContext,
        authorizing: Authorizing = send_unchanged,
    ) -> None:
        super().__init__(
            headers={"Accept-Encoding": "gzip", **server.headers},
            # No limit of its own for the wait for a free connection.
            timeout=httpx2.Timeout(CONNECT_S, read=max(SILENCE_S, server.call_timeout_s), pool=None),
            verify=certificates,
        )
        self._server = server
        self._authorizing = authorizing
        self._status = status
        self._sse = server.kind == "sse"
        self._unrelated = PendingRequest(most=sys.maxsize)
        """For requests without a message: the stream of server notifications, and the closing request."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send *request* for the current message; if that was abandoned, return an empty response."""
        post = current() or self._unrelated
        response: httpx2.Response | None = None
        if post.count():
            with post.waiting():
                if request.method == "GET":
                    await post.pace()
                    # A notification stream may be idle for any time.
                    request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": None}
                try:
                    response = await self._authorizing(request, partial(super().send, request, **options))
                except httpx2.HTTPError as error:
                    self._note_failure(request, error)
                    raise
        if response is None:
            # For the SDK: a response without a body, and a stream that cannot be resumed.
            return httpx2.Response(202 if request.method == "POST" else 410, request=request)
        self._note(response)
        streams = self._streams(response)
        post.single = not (streams or self._sse)
        limit = None if streams else self._server.max_message_bytes
        return bounded(response, post, limit, partial(self._note_failure, request))

    def _note(self, response: httpx2.Response) -> None:
        post = response.request.method == "POST"
        if post or self._sse:
            self._status.note_response(response.status_code, response.headers.get("www-authenticate", ""))
        if post and self._sse and not response.is_success:
            self._status.end("it refused a message")
        here, onward = response.request.url, response.next_request
        if (
            onward is not None
            and onward.url.host == here.host
            and (here.scheme, onward.url.scheme) == ("http", "https")
        ):
            # Not followed: the redirect itself came unencrypted, and so did our secrets.
            where = onward.url.copy_with(userinfo=b"", query=None, fragment=None)
            self._status.end(f"it is at {where}: write that into its url")

    def _note_failure(self, request: httpx2.Request, error: Exception) -> None:
        if self._sse and request.method == "POST":
            # The SDK stops sending then, without reporting it.
            self._status.end(f"it did not take a message: {type(error).__name__}: {error}")

    def _streams(self, response: httpx2.Response) -> bool:
        """Return whether the SDK reads *response* event by event; other bodies it reads to the end first."""
        stream = response.headers.get("content-type", "").lower().startswith(STREAM)
        reads = not self._sse or response.request.method == "GET"
        return stream and reads and response.is_success


async def certificates_for(url: str) -> ssl.SSLContext:
    """Return the TLS context with the trusted authorities; an empty one if *url* needs no TLS."""
    if url.startswith("https:") or any(proxy.startswith("https:") for proxy in getproxies().values()):
        return await trusted()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


_ENCODINGS: Mapping[str, str] = MappingProxyType(
    {"": "identity", "identity": "identity", "gzip": "gzip", "x-gzip": "gzip"}
)
"""The content encodings that are accepted, by httpx2's name for them."""


class BodyError(httpx2.StreamError):
    """A response cannot be read. For the SDK it is an error of that one request."""


def bounded(
    response: httpx2.Response, request: PendingRequest, limit: int | None,
    on_error: Callable[[Exception], object] = lambda _: None,
) -> httpx2.Response:  # fmt: skip
    """Return *response* with its body decoded, up to *limit* bytes (None: no limit), for *request*.

    httpx2 decodes, in pieces of at most 1 MiB, but has no limit for the whole. Errors are passed to
    *on_error*, too: not every reader reports them.
    """
    response.stream = _Body(response, request, limit, on_error)
    return response


class _Body(httpx2.AsyncByteStream):
    def __init__(
        self,
        response: httpx2.Response,
        request: PendingRequest,
        limit: int | None,
        on_error: Callable[[Exception], object],
    ) -> None:
        self._encoding = response.headers.pop("content-encoding", "").strip().lower()
        self._encoded = httpx2.Response(
            response.status_code,
            headers={"Content-Encoding": _ENCODINGS.get(self._encoding, "identity")},
            stream=response.stream,
            request=response.request,
        )
        self._request = request
        self._limit = limit
        self._on_error = on_error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._bounded():
                yield piece
        except (BodyError, httpx2.HTTPError) as error:
            self._on_error(error)
            raise

    async def _bounded(self) -> AsyncIterator[bytes]:
        if self._encoding not in _ENCODINGS:
            raise BodyError(f"the answer is packed in a way that was not asked for ({self._encoding[:40]!r})")
        size = 0
        try:
            async for piece in self._pieces():
                size += len(piece)
                if self._limit is not None and size > self._limit:
                    raise BodyError(f"the answer is longer than {self._limit:,} bytes (max_message_bytes)")
                yield piece
        except httpx2.DecodingError as error:
            raise BodyError(f"the answer cannot be unpacked: {error}") from error

    async def _pieces(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._encoded.aiter_bytes())
        while True:
            piece: bytes | None = None
            with self._request.waiting():
                piece = await anext(pieces, None)
            if self._request.abandoned:
                raise BodyError("the request was cancelled")
            if piece is None:
                return
            yield piece

    async def aclose(self) -> None:
        await self._encoded.aclose()


MAX_REQUESTS = 500
"""HTTP requests for one message: an interrupted response is requested again and again."""
BETWEEN_GETS_S = 0.2
"""The least time between two of them; the server chooses the rest."""


class PendingRequest:
    """A sent message with the HTTP requests that are made for its response, at most *most*."""

    def __init__(self, most: int = MAX_REQUESTS, id: str | int | None = None) -> None:
        self.id = id
        self.single = False
        """Whether its response is one message, not a stream."""
        self.abandoned = False
        self._most = most
        self._scopes: set[anyio.CancelScope] = set()
        self._requests = 0
        self._next_get = 0.0

    def count(self) -> bool:
        """Count one more HTTP request; return whether it may be sent."""
        self._requests += 1
        return not self.abandoned and self._requests <= self._most

    async def pace(self) -> None:
        """Wait until another stream may be requested."""
        now = anyio.current_time()
        wait_s = self._next_get - now
        self._next_get = max(now, self._next_get) + BETWEEN_GETS_S
        if wait_s > 0:
            await anyio.sleep(wait_s)

    def abandon(self) -> None:
        """Cancel the waits for its response."""
        self.abandoned = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Leave the block when this is abandoned."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)


_FOR: ContextVar[PendingRequest | None] = ContextVar("pluggent_mcp_post", default=None)


def current(context: Context | None = None) -> PendingRequest | None:
    """Return the pending request that this, or what runs in *context*, runs for; None if there is none."""
    return _FOR.get() if context is None else context.get(_FOR)


@contextmanager
def as_current(post: PendingRequest | None) -> Generator[None]:
    """Make *post* the pending request of this context and of tasks that are created in it."""
    token = _FOR.set(post)
    try:
        yield
    finally:
        _FOR.reset(token)


def describe_failure(error: BaseException) -> str:
    """Return why a request failed with *error*; empty if it is not a failure of the connection.

    The user and the query of the URL are not repeated: they may be secrets.

    >>> import errno
    >>> wrong = httpx2.ConnectError("[Errno 111]", request=httpx2.Request("POST", "http://ann:x@127.0.0.1:9/mcp?key=x"))
    >>> wrong.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
    >>> describe_failure(wrong)
    'cannot reach http://127.0.0.1:9: the connection is refused; see whether it is running'
    """
    if not isinstance(error, httpx2.TransportError):
        return ""
    return f"cannot reach {_place(error)}: {reason(error)}"


def _place(error: httpx2.TransportError) -> str:
    try:
        url = error.request.url
    except RuntimeError:  # what it says where there is none
        return "it"
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = f":{url.port}" if url.port is not None else ""
    proxied = url.scheme in getproxies() and not proxy_bypass(url.host)
    return f"{url.scheme}://{host}{port}" + (", by way of the proxy that the environment names" if proxied else "")
