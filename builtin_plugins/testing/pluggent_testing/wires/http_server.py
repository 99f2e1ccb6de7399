"""A real HTTP server on loopback that answers as a test tells it to: well, late, broken, or not at all.

It runs in a thread with an event loop of its own, so that neither a provider that blocks nor a
second event loop disturbs it. It knows no vendor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeAlias

import attrs

from pluggent_testing.providers.asking import WAIT_S


class Step(Enum):
    """What the server does with an answer beside sending bytes."""

    HANG = "wait until the client leaves"
    GO = "wait until the test calls go()"
    CLOSE = "close the connection"
    RESET = "reset the connection"


@attrs.frozen
class Pause:
    """Send nothing for so long."""

    seconds: float


@attrs.frozen
class Endless:
    """Send this over and over, until the client leaves or so many bytes are sent."""

    data: bytes
    most: int


Steps: TypeAlias = Sequence[bytes | Step | Pause | Endless]


@attrs.frozen
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


Plan: TypeAlias = Callable[[Received], Steps]
"""Decides how a request is answered."""


class LoopbackServer:
    """Answers each request by the next of the plans that were laid out, and then by *otherwise*.

    ``requests`` are those that came. Every wait lasts *wait_s* seconds at most. A
    context manager; at the end every connection is closed.
    """

    def __init__(self, otherwise: Plan, wait_s: float = WAIT_S) -> None:
        self.requests: list[Received] = []
        self.faults: list[BaseException] = []
        """What went wrong in the server itself: a plan that raised."""
        self.port = 0
        self._otherwise = otherwise
        self._wait_s = wait_s
        self._plans: list[Plan] = []
        self._asked = threading.Semaphore(0)
        self._left = threading.Semaphore(0)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="provider-suite-server")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT_S), "the server of the suite has not started"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert error is not None or not self.faults, f"a plan of the test failed: {self.faults}"

    def stop(self) -> None:
        """Close every connection, and answer no more. Safe twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    @property
    def origin(self) -> str:
        """Where the server is: scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    def will(self, *plans: Plan | Steps) -> None:
        """Answer the next requests so, in this order."""
        self._plans += [plan if callable(plan) else _always(plan) for plan in plans]

    def go(self) -> None:
        """Let every answer go on that waits at Step.GO, now and later."""
        self._loop.call_soon_threadsafe(self._go.set)

    async def was_asked(self) -> None:
        """Wait until a request has come that was not waited for yet."""
        assert await asyncio.to_thread(self._asked.acquire, timeout=self._wait_s), "no request has come"

    async def was_left(self) -> bool:
        """Tell whether a client has left in the middle of an answer, soon if not yet."""
        return await asyncio.to_thread(self._left.acquire, timeout=self._wait_s)

    # ---- in the thread --------------------------------------------------------------------

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._go = asyncio.Event(), asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: the one that asyncio makes of a coroutine complains when it is cancelled.
        task = asyncio.create_task(self._connection(reader, writer))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self._asked.release()
                plan = self._plans.pop(0) if self._plans else self._otherwise
                if not await self._answer(plan(request), reader, writer):
                    break
        except ConnectionError:
            self._left.release()
        except Exception as error:  # noqa: BLE001 (a plan may raise anything; __exit__ tells it)
            self.faults.append(error)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, steps: Steps, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Take these steps; return whether the connection stays open."""
        for step in steps:
            match step:
                case bytes():
                    await _send(writer, step)
                case Endless(data, most):
                    for _ in range(0, most, len(data)):
                        await _send(writer, data)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Step.GO:
                    await self._go.wait()
                case Step.HANG:
                    await reader.read()
                    self._left.release()
                    return False
                case Step.RESET:
                    writer.transport.abort()
                    return False
                case Step.CLOSE:
                    return False
        return True


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    await asyncio.sleep(0)  # what is sent by itself is more often read by itself


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        method, path = head[0].split(" ")[:2]
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return Received(method, path, headers, await _read_chunks(reader))
        return Received(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass  # trailers
    return bytes(body)


def _always(steps: Steps) -> Plan:
    return lambda _: steps


# ---- answers -----------------------------------------------------------------------------


def answer(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "application/json"
) -> Steps:
    """Return a whole answer with its length."""
    return (head(status, {"content-type": kind, "content-length": str(len(body)), **(headers or {})}) + body,)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the head of an answer."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def chunked(kind: str, pieces: Iterable[bytes | Step | Pause | Endless], *, ends: bool = True) -> Steps:
    """Return an answer whose *pieces* are sent each by itself; without *ends* it breaks off behind them."""
    framed = [_framed(piece) for piece in pieces if piece != b""]
    return (
        head(200, {"content-type": kind, "transfer-encoding": "chunked"}),
        *framed,
        b"0\r\n\r\n" if ends else Step.CLOSE,
    )


def until_closed(kind: str, pieces: Iterable[bytes]) -> Steps:
    """Return an answer that ends with its connection, as HTTP/1.0 has it."""
    return (head(200, {"content-type": kind, "connection": "close"}), *pieces, Step.CLOSE)


def _framed(piece: bytes | Step | Pause | Endless) -> bytes | Step | Pause | Endless:
    if isinstance(piece, Endless):
        return attrs.evolve(piece, data=_chunk(piece.data))
    return _chunk(piece) if isinstance(piece, bytes) else piece


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
