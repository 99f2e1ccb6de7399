"""A server of the SDK whose resources change when a tool is called; clients of every protocol may subscribe to them.

As a program, over stdin and stdout: python mcp_changing.py [silent | breaking]
silent: no subscription is ever confirmed; breaking: a stream of events breaks off at the first change.
"""

import asyncio
import json
import sys
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    EmptyResult,
    ListResourcesResult,
    ListToolsResult,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
)

URIS = [f"notes://{number}" for number in range(80)]


class Notes:
    """Notes that count how often they have changed."""

    def __init__(self) -> None:
        self.changes = 0
        self.changed = asyncio.Event()
        self.bus = InMemorySubscriptionBus()
        self.subscribed: dict[str, ServerSession] = {}
        self.unsubscribed: list[str] = []

    def server(self) -> Server[Any]:
        """Return the server."""
        return Server(
            "notes", on_list_tools=self.list_tools, on_call_tool=self.call, on_list_resources=self.list,
            on_read_resource=self.read, on_subscribe_resource=self.subscribe, on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=self.listen,
        )  # fmt: skip

    async def listen(self, context: Any, params: Any) -> Any:
        """Send changes."""
        if "silent" in sys.argv:
            await asyncio.Event().wait()
        streaming = asyncio.create_task(ListenHandler(self.bus)(context, params))
        if "breaking" in sys.argv:
            await self.changed.wait()
            streaming.cancel()
            raise MCPError(INTERNAL_ERROR, "the disk is gone")
        return await streaming

    async def list_tools(self, context: Any, params: Any) -> ListToolsResult:
        """List."""
        names = ("change", "counts")
        return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in names])

    async def call(self, context: Any, params: Any) -> CallToolResult:
        """Change the note in the arguments, or count."""
        if params.name == "change":
            uri = params.arguments["uri"]
            self.changes += 1
            self.changed.set()
            await self.bus.publish(ResourceUpdated(uri))
            if uri in self.subscribed:
                await self.subscribed[uri].send_resource_updated(uri)
        said = json.dumps([self.changes, [*self.subscribed], self.unsubscribed])
        return CallToolResult(content=[TextContent(text=said)])

    async def list(self, context: Any, params: Any) -> ListResourcesResult:
        """List."""
        return ListResourcesResult(resources=[Resource(uri=uri, name=uri) for uri in URIS])

    async def read(self, context: Any, params: Any) -> ReadResourceResult:
        """Read."""
        return ReadResourceResult(contents=[TextResourceContents(uri=str(params.uri), text=f"changed {self.changes}")])

    async def subscribe(self, context: Any, params: Any) -> EmptyResult:
        """Subscribe."""
        if str(params.uri) not in URIS:
            raise MCPError(INVALID_PARAMS, "no such note")
        self.subscribed[str(params.uri)] = context.session
        return EmptyResult()

    async def unsubscribe(self, context: Any, params: Any) -> EmptyResult:
        """Unsubscribe."""
        del self.subscribed[str(params.uri)]
        self.unsubscribed.append(str(params.uri))
        return EmptyResult()


async def main() -> None:
    """Serve."""
    server = Notes().server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
