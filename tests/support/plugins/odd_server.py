"""Servers on loopback: one that answers exactly as it is told, odd or broken, one with TLS, and a proxy.

``async with OddServer(answer, …) as server`` gives one answer for each request, in order;
an answer is a sequence of steps: bytes to send as they are, or one of the words below.
With it the reading of replies, as a host does from a provider.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import attrs
import pytest
from pluggent_hookspecs import ModelRequest, ModelResponse, Provider, ProviderError, Reply, Secret
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_testing.wires import WireServer


class Loopback:
    """A server for the length of a block; a subclass says in ``serve`` what a connection is given."""

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self._wanted = port
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._wanted, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one client; the connection is closed afterwards."""
        raise TypeError(f"{type(self).__name__} does not say what it answers: write serve(self, reader, writer)")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handlers.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            # Cancelled at the end of the block; a stream server of asyncio complains of handlers that are.
            with suppress(asyncio.CancelledError):
                await self.serve(reader, writer)
        finally:
            writer.close()


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
            while (request := await read_request(reader)) is not None:
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


async def read_request(reader: asyncio.StreamReader) -> Received | None:
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


@attrs.frozen
class Certificates:
    """A certificate authority of our own, and a server's certificate for 127.0.0.1 and model.test."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Make them in *folder*."""
        new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        may = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        openssl(folder, *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Our own", *may)
        openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "csr", "-subj", "/CN=x")
        # Python 3.13 and later want to know by which key a certificate was signed.
        keys = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid,issuer\n"
        (folder / "names").write_text(f"subjectAltName=DNS:model.test,IP:127.0.0.1\n{keys}")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        openssl(folder, "x509", "-req", "-in", "csr", "-out", "server.pem", *signing)
        (folder / "hashed").mkdir()
        digest = openssl(folder, "x509", "-hash", "-noout", "-in", "ca.pem").strip()
        shutil.copy(folder / "ca.pem", folder / "hashed" / f"{digest}.0")
        return cls(folder)

    @property
    def file(self) -> str:
        """What SSL_CERT_FILE names."""
        return str(self.folder / "ca.pem")

    @property
    def hashed(self) -> str:
        """What SSL_CERT_DIR names."""
        return str(self.folder / "hashed")

    def server(self) -> ssl.SSLContext:
        """Return what a server speaks TLS with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "key.pem")
        return context


def openssl(folder: Path, *words: str) -> str:
    """Run openssl in *folder* and return what it prints."""
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Proxy(Loopback):
    """Leads every request to *to* on loopback, whatever host it names; ``lines`` and ``headers`` tell what came.

    With *refusal* it answers that status line to everything.
    """

    def __init__(self, to: int, refusal: bytes = b"") -> None:
        super().__init__()
        self.lines: list[str] = []
        self.headers: list[str] = []
        self._to = to
        self._refusal = refusal

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            line, *headers = head.decode("latin-1").strip().split("\r\n")
            self.lines.append(line)
            self.headers += [header.lower() for header in headers]
            if self._refusal:
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self._refusal)
            else:
                await self._lead(head, reader, writer)

    async def _lead(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            to_server.write(head)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, to_server))
                group.create_task(_pump(from_server, writer))
        finally:
            to_server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


def read_all(reader: ReplyReader, *reads: bytes) -> list[Any]:
    """Return the deltas of a reply that came in these reads, or raise what went wrong."""
    found: list[Any] = []
    for data in reads:
        found += reader.feed(data)
        if reader.failure is not None:
            raise reader.failure
    if not reader.done:
        found += reader.end()
    if reader.failure is not None:
        raise reader.failure
    return found


def reply_in(reader: ReplyReader, *reads: bytes) -> ModelResponse:
    """Return the reply that came in these reads."""
    collected = Reply()
    collected.add(read_all(reader, *reads))
    return collected.response()


def failure_in(reader: ReplyReader, *reads: bytes) -> ProviderError:
    """Return what reading these raises."""
    with pytest.raises(ProviderError) as caught:
        read_all(reader, *reads)
    return caught.value


async def deltas_of(provider: Provider, asked: ModelRequest) -> list[Any]:
    """Return all deltas of a stream in a row."""
    stream: AsyncIterator[Sequence[Any]] = provider.stream(asked)
    return [delta async for batch in stream for delta in batch]


async def error_of(provider: Provider, asked: ModelRequest, *, stream: bool) -> ProviderError:
    """Ask *provider* and return the error that it raises."""
    with pytest.raises(ProviderError) as caught:
        await (deltas_of(provider, asked) if stream else provider.complete(asked))
    return caught.value


async def leave_early(server: OddServer, provider: Provider, asked: ModelRequest, *, stream: bool) -> None:
    """Cancel a call while *server* answers, and wait until that has seen its client leave."""
    task = asyncio.ensure_future(deltas_of(provider, asked) if stream else provider.complete(asked))
    await server.asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.left.wait()


def settings_for(server: WireServer) -> dict[str, Any]:
    """Return where *server* is, its key, and its limits."""
    return {
        "base_url": server.url,
        "api_key": Secret.of(server.key),
        "connect_s": server.patience_s,
        "first_byte_s": server.patience_s,
        "silence_s": server.patience_s,
        "max_response_bytes": server.max_bytes,
    }
