"""``pluggent mcp list``: what is set. Nothing is started, and no secret is shown."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pluggent_hookspecs import ConfigError

from pluggent_mcp.naming import SEPARATOR, prefixes
from pluggent_mcp.printing import document, harmless, line, table
from pluggent_mcp.reading import servers_of
from pluggent_mcp.references import resolved
from pluggent_mcp.settings import Server, Settings

LONGEST = 60
"""Characters of a target in the table."""


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the servers. Raises ConfigError for a file that cannot be read."""
    servers = servers_of(settings)
    names = prefixes({name: server for name, server in servers.items() if server.used})
    rows = [_facts(name, server, names, settings) for name, server in sorted(servers.items())]
    if options.json:
        document({"servers": rows})
    elif not rows:
        line("no servers are set; to add one: pluggent mcp add time -- mcp-server-time")
    else:
        columns = ("NAME", "KIND", "STATE", "TOOLS ARE CALLED", "TARGET")
        shown = ("name", "kind", "state", "prefix", "target")
        table(columns, [[row[key][:LONGEST] for key in shown] for row in rows])
        for row in rows:
            if row["problem"]:
                line(f"{row['name']}: {row['problem']}")
    return 0


def _facts(name: str, server: Server, names: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    problem = problem_of(name, server) if server.used else ""
    return {
        "name": name,
        "kind": server.kind,
        "state": "off" if not server.used else "broken" if problem else "on",
        "required": server.required,
        "trusted": server.trusted,
        "prefix": f"{names[name]}{SEPARATOR}…" if name in names else "",
        "target": target(server),
        "effects": len(server.effects),
        "pins": len(server.pins),
        "from": "settings" if name in settings.mcpServers else str(settings.file),
        "problem": problem,
    }


def target(server: Server) -> str:
    """Return what starts *server*, or where it is, without what may be a secret.

    >>> target(Server(url="https://ann:s3cret@mcp.example.com/mcp?key=s3cret"))
    'https://mcp.example.com/mcp'
    """
    if server.command:
        return harmless(" ".join((server.command, *server.args)))
    parts = urlsplit(server.url)
    return harmless(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


def problem_of(name: str, server: Server) -> str:
    """Return why *server* could not be started, as far as can be said without trying."""
    try:
        ready = resolved(name, server, os.environ)
    except ConfigError as error:
        return "; ".join(error.problems)
    if ready.command and shutil.which(ready.command, path=os.environ.get("PATH", "")) is None:
        return f"there is no command {ready.command!r}; install it, or give its whole path"
    if ready.cwd and not Path(ready.cwd).is_dir():
        return f"its cwd {ready.cwd!r} is no folder"
    return ""


def chosen(settings: Settings, name: str, where: str) -> Server:
    """Return the server *name*. Raises ConfigError where there is none, or it is switched off."""
    servers = servers_of(settings)
    if name not in servers:
        have = ", ".join(sorted(servers)) or "none"
        raise ConfigError(where, [f"there is no server {name!r}; there are: {have}"])
    if not servers[name].used:
        raise ConfigError(where, [f"the server {name!r} is switched off in the settings"])
    return servers[name]
