"""``pluggent mcp list``: the configured servers. Starts none and prints no secret."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pluggent_hookspecs import ConfigError

from pluggent_mcp import command_line
from pluggent_mcp.commands.output import document, escape_controls, line, note, table
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.login_store import load_login
from pluggent_mcp.references import resolved
from pluggent_mcp.servers_file import Broken, closest_name, entries_of, ignored_keys_of
from pluggent_mcp.settings import Server, Settings
from pluggent_mcp.tool_names import SEPARATOR, prefixes


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the servers. Raises ConfigError for a file that cannot be read."""
    entries = entries_of(settings)
    servers = entries.servers
    names = prefixes({name: server for name, server in servers.items() if server.used})
    rows = [_facts(name, server, names, settings) for name, server in sorted(servers.items())]
    rows += [_broken(name, broken, settings) for name, broken in sorted(entries.broken.items())]
    aside = ignored_keys_of(settings)
    if options.json:
        document({"servers": rows, "left_aside": aside})
        return 0
    if rows:
        columns = ("NAME", "KIND", "STATE", "TOOLS ARE CALLED", "TARGET")
        table(columns, [_row(facts) for facts in rows])
    else:
        line("no servers are set; to add one: pluggent mcp add time -- mcp-server-time")
    for facts in rows:
        if facts["problem"]:
            line(f"{facts['name']}: {facts['problem']}")
    for each in aside:
        note(f"warning: {settings.file}: {each}")
    return 0


def _row(facts: Mapping[str, Any]) -> tuple[str, ...]:
    called = f"{facts['prefix']}…" if facts["prefix"] else ""
    return (facts["name"], facts["kind"], facts["state"], called, facts["target"])


def _facts(name: str, server: Server, names: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    problem = problem_of(name, server) if server.used else ""
    return {
        "name": name,
        "kind": server.kind,
        "state": "off" if not server.used else "broken" if problem else _login_state(name, server) or "on",
        "required": server.required,
        "trusted": server.trusted,
        "prefix": f"{names[name]}{SEPARATOR}" if name in names else "",
        "target": target(server),
        "effects": len(server.effects),
        "pins": len(server.pins),
        "from": "settings" if name in settings.mcpServers else str(settings.file),
        "problem": problem,
    }


def _broken(name: str, broken: Broken, settings: Settings) -> dict[str, Any]:
    nothing: dict[str, Any] = {"kind": "", "trusted": False, "prefix": "", "target": "", "effects": 0, "pins": 0}
    said = {"required": broken.required, "from": str(settings.file), "problem": "; ".join(broken.error.problems)}
    return {"name": name, "state": "broken", **nothing, **said}


def _login_state(name: str, server: Server) -> str:
    """Return the state of the login to *server*; empty if it needs none."""
    if server.login is None:
        return ""
    try:
        login = load_login(name, resolved(name, server, os.environ).url, os.environ)
    except LoginError as error:
        note(f"{name}: {error}")
        login = None
    lasts = login is not None and login.fits(server.login) and (login.fresh or bool(login.refresh_token))
    return "logged in" if lasts else "login needed"


def target(server: Server) -> str:
    """Return the command or the URL of *server*, without possible secrets.

    >>> target(Server(url="https://ann:s3cret@mcp.example.com/mcp?key=s3cret"))
    'https://mcp.example.com/mcp'
    >>> target(Server(url="https://mcp.example.com/s/Zm9vYmFyYmF6cXV4MTIzNDU2/mcp"))
    'https://mcp.example.com/s/…/mcp'
    """
    if server.command:
        return escape_controls(command_line.shown(server.command, server.args))
    parts = urlsplit(server.url)
    path = command_line.path_shown(parts.path)
    return escape_controls(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", "")))


def problem_of(name: str, server: Server) -> str:
    """Return why *server* cannot be started, as far as known without a start; empty if it can."""
    try:
        ready = resolved(name, server, os.environ)
    except ConfigError as error:
        return "; ".join(error.problems)
    if ready.command and shutil.which(ready.command, path=os.environ.get("PATH", "")) is None:
        return f"there is no command {ready.command!r}; install it, or give its whole path"
    if ready.cwd and not Path(ready.cwd).is_dir():
        return f"its cwd {ready.cwd!r} is not a folder"
    return ""


def chosen(settings: Settings, name: str, where: str) -> Server:
    """Return the server *name*. Raises ConfigError if it is missing or disabled."""
    servers, broken, _ = entries_of(settings)
    if name in broken:
        raise broken[name].error
    if name not in servers:
        raise ConfigError(where, [f"there is no server {name!r}{meant(name, servers, 'there are')}"])
    if not servers[name].used:
        raise ConfigError(where, [f"the server {name!r} is switched off in the settings"])
    return servers[name]


def meant(word: str, known: Mapping[str, Any], have: str) -> str:
    """Return the end of an error about an unknown *word*: the closest of *known*, or all of them.

    >>> meant("flies", {"files": 1}, "there are"), meant("x", {"files": 1}, "there are")
    ("; did you mean 'files'?", '; there are: files')
    """
    close = closest_name(word, known)
    return f"; did you mean '{close}'?" if close else f"; {have}: {', '.join(sorted(known)) or 'none'}"
