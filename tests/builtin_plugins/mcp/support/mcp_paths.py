"""What the path matrix goes over MCP with: a server that notes what it did, and ways through it and to ours."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from functools import cache
from typing import Any

import mcp_types as t
from mcp.client.client import Client
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import ServerMessageMetadata
from mcp_sdk import WAIT_S, Telling
from mcp_types.version import LATEST_MODERN_VERSION
from pluggent_cli.command_host import CommandHost
from pluggent_host import Host, Session
from pluggent_mcp.serving.server import HostServer
from pluggent_mcp.serving.settings import Serving
from pluggent_plugin_loader.discovery import Discovery, discover
from pluggent_testing.paths.stage import Log, Stage

Asking = Context[Any, Any]
TOWN: dict[str, Any] = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
PERSON = t.ElicitRequest(params=t.ElicitRequestFormParams(message="which town?", requested_schema=TOWN))
MODEL = t.CreateMessageRequest(
    params=t.CreateMessageRequestParams(
        messages=[t.SamplingMessage(role="user", content=t.TextContent(text="a question"))], max_tokens=9
    )
)


class Peer:
    """A server over HTTP. What it does is noted in the log of the path that is gone."""

    def __init__(self) -> None:
        self.url = ""
        self.log = Log()

    def watched(self, log: Log) -> tuple[object, ...]:
        """Note in *log* from now on. It is what a path wants plugins from, and adds none."""
        self.log = log
        return ()

    def ran(self, mark: str) -> str:
        """Note that something was done, and return what came of it."""
        self.log.note("ran", mark)
        return f"result-{mark}"

    @contextmanager
    def listening(self) -> Generator[None]:
        """Serve on a port of its own, in a thread."""
        server = Telling(self.made().streamable_http_app())
        with socket.socket(proto=socket.IPPROTO_TCP) as bound:  # else asyncio leaves Nagle on: 40 ms an answer
            bound.bind(("127.0.0.1", 0))
            thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), name="mcp-paths")
            thread.start()
            try:
                assert server.up.wait(WAIT_S), "the server did not get up"
                self.url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
                yield
            finally:
                server.should_exit = True
                thread.join(WAIT_S)

    def made(self) -> MCPServer[Any]:
        """Return a server that has one of everything."""
        server: MCPServer[Any] = MCPServer("paths", log_level="CRITICAL")

        @server.tool()
        def probe(mark: str) -> str:
            return self.ran(mark)

        @server.resource("probe://{mark}")
        def read(mark: str) -> str:
            return self.ran(mark)

        @server.prompt("probe")
        def prompt(mark: str) -> str:
            return self.ran(mark)

        @server.tool()
        async def sample(mark: str, ctx: Asking) -> Any:
            return await self.asked(mark, ctx, MODEL, t.CreateMessageResult)

        @server.tool()
        async def ask(mark: str, ctx: Asking) -> Any:
            return await self.asked(mark, ctx, PERSON, t.ElicitResult)

        return server

    async def asked(self, mark: str, ctx: Asking, request: Any, result: type[Any]) -> Any:
        """Ask back during a call, as the protocol has it that is spoken; note what was told."""
        modern, given = ctx.protocol_version == LATEST_MODERN_VERSION, ctx.input_responses
        if not given:
            self.ran(mark)
        if modern and not given:
            return t.InputRequiredResult(input_requests={"one": request})
        if given:
            answer: Any = given["one"]
        else:
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            answer = await ctx.session.send_request(request, result, metadata=related)
        self.log.note("told", answer)
        return f"result-{mark}"


# ---- ways --------------------------------------------------------------------------------


def calling(tool: str, **arguments: Any) -> Callable[[Stage, Host], Coroutine[Any, Any, None]]:
    """Return the way of a tool of the server that is called by hand."""

    async def way(on: Stage, host: Host) -> None:
        session: Session
        async with await host.session() as session:
            await on.enter(session.call_tool(f"srv__{tool}", arguments))

    return way


def exported(tool: str, mark: str = "one") -> Callable[[Stage], Coroutine[Any, Any, None]]:
    """Return the way of a client that calls what ``pluggent mcp serve`` offers."""

    async def way(on: Stage) -> None:
        async with AsyncExitStack() as stack:
            operations = CommandHost(lambda: on.opener.open_host(**on.options))
            stack.push_async_callback(operations.aclose)
            served = HostServer(operations, [tool], Serving()).server()
            client = await stack.enter_async_context(Client(served))
            await on.enter(client.call_tool(tool, {"mark": f"mark-{mark}"}))

    return way


@cache
def alone() -> Discovery:
    """Return what is installed, as if it were the MCP plugin alone."""
    (found,) = (each for each in discover().distributions if each.name == "pluggent-mcp")
    return Discovery((found,))
