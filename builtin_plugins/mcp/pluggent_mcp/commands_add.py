"""``pluggent mcp add`` and ``remove``: servers in the user's settings file."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs import ConfigError

from pluggent_mcp.naming import prefixes
from pluggent_mcp.offered import effects_of
from pluggent_mcp.printing import line, table
from pluggent_mcp.reading import MAX_BYTES, servers_in
from pluggent_mcp.settings import Server
from pluggent_mcp.settings_file import (
    read,
    servers_in as servers_written,
    user_file,
    with_server,
    without_server,
    write,
)
from pluggent_mcp.settings_text import block
from pluggent_mcp.trial import Trial, tried

FAILED = 1
WHERE = "pluggent mcp add"
PIN = 16
"""Digits of a definition's digest."""


async def add(options: argparse.Namespace) -> int:
    """Write servers into the user's settings; those that could not be started are left out. Raises ConfigError."""
    servers = _given(options)
    path = user_file(os.environ)
    text = read(path)
    _check_names(servers, servers_written(text), force=options.force)
    trials = await _tried(servers, start=not options.no_start)
    for name, trial in trials.items():
        if trial.problem:
            line(f"{name} was not added: {trial.problem}. To add it all the same: --no-start")
            continue
        if name in servers_written(text):
            text = _edited(path, name, without_server, text, name)
        written = block(name, servers[name], _proposed(servers[name], trial), _pins(trial), accept=options.accept)
        text = _edited(path, name, with_server, text, name, written)
        _tell(name, path, trial, accept=options.accept)
    if any(not trial.problem for trial in trials.values()):
        write(path, text)
    return FAILED if any(trial.problem for trial in trials.values()) else 0


def remove(options: argparse.Namespace) -> int:
    """Take a server out of the user's settings. Raises ConfigError."""
    path = user_file(os.environ)
    text = read(path)
    have = servers_written(text)
    if options.name not in have:
        there = ", ".join(sorted(have)) or "none"
        raise ConfigError("pluggent mcp remove", [f"{path} has no server {options.name!r}; it has: {there}"])
    write(path, _edited(path, options.name, without_server, text, options.name))
    line(f"removed {options.name} from {path}")
    return 0


def _edited(path: Path, name: str, how: Any, *arguments: str) -> str:
    try:
        made: str = how(*arguments)
    except ValueError as error:
        raise ConfigError(str(path), [f"mcpServers.{name}: {error}; change it by hand"]) from error
    return made


# ---- what was typed ----------------------------------------------------------------------


def _given(options: argparse.Namespace) -> Mapping[str, Server]:
    words, command = list(options.words), options.behind
    if options.file is not None:
        if command is not None or options.env or options.header or options.cwd:
            raise ConfigError(WHERE, ["with --from come names of servers alone, or nothing: all"])
        servers = _imported(Path(options.file), words)
        # The file may have come with a repository: what it says of tools is not the operator's word yet.
        return servers if options.accept else {name: _unproven(server) for name, server in servers.items()}
    if len(words) != (2 if command is None else 1) or command == []:
        raise ConfigError(WHERE, ["expected NAME URL, or NAME -- COMMAND ARGUMENT…; See pluggent mcp add --help"])
    entry: dict[str, Any] = {"cwd": options.cwd} if options.cwd else {}
    if command is None:
        entry |= {"url": words[1]} | _pairs("headers", options.header)
    else:
        entry |= {"command": command[0], "args": command[1:]} | _pairs("env", options.env)
    if (options.env and command is None) or (options.header and command is not None):
        raise ConfigError(WHERE, ["--env goes with a command, --header with a URL"])
    return _checked(WHERE, {words[0]: entry})


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
    try:
        with file.expanduser().open("rb") as opened:
            document: Any = json.loads(opened.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(str(file), [f"cannot be read: {error}"]) from error
    listed: Any = cast("dict[str, Any]", document).get("mcpServers") if isinstance(document, dict) else None
    found = cast("dict[str, Any]", listed) if isinstance(listed, dict) else {}
    if missing := [name for name in names if name not in found] or (["any"] if not found else []):
        have = ", ".join(found) or "none"
        raise ConfigError(str(file), [f"there is no server {', '.join(missing)} in mcpServers; there are: {have}"])
    return _checked(str(file), {name: found[name] for name in names or found})


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
    if not start:
        return {name: Trial(name) for name in servers}
    # Without its pins: what is asked is how its tools are now.
    fresh = {name: attrs.evolve(server, pins={}) for name, server in servers.items()}
    trials = await asyncio.gather(*(tried(name, server) for name, server in fresh.items() if server.used))
    return {**{name: Trial(name) for name in servers}, **{trial.name: trial for trial in trials}}


def _proposed(server: Server, trial: Trial) -> Mapping[str, tuple[str, ...] | None]:
    believed = attrs.evolve(server, trusted=True, effects={})
    return {name: effects_of(believed, name, offer.hints) for name, offer in sorted(trial.offered.items())}


def _pins(trial: Trial) -> Mapping[str, str]:
    return {name: offer.digest[:PIN] for name, offer in sorted(trial.offered.items())}


def _tell(name: str, path: Path, trial: Trial, *, accept: bool) -> None:
    line(f"added {name} to {path}")
    if not trial.offered:
        return
    said = _proposed(Server(command="x"), trial)
    table(
        ("TOOL", "SAYS THAT IT DOES", "PIN"),
        [
            (tool, "nothing said" if effects is None else ", ".join(effects) or "nothing", pin)
            for (tool, effects), pin in zip(said.items(), _pins(trial).values(), strict=True)
        ],
    )
    if not accept:
        line("Each asks before it runs, until you take the # from its line under effects, or write there what it does.")
