"""The plugin: a source of tools for each server. Entry point ``mcp``.

Light on purpose: no server is started and the SDK is not imported before tools are requested.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from pluggent_hookspecs import PluginContext, ProvideEvent, Tool, ToolError, hookimpl

from pluggent_mcp.servers_file import Broken, entries_of
from pluggent_mcp.settings import Server, Settings as McpSettings
from pluggent_mcp.tool_names import SEPARATOR, prefixes

if TYPE_CHECKING:  # it imports the SDK, a second
    from pluggent_mcp.client.connection import Connection
    from pluggent_mcp.client.process import Guard


class Mcp:
    """The plugin behind the entry point ``mcp``: a source of tools for each server.

    >>> from pluggent_mcp.settings import Server
    >>> plugin = Mcp(Mcp.Settings(mcpServers={"time": Server(command="mcp-server-time")}))
    >>> [source.prefix for source in plugin.provide_tools(None)]
    ['time__']
    """

    Settings = McpSettings

    def __init__(self, settings: McpSettings | None = None) -> None:
        self._settings = McpSettings() if settings is None else settings
        self._sources: tuple[Source | BrokenSource, ...] | None = None

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Source | BrokenSource]:
        """Return a source for each enabled server, and one that fails for each broken entry of a file.

        Raises ConfigError for invalid settings.
        """
        return self._made()

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Read the file of the settings; stop all servers concurrently at the end."""
        sources = self._made()
        try:
            yield
        finally:
            self._sources = None  # the next host starts its own servers
            await asyncio.gather(*(source.aclose() for source in sources), return_exceptions=True)

    def _made(self) -> tuple[Source | BrokenSource, ...]:
        if self._sources is None:
            entries = entries_of(self._settings)
            guard = functools.cache(_new_guard)  # one for all servers
            servers = {name: server for name, server in entries.servers.items() if server.used}
            self._sources = (
                *(Source(name, prefix, servers[name], guard) for name, prefix in sorted(prefixes(servers).items())),
                *(BrokenSource(name, broken) for name, broken in sorted(entries.broken.items())),
            )
        return self._sources


class Source:
    """The tools of one server. Implements ToolSource."""

    def __init__(self, name: str, prefix: str, server: Server, guard: Callable[[], Guard]) -> None:
        self.name = name
        self.prefix = f"{prefix}{SEPARATOR}"
        self.required = server.required
        self._short = prefix
        self._server = server
        self._guard = guard
        self._connection: Connection | None = None
        self._closed = False

    @property
    def revision(self) -> int | None:
        """Incremented with each change; None, so that the next session tries again, if the server has never started."""
        if self._connection is None:
            return 0
        return None if self._connection.missing else self._connection.revision

    async def tools(self) -> Iterable[Tool]:
        """Start the server if needed. Raises ToolError with the reason of a failure, ConfigError for its settings."""
        connecting = await asyncio.to_thread(_tools)
        if self._closed:
            raise ToolError(f"MCP server '{self.name}' is closed")
        if self._connection is None:
            self._connection = connecting.Connection(self.name, self._server, self._guard())
        tools: list[Tool] = await connecting.tools_of(self._connection, self._short)
        return tools

    async def aclose(self) -> None:
        """Stop the server, for good."""
        self._closed = True
        if self._connection is not None:
            await self._connection.aclose()


class BrokenSource:
    """An entry of a file that is not a server: it fails, and the others go on. Implements ToolSource."""

    prefix = ""
    """What its tools would be called is unknown, so it fails whatever tools are wanted."""
    revision = 0

    def __init__(self, name: str, broken: Broken) -> None:
        self.name = name
        self.required = broken.required
        self._error = broken.error

    async def tools(self) -> Iterable[Tool]:
        """Raise ConfigError."""
        raise self._error

    async def aclose(self) -> None:
        """Do nothing: nothing runs."""


def _new_guard() -> Guard:
    from pluggent_mcp.client.process import Guard  # imported with the tools, see below

    return Guard()


def _tools() -> ModuleType:
    # Imported here, in a thread: it takes about a second and would block the loop.
    from pluggent_mcp.client import tools

    return tools
