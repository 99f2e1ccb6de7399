"""Sessions of a host in which the installed MCP plugin has servers."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pluggent_host import Host
from pluggent_host.session import Session


@asynccontextmanager
async def talking(
    servers: Mapping[str, Mapping[str, Any]], tool: str = "mcp", *, id: str = "", **options: Any
) -> AsyncGenerator[Session]:
    """Open a host in which the installed plugin has *servers*, and a session with their tools."""
    settings = {"pluggent-mcp": {"mcpServers": servers}}
    async with Host.open(settings=settings, tools=[tool], **options) as host, await host.session(id) as session:
        yield session
