"""Starts a server once, apart from any host: how long it takes, and which tools it lists.

No tool of it is called, and no request of it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import attrs
from pluggent_hookspecs import ConfigError, ToolError

from pluggent_mcp.commands.output import cut
from pluggent_mcp.settings import Server

STOPPING_S = 0.5
"""To end after its input is closed, and again after SIGTERM."""
PIN = 16
"""Digits of a definition's digest."""
BELIEVED = Server(command="x", trusted=True)
"""A trusted server, to get the effects that the hints of a tool declare."""


@attrs.frozen
class CheckedTool:
    """A listed tool: the effects that its hints declare, None without hints, and its pin."""

    effects: tuple[str, ...] | None
    pin: str


@attrs.frozen
class ServerCheck:
    """The result. ``problem`` is empty if it succeeded; ``times_s`` has the seconds of each completed step."""

    name: str
    problem: str = ""
    times_s: Mapping[str, float] = attrs.field(factory=dict[str, float])
    server: str = ""
    """Name and version that it declares."""
    protocol: str = ""
    tools: Mapping[str, CheckedTool] = attrs.field(factory=dict[str, CheckedTool])
    remarks: tuple[str, ...] = ()
    """Faults of its tools that cannot be mended here."""


async def check_server(name: str, server: Server) -> ServerCheck:
    """Start *server*, shake hands, list its tools, and stop it."""
    with remarks(name) as collected:
        check = await _checked(name, server)
    return attrs.evolve(check, remarks=collected.said)


async def _checked(name: str, server: Server) -> ServerCheck:
    # Not at the top: they import the SDK, which takes a second, and most commands start no server.
    from pluggent_mcp.client.connection import Connection
    from pluggent_mcp.client.tool_list import effects_of

    # It has no work to finish.
    connection = Connection(name, attrs.evolve(server, stop_timeout_s=min(server.stop_timeout_s, STOPPING_S)))
    began = asyncio.get_running_loop().time()
    try:
        running = await connection.running()
        client = running.client
        info = client.server_info
        return ServerCheck(
            name,
            times_s=_steps(began, running.step_times),
            server=f"{info.name} {info.version}".strip() if info else "",
            protocol=client.protocol_version,
            tools={
                tool: CheckedTool(effects_of(BELIEVED, offer.name, offer.hints), offer.digest[:PIN])
                for tool, offer in sorted(running.listed_tools.items())
            },
        )
    except (ToolError, ConfigError) as error:
        return ServerCheck(name, str(error).removeprefix(f"MCP server '{name}': "))
    finally:
        await connection.aclose()


def _steps(began: float, step_times: Mapping[str, float]) -> dict[str, float]:
    steps: dict[str, float] = {}
    for what, at in step_times.items():
        steps[what] = round(at - began, 6)
        began = at
    return steps


LONGEST = 300
"""Characters of a remark."""


class ServerRemarks(logging.Filter):
    """Collects INFO records, each once, and hides them from other handlers."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, None] = {}
        self._warned: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.levelno == logging.INFO:
            self._said[cut(" ".join(text.split()), LONGEST)] = None
            return False
        if record.levelno < logging.INFO:
            return True
        new = text not in self._warned
        self._warned.add(text)
        return new

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(self._said)


@contextmanager
def remarks(server: str) -> Generator[ServerRemarks]:
    """Collect the INFO records about *server* in this block: faults of its tools."""
    log = logging.getLogger(f"pluggent.mcp.{server}")
    collected = ServerRemarks()
    level = log.level
    log.addFilter(collected)
    if not log.isEnabledFor(logging.INFO):
        log.setLevel(logging.INFO)
    try:
        yield collected
    finally:
        log.setLevel(level)
        log.removeFilter(collected)
