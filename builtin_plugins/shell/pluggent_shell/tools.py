"""What the model is offered: ``run_command`` and ``read_output``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pluggent_hookspecs import CallPreview, Param, ToolContext, ToolOutput, tool

from pluggent_shell.settings import Confine, ShellSettings

if TYPE_CHECKING:  # what runs commands costs 15 ms, and most turns run none
    from pluggent_shell.command import Commands
    from pluggent_shell.outputs import Outputs

Command: TypeAlias = str | list[str]
TimeLimit: TypeAlias = Annotated[float | None, Param("After so many seconds it is ended.", gt=0)]

_ABOUT = {
    Confine.OFF: "Commands are not confined.",
    Confine.AUTO: "Where this machine can, commands are confined: they write in the workspace and /tmp alone, and have"
    " no network unless asked for.",
    Confine.REQUIRED: "Commands are confined: they write in the workspace and /tmp alone, and have no network unless"
    " asked for.",
}
_NETWORK = "Commands have network access."


class Runner:
    """What runs commands and keeps their outputs, imported and made when it is first used."""

    def __init__(self, settings: ShellSettings) -> None:
        self._settings = settings
        self._outputs: Outputs | None = None
        self._commands: Commands | None = None

    @property
    def outputs(self) -> Outputs:
        """The outputs that are kept."""
        if self._outputs is None:
            from pluggent_shell.outputs import Outputs  # as above

            self._outputs = Outputs()
        return self._outputs

    async def commands(self) -> Commands:
        """Return what runs commands."""
        if self._commands is None:
            made = await asyncio.to_thread(_commands)
            self._commands = made(self._settings, self.outputs)
        return self._commands

    async def aclose(self) -> None:
        """Remove all outputs."""
        if self._outputs is not None:
            await self._outputs.aclose()


def _commands() -> type[Commands]:
    from pluggent_shell.command import Commands  # as above

    return Commands


def tools_of(settings: ShellSettings, runner: Runner) -> list[Callable[..., Any]]:
    """Return both tools for *settings*."""

    async def preview(
        command: Command,
        context: ToolContext,
        cwd: Path | None = None,
        timeout_s: float | None = None,
        network: bool = False,  # noqa: FBT001, FBT002 (the parameters of the tool)
    ) -> CallPreview:
        return await (await runner.commands()).preview(command, context, cwd, timeout_s, network=network)

    def parts(
        command: Command,
        cwd: Path | None = None,
        timeout_s: float | None = None,  # noqa: ARG001 (it needs no approval)
        network: bool = False,  # noqa: FBT001, FBT002 (as above)
    ) -> Mapping[str, tuple[str, ...]]:
        from pluggent_shell.call_parts import call_parts  # as above

        return {"command": call_parts(command, cwd, network=network and _asks_for_network(settings))}

    @tool(description=_description(settings), effects=("shell",), preview=preview, parts=parts)
    async def run_command(
        command: Annotated[Command, "A shell line, or a list of a program and its arguments that no shell reads."],
        context: ToolContext,
        cwd: Annotated[Path | None, "The folder to run it in; default: the workspace."] = None,
        timeout_s: TimeLimit = None,
        network: Annotated[bool, "Whether it needs the network, for example to install packages."] = False,  # noqa: FBT002 (a parameter of the tool)
    ) -> ToolOutput:
        """Run a command."""
        return await (await runner.commands()).run(command, context, cwd, timeout_s, network=network)

    @tool(effects=("filesystem_read",), idempotent=True)
    def read_output(
        output_id: Annotated[str, "The id that the result of run_command gave."],
        context: ToolContext,
        first_line: Annotated[int, Param("The first line to read, counted from 1.", ge=1)] = 1,
        lines: Annotated[int, Param("How many lines to read.", ge=1, le=10_000)] = 200,
    ) -> str:
        """Read lines of a command's output that was too long to be shown whole."""
        return runner.outputs.read(context.session_id, output_id, first_line, lines, settings.shown_bytes)

    return [run_command, read_output]


def _asks_for_network(settings: ShellSettings) -> bool:
    return settings.confinement is not Confine.OFF and not settings.network


def _description(settings: ShellSettings) -> str:
    about = _ABOUT[settings.confinement]
    if settings.network and settings.confinement is not Confine.OFF:
        about = f"{about.rpartition(', and have')[0] or about}. {_NETWORK}"
    return (
        "Run a command: a shell line, or a program with its arguments. Stdin is empty. All processes that it starts"
        f" end with it. {about} A person is asked before; short commands without substitutions are approved sooner."
    )
