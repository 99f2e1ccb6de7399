"""``pluggent mcp test``: starts servers concurrently and prints the results."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pluggent_mcp.commands.list import chosen
from pluggent_mcp.commands.output import cut, document, line, note, table
from pluggent_mcp.commands.server_check import ServerCheck, check_server
from pluggent_mcp.servers_file import entries_of
from pluggent_mcp.settings import Server, Settings

FAILED = 1
LONGEST_SERVER = 40
WHERE = "pluggent mcp test"
STEPS = ("started", "greeted", "listed")
COLUMNS = ("NAME", "RESULT", *(step.upper() for step in STEPS), "TOOLS", "PROTOCOL", "SERVER")


async def run(options: argparse.Namespace, settings: Settings) -> int:
    """Check the named servers, or all that are enabled. Raises ConfigError."""
    every, broken, _ = entries_of(settings)
    names = options.names or [name for name, server in every.items() if server.used]
    servers = {name: chosen(settings, name, WHERE) for name in names}
    checks = await _check_all(servers) if servers else ()
    if not options.names:
        checks = (*checks, *(ServerCheck(name, "; ".join(each.error.problems)) for name, each in broken.items()))
    if options.json:
        document({"servers": [_facts(check) for check in checks]})
    elif not checks:
        line("no servers are set; to add one: pluggent mcp add time -- mcp-server-time")
    else:
        table(COLUMNS, [_row(each) for each in checks])
        for check in checks:
            if check.problem:
                line(f"{check.name}: {check.problem}")
    for check in checks if not options.json else ():
        for remark in check.remarks:
            note(f"note: {remark}")
    return FAILED if any(check.problem for check in checks) else 0


async def _check_all(servers: Mapping[str, Server]) -> Sequence[ServerCheck]:
    return await asyncio.gather(*(check_server(name, server) for name, server in sorted(servers.items())))


def _row(check: ServerCheck) -> tuple[str, ...]:
    times = (check.times_s.get(step) for step in STEPS)
    told = ("" if time is None else f"{time:.2f} s" for time in times)
    count = "" if check.problem else str(len(check.tools))
    return (
        check.name,
        "failed" if check.problem else "well",
        *told,
        count,
        check.protocol,
        cut(check.server, LONGEST_SERVER),
    )


def _facts(check: ServerCheck) -> dict[str, Any]:
    return {
        "name": check.name,
        "problem": check.problem,
        "times_s": dict(check.times_s),
        "server": check.server,
        "protocol": check.protocol,
        "tools": sorted(check.tools),
        "remarks": list(check.remarks),
    }
