"""A server on loopback that answers exactly as it is told, odd or broken, whatever is spoken over it.

``async with OddServer(answer, …) as server`` gives one answer for each request, in order;
an answer is a sequence of steps: bytes to send as they are, or one of the words below.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import attrs
from loopback import Loopback


class Word(Enum):
    """What a server can do but send."""

    WAIT_FOR_CLIENT_TO_LEAVE = 1
    RESET = 2
    CLOSE = 3
    WAIT_FOR_GO = 4


LEAVE, RESET, CLOSE, GO = Word.WAIT_FOR_CLIENT_TO_LEAVE, Word.RESET, Word.CLOSE, Word.WAIT_FOR_GO

Answer: TypeAlias = Sequence["bytes | Word"]


@attrs.frozen
class Received:
    """One request as it came."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class OddServer(Loopback):
    """Answers as scripted. ``asked`` is set by a request, ``left`` when a client leaves while it should wait."""

    def __init__(self, *answers: Answer, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(port, tls)
        self.requests: list[Received] = []
        self.connections = 0
        self.left = asyncio.Event()
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self._answers = list(answers)

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self.asked.set()
                if not await self._answer(reader, writer):
                    break
        except ConnectionError:
            self.left.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for step in self._answers.pop(0):
            match step:
                case bytes():
                    writer.write(step)
                    await writer.drain()
                case Word.WAIT_FOR_CLIENT_TO_LEAVE:
                    await reader.read()
                    self.left.set()
                    return False
                case Word.WAIT_FOR_GO:
                    await self.go.wait()
                case Word.RESET:
                    writer.transport.abort()
                    return False
                case Word.CLOSE:
                    return False
        return True


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    return Received(head[0], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def answer(
    body: bytes | str, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "application/json"
) -> Answer:
    """Return a whole answer with a length."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join([*lines, "", ""]).encode() + data,)


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return *value* as a whole answer."""
    return answer(json.dumps(value), status, headers)


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    """Return *data* as one piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: object) -> bytes:
    """Return *value* as one server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def stream_answer(*data: bytes) -> Answer:
    """Return a chunked stream that sends each of *data* by itself and ends well."""
    return (STREAM_HEAD, *(http_chunk(piece) for piece in data), b"0\r\n\r\n")
