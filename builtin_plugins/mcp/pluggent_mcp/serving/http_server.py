"""Who may speak HTTP to the server at all. Stands before the SDK: what is refused here costs next to nothing.

Host and Origin keep web pages out (a name that a page's owner points at this machine, DNS
rebinding); the token keeps everybody else out. Values of headers are repeated in no answer and no log.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class _TooSlowError(Exception):
    """A request did not arrive in time."""


class Guard:
    """An ASGI application before *app*. Without a token everybody who reaches it may use it."""

    def __init__(self, app: App, hosts: Iterable[str], token: str | None, request_timeout_s: float) -> None:
        self._app = app
        self._hosts = frozenset(host.strip("[]").lower() for host in (*LOOPBACK, *hosts))
        self._token = None if token is None else token.encode()
        self._limit_s = request_timeout_s
        self._answering: set[asyncio.Task[Any]] = set()
        self._closing = False

    def close(self) -> None:
        """End all answers that are under way: streams that would go on for long."""
        self._closing = True
        for task in self._answering:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer."""
        if scope["type"] != "http":
            return  # no WebSocket is offered, and nobody asks for a lifespan
        headers = scope["headers"]
        if refused := self._refused(headers, scope["path"]):
            await _answer(send, *refused)
            return
        await self._let(scope, receive, send)

    async def _let(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer, as long as this is not closed."""
        begun = over = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun, over
            await send(message)
            begun, over = True, message["type"] == "http.response.body" and not message.get("more_body", False)

        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            await self._app(scope, _timed(receive, self._limit_s), noted)
        except _TooSlowError:
            if not begun:
                await _answer(send, 408, f"the request took longer than {self._limit_s:g} s to arrive")
        except asyncio.CancelledError:
            if not self._closing:
                raise
            task.uncancel()
            if not begun:
                await _answer(send, 503, "the server is closing")
            elif not over:
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._answering.discard(task)

    def _refused(self, headers: Iterable[tuple[bytes, bytes]], path: str) -> tuple[int, str] | None:
        given = list(headers)
        hosts = _values(given, b"host")
        if len(hosts) != 1 or self._name(f"http://{hosts[0]}") not in self._hosts:
            return 421, "this server is not known under that Host; its operator can name it in hosts"
        origins = _values(given, b"origin")
        if origins and not (len(origins) == 1 and self._name(origins[0]) in self._hosts):
            return 403, "web pages of that Origin may not use this server"
        if path.rstrip("/") != PATH:
            return 404, f"there is nothing here; the server is at {PATH}"
        if self._token is not None and not self._knows(_values(given, b"authorization")):
            return 401, "expected Authorization: Bearer with the token that whoever started this server knows"
        return None

    def _name(self, url: str) -> str:
        """Return the host's name in *url*; empty for what is no URL of a page."""
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 (raises for one that is none)
        except ValueError:
            return ""
        plain = parts.scheme in ("http", "https") and "@" not in parts.netloc and not parts.path.strip("/")
        return (parts.hostname or "") if plain else ""

    def _knows(self, authorization: list[str]) -> bool:
        scheme, _, given = authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
        assert self._token is not None
        same = hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        return same and scheme.lower() == "bearer"


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _timed(receive: Receive, limit_s: float) -> Receive:
    """Return *receive* with a limit for the whole body; what comes behind it, the end of the connection, has none."""
    until = asyncio.get_running_loop().time() + limit_s
    whole = False

    async def timed() -> MutableMapping[str, Any]:
        nonlocal whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise _TooSlowError from None
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return timed


async def _answer(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] * (status == 401)  # noqa: PLR2004 (HTTP's)
    # What may still come of the body is not read.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
