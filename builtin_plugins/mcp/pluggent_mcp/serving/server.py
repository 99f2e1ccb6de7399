"""This host as an MCP server: chosen tools, resources and prompts, each use of one an operation under all policies.

Policies apply below ``call_tool``; nothing is decided here. The transports are stdio_server and http_server.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
)
from pluggent_hookspecs import HostOperations, PluggentError

from pluggent_mcp.serving.calls import Calls
from pluggent_mcp.serving.content import input_schema, result, tool
from pluggent_mcp.serving.exchanges import Context, Exchanges
from pluggent_mcp.serving.notifications import ChangeNotifier
from pluggent_mcp.serving.selection import Selection, Source, Wanted, select
from pluggent_mcp.serving.settings import Serving
from pluggent_mcp.serving.sources.completion import Announced, Completions
from pluggent_mcp.serving.sources.resources_and_prompts import Prompts, Resources
from pluggent_mcp.serving.sources.subscriptions import Subscriptions

NAME = "pluggent"
VERSION = "0.1"
TRACING = "opentelemetry.sdk"
"""The module without which no exporter receives the spans that the SDK makes of each request."""
LOOK_S = 1.0
"""The least time between two lists of the export."""
_LOG = logging.getLogger("pluggent.mcp.serve")


class _Server(Server[Any]):
    """The server of the SDK; it declares list changes to clients of the older protocols, too."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changing, experimental_capabilities, extensions)


class HostServer:
    """The exported tools, resources and prompts, and their running calls."""

    def __init__(
        self,
        operations: HostOperations,
        tools: Sequence[str],
        settings: Serving,
        *,
        resources: Sequence[str] = (),
        prompts: Sequence[str] = (),
    ) -> None:
        self._operations = operations
        self._wanted = Wanted(tuple(tools), tuple(resources), tuple(prompts))
        self._calls = Calls(operations, settings)
        self._change_notifier = ChangeNotifier()
        self._exchanges = Exchanges()
        self._subscriptions: Subscriptions | None = None
        self._selection = Selection()
        self._listed = asyncio.Event()

    @property
    def selection(self) -> Selection:
        """What is offered, as it was listed last."""
        return self._selection

    async def refresh(self) -> Selection:
        """List what is offered. Raises ConfigError for patterns that mean nothing, PluginError for a failing plugin."""
        before, self._selection = self._selection, await select(self._operations, self._wanted)
        if self._listed.is_set():
            await self._change_notifier.publish(before, self._selection)
        self._listed.set()
        return self._selection

    async def follow(self) -> None:
        """Follow changes of the export until cancelled, and notify clients."""
        while True:
            await self._operations.changed()
            try:
                await self.refresh()
            except PluggentError as error:
                _LOG.warning("what is offered cannot be listed any more: %s", error)
            await asyncio.sleep(LOOK_S)

    async def aclose(self) -> None:
        """End the exchanges that wait for clients, and their subscriptions."""
        if self._subscriptions is not None:
            await self._subscriptions.aclose()
        await self._exchanges.aclose()

    def server(self) -> Server[Any]:
        """Return the server for all clients, with the selected capabilities only."""
        handlers: dict[str, Any] = {}
        if self._wanted.tools:
            handlers |= {
                "on_list_tools": self._list, "on_call_tool": self._call, "get_tool_input_schema": self._schema
            }  # fmt: skip
        resources = Resources(self._calls, self._resources) if self._wanted.resources else None
        prompts = Prompts(self._calls, self._prompts) if self._wanted.prompts else None
        handlers |= {} if resources is None else resources.handlers()
        handlers |= {} if prompts is None else prompts.handlers()
        completes = resources is not None or prompts is not None
        if completes:
            handlers["on_completion"] = Completions(self._calls, resources, prompts).complete
        self._subscriptions = subscriptions = Subscriptions(self._calls, resources, self._change_notifier.bus)
        if resources is not None:
            handlers["on_subscribe_resource"] = subscriptions.subscribe
            handlers["on_unsubscribe_resource"] = subscriptions.unsubscribe
        server = _Server(NAME, version=VERSION, on_subscriptions_listen=subscriptions.listen, **handlers)
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._calls.levels.set)
        server.add_notification_handler(
            "notifications/initialized", NotificationParams, self._change_notifier.add_client
        )
        server.add_notification_handler("notifications/roots/list_changed", NotificationParams, self._calls.note_roots)
        if TRACING not in sys.modules:
            # Its spans go nowhere then, and cost as much as the checks of a request.
            server.middleware.clear()
        server.middleware.append(self._exchanges)
        if completes:
            server.middleware.append(Announced(self._listed, lambda: self._selection))
        return server

    # ---- handlers ------------------------------------------------------------------------

    async def _list(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        offered = (await self._refreshed()).tools.values()
        return ListToolsResult(tools=[tool(each, context.protocol_version) for each in offered])

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in self._selection.tools and params.name not in (await self._refreshed()).tools:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        output = await self._calls.run(context, params.name, params.arguments or {})
        offered = self._selection.tools.get(params.name)
        return result(output, context.protocol_version, None if offered is None else offered.spec)

    def _schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments: the SDK compares headers with it, and would list all tools."""
        found = self._selection.tools.get(name)
        return None if found is None else input_schema(found.spec)

    async def _resources(self) -> tuple[Source, ...]:
        return (await self._refreshed()).resources

    async def _prompts(self) -> tuple[Source, ...]:
        return (await self._refreshed()).prompts

    async def _refreshed(self) -> Selection:
        try:
            return await self.refresh()
        except PluggentError as error:
            raise MCPError(INTERNAL_ERROR, f"what is offered cannot be listed: {error}") from error


def described(selection: Selection) -> str:
    """Return a summary of the export, for the operator.

    >>> described(Selection())
    'no tools'
    >>> described(Selection(prompts=(Source("acme", "", "list_prompts", "get_prompt"),)))
    'prompts of 1 source'
    """
    counts = [_count(len(selection.tools), "tool")] if selection.tools else []
    for sort, sources in (("resources", selection.resources), ("prompts", selection.prompts)):
        counts += [f"{sort} of {_count(len(sources), 'source')}"] if sources else []
    offered = ", ".join(counts) or "no tools"
    asking = sorted(name for name, each in selection.tools.items() if each.calls != "allow")
    return f"{offered}; of these need approval: {', '.join(asking)}" if asking else offered


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
