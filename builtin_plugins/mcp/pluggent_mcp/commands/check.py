"""``pluggent mcp test``: starts servers, side by side, and says how that went."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pluggent_mcp.commands.list import chosen
from pluggent_mcp.commands.printing import cut, document, line, note, table
from pluggent_mcp.commands.trials import Trial
from pluggent_mcp.reading import servers_of
from pluggent_mcp.settings import Server, Settings

FAILED = 1
LONGEST_SERVER = 40
WHERE = "pluggent mcp test"
STEPS = ("started", "greeted", "listed")
COLUMNS = ("NAME", "RESULT", *(step.upper() for step in STEPS), "TOOLS", "PROTOCOL", "SERVER")


async def run(options: argparse.Namespace, settings: Settings) -> int:
    """Try the servers that were named, or all that are switched on. Raises ConfigError."""
    names = options.names or [name for name, server in servers_of(settings).items() if server.used]
    servers = {name: chosen(settings, name, WHERE) for name in names}
    trials = await _tried(servers) if servers else ()
    if options.json:
        document({"servers": [_facts(trial) for trial in trials]})
    elif not trials:
        line("no servers are set; to add one: pluggent mcp add time -- mcp-server-time")
    else:
        table(COLUMNS, [_row(each) for each in trials])
        for trial in trials:
            if trial.problem:
                line(f"{trial.name}: {trial.problem}")
    for trial in trials if not options.json else ():
        for remark in trial.remarks:
            note(f"note: {remark}")
    return FAILED if any(trial.problem for trial in trials) else 0


async def _tried(servers: Mapping[str, Server]) -> Sequence[Trial]:
    from pluggent_mcp.commands.trying import tried  # the SDK, a second: not where nothing is started

    return await asyncio.gather(*(tried(name, server) for name, server in sorted(servers.items())))


def _row(trial: Trial) -> tuple[str, ...]:
    times = (trial.times_s.get(step) for step in STEPS)
    told = ("" if time is None else f"{time:.2f} s" for time in times)
    count = "" if trial.problem else str(len(trial.tools))
    return (
        trial.name,
        "failed" if trial.problem else "well",
        *told,
        count,
        trial.protocol,
        cut(trial.server, LONGEST_SERVER),
    )


def _facts(trial: Trial) -> dict[str, Any]:
    return {
        "name": trial.name,
        "problem": trial.problem,
        "times_s": dict(trial.times_s),
        "server": trial.server,
        "protocol": trial.protocol,
        "tools": sorted(trial.tools),
        "remarks": list(trial.remarks),
    }
