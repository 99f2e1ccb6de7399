"""MCP over Streamable HTTP, of both eras: sessions where the protocol has them, none where it has not."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

import attrs
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pluggent_hookspecs import ConfigError
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from pluggent_mcp.serving.settings import Address, Serving

CONNECTIONS = 256
"""Concurrent connections; a further one replaces an idle one, or is answered 503."""
LARGEST_HEADERS = 32_768
IDLE_CONNECTION_S = 5
GOODBYE_S = 1
"""Time for responses in progress at the end."""
STOPPING_S = 5.0


class _UvicornServer(uvicorn.Server):
    """Leaves signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def bound(address: Address) -> socket.socket:
    """Return a socket bound to *address*. Raises ConfigError."""
    host = "127.0.0.1" if address.host.lower() == "localhost" else address.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) where the protocol is named: else each waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, address.port))
    except OSError as error:
        made.close()
        raise ConfigError("--http", [f"cannot listen at {address}: {error.strerror or error}"]) from error
    return made


async def serve(
    server: Server[Any], listening: socket.socket, settings: Serving, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve until cancelled. *ready* is called with the URL."""
    host, port = listening.getsockname()[:2]
    manager = StreamableHTTPSessionManager(
        server, session_idle_timeout=settings.idle_timeout_s, max_request_body_size=settings.max_message_bytes,
        max_sessions=settings.max_sessions,
    )  # fmt: skip
    sessions = Sessions(manager.handle_request, settings.max_sessions)
    guard = Guard(sessions, (host, *settings.hosts), token, settings.request_timeout_s)
    http = _UvicornServer(_config(guard, settings))
    async with manager.run():
        listening.listen(CONNECTIONS)
        task = asyncio.create_task(http.serve([listening]), name="pluggent-mcp-http")
        try:
            ready(f"http://{Address(host, port)}{PATH}")
            await asyncio.shield(task)
        finally:
            guard.close()
            http.should_exit = True
            await asyncio.wait((task,), timeout=STOPPING_S)
            task.cancel()


def _config(app: Guard, settings: Serving) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connection_class(settings.request_timeout_s), ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False,
        proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_keep_alive=IDLE_CONNECTION_S,
        timeout_graceful_shutdown=GOODBYE_S, h11_max_incomplete_event_size=LARGEST_HEADERS,
    )  # fmt: skip


PATH = "/mcp"
_LAST_EVENT = b"last-event-id"
MOST_KNOWN = 64
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class _TooSlowError(Exception):
    """A request did not arrive in time."""


class Guard:
    """ASGI middleware that checks Host, Origin, path and token of a request before *app* sees it.

    Host and Origin keep web pages out (DNS rebinding), the token all other strangers. Values of
    headers are repeated in no response and no log. The SDK's TransportSecurityMiddleware compares
    names case-sensitively, accepts any text behind the colon of a host and logs the values; its
    BearerAuthBackend takes the first of several Authorization headers. So both are checked here.
    """

    def __init__(self, app: App, hosts: Iterable[str], token: str | None, request_timeout_s: float) -> None:
        self._app = app
        self._hosts = frozenset(host.strip("[]").lower() for host in (*LOOPBACK, *hosts))
        self._token = None if token is None else token.encode()
        self._limit_s = request_timeout_s
        self._answering: set[asyncio.Task[Any]] = set()
        self._known: set[bytes] = set()
        """Values of Host that were found to be among the names: a client sends the same one each time."""
        self._closing = False

    def close(self) -> None:
        """Cancel all responses in progress: streams may be endless."""
        self._closing = True
        for task in self._answering:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or forward it."""
        if scope["type"] != "http":
            return  # neither WebSocket nor lifespan is configured
        headers = scope["headers"]
        if refused := self._refused(headers, scope["path"]):
            await _answer(send, *refused)
            return
        # No event is kept, so a stream begins anew: the SDK would end without an answer.
        kept = [(key, value) for key, value in headers if key != _LAST_EVENT]
        await self._forward({**scope, "headers": kept}, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request until this is closed."""
        begun = over = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun, over
            await send(message)
            begun, over = True, message["type"] == "http.response.body" and not message.get("more_body", False)

        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            await self._app(scope, _TimedBody(receive, self._limit_s), noted)
        except _TooSlowError:
            if not begun:
                await _answer(send, 408, f"the request took longer than {self._limit_s:g} s to arrive")
        except asyncio.CancelledError:
            if not self._closing:
                raise
            task.uncancel()
            if not begun:
                await _answer(send, UNAVAILABLE, "the server is closing")
            elif not over:
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._answering.discard(task)

    def _refused(self, headers: Iterable[tuple[bytes, bytes]], path: str) -> tuple[int, str] | None:
        given = [(key.lower(), value) for key, value in headers]
        hosts = [value for key, value in given if key == b"host"]
        if len(hosts) != 1 or not (hosts[0] in self._known or self._is_ours(hosts[0])):
            return 421, "this server is not known under that Host; its operator can name it in hosts"
        origins = _values(given, b"origin")
        if origins and not (len(origins) == 1 and self._name(origins[0]) in self._hosts):
            return 403, "web pages of that Origin may not use this server"
        if path.rstrip("/") != PATH:
            return 404, f"there is nothing here; the server is at {PATH}"
        if self._token is not None and not self._has_token(_values(given, b"authorization")):
            return 401, "expected Authorization: Bearer with the token of this server"
        return None

    def _is_ours(self, host: bytes) -> bool:
        ours = self._name(f"http://{host.decode('latin-1')}") in self._hosts
        if ours and len(self._known) < MOST_KNOWN:
            self._known.add(host)
        return ours

    def _name(self, url: str) -> str:
        """Return the host name in *url*; empty if it is not the origin of a page."""
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 (raises for one that is none)
        except ValueError:
            return ""
        plain = parts.scheme in ("http", "https") and "@" not in parts.netloc and not parts.path.strip("/")
        return (parts.hostname or "") if plain else ""

    def _has_token(self, authorization: list[str]) -> bool:
        scheme, _, given = authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
        assert self._token is not None
        same = hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        return same and scheme.lower() == "bearer"


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


class _TimedBody:
    """A ``receive`` with a deadline for the whole body; later events, such as the disconnect, have none.

    As asyncio.timeout_at() does it, in half the time: this is in the way of every request.
    """

    def __init__(self, receive: Receive, limit_s: float) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + limit_s
        self._whole = self._late = False

    async def __call__(self) -> MutableMapping[str, Any]:
        """Return the next message. Raises _TooSlowError."""
        if self._whole:
            return await self._receive()
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        timer = self._loop.call_at(self._until, self._expire, task)
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if self._late and task.uncancel() <= cancelled:
                raise _TooSlowError from None
            raise
        finally:
            timer.cancel()
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    def _expire(self, task: asyncio.Task[Any]) -> None:
        self._late = True
        task.cancel()


async def _answer(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] * (status == 401)  # noqa: PLR2004 (HTTP's)
    headers += [RETRY_AFTER] * (status == UNAVAILABLE)
    # The rest of the body is not read.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


UNAVAILABLE = 503
RETRY_AFTER = (b"retry-after", b"5")
_SESSION, _VERSION = b"mcp-session-id", b"mcp-protocol-version"


@attrs.define
class _Session:
    """What is known of a session: requests in progress, when the last one ended, whether there was a second one."""

    used_at: float
    requests: int = 0
    established: bool = False


class Sessions:
    """ASGI middleware that keeps the sessions of the handshake protocols below *most*: an idle one makes room.

    The SDK refuses a further session until one has ended or has been idle for the whole time-out, so
    that clients that open sessions and go away lock out all others. Here the session without a request in
    progress is ended first that was only opened, or else was idle longest; its client, if it is still
    there, gets a 404 and opens another one. Only where all are in use a client has to try again later.
    """

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self._sessions: dict[bytes, _Session] = {}
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, after making room for a session that it may open."""
        id = version = None
        for key, value in scope["headers"]:  # the first of each, as the SDK takes it
            if key == _SESSION:
                id = value if id is None else id
            elif key == _VERSION:
                version = value if version is None else version
        if version is not None and version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
        elif id is None:
            await self._open(scope, receive, send)
        else:
            await self._use(id, scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                if message["status"] == UNAVAILABLE:
                    message = {**message, "headers": [*message.get("headers", ()), RETRY_AFTER]}
                for key, value in message.get("headers", ()):
                    if key.lower() == _SESSION and message["status"] < 400:  # noqa: PLR2004 (HTTP's)
                        self._sessions[value] = _Session(_now())
            await send(message)

        self._opening += 1
        try:
            await self._make_room(scope)
            await self._app(scope, receive, noted)
        finally:
            self._opening -= 1

    async def _use(self, id: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(id)
        if session is None:
            await self._app(scope, receive, send)  # the SDK says that it is unknown
            return

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and (message["status"] == 404 or scope["method"] == "DELETE"):  # noqa: PLR2004 (HTTP's)
                self._sessions.pop(id, None)
            await send(message)

        session.requests += 1
        session.established = True
        try:
            await self._app(scope, receive, noted)
        finally:
            session.requests -= 1
            session.used_at = _now()

    async def _make_room(self, scope: Scope) -> None:
        """End idle sessions until there is room for those that are being opened."""
        while len(self._sessions) + self._opening > self._most:
            idle = [(each.established, each.used_at, id) for id, each in self._sessions.items() if not each.requests]
            if not idle:
                return
            _, _, id = min(idle)
            del self._sessions[id]
            await self._end(id, scope)

    async def _end(self, id: bytes, scope: Scope) -> None:
        """End a session as its client would."""

        async def nothing() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unread(_: MutableMapping[str, Any]) -> None:
            """Ignore the response: the session may have ended already."""

        await self._app({**scope, "method": "DELETE", "headers": [(_SESSION, id)]}, nothing, unread)


def _now() -> float:
    return asyncio.get_running_loop().time()


WRITE_S = 0.004
"""How long a piece of a response may wait for the next one: each one that is sent alone costs a system call."""
MOST_HELD_BYTES = 65_536


class _JoiningTransport:
    """A transport that joins the pieces of a response: what comes together is sent together."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Send *data*, soon."""
        if not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > MOST_HELD_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(WRITE_S, self._flush_late)

    def _flush_late(self) -> None:
        self._timer = None
        self.flush()

    def flush(self) -> None:
        """Send what is held. A timer that runs goes on: it finds nothing, or what came since."""
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        """Return the unsent bytes, those held here too."""
        return self._size + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send what is held, and close."""
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


HEADERS_S = 5.0
"""Time limit for the headers of a request, from the start of the connection or their first byte."""


def connection_class(request_timeout_s: float) -> type[H11Protocol]:
    """Return the protocol class for the time limit of a whole request."""

    class Limited(Connection):
        headers_s = min(HEADERS_S, request_timeout_s)

    return Limited


class Connection(H11Protocol):
    """A connection with time limits for idleness and for headers, which uvicorn does not have."""

    headers_s = HEADERS_S

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.idle_since = 0.0
        """Since when it has no request, if it has none."""
        self._waiting: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether it has no request and no unsent response."""
        return not self._asked and self.transport.get_write_buffer_size() == 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for a request."""
        super().connection_made(cast("asyncio.Transport", _JoiningTransport(transport, self.loop)))
        self.idle_since = self.loop.time()
        self._start_timer()
        self._drop_oldest_idle()

    def data_received(self, data: bytes) -> None:
        """Stop the timer at the end of the headers, or start it at their first byte."""
        super().data_received(data)
        if self._asked:
            self._stop_timer()
        elif self._waiting is None:
            self._start_timer()

    def on_response_complete(self) -> None:
        """Mark it as idle. Until the next byte uvicorn's keep-alive timeout applies."""
        self.idle_since = self.loop.time()
        cast("_JoiningTransport", self.transport).flush()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def _asked(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _start_timer(self) -> None:
        self._waiting = self.loop.call_later(self.headers_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _drop_oldest_idle(self) -> None:
        """Abort the connection that was idle for the longest time, if this one would be refused otherwise."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        others: list[Connection] = [each for each in self.connections if isinstance(each, Connection)]
        idle = (each for each in others if each is not self and each.idle)
        oldest = min(idle, key=_idle_since, default=None)
        if oldest is not None:
            self.connections.discard(oldest)
            oldest.transport.abort()


def _idle_since(connection: Connection) -> float:
    return connection.idle_since
