"""A loopback listener for the redirect of one login; answers every other request with 404."""

from __future__ import annotations

import asyncio
import secrets
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

import attrs

from pluggent_mcp.oauth.challenges import LoginError

HOST = "127.0.0.1"
KNOWN_PATH = "/callback"
"""For a client that was registered beforehand: a server compares the path, and lets the port be any (RFC 8252, 7.3)."""
LONGEST_HEAD = 16_384
HEAD_S = 5.0
MOST_CONNECTIONS = 16

_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>pluggent</title>"
    b"<p>pluggent has the answer. You can close this page and go back to the terminal."
)
_HEADERS = (
    b"connection: close\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
    b"content-security-policy: default-src 'none'\r\nx-content-type-options: nosniff\r\n"
)


@attrs.frozen
class Answer:
    """The redirect of an authorization server: a code, or the name of an error."""

    code: str = attrs.field(repr=False)
    state: str = attrs.field(repr=False)
    issuer: str | None
    error: str


class Listener:
    """Listens while it is entered; accepts the first request to its address with the state of the login, and no second.

    Whatever else comes, to that address too, is answered and ends nothing: anything on this machine may send it.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path or f"{KNOWN_PATH}/{secrets.token_urlsafe(24)}"
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._port = 0
        self._state = b""
        self._others = False

    @property
    def address(self) -> str:
        """Where a browser is to bring the answer."""
        return f"http://{HOST}:{self._port}{self._path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._came, HOST, 0, limit=LONGEST_HEAD)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if not self._answer.cancel() and not self._answer.cancelled():
            self._answer.exception()  # retrieved, or asyncio would warn
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=HEAD_S)

    async def answer(self, state: str, within_s: float) -> Answer:
        """Wait for the answer with this *state*. Raises LoginError if none comes in time, or it is not understood."""
        self._state = state.encode()
        try:
            async with asyncio.timeout(within_s):
                return await self._answer
        except TimeoutError:
            others = "; an answer came that is not that of this login (its state is another)" if self._others else ""
            raise LoginError(f"no login within {within_s:g} s (--timeout){others}") from None

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MOST_CONNECTIONS:
            # The oldest has said nothing for the longest time; a browser speaks at once.
            next(iter(self._tasks)).cancel()
        self._tasks[task] = None
        try:
            async with asyncio.timeout(HEAD_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
                writer.write(self._answered(head))
                await writer.drain()
        except (OSError, TimeoutError, UnicodeDecodeError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # no browser, or one that has gone: nothing was said that matters
        finally:
            self._tasks.pop(task, None)
            writer.close()

    def _answered(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.partition(" ")[0]
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        ours = method == "GET" and hosts == [f"{HOST}:{self._port}"]
        if not (ours and secrets.compare_digest(target.partition("?")[0], self._path)) or self._answer.done():
            return b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        if not self._is_ours(target):
            self._others = True
            return b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        self._close()
        try:
            self._answer.set_result(_read(target))
        except LoginError as error:
            self._answer.set_exception(error)
        start = b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n" + _HEADERS
        return start + b"content-length: %d\r\n\r\n" % len(_PAGE) + _PAGE

    def _is_ours(self, target: str) -> bool:
        """Say whether a request carries the state of this login, once."""
        states = _given(target).get("state", [])
        return bool(self._state) and len(states) == 1 and secrets.compare_digest(states[0].encode(), self._state)


def _given(target: str) -> dict[str, list[str]]:
    try:
        return parse_qs(urlsplit(target).query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        return {}


def _read(target: str) -> Answer:
    given = _given(target)
    if any(len(values) != 1 for values in given.values()):
        raise LoginError("the answer of the authorization server says one thing twice")
    said = {name: values[0] for name, values in given.items()}
    return Answer(said.get("code", ""), said.get("state", ""), said.get("iss"), said.get("error", ""))
