"""Runs a command of a plugin, which is loaded now that it has been typed.

Options before such a command are pluggent's, those behind it are its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from pluggent_hookspecs.commands import Command, HostOperations
from pluggent_hookspecs.errors import PluggentError, PluginError, PluginLoadError
from pluggent_hookspecs.events import ApprovalEvent, ProvideEvent

from pluggent_host.calling import said
from pluggent_host.catalog import PluginRecord
from pluggent_host.cli import interrupts
from pluggent_host.cli.approving import console_approver
from pluggent_host.cli.assembling import Setup, open_host, prepare, working_directory
from pluggent_host.cli.exits import Interrupted
from pluggent_host.cli.failures import record as record_states
from pluggent_host.cli.logs import log_to
from pluggent_host.cli.output import Console, console_for
from pluggent_host.cli.parsing import Parser, root_parser
from pluggent_host.loading import load, new_manager
from pluggent_host.version import VERSION

OWN_ORIGIN = "cli"
"""The origin of calls that whoever typed the command asked for; those of others are not put to a terminal unasked."""

RunWith: TypeAlias = Callable[[argparse.Namespace, HostOperations], Awaitable[int]]


def run(name: str, leading: Sequence[str], arguments: Sequence[str]) -> int:
    """Load the plugin whose command *name* is, and run it. Raises ConfigError and PluginError."""
    options = root_parser(()).parse_args(leading)
    console = console_for(options)
    setup = prepare(options, console)
    log_to(console, debug=options.debug)
    record = setup.catalog().find("command", name)
    command = _loaded(setup, record, name)
    parser = Parser.bare(name, command.help)
    try:
        if command.configure is not None:
            command.configure(parser)
        parsed = parser.parse_args(arguments)
        if command.run_with is not None:
            return interrupts.run(_run_with_host(setup, console, command.run_with, parsed))
        assert command.run is not None  # Command sees to that
        return int(command.run(parsed) or 0)
    except (PluggentError, BrokenPipeError, Interrupted):
        raise
    except Exception as error:
        problem = f"failed in its command '{name}': {type(error).__name__}: {error}"
        raise PluginError(record.id, f"{record.distribution.shown_name} {record.version}", problem) from error


async def _run_with_host(setup: Setup, console: Console, run_with: RunWith, options: argparse.Namespace) -> int:
    # Here and not above: a command that needs no host does not pay for one.
    from pluggent_host.commanding import LentHost

    approver = _approver(setup, console)
    host = partial(
        open_host, setup, approver=approver, state_dir=setup.state_dir, workspace=working_directory()
    )  # fmt: skip
    operations = LentHost(host)
    try:
        return int(await run_with(options, operations) or 0)
    finally:
        await operations.aclose()


def _approver(setup: Setup, console: Console) -> Callable[[ApprovalEvent], Awaitable[bool | None]] | None:
    """Return who asks the person at the terminal: on behalf of whoever typed the command, unless told otherwise."""

    async def shown(_: str) -> None:
        """Nothing else is shown of a request."""

    ask = console_approver(setup, console.err_ink, shown)
    if ask is None or (setup.settings.on_ask == "console" and "on_ask" in setup.origins):
        return ask

    async def approve(event: ApprovalEvent) -> bool | None:
        return await ask(event) if event.scope.origin == OWN_ORIGIN else None

    return approve


def _loaded(setup: Setup, record: PluginRecord, name: str) -> Command:
    manager = new_manager()
    try:
        load(record, manager, setup.settings.plugins.get(record.id))
    except PluginLoadError as error:
        record_states(setup.state_dir, [(record, "failed", error.problem)])
        raise
    try:
        offered: list[Command] = [
            command for commands in manager.hook.provide_commands(event=ProvideEvent(VERSION)) for command in commands
        ]
    except Exception as error:
        problem = f"failed in provide_commands: {said(error)}"
        record_states(setup.state_dir, [(record, "failed", problem)])
        about = f"{record.distribution.shown_name} {record.version}"
        raise PluginLoadError(record.id, about, problem) from error
    record_states(setup.state_dir, [(record, "active", "")])
    for command in offered:
        if command.name == name:
            return command
    have = ", ".join(command.name for command in offered) or "none"
    raise PluginLoadError(
        record.id,
        f"{record.distribution.shown_name} {record.version}",
        f"announces the command '{name}' in its metadata and provides {have}. Tell its author",
    )
