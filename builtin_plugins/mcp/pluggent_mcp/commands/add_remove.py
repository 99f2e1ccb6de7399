"""``pluggent mcp add``: servers in the user's settings file."""

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

from pluggent_mcp.commands.printing import line, note, table
from pluggent_mcp.commands.settings_file import (
    edited,
    read,
    servers_in as servers_written,
    user_file,
    with_server,
    without_server,
    write,
)
from pluggent_mcp.commands.settings_text import block
from pluggent_mcp.commands.trials import Trial
from pluggent_mcp.naming import prefixes
from pluggent_mcp.reading import aside_in, read_document, servers_in
from pluggent_mcp.settings import Server

FAILED = 1
WHERE = "pluggent mcp add"
HOW = "expected NAME URL, or NAME -- COMMAND ARGUMENT…. See pluggent mcp add --help"

_SECRET = re.compile(r"auth|token|key|secret|passw|cookie|credential", re.IGNORECASE)


async def add(options: argparse.Namespace) -> int:
    """Write servers into the user's settings; those that could not be started are left out. Raises ConfigError."""
    servers = _given(options)
    path = user_file(os.environ)
    text = read(path)
    _check_names(servers, servers_written(text), force=options.force)
    trials = await _tried(servers, start=not options.no_start)
    for name, trial in trials.items():
        if not trial.problem:
            text = _with(text, path, servers[name], trial, accept=options.accept)
    # Written before a word of it is said: whoever reads that may be gone already.
    if any(not trial.problem for trial in trials.values()):
        write(path, text)
    for name, trial in trials.items():
        if trial.problem:
            line(f"{name} was not added: {trial.problem}. To add it all the same: --no-start")
        else:
            _tell(servers[name], path, trial, accept=options.accept)
    return FAILED if any(trial.problem for trial in trials.values()) else 0


def _with(text: str, path: Path, server: Server, trial: Trial, *, accept: bool) -> str:
    """Return the settings *text* with *server*, in the place of one that bears its name."""
    name = trial.name
    if name in servers_written(text):
        text = edited(path, name, without_server, text, name)
    says = {tool: shown.effects for tool, shown in trial.tools.items()}
    pins = {tool: shown.pin for tool, shown in trial.tools.items()}
    return edited(path, name, with_server, text, name, block(name, server, says, pins, accept=accept))


# ---- what was typed ----------------------------------------------------------------------


def _given(options: argparse.Namespace) -> Mapping[str, Server]:
    words, command = list(options.words), options.behind
    if options.file is not None:
        if command is not None or options.env or options.header or options.cwd or options.oauth:
            raise ConfigError(WHERE, ["with --from come names of servers alone, or nothing: all"])
        servers = _imported(Path(options.file), words)
        # The file may have come with a repository: what it says of tools is not the operator's word yet.
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
    document = read_document(file.expanduser())
    listed: Any = cast("dict[str, Any]", document).get("mcpServers") if isinstance(document, dict) else None
    found = cast("dict[str, Any]", listed) if isinstance(listed, dict) else {}
    if missing := [name for name in names if name not in found] or (["any"] if not found else []):
        have = ", ".join(found) or "none"
        raise ConfigError(str(file), [f"there is no server {', '.join(missing)} in mcpServers; there are: {have}"])
    wanted = {name: found[name] for name in names or found}
    servers = _checked(str(file), wanted)
    for each in aside_in({"mcpServers": wanted}):
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
    beside = {
        name: Server(command="x", prefix=str(cast("dict[str, Any]", entry).get("prefix", "")))
        for name, entry in have.items()
        if name not in servers
    }
    prefixes({**beside, **servers})


# ---- what they are -----------------------------------------------------------------------


async def _tried(servers: Mapping[str, Server], *, start: bool) -> Mapping[str, Trial]:
    # Without its pins: what is asked is how its tools are now.
    fresh = {
        name: attrs.evolve(server, pins={})
        for name, server in servers.items()
        if server.used and start and server.login is None  # nobody can be logged in to it yet
    }
    made = {name: Trial(name) for name in servers}
    if not fresh:
        return made
    from pluggent_mcp.commands.trying import tried  # the SDK, a second: not where nothing is started

    trials = await asyncio.gather(*(tried(name, server) for name, server in fresh.items()))
    return {**made, **{trial.name: trial for trial in trials}}


def _secrets(server: Server) -> Iterator[str]:
    """Yield which values look as if they were secrets, and are written out."""
    for field, values in (("env", server.env), ("headers", server.headers)):
        yield from (f"{field}.{key}" for key, value in values.items() if _SECRET.search(key) and "${" not in value)


def _tell(server: Server, path: Path, trial: Trial, *, accept: bool) -> None:
    line(f"added {trial.name} to {path}")
    for remark in trial.remarks:
        note(f"note: {remark}")
    for each in _secrets(server):
        note(f"note: {trial.name}.{each} is written out in {path}; better ${{NAME}}, read when it is started")
    if server.login is not None:
        line(f"to log in to it: pluggent mcp login {trial.name}")
    if not trial.tools:
        return
    rows = [
        (tool, "nothing said" if shown.effects is None else ", ".join(shown.effects) or "nothing", shown.pin)
        for tool, shown in trial.tools.items()
    ]
    table(("TOOL", "SAYS THAT IT DOES", "PIN"), rows)
    if not accept:
        line("Each asks before it runs, until you take the # from its line under effects, or write there what it does.")
