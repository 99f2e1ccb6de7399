"""What the host sees of this package: sources of tools, and a lifetime.

Light on purpose: no server is started and the SDK is not imported before tools are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from pluggent_hookspecs import PluginContext, ProvideEvent, hookimpl

from pluggent_mcp.naming import prefixes
from pluggent_mcp.reading import servers_of
from pluggent_mcp.settings import Settings as McpSettings
from pluggent_mcp.source import Source


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
        self._sources: tuple[Source, ...] | None = None

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Source]:
        """Return a source for each server that is switched on. Raises ConfigError for what cannot be one."""
        return self._made()

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Read the file that the settings name; stop every server at the end, side by side."""
        sources = self._made()
        try:
            yield
        finally:
            self._sources = None  # another host begins with servers of its own
            await asyncio.gather(*(source.aclose() for source in sources), return_exceptions=True)

    def _made(self) -> tuple[Source, ...]:
        if self._sources is None:
            servers = {name: server for name, server in servers_of(self._settings).items() if server.used}
            self._sources = tuple(
                Source(name, prefix, servers[name]) for name, prefix in sorted(prefixes(servers).items())
            )
        return self._sources
