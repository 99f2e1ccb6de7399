"""An MCP server to stand behind ``pluggent mcp serve``: resources and prompts of every sort.

As a program over stdin and stdout: python mcp_serving_behind.py NAME SECRET
"""

import base64
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def made(name: str, secret: str) -> MCPServer[Any]:
    """Return the server *name*, which gives *secret* away."""
    server: MCPServer[Any] = MCPServer(name, log_level="CRITICAL")
    _add_resources(server, name, secret)
    _add_prompts(server, secret)
    return server


def _add_resources(server: MCPServer[Any], name: str, secret: str) -> None:
    @server.resource("notes://shared", description="What each of them has.")
    def shared() -> str:
        return f"of {name}"

    @server.resource(f"{name}://page", mime_type="text/html")
    def page() -> str:
        return "<p>one\n</p>\n"

    @server.resource(f"{name}://dot", mime_type="image/png")
    def dot() -> bytes:
        return base64.b64decode(DOT)

    @server.resource(f"{name}://table", mime_type="text/csv")
    def table() -> bytes:
        return f"key;{secret}".encode()

    @server.resource(f"{name}://zip", mime_type="application/zip")
    def archive() -> bytes:
        return b"PK\x03\x04\xff"

    @server.resource(f"{name}://leak")
    def leak() -> str:
        return f"the key is {secret}"

    @server.resource(f"{name}://rooms/{{room}}/doors/{{door}}")
    def door(room: str, door: str) -> str:
        return f"door {door} of {room}"


def _add_prompts(server: MCPServer[Any], secret: str) -> None:
    @server.prompt(description="How to greet.")
    def greet(who: str, how: str = "friendly") -> str:
        return f"Greet {who}, {how}."

    @server.prompt(title="A talk")
    def talk() -> list[Message]:
        """Talk of many things."""
        return [
            UserMessage(TextContent(text="What is it?")),
            AssistantMessage(ImageContent(data=DOT, mime_type="image/png")),
            UserMessage(EmbeddedResource(resource=TextResourceContents(uri="a://b", mime_type="text/x", text="in it"))),
            AssistantMessage(ResourceLink(uri="c://d", name='a "link"', mime_type="text/y")),
            UserMessage(TextContent(text="What is it?\n")),
        ]

    @server.prompt()
    def secretive() -> list[Message]:
        """Give a secret away."""
        return [AssistantMessage(TextContent(text=f"the key is {secret}"))]


def told(name: str, secret: str, *, wanted: bool = True) -> str:
    """Return the settings of this server as TOML; it says what it does of itself, and *wanted* switches it on."""
    switch = str(wanted).lower()
    return (
        f"\n[plugins.pluggent-mcp.mcpServers.{name}]\ncommand = {sys.executable!r}\n"
        f"args = [{str(Path(__file__))!r}, {name!r}, {secret!r}]\nresources = {switch}\nprompts = {switch}\n"
    )


if __name__ == "__main__":
    made(*sys.argv[1:]).run("stdio")
