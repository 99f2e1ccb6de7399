"""``pluggent mcp add`` and ``remove``: servers in the user's settings file."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs import ConfigError

from pluggent_mcp.commands.list import meant
from pluggent_mcp.commands.output import line, note, table
from pluggent_mcp.commands.server_check import ServerCheck, check_server
from pluggent_mcp.commands.settings_file import (
    block,
    edited,
    read,
    user_file,
    with_server,
    without_server,
    write,
    written_servers,
)
from pluggent_mcp.servers_file import entries_in, ignored_keys, place_of, read_document, servers_in
from pluggent_mcp.settings import Server
from pluggent_mcp.tool_names import prefixes

FAILED = 1
WHERE = "pluggent mcp add"
HOW = "expected NAME URL, or NAME -- COMMAND ARGUMENT…. See pluggent mcp add --help"

_SECRET = re.compile(r"auth|token|key|secret|passw|cookie|credential", re.IGNORECASE)


async def add(options: argparse.Namespace) -> int:
    """Write servers into the user's settings, except those that failed to start. Raises ConfigError."""
    servers = _given(options)
    path = user_file(os.environ)
    text = read(path)
    _check_names(servers, written_servers(text), force=options.force)
    checks = await _check_all(servers, start=not options.no_start)
    for name, check in checks.items():
        if not check.problem:
            text = _with(text, path, servers[name], check, accept=options.accept)
    # Written before anything is printed: the reader of the output may have closed the pipe.
    if any(not check.problem for check in checks.values()):
        write(path, text)
    for name, check in checks.items():
        if check.problem:
            line(f"{name} was not added: {check.problem}. To add it all the same: --no-start")
        else:
            _tell(servers[name], path, check, accept=options.accept)
    return FAILED if any(check.problem for check in checks.values()) else 0


def _with(text: str, path: Path, server: Server, check: ServerCheck, *, accept: bool) -> str:
    """Return the settings *text* with *server*, in the place of one that bears its name."""
    name = check.name
    if name in written_servers(text):
        text = edited(path, name, without_server, text, name)
    says = {tool: shown.effects for tool, shown in check.tools.items()}
    pins = {tool: shown.pin for tool, shown in check.tools.items()}
    return edited(path, name, with_server, text, name, block(name, server, says, pins, accept=accept))


# ---- arguments --------------------------------------------------------------------------


def _given(options: argparse.Namespace) -> Mapping[str, Server]:
    words, command = list(options.words), options.behind
    if options.file is not None:
        if command is not None or options.env or options.header or options.cwd or options.oauth:
            raise ConfigError(WHERE, ["with --from come names of servers alone, or nothing: all"])
        servers = _imported(Path(options.file), words)
        # The file may be part of a repository: its statements about tools are not trusted.
        return servers if options.accept else {name: _unproven(server) for name, server in servers.items()}
    if command is None and len(words) > 1 and not _is_url(words[1]):
        raise ConfigError(WHERE, [f"a command stands behind --: pluggent mcp add {words[0]} -- {' '.join(words[1:])}"])
    if len(words) != (2 if command is None else 1) or command == []:
        raise ConfigError(WHERE, [HOW])
    entry: dict[str, Any] = {"cwd": options.cwd} if options.cwd else {}
    if command is None:
        oauth: dict[str, Any] = {"oauth": True} if options.oauth else {}
        entry |= {"url": words[1]} | _pairs("headers", options.header) | oauth
    else:
        entry |= {"command": command[0], "args": command[1:]} | _pairs("env", options.env)
    if (options.env and command is None) or ((options.header or options.oauth) and command is not None):
        raise ConfigError(WHERE, ["--env goes with a command, --header and --oauth with a URL"])
    return _checked(WHERE, {words[0]: entry})


def _is_url(word: str) -> bool:
    return "://" in word or "${" in word


def _unproven(server: Server) -> Server:
    return attrs.evolve(server, trusted=False, effects={})


def _pairs(field: str, pairs: Sequence[str]) -> dict[str, dict[str, str]]:
    made: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            # Not repeated: it may be a secret.
            raise ConfigError(WHERE, [f"--{'env' if field == 'env' else 'header'}: expected KEY=VALUE"])
        made[key] = value
    return {field: made} if made else {}


def _imported(file: Path, names: Sequence[str]) -> Mapping[str, Server]:
    """Return the servers *names* in *file*; without names all but the broken entries, which are noted."""
    document = read_document(file.expanduser())
    table = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    place = place_of(table)
    listed: Any = table.get(place)
    found = cast("dict[str, Any]", listed) if isinstance(listed, dict) else {}
    if missing := [name for name in names if name not in found] or (["any"] if not found else []):
        have = ", ".join(found) or "none"
        raise ConfigError(str(file), [f"there is no server {', '.join(missing)} in {place}; there are: {have}"])
    wanted = {place: {name: found[name] for name in names or found}}
    servers, broken, _ = entries_in(wanted, str(file))
    problems = [problem.removeprefix(f"{place}.") for each in broken.values() for problem in each.error.problems]
    if problems and (names or not servers):
        raise ConfigError(str(file), problems)
    for each in (*problems, *ignored_keys(wanted)):
        note(f"warning: {file}: {each}")
    return servers


def _checked(where: str, entries: Mapping[str, Any]) -> Mapping[str, Server]:
    servers, problems = servers_in({"mcpServers": dict(entries)})
    if problems:
        raise ConfigError(where, [problem.removeprefix("mcpServers.") for problem in problems])
    return servers


def _check_names(servers: Mapping[str, Server], have: Mapping[str, Any], *, force: bool) -> None:
    if (taken := sorted(set(servers) & set(have))) and not force:
        raise ConfigError(WHERE, [f"there is a server {name!r} already; to replace it: --force" for name in taken])
    others = {
        name: Server(command="x", prefix=str(cast("dict[str, Any]", entry).get("prefix", "")))
        for name, entry in have.items()
        if name not in servers
    }
    prefixes({**others, **servers})


# ---- servers -----------------------------------------------------------------------------


async def _check_all(servers: Mapping[str, Server], *, start: bool) -> Mapping[str, ServerCheck]:
    # Without its pins: the current definitions are wanted.
    fresh = {
        name: attrs.evolve(server, pins={})
        for name, server in servers.items()
        if server.used and start and server.login is None  # a login is not possible yet
    }
    made = {name: ServerCheck(name) for name in servers}
    if not fresh:
        return made
    checks = await asyncio.gather(*(check_server(name, server) for name, server in fresh.items()))
    return {**made, **{check.name: check for check in checks}}


def _secrets(server: Server) -> Iterator[str]:
    """Yield the settings that look like secrets in plain text."""
    for field, values in (("env", server.env), ("headers", server.headers)):
        yield from (f"{field}.{key}" for key, value in values.items() if _SECRET.search(key) and "${" not in value)


def _tell(server: Server, path: Path, check: ServerCheck, *, accept: bool) -> None:
    line(f"added {check.name} to {path}")
    for remark in check.remarks:
        note(f"note: {remark}")
    for each in _secrets(server):
        note(f"note: {check.name}.{each} is written out in {path}; better ${{NAME}}, read when it is started")
    if server.login is not None:
        line(f"to log in to it: pluggent mcp login {check.name}")
    if not check.tools:
        return
    rows = [
        (tool, "nothing said" if shown.effects is None else ", ".join(shown.effects) or "nothing", shown.pin)
        for tool, shown in check.tools.items()
    ]
    table(("TOOL", "SAYS THAT IT DOES", "PIN"), rows)
    if not accept:
        line("Each asks before it runs, until you take the # from its line under effects, or write there what it does.")


def remove(options: argparse.Namespace) -> int:
    """Remove a server from the user's settings. Raises ConfigError."""
    path = user_file(os.environ)
    text = read(path)
    have = written_servers(text)
    if options.name not in have:
        unknown = f"{path} has no server {options.name!r}"
        raise ConfigError("pluggent mcp remove", [unknown + meant(options.name, have, "it has")])
    write(path, edited(path, options.name, without_server, text, options.name))
    line(f"removed {options.name} from {path}")
    if "oauth" in have[options.name]:
        line(f"who is logged in to it still is: pluggent mcp logout {options.name}")
    return 0
