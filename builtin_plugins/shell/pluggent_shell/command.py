"""Runs a command for a call, and makes of its end what the model reads."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

from pluggent_hookspecs import CallPreview, Json, ToolContext, ToolError, ToolOutput
from pluggent_process_engine.mechanisms import Mechanisms, mechanisms
from pluggent_process_engine.output import Collector, Kept
from pluggent_process_engine.program import Outcome, ProcessError
from pluggent_process_engine.running import run

from pluggent_shell.live_output import LiveOutput
from pluggent_shell.outputs import Outputs
from pluggent_shell.plan import Plan, plan_of
from pluggent_shell.preview import preview_text
from pluggent_shell.repositories import placeholders, repositories
from pluggent_shell.settings import Confine, ShellSettings

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>])")
"""Colours, cursor movements and titles (ECMA-48)."""
_UNREADABLE = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\ufffd]")
_MOST_UNREADABLE = 0.3
_MOST_NAMED = 5


class Commands:
    """The commands of one host."""

    def __init__(self, settings: ShellSettings, outputs: Outputs, found: Mechanisms | None = None) -> None:
        self._settings = settings
        self._outputs = outputs
        self._found = found

    async def preview(
        self,
        command: str | Sequence[str],
        context: ToolContext,
        cwd: Path | None = None,
        timeout_s: float | None = None,
        *,
        network: bool = False,
    ) -> CallPreview:
        """Return what a person is shown before the command runs. Raises ToolError for what cannot run."""
        plan = await self._plan(command, context, cwd, timeout_s, network=network)
        return CallPreview(preview_text(plan), plan.state)

    async def run(
        self,
        command: str | Sequence[str],
        context: ToolContext,
        cwd: Path | None = None,
        timeout_s: float | None = None,
        *,
        network: bool = False,
    ) -> ToolOutput:
        """Run the command to its end, all its processes included. Raises ToolError for what cannot run."""
        plan = await self._plan(command, context, cwd, timeout_s, network=network)
        self._check(plan, context)
        output_id, file = await asyncio.to_thread(self._outputs.new, context.session_id)
        live = LiveOutput(context)
        shown = self._settings.shown_bytes
        collector = Collector(
            head_bytes=shown // 3, tail_bytes=shown - shown // 3, file=file, file_bytes=self._settings.kept_bytes,
            on_text=live.feed,
        )  # fmt: skip
        try:
            with placeholders(plan.repositories):
                outcome = await run(plan.program, collector.feed, found=self._found)
        except ProcessError as error:
            self._outputs.forget(context.session_id, output_id)
            raise ToolError(f"it was not run: {error}") from error
        except BaseException:
            self._outputs.forget(context.session_id, output_id)
            new_repositories(plan)  # at once: what waits may be cancelled again
            raise
        finally:
            live.close()
            collector.close()
        kept = collector.kept()
        if kept.whole:
            self._outputs.forget(context.session_id, output_id)
            output_id = ""
        warning = await asyncio.to_thread(new_repositories, plan)
        return result(plan, outcome, kept, output_id, warning)

    async def _plan(
        self,
        command: str | Sequence[str],
        context: ToolContext,
        cwd: Path | None,
        timeout_s: float | None,
        *,
        network: bool,
    ) -> Plan:
        found = Mechanisms()
        if self._settings.confinement is not Confine.OFF:
            found = self._found or await mechanisms()

        def planned() -> Plan:
            return plan_of(
                self._settings, found, command, context, self._outputs.private_tmp(context.session_id),
                cwd=cwd, timeout_s=timeout_s, network=network,
            )  # fmt: skip

        return await asyncio.to_thread(planned)

    def _check(self, plan: Plan, context: ToolContext) -> None:
        if context.approved_state and context.approved_state != plan.state:
            raise ToolError("its folder or its confinement has changed since it was approved; call it again")
        unconfined = plan.confined.how == "none" or (
            plan.confined.network != "none" and plan.program.confinement is not None
            and not plan.program.confinement.network
        )  # fmt: skip
        if self._settings.confinement is Confine.AUTO and unconfined and not context.approved_state:
            why = plan.confined.why
            raise ToolError(
                f"it cannot be confined here ({why}), and no person has agreed to this very call. Install bubblewrap,"
                " or allow unconfined commands by the setting confinement = 'off' of pluggent-shell"
            )


def new_repositories(plan: Plan) -> str:
    """Put aside what git would run of repositories that a confined command has made; return a line about it, or ""."""
    if plan.confined.how == "none" or not (made := set(repositories(plan.workspace)) - set(plan.repositories)):
        return ""
    from pluggent_shell.new_repositories import put_aside  # few commands make a repository

    aside = put_aside(sorted(made), plan.repositories, plan.workspace)
    if not aside:
        return ""
    names = ", ".join(repr(os.path.relpath(path, plan.workspace)) for path in aside[:_MOST_NAMED])
    more = f" and {len(aside) - _MOST_NAMED} more" if len(aside) > _MOST_NAMED else ""
    return (
        f"[new git repositories have settings or hooks that git would run without confinement: {names}{more};"
        " they were put aside, renamed to end with .put-aside]"
    )


def result(plan: Plan, outcome: Outcome, kept: Kept, output_id: str, warning: str = "") -> ToolOutput:
    """Return what the model reads of the end of a command; the person reads *warning*, too."""
    lines = [f"{outcome.words} after {outcome.duration_s:.1f} s, {outcome.confined}"]
    if outcome.why == "time limit":
        limit = f"its time limit of {plan.program.limits.wall_s:g} s"
        asked = "; the host permits no longer one (setting tool_timeout_s)" if plan.limited_by_host else ""
        lines[0] = f"ended by {limit}{asked}, {outcome.confined}"
    if outcome.left_behind:
        some = f"{outcome.left_behind} processes" if outcome.left_behind > 1 else "a process"
        lines.append(f"[{some} that it left running had to be ended: nothing runs on after a command]")
    lines += [warning] if warning else []
    data: dict[str, Json] = {
        "exit_code": outcome.exit_code, "signal": outcome.signal, "ended_by": outcome.why,
        "timed_out": outcome.why == "time limit", "duration_s": round(outcome.duration_s, 3),
        "confined": outcome.confined.how, "network": outcome.confined.network,
        "bytes": kept.size, "lines": kept.lines, "output_id": output_id,
    }  # fmt: skip
    text = "\n".join((*lines, shown_output(kept, output_id)))
    return ToolOutput(text, data=data, is_error=outcome.why != "exited", for_user=warning or None)


def shown_output(kept: Kept, output_id: str) -> str:
    """Return an output as the model reads it: cut in the middle, without colours and overwritten lines."""
    if not kept.size:
        return "[no output]"
    if _is_binary(kept.head):
        return f"[binary output, {kept.size:,} bytes]"
    if kept.whole:
        return readable(kept.head)
    head, tail = kept.head.rpartition("\n")[0] or kept.head, kept.tail.partition("\n")[2] or kept.tail
    first, last = head.count("\n") + 1, kept.lines - tail.count("\n") - (not tail.endswith("\n")) + 1
    size = kept.size - len(head.encode()) - len(tail.encode())
    lost = f"; {kept.problem}" if kept.problem else ""
    note = f"[{size:,} bytes left out: lines {first + 1} to {last - 1} of {kept.lines:,}{lost}; read_output reads them"
    return f"{readable(head)}\n{note}: output_id {output_id!r}]\n{readable(tail)}"


def readable(text: str) -> str:
    r"""Return *text* as a terminal would leave it, without colours.

    >>> readable("\x1b[31m10 %\r20 %\x1b[0m\r\nfine")
    '20 %\nfine'
    """
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines)


def _is_binary(text: str) -> bool:
    return len(_UNREADABLE.findall(text)) > _MOST_UNREADABLE * len(text)
