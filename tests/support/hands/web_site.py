"""A web site on this machine whose answers are bytes, well formed or not; and a host that fetches from it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
from pluggent_hookspecs import ToolOutput
from pluggent_host import Host
from pluggent_host.assembly import Approver
from pluggent_host.session import Session
from pluggent_testing.fakes import ScriptedModel
from pluggent_web.plugin import Web
from pluggent_web.settings import WebSettings

Handler: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]
Pages: TypeAlias = Mapping[str, bytes | Handler]


def answer(body: bytes | str = b"", status: str = "200 OK", /, **headers: str) -> bytes:
    """Return an HTTP answer; the names of *headers* have an underscore for a hyphen."""
    content = body.encode() if isinstance(body, str) else body
    given = {"content-length": str(len(content))} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + content


def html(body: str, title: str = "A title") -> bytes:
    """Return an answer with a whole page."""
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return answer(page, content_type="text/html; charset=utf-8")


def redirect(to: str, status: str = "302 Found") -> bytes:
    """Return an answer that leads elsewhere."""
    return answer(b"", status, location=to)


@attrs.frozen
class Site:
    """What was asked of a site: the first line and the headers of each request."""

    port: int
    requests: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        """Return the paths that were asked for."""
        return [request.split(" ", 2)[1] for request in self.requests]


@asynccontextmanager
async def site(pages: Pages, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Site]:
    """Serve *pages*, bytes or what writes them; what is not among them is answered with 404."""
    requests: list[str] = []
    serving: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            requests.append(head)
            page = pages.get(head.split(" ", 2)[1], answer(b"", "404 Not Found"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # cancelled at the end alone; a task that streams made may not end so (3.11)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield Site(server.sockets[0].getsockname()[1], requests)
    finally:
        server.close()
        for task in [*serving]:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()


@attrs.frozen
class Visitor:
    """A session that has ``fetch_url``."""

    host: Host
    session: Session

    async def fetch(self, url: str, **arguments: Any) -> ToolOutput:
        """Return the result of a call, under all policies."""
        return await self.session.call_tool("fetch_url", {"url": url, **arguments})

    async def read(self, url: str, **arguments: Any) -> str:
        """Return the text of a call that succeeds."""
        output = await self.fetch(url, **arguments)
        assert not output.is_error, output.for_model
        assert isinstance(output.for_model, str)
        return output.for_model

    async def refused(self, url: str, **arguments: Any) -> str:
        """Return the words of a call that fails."""
        output = await self.fetch(url, **arguments)
        assert output.is_error, output.for_model
        assert isinstance(output.for_model, str)
        return output.for_model


class Names:
    """Looks names up in a table; a list says something else each time, its last item from then on."""

    def __init__(self, table: Mapping[str, tuple[str, ...] | list[tuple[str, ...]]]) -> None:
        self._table = {name: [*found] if isinstance(found, list) else [found] for name, found in table.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        answers = self._table.get(host, [()])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@asynccontextmanager
async def visitor(
    *, plugins: Iterable[object] = (), names: Names | None = None, approver: Approver | None = None, **settings: Any
) -> AsyncGenerator[Visitor]:
    """Open a host with the plugin; without other *settings* it may fetch from 127.0.0.1."""
    given: dict[str, Any] = {"allow_private": ("127.0.0.1",), **settings}
    web = Web(WebSettings(**given), resolver=names)
    async with (
        Host.open(
            model="scripted/m", plugins=[web, ScriptedModel("a"), *plugins], installed=False, approver=approver
        ) as host,
        await host.session() as session,
    ):
        yield Visitor(host, session)
