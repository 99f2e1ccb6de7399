"""The tools of one server, for the host. Light: the SDK is imported when a server is started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from pluggent_hookspecs import Tool, ToolError

from pluggent_mcp.naming import SEPARATOR
from pluggent_mcp.settings import Server

if TYPE_CHECKING:  # it brings the SDK along, a second
    from pluggent_mcp.client.connection import Connection


class Source:
    """Knows its tools once the server is there. Its attributes are those of ToolSource."""

    def __init__(self, name: str, prefix: str, server: Server) -> None:
        self.name = name
        self.prefix = f"{prefix}{SEPARATOR}"
        self.required = server.required
        self._short = prefix
        self._server = server
        self._connection: Connection | None = None
        self._closed = False

    @property
    def revision(self) -> int | None:
        """Grows with each change; None, so that the next session asks again, while the server was never there."""
        if self._connection is None:
            return 0
        return None if self._connection.missing else self._connection.revision

    async def tools(self) -> Iterable[Tool]:
        """Start the server if need be. Raises ToolError saying why it cannot be used, ConfigError for its settings."""
        connecting = await asyncio.to_thread(_tools)
        if self._closed:
            raise ToolError(f"MCP server '{self.name}' is closed")
        if self._connection is None:
            self._connection = connecting.Connection(self.name, self._server)
        tools: list[Tool] = await connecting.tools_of(self._connection, self._short)
        return tools

    async def aclose(self) -> None:
        """Stop the server, for good."""
        self._closed = True
        if self._connection is not None:
            await self._connection.aclose()


def _tools() -> ModuleType:
    # Inside, and in a thread: it takes about a second, and the loop has other things to do.
    from pluggent_mcp.client import tools

    return tools
