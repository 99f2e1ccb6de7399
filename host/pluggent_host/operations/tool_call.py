"""One tool call as an operation, and how its function is run. Every outcome is a value."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol, cast

import attrs
import msgspec
from pluggent_contract_values.escape import escape_all
from pluggent_contract_values.sanitize import clean
from pluggent_contract_values.tool_output import as_output
from pluggent_function_tools.arguments import ArgumentProblems, canonical
from pluggent_function_tools.function_tool import FunctionTool
from pluggent_hookspecs import Json, errors
from pluggent_hookspecs.decisions import REACHES, Allow, Ask, Decision, Deny, Reach
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ReserveEvent, Scope, ToolCallEvent, ToolResultEvent
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import Change, ToolFinished
from pluggent_hookspecs.tools import CallPreview, ToolContext, ToolOutput, UndoCall
from pluggent_plugin_loader.plugin_errors import is_interrupt, raised_at
from pluggent_transcript.doubts import UNSURE

from pluggent_host.common.running import Threads, being_cancelled, comes_from_outside, said
from pluggent_host.hooks.caller import Caller, Deadline, Late
from pluggent_host.hooks.ledgers import Cost
from pluggent_host.operations.operation import Attempt, Hooks, Journal, Operation, asked_by, with_digest
from pluggent_host.tools.toolset import BoundTool
from pluggent_host.tools.workspace_guard import Protected, why_outside

log = logging.getLogger("pluggent.tools")

HOOKS = Hooks(
    "transform_tool_call", "decide_tool_call", "around_tool_call", "transform_tool_result", "decide_tool_result"
)
STOPPING_S = 1.0
"""How long a call that was cancelled or timed out may take to clean up before it is left behind."""
DRY_RUN = "Dry run: '{}' has effects and was not run. Go on as if it had been."
MISFIT = (
    "Error: '{}' has returned data that do not fit its own schema of results, so they are not shown: {}. It may have"
    " taken effect."
)
CHANGED = "Error: '{}' has changed since it was offered, or is gone, so it was not run. Look at the tools again."
PREVIEW_S = 10.0
LONGEST_PREVIEW = 200_000
"""Characters of a preview; a person reads no more."""
_LARGE = 65_536
"""Bytes of arguments; the digest of a call holds more of them as their own digest."""
NO_PREVIEW = "none"
"""The state of a preview that failed: no tool ever finds its world in it."""
UNDO_BYTES = 4_000_000
"""How much of what would put back a call is kept, in bytes of its arguments."""


UNDIVIDED: Mapping[str, tuple[str, ...]] = MappingProxyType({"": ()})
"""In place of the parts of arguments that a tool failed to divide."""


def _is_sound(preview: CallPreview) -> bool:
    """Say whether the fields of *preview* have the declared types; its author's type checker may be off."""
    text, state, reach = attrs.astuple(preview)
    return isinstance(text, str) and isinstance(state, str) and reach in REACHES


class CallContext(ToolContext, Protocol):
    """A ToolContext that the host can end: afterwards it says ``cancelled`` and does nothing."""

    def end(self) -> None: ...


@attrs.frozen(eq=False, repr=False)
class CallRunner:
    """What running the calls of a turn needs of the host. ``protected`` are folders of the host's own.

    ``doubts`` returns why this very call must not simply run again, empty if nothing speaks against it.
    """

    caller: Caller
    threads: Threads
    protected: Protected
    context: Callable[[ToolCallOperation, Deadline], CallContext]
    doubts: Callable[[ToolCallOperation, ToolCallEvent], str]


class ToolCallOperation(Operation[ToolCallEvent, ToolOutput]):
    """One call of one tool.

    After the fact ``kind`` says how it failed, None if it did not; ``unsure`` that it may have
    taken effect or not, whatever became of its result; ``ends_turn`` that a policy wants it so.
    """

    name = "tool_call"
    hooks = HOOKS
    clock: Deadline
    """Of the attempt that runs, or of the last one."""
    looking = False
    """Whether its tool makes a preview and does nothing."""

    def __init__(
        self, runner: CallRunner, journal: Journal, scope: Scope, tool: BoundTool,
        call_id: str, arguments_json: bytes, round: int, index: int, timeout_s: float, id: str = "",
    ) -> None:  # fmt: skip
        event = ToolCallEvent(
            scope, call_id, tool.spec, tool.capability, arguments_json, tool.definition, tool.effects, round, index
        )
        if tool.has_parts:
            event = self._with_parts(event, tool)
        super().__init__(journal, scope, id or f"{scope.turn_id}.{round}.{index}", tool.capability, event)
        self._runner = runner
        self.tool = tool
        self.timeout_s = min(timeout_s, tool.spec.timeout_s or timeout_s)
        self._frozen = arguments_json
        self._printed = (b"", "")
        self.kind: ToolErrorKind | None = None
        self.unsure = False
        self.ends_turn = False
        self.ran = False
        self.elapsed_s = 0.0
        self.preview: CallPreview | None = None
        self.undo: tuple[UndoCall, ...] = ()
        """What puts back what this call has changed; see ToolOutput."""

    # ---- the request ---------------------------------------------------------------------

    def changed(self, event: ToolCallEvent, value: Any, plugin: str) -> ToolCallEvent:
        if not isinstance(value, Mapping):
            raise ValueError(f"returned {type(value).__name__}, not a mapping of arguments")
        try:
            arguments = self.tool.prepared_again(cast("Mapping[str, Json]", value))
        except ArgumentProblems as error:
            raise ValueError(f"returned arguments that the tool does not take: {'; '.join(error.problems)}") from error
        after = attrs.evolve(event, arguments_json=arguments)
        return self._with_parts(after, self.tool) if self.tool.has_parts else after

    def _with_parts(self, event: ToolCallEvent, tool: BoundTool) -> ToolCallEvent:
        try:
            parts = tool.parts(event.arguments_json)
        except Exception as error:  # noqa: BLE001 (a plugin's own code; without parts the call is denied)
            log.debug("tool %s did not divide its arguments: %s%s", event.capability, said(error), raised_at(error))
            parts = UNDIVIDED
        return attrs.evolve(event, parts=parts)

    def diff(self, before: ToolCallEvent, after: ToolCallEvent) -> Change:
        old, new = json.loads(before.arguments_json), json.loads(after.arguments_json)
        paths = sorted(key for key in old.keys() | new.keys() if old.get(key, ...) != new.get(key, ...))
        return Change("", tuple(paths), {k: old[k] for k in paths if k in old}, {k: new[k] for k in paths if k in new})

    def freeze(self, event: ToolCallEvent) -> ToolCallEvent:
        named, effects = self.tool.digested
        scope, arguments = event.scope, event.arguments_json
        if len(arguments) > _LARGE:  # read once: the fingerprint says all of them
            arguments = self.fingerprint(event).encode()
        session, call, id = scope.session_id.encode(), event.call_id.encode("utf-8", "surrogatepass"), self.id.encode()
        workspace = scope.workspace.encode("utf-8", "surrogateescape")
        # Each framed, as framed() does it; at once, because this is in the way of every call.
        said = b"%d:%b%d:%b%d:%b%b%d:%b%b%d:%b%b" % (
            len(session), session, len(call), call, len(id), id, named, len(workspace), workspace, effects,
            len(arguments), arguments, asked_by(scope),
        )  # fmt: skip
        self._frozen = event.arguments_json
        return with_digest(event, hashlib.sha256(said).hexdigest())

    @property
    def limit_s(self) -> float:
        return self.timeout_s

    def fingerprint(self, event: ToolCallEvent) -> str:
        """What this call is, whichever call it is below: capability and arguments."""
        if self._printed[0] is not event.arguments_json:  # asked for several times, in the way of every call
            said = hashlib.sha256(event.capability.encode() + b"\0" + event.arguments_json).hexdigest()
            self._printed = (event.arguments_json, said)
        return self._printed[1]

    def host_vote(self, event: ToolCallEvent) -> Decision | None:
        where, parameters = self.scope.workspace, event.tool.parameters
        if event.parts is UNDIVIDED:
            return Deny(f"'{event.tool.name}' failed to say what its arguments consist of")
        if self.tool.knows_files:
            touched = self._runner.protected.touched(event.arguments_json, where, parameters)
            if touched.inside:
                return Deny("this is what pluggent keeps for itself: sessions and approvals are for no tool")
            # A text such as "/" says nothing of a tool that need not know files: others have their default.
            if touched.above and self.tool.effects is not None and self.tool.changes:
                why = f"{touched.above} holds what pluggent keeps for itself: sessions and approvals"
                return Ask(why, tell_model="this call needs a person's approval")
        if self.tool.writes_files_only and self.scope.workspace:
            why = why_outside(parameters, event.arguments_json, where, self._runner.protected)
            if not why:
                return Allow("writes inside the workspace")
            return Ask(why, tell_model="this call needs a person's approval")
        return self.tool.default

    def doubt(self, event: ToolCallEvent) -> Ask | None:
        why = self._runner.doubts(self, event)
        return Ask(why, tell_model="this call needs a person's approval") if why else None

    def may_respond(self, plugin: str) -> bool:
        return plugin == self.tool.plugin

    def rendered(self, event: ToolCallEvent) -> str:
        arguments = msgspec.json.format(event.arguments_json, indent=2).decode()
        effects = "not declared" if event.effects is None else ", ".join(sorted(event.effects)) or "none"
        shown = "" if self.preview is None else f"\n\n{self.preview.text}"
        return (
            f"call {escape_all(event.tool.name)}  ({escape_all(event.capability)}, effects: {escape_all(effects)})\n"
            + "\n".join(escape_all(line) for line in f"{arguments}{shown}".split("\n"))
        )

    # ---- what a person is shown ----------------------------------------------------------

    @property
    def state(self) -> str:
        return "" if self.preview is None else self.preview.state

    @property
    def reach(self) -> Reach:
        return "always" if self.preview is None else self.preview.reach

    async def look(self, event: ToolCallEvent) -> None:
        """Let the tool say what the call would do, as things are now. A failure is said in its place."""
        if not self.tool.has_preview:
            return
        self.looking = True
        context = self._runner.context(self, Deadline(self.timeout_s))  # it says what the call will have
        try:
            preview = await self._previewed(event, context, Deadline(PREVIEW_S))
        except Late:
            preview = CallPreview(f"There is no preview: it took longer than {PREVIEW_S:g} s.", NO_PREVIEW)
        except BaseException as error:
            if comes_from_outside(error):
                raise
            why = error.message if isinstance(error, errors.ToolError) else said(error)
            preview = CallPreview(f"There is no preview: {why}", NO_PREVIEW)
        finally:
            context.end()
            self.looking = False
        if preview is not None and len(preview.text) > LONGEST_PREVIEW:
            cut = f"[... cut: {LONGEST_PREVIEW} of {len(preview.text)} characters shown ...]"
            preview = attrs.evolve(preview, text=f"{preview.text[:LONGEST_PREVIEW]}\n{cut}")
        self.preview = preview

    async def _previewed(self, event: ToolCallEvent, context: CallContext, clock: Deadline) -> CallPreview | None:
        tool, caller = self.tool.tool, self._runner.caller
        if isinstance(tool, FunctionTool):
            make = tool.preview(event.arguments_json, context)
            assert make is not None
            value: Any = await caller.bounded(self._runner.threads.run(make, label=event.capability), clock.left)
        else:
            value = cast("Any", tool).preview(json.loads(event.arguments_json), context)
        if inspect.isawaitable(value):
            value = await caller.bounded(value, clock.left, stopping_s=STOPPING_S)
        if value is None or (isinstance(value, CallPreview) and _is_sound(value)):
            return value
        raise TypeError(f"its preview is {type(value).__name__}, not a CallPreview or None")

    used = Usage()

    @property
    def outcome(self) -> str:
        """How it ended, as records have it: a ToolErrorKind, empty for a result of the tool's own."""
        return ToolErrorKind.OUTCOME_UNKNOWN if self.unsure else self.kind or ""

    @property
    def failure(self) -> str:
        # The kind alone: the words have not passed the result hooks yet.
        return str(self.kind or "")

    def refused(self, deny: Deny) -> None:
        self.ends_turn = self.ends_turn or deny.ends_turn

    def priced(self, cost_usd: float) -> None:
        """A ledger keeps by itself what tools cost: the usage of a turn is that of its models."""

    def cost(self, event: ToolCallEvent, attempt: int) -> Cost | None:
        if self.scope.dry_run:
            return None
        return Cost(ReserveEvent(self.scope, self.name, self.id, attempt, event.capability), self)

    # ---- running -------------------------------------------------------------------------

    async def execute(self, event: ToolCallEvent, attempt: Attempt) -> ToolOutput:
        if attempt.number > 1 and self.unsure and not self.tool.repeatable:
            return ToolOutput.error("Error: the first attempt may have taken effect, so it is not repeated.")
        if event.scope.dry_run and event.effects != frozenset():
            return ToolOutput(DRY_RUN.format(event.tool.name))
        if self.tool.still is not None and not await self.tool.still():
            self.kind = ToolErrorKind.NOT_RUN
            return ToolOutput.error(CHANGED.format(event.tool.name))
        return await self._run(event)

    async def _run(self, event: ToolCallEvent) -> ToolOutput:
        started = perf_counter()
        self.kind, self.unsure, self.ran, self.undo = None, False, True, ()
        self.clock = Deadline(self.timeout_s)
        context = self._runner.context(self, self.clock)
        try:
            value = await self._call(event, context, self.clock)
        except Late:
            self.kind = ToolErrorKind.TIMEOUT
            return ToolOutput.error(
                f"Error: '{event.tool.name}' did not answer within {self.timeout_s:g} s. It may have taken effect."
            )
        except ArgumentProblems as error:
            self.kind = ToolErrorKind.ARGUMENTS
            return _failed("; ".join(error.problems))
        except errors.ToolError as error:
            self.kind = error.kind
            return _failed(error.message)
        except asyncio.CancelledError:
            self.kind = ToolErrorKind.CANCELLED
            if being_cancelled():
                raise
            return ToolOutput.error(f"Error: '{event.tool.name}' cancelled itself.")
        except BaseException as error:
            if is_interrupt(error):
                raise
            # Its text is in the result, where it passes the hooks; a log is not filtered.
            log.debug("tool %s raised %s%s", event.capability, type(error).__name__, raised_at(error))
            self.kind = ToolErrorKind.FAILED
            return _failed(f"'{event.tool.name}' failed: {said(error)}")
        finally:
            self.unsure = self.kind in UNSURE
            context.end()
            self.elapsed_s = perf_counter() - started
        output = self._without_undo(as_output(value))
        unusable = output.is_error and not isinstance(value, ToolOutput)
        if problems := self.tool.misfits(output):
            output = ToolOutput.error(MISFIT.format(event.tool.name, problems))
            unusable = True
        if unusable:
            self.kind = ToolErrorKind.RESULT
        return output

    def _without_undo(self, output: ToolOutput) -> ToolOutput:
        """Return *output* for the policies and the model, and keep what would put back the call."""
        if not output.undo:
            return output
        if sum(len(canonical(each.arguments)) for each in output.undo) <= UNDO_BYTES:
            self.undo = output.undo
        return attrs.evolve(output, undo=())

    async def _call(self, event: ToolCallEvent, context: CallContext, clock: Deadline) -> object:
        tool = self.tool.tool
        caller = self._runner.caller
        if isinstance(tool, FunctionTool):
            bound = tool.bind(self._frozen, context)
            if not tool.is_async:
                value = await caller.bounded(self._runner.threads.run(bound, label=event.capability), clock.left)
                if not inspect.isawaitable(value):
                    return value
                return await caller.bounded(value, clock.left, stopping_s=STOPPING_S)
            return await caller.bounded(bound(), clock.left, stopping_s=STOPPING_S)
        # Decoded anew: what a hook may have done to its view of the arguments does not matter.
        return await caller.bounded(tool.call(json.loads(self._frozen), context), clock.left, stopping_s=STOPPING_S)

    # ---- the result ----------------------------------------------------------------------

    def finished(self, name: str, output: ToolOutput, seen: ToolOutput | None) -> ToolFinished:
        """Return the event of the end of this call of *name*; of *output*, *seen* may be seen (None: nothing)."""
        # What is for the person goes to him through the output policies, not past them.
        told = ToolOutput(is_error=output.is_error) if seen is None else seen
        if told.for_user or told.media:
            told = attrs.evolve(told, for_user=None, media=())
        return ToolFinished(
            self.scope, self.event.call_id, name, self.capability, told, self.elapsed_s, self.ran, self.outcome,
            withheld=seen is None,
        )  # fmt: skip

    def response(self, value: object) -> ToolOutput:
        output = as_output(value)
        if output.is_error and not isinstance(value, ToolOutput):
            raise ValueError(f"answered with something unusable: {output.for_model}")
        if problems := self.tool.misfits(output):
            raise ValueError(f"answered with data that do not fit the tool's result_schema: {problems}")
        return output

    def result_event(self, event: ToolCallEvent, result: ToolOutput) -> ToolResultEvent:
        return ToolResultEvent(
            event.scope,
            event.call_id,
            event.tool,
            event.capability,
            event.arguments_json,
            result,
            event.round,
            event.index,
        )

    def changed_result(self, event: ToolResultEvent, value: Any, plugin: str) -> ToolResultEvent:
        if not isinstance(value, ToolOutput):
            raise ValueError(f"returned {type(value).__name__}, not a ToolOutput")
        output = as_output(value)
        if output.is_error and value.is_error is not True:
            raise ValueError(f"returned something unusable: {output.for_model}")
        return attrs.evolve(event, output=output)

    def result(self, event: ToolResultEvent) -> ToolOutput:
        return event.output

    def withheld(self, event: ToolCallEvent, deny: Deny) -> ToolOutput:
        self.kind = ToolErrorKind.WITHHELD if self.ran else ToolErrorKind.DENIED
        self.ends_turn = self.ends_turn or deny.ends_turn
        return ToolOutput.error(clean(f"The result of this call was withheld: {deny.tell_model}"))

    def broken(self, event: ToolCallEvent, error: errors.PluggentError) -> ToolOutput:
        self.kind = ToolErrorKind.WITHHELD if self.ran else ToolErrorKind.DENIED
        return ToolOutput.error("The result of this call was withheld, because a policy on results failed.")


def _failed(text: str) -> ToolOutput:
    """Return that a tool has failed; *text* is its own, and may hold a file name that is not valid text."""
    return ToolOutput.error(clean(f"Error: {text}"))
