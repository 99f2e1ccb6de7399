"""No way to a resource that ``pluggent mcp serve`` serves as such goes round a policy."""

from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_paths import Peer, alone
from pluggent_cli.command_host import CommandHost
from pluggent_mcp.serving.server import HostServer
from pluggent_mcp.serving.settings import Serving
from pluggent_testing.paths import EntryPath, PathMatrix
from pluggent_testing.paths.operations import TOOL

PEER = Peer()
LENT = ("HostOperations.tools", "HostOperations.call_tool")


async def read(client):
    """Return what a client is told of a resource, be it that there is nothing for it."""
    try:
        return await client.read_resource("probe://mark-one")
    except MCPError as error:
        return str(error)


async def reading(on):
    """Be a client that reads a resource. (A prompt goes the same way, behind the list in which it stands.)"""
    async with AsyncExitStack() as stack:
        operations = CommandHost(lambda: on.opener.open_host(**on.options))
        stack.push_async_callback(operations.aclose)
        exported = HostServer(operations, (), Serving(), resources=("mcp",))
        client = await stack.enter_async_context(Client(exported.server()))
        await on.enter(read(client))


PATHS = (
    EntryPath("mcp-served-resource", LENT, {"mcp": (TOOL,)}, reading, plugins=PEER.watched, opens=True),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def listening() -> Iterator[None]:
    with PEER.listening():
        yield


class TestServed(PathMatrix):
    """A host whose one installed plugin is this one, with a server that has one of everything."""

    paths = PATHS

    def composition(self):
        server = {"url": PEER.url, "effects": {"*": []}, "resources": True}
        settings = {"pluggent-mcp": {"mcpServers": {"srv": server}}}
        return {"installed": alone(), "settings": settings, "tools": ["mcp"]}
