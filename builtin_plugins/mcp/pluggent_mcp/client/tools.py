"""Tools of a server as the host knows tools."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pluggent_hookspecs import Json, Tool, ToolContext, ToolOutput, ToolSpec

from pluggent_mcp.client.connection import Connection
from pluggent_mcp.client.resource_tools import server_tools
from pluggent_mcp.client.tool_list import ListedTool, effects_of, shown
from pluggent_mcp.settings import Server
from pluggent_mcp.tool_names import tool_name


async def tools_of(connection: Connection, prefix: str) -> list[Tool]:
    """Return the tools that *connection*'s server has now. Raises ToolError or ConfigError."""
    listed = await connection.listed_tools()
    running = await connection.running()
    tools: list[Tool] = [McpTool(connection, prefix, each) for each in listed.values()]
    tools += server_tools(connection, prefix, running.client.server_capabilities, set(listed))
    return tools


class McpTool:
    """One tool of one server, as it was defined when it was listed."""

    def __init__(self, connection: Connection, prefix: str, tool: ListedTool) -> None:
        self.spec = _spec(connection.name, connection.server, prefix, tool)
        self._connection = connection
        self._tool = tool

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        return await self._connection.call(self._tool, arguments, context)


def _spec(name: str, server: Server, prefix: str, tool: ListedTool) -> ToolSpec:
    believed = tool.hints if server.trusted else None
    return ToolSpec(
        name=tool_name(prefix, tool.name),
        description=attributed(name, tool.description),
        parameters=tool.schema,
        effects=effects_of(server, tool.name, tool.hints),
        tags=("mcp",),
        category="mcp",
        version=tool.digest[:16],
        timeout_s=server.call_timeout_s,
        result_schema=tool.result,
        idempotent=believed is not None and believed.idempotent_hint is True,
        # An approval is for this server, not for another one that gets its name later.
        extra={"mcp": {"server": name, "target": target(server)}},
    )


def attributed(server: str, text: str) -> str:
    """Return *text* attributed to the server."""
    return f"[MCP server {server}] {shown(text)}".rstrip()


def target(server: Server) -> str:
    """Return a digest of the URL or command of *server*."""
    place: list[Any] = [server.command, server.args, server.cwd, server.url]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:16]
