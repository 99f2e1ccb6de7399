"""Starts a server once, apart from any host, to see what it is: how long it takes, and what it offers.

No tool of it is called, and nothing that it asks is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import attrs
from pluggent_hookspecs import ConfigError, ToolError

from pluggent_mcp.client.connection import Connection
from pluggent_mcp.client.offered import Offered, effects_of
from pluggent_mcp.commands.remarks import remarks
from pluggent_mcp.commands.trials import Shown, Trial
from pluggent_mcp.settings import Server

STOPPING_S = 0.5
"""To end after its input is closed, and again after SIGTERM."""
PIN = 16
"""Digits of a definition's digest."""
BELIEVED = Server(command="x", trusted=True)
"""One whose own word counts: so what a server says of a tool can be told."""


async def tried(name: str, server: Server) -> Trial:
    """Start *server*, shake hands, list its tools, and stop it."""
    with remarks(name) as collected:
        trial = await _tried(name, server)
    return attrs.evolve(trial, remarks=collected.said)


async def _tried(name: str, server: Server) -> Trial:
    # It has done nothing that it would have to bring to an end.
    connection = Connection(name, attrs.evolve(server, stop_timeout_s=min(server.stop_timeout_s, STOPPING_S)))
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
            tools={tool: _shown(offer) for tool, offer in sorted(life.offered.items())},
        )
    except (ToolError, ConfigError) as error:
        return Trial(name, str(error).removeprefix(f"MCP server '{name}': "))
    finally:
        await connection.aclose()


def _shown(offer: Offered) -> Shown:
    return Shown(effects_of(BELIEVED, offer.name, offer.hints), offer.digest[:PIN])


def _steps(began: float, reached: Mapping[str, float]) -> dict[str, float]:
    steps: dict[str, float] = {}
    for what, at in reached.items():
        steps[what] = round(at - began, 6)
        began = at
    return steps
