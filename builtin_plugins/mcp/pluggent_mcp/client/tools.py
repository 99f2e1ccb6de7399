"""Tools of a server as the host knows tools."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pluggent_hookspecs import Json, Tool, ToolContext, ToolOutput, ToolSpec

from pluggent_mcp.client.connection import Connection
from pluggent_mcp.client.offered import Offered, effects_of, shown
from pluggent_mcp.client.resources import server_tools
from pluggent_mcp.naming import tool_name
from pluggent_mcp.settings import Server


async def tools_of(connection: Connection, prefix: str) -> list[Tool]:
    """Return the tools that *connection*'s server has now. Raises ToolError or ConfigError."""
    offered = await connection.offered()
    life = await connection.life()
    tools: list[Tool] = [McpTool(connection, prefix, each) for each in offered.values()]
    tools += server_tools(connection, prefix, life.client.server_capabilities, set(offered))
    return tools


class McpTool:
    """One tool of one server, as it was defined when it was listed."""

    def __init__(self, connection: Connection, prefix: str, offered: Offered) -> None:
        self.spec = _spec(connection.name, connection.server, prefix, offered)
        self._connection = connection
        self._offered = offered

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        return await self._connection.call(self._offered, arguments, context)


def _spec(name: str, server: Server, prefix: str, offered: Offered) -> ToolSpec:
    believed = offered.hints if server.trusted else None
    return ToolSpec(
        name=tool_name(prefix, offered.name),
        description=attributed(name, offered.description),
        parameters=offered.schema,
        effects=effects_of(server, offered.name, offered.hints),
        tags=("mcp",),
        category="mcp",
        version=offered.digest[:16],
        timeout_s=server.call_timeout_s,
        result_schema=offered.result,
        idempotent=believed is not None and believed.idempotent_hint is True,
        # An approval is one for this server, not for what bears its name tomorrow.
        extra={"mcp": {"server": name, "target": target(server)}},
    )


def attributed(server: str, text: str) -> str:
    """Return *text* as what it is: the server's word."""
    return f"[MCP server {server}] {shown(text)}".rstrip()


def target(server: Server) -> str:
    """Return a digest of where *server* is, or of what starts it."""
    place: list[Any] = [server.command, server.args, server.cwd, server.url]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:16]
