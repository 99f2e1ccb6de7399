"""Starts a server once, apart from any host, to see what it is: how long it takes, and what it offers.

No tool of it is called, and nothing that it asks is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import attrs
from pluggent_hookspecs import ConfigError, ToolError

from pluggent_mcp.connection import Connection
from pluggent_mcp.offered import Offered
from pluggent_mcp.settings import Server


@attrs.frozen
class Trial:
    """What came of it. ``problem`` is empty where it worked; what took how long, in seconds, as far as it came."""

    name: str
    problem: str = ""
    times_s: Mapping[str, float] = attrs.field(factory=dict[str, float])
    server: str = ""
    """What it calls itself."""
    protocol: str = ""
    offered: Mapping[str, Offered] = attrs.field(factory=dict[str, Offered])


async def tried(name: str, server: Server) -> Trial:
    """Start *server*, shake hands, list its tools, and stop it."""
    connection = Connection(name, server)
    began = asyncio.get_running_loop().time()
    try:
        life = await connection.life()
        client = life.client
        info = client.server_info
        return Trial(
            name,
            times_s=_steps(began, life.reached),
            server=f"{info.name} {info.version}".strip() if info else "",
            protocol=client.protocol_version,
            offered=life.offered,
        )
    except (ToolError, ConfigError) as error:
        return Trial(name, str(error).removeprefix(f"MCP server '{name}': "))
    finally:
        await connection.aclose()


def _steps(began: float, reached: Mapping[str, float]) -> dict[str, float]:
    steps: dict[str, float] = {}
    for what, at in reached.items():
        steps[what] = round(at - began, 6)
        began = at
    return steps
