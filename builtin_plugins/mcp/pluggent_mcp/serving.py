"""This host as an MCP server: chosen tools, each call an ordinary operation under all policies.

Nothing is decided here: what a policy denies, asks about or takes out of a result it does below
``call_tool``. Which bytes go where is the business of serving_stdio and serving_http.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from pluggent_hookspecs import ConfigError, HostOperations, HostTool, PluggentError, ToolOutput

from pluggent_mcp.serving_content import result, tool
from pluggent_mcp.serving_settings import Serving

ORIGIN = "mcp"
NAME = "pluggent"
VERSION = "0.1"
CLAIMED = "claimed:"
"""How the principal of a call begins: what a client calls itself is its own word."""
OTHERS = "claimed:(others)"
MOST_CLIENTS = 16
"""Names of clients that are told apart; each has sessions of its own in the host."""
LONGEST_CLIENT = 64
WAITING_FOR_EACH = 4
"""Calls that may wait for each that may run."""
MOST_PROGRESS = 64
"""Steps of progress that wait for a client to read them; more are passed over."""
BUSY = -32_000

_Context = ServerRequestContext[Any, Any]
_LOG = logging.getLogger("pluggent.mcp.serve")


class Exported:
    """The tools that are offered, and the calls of them that run."""

    def __init__(self, operations: HostOperations, patterns: Sequence[str], settings: Serving) -> None:
        self._operations = operations
        self._patterns = tuple(patterns)
        self._offered: Mapping[str, HostTool] = {}
        self._clients: set[str] = set()
        self._running = asyncio.Semaphore(settings.max_calls)
        self._under_way = 0
        self._most = settings.max_calls * (1 + WAITING_FOR_EACH)

    @property
    def offered(self) -> Mapping[str, HostTool]:
        """The tools by name, as they were listed last."""
        return self._offered

    async def refresh(self) -> Mapping[str, HostTool]:
        """List the tools. Raises ConfigError for a pattern that means nothing, PluginError for a plugin that fails."""
        found = await self._operations.tools(*self._patterns)
        self._offered = {each.spec.name: each for each in found}
        return self._offered

    def server(self) -> Server[Any]:
        """Return what answers: one server for all clients."""
        return Server(
            NAME, version=VERSION, on_list_tools=self._list, on_call_tool=self._call,
            get_tool_input_schema=self._schema,
        )  # fmt: skip

    # ---- what clients ask ----------------------------------------------------------------

    async def _list(self, _: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            offered = await self.refresh()
        except PluggentError as error:
            raise MCPError(INTERNAL_ERROR, f"the tools cannot be listed: {error}") from error
        return ListToolsResult(tools=[tool(each) for each in offered.values()])

    async def _call(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in self._offered and params.name not in await self._refreshed():
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        if self._under_way >= self._most:
            raise MCPError(BUSY, f"{self._under_way} calls are under way or waiting already; try again later")
        self._under_way += 1
        try:
            async with self._running:
                output = await self._operated(context, params)
        finally:
            self._under_way -= 1
        return result(output, context.protocol_version)

    def _schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments: the SDK compares headers with it, and would list all tools."""
        found = self._offered.get(name)
        return None if found is None else tool(found).input_schema

    async def _refreshed(self) -> Mapping[str, HostTool]:
        try:
            return await self.refresh()
        except PluggentError as error:
            raise MCPError(INTERNAL_ERROR, f"the tools cannot be listed: {error}") from error

    async def _operated(self, context: _Context, params: CallToolRequestParams) -> ToolOutput:
        """Have the host run the call, telling the client how far it is."""
        steps: asyncio.Queue[tuple[float, float | None, str] | None] = asyncio.Queue(MOST_PROGRESS)

        def progressed(done: float, total: float | None, message: str) -> None:
            if not steps.full():
                steps.put_nowait((done, total, message))

        async def tell() -> None:
            while (step := await steps.get()) is not None:
                done, total, message = step
                await context.session.report_progress(done, total, message or None)

        call = self._operations.call_tool(
            params.name, params.arguments or {},
            origin=ORIGIN, principal=self._principal(context), on_progress=progressed,
        )  # fmt: skip
        async with AsyncExitStack() as stack:
            telling = asyncio.create_task(tell(), name="pluggent-mcp-progress")
            stack.push_async_callback(_ended, telling)
            output = await _finished(asyncio.create_task(_caught(call), name="pluggent-mcp-call"))
            # What was told before the end arrives before the answer.
            await steps.put(None)
            await telling
        return output

    def _principal(self, context: _Context) -> str:
        """Return who asks, by its own word; empty where it has not said."""
        params = context.session.client_params
        name = "".join(char for char in params.client_info.name if char.isprintable()) if params else ""
        if not name:
            return ""
        principal = f"{CLAIMED}{name[:LONGEST_CLIENT]}"
        if principal not in self._clients and len(self._clients) >= MOST_CLIENTS:
            return OTHERS
        self._clients.add(principal)
        return principal


async def _caught(call: Any) -> ToolOutput:
    try:
        output: ToolOutput = (await call).output
    except ConfigError as error:
        return ToolOutput.error(str(error))
    except PluggentError as error:
        return ToolOutput.error(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 (a fault of the host: what it says is for its log, not for a client)
        _LOG.exception("a call failed in the host")
        return ToolOutput.error("the call failed in the host; its log says why")
    return output


async def _finished(task: asyncio.Task[ToolOutput]) -> ToolOutput:
    """Wait for *task*. Who is cancelled cancels it, and waits for its end.

    The SDK cancels again and again until its scope is left, which would cut off what the host
    does at the end of a call. So the call has a task of its own, and the wait is shielded.
    """
    try:
        return await asyncio.shield(task)
    finally:
        await _ended(task)


async def _ended(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,))


def described(offered: Mapping[str, HostTool]) -> str:
    """Return what is offered, for whoever starts the server.

    >>> described({})
    'no tools'
    """
    if not offered:
        return "no tools"
    asking = [name for name, each in offered.items() if each.calls != "allow"]
    count = f"{len(offered)} tool{'s' * (len(offered) != 1)}"
    return f"{count}; of these ask, and are so denied here: {', '.join(sorted(asking))}" if asking else count
