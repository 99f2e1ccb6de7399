"""Runs a command of a plugin, which is loaded now that it has been typed.

Options before such a command are pluggent's, those behind it are its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pluggent_hookspecs.commands import Command
from pluggent_hookspecs.errors import PluggentError, PluginError, PluginLoadError
from pluggent_hookspecs.events import ProvideEvent

from pluggent_host.calling import said
from pluggent_host.catalog import PluginRecord
from pluggent_host.cli.assembling import Setup, prepare
from pluggent_host.cli.failures import record as record_states
from pluggent_host.cli.logs import log_to
from pluggent_host.cli.output import console_for
from pluggent_host.cli.parsing import Parser, root_parser
from pluggent_host.loading import load, new_manager
from pluggent_host.version import VERSION


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
        return int(command.run(parser.parse_args(arguments)) or 0)
    except (PluggentError, BrokenPipeError):
        raise
    except Exception as error:
        problem = f"failed in its command '{name}': {type(error).__name__}: {error}"
        raise PluginError(record.id, f"{record.distribution.shown_name} {record.version}", problem) from error


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
