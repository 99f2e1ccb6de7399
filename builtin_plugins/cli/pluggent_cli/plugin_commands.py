"""Runs a command of a plugin, which is loaded now that it has been typed.

Options before such a command are pluggent's, those behind it are its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeAlias

from pluggent_hookspecs.commands import Command, HostOperations
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import PluggentError, PluginError, PluginLoadError
from pluggent_hookspecs.events import ApprovalEvent, ProvideEvent, QuestionEvent, Scope
from pluggent_hookspecs.questions import Elicited
from pluggent_host import __version__
from pluggent_host.common.process_marker import is_inside
from pluggent_host.common.running import said
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.loader import load, new_manager

from pluggent_cli import process
from pluggent_cli.exits import Interrupted, is_of_output
from pluggent_cli.host_access import Setup, open_host, prepare, record_failures, workspace_option
from pluggent_cli.parsing import Parser, root_parser
from pluggent_cli.process import loading_plugins, log_to
from pluggent_cli.terminal.console import Console, console_for
from pluggent_cli.terminal.person import person_at_terminal

if TYPE_CHECKING:  # a host costs what a command without one must not
    from pluggent_host.host import Host

    from pluggent_cli.command_host import CommandHost  # the same

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
            return process.run(_run_with_host(setup, console, command.run_with, parsed, record.id))
        assert command.run is not None  # Command sees to that
        return int(command.run(parsed) or 0)
    except (PluggentError, BrokenPipeError, Interrupted):
        raise
    except Exception as error:
        if is_of_output(error):
            raise
        problem = f"failed in its command '{name}': {type(error).__name__}: {error}"
        raise PluginError(record.id, f"{record.distribution.shown_name} {record.version}", problem) from error


async def _run_with_host(
    setup: Setup, console: Console, run_with: RunWith, options: argparse.Namespace, plugin: str
) -> int:
    # Here and not above: a command that needs no host does not pay for one.
    from pluggent_cli.command_host import CommandHost, CommandPlugin

    def host() -> AbstractAsyncContextManager[Host]:
        return open_host(
            setup, approver=person.approve, answerer=person.answer, state_dir=setup.state_dir,
            workspace=workspace_option(None),
        )  # fmt: skip

    # Below another host, the requester may be what that host's model has started.
    granted = plugin in setup.settings.grants.approvers and not is_inside()
    operations = CommandHost(host, CommandPlugin(plugin, setup.settings.timeouts.approver_s if granted else 0.0))
    person = _Person(setup, console, operations)
    try:
        return int(await run_with(options, operations) or 0)
    finally:
        await operations.aclose()


class _Person:
    """The requester, where that was granted, and then the person at the terminal.

    The latter is asked about what he asked for himself; about all, if the operator says so.
    """

    def __init__(self, setup: Setup, console: Console, operations: CommandHost) -> None:
        async def shown(_: str) -> None:
            """Nothing else is shown of a request."""

        self._approver, self._answerer = person_at_terminal(setup, console.err_ink, shown)
        self._always = setup.settings.on_ask == "console" and "on_ask" in setup.origins
        self._operations = operations

    async def approve(self, event: ApprovalEvent) -> bool | Approval | None:
        """Ask for an approval of *event*; None if it is not for this person."""
        given = await self._operations.approve(event)
        if given is not None or self._approver is None or not self._concerns(event.scope):
            return given
        return await self._approver(event)

    async def answer(self, event: QuestionEvent) -> Elicited | None:
        """Ask what *event* asks for; None if it is not for this person."""
        given = await self._operations.answer(event)
        if given is not None or self._answerer is None or not self._concerns(event.scope):
            return given
        return await self._answerer(event)

    def _concerns(self, scope: Scope) -> bool:
        return self._always or self._operations.is_own(scope.session_id)


def _loaded(setup: Setup, record: PluginRecord, name: str) -> Command:
    manager = new_manager()
    try:
        with loading_plugins():
            load(record, manager, setup.settings.plugins.get(record.id))
    except PluginLoadError as error:
        record_failures(setup.state_dir, [(record, "failed", error.problem)])
        raise
    try:
        offered: list[Command] = [
            command
            for commands in manager.hook.provide_commands(event=ProvideEvent(__version__))
            for command in commands
        ]
    except Exception as error:
        problem = f"failed in provide_commands: {said(error)}"
        record_failures(setup.state_dir, [(record, "failed", problem)])
        about = f"{record.distribution.shown_name} {record.version}"
        raise PluginLoadError(record.id, about, problem) from error
    record_failures(setup.state_dir, [(record, "active", "")])
    for command in offered:
        if command.name == name:
            return command
    have = ", ".join(command.name for command in offered) or "none"
    raise PluginLoadError(
        record.id,
        f"{record.distribution.shown_name} {record.version}",
        f"announces the command '{name}' in its metadata and provides {have}. Tell its author",
    )
