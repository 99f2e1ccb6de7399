"""Runs all tool calls of one reply: decided in order, run side by side, each with one result.

Every outcome is a value for the model. Calls with effects run one after the other among
themselves, an exclusive one alone; asks are put to a person when the rest is done.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ToolCallEvent, ToolFinished, ToolStarted
from pluggent_hookspecs.messages import Message, Part, Text, ToolCall
from pluggent_hookspecs.tools import ToolOutput, ToolSpec

from pluggent_host.arguments import ArgumentProblems, Checker
from pluggent_host.batch_turn import BatchTurn
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.nearest import nearest
from pluggent_host.results import fit
from pluggent_host.step import Outcome, Spent, ToolsSettled
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolset import BoundTool, Toolset, by_effect
from pluggent_host.transcript import Dispatched, Settled, close_call

NOBODY = "This call needs a person's approval, and nobody was there to give it. It was not run."

WOULD_ASK = "Dry run: '{}' would need a person's approval ({}) and was not run. Go on as if it had been."

REFUSED = "a person has already refused exactly this call"


@attrs.define
class _Slot:
    """One call on its way to its one result."""

    call: ToolCall
    operation: ToolCallOperation
    decided: Decided[ToolCallEvent, ToolOutput] | None = None
    dispatched: bool = False
    begun: bool = False
    effects_seen: int = 0
    """How many calls of the batch had taken effect when this one was decided."""
    asked: bool = False
    unanswered: str = ""
    note: str = ""
    denied: bool = False
    ends_turn: bool = False
    output: ToolOutput | None = None
    message: Message | None = None


@attrs.frozen
class BatchRun:
    """What came of a batch; messages and outputs in the order of the calls."""

    messages: tuple[Message, ...]
    outputs: tuple[ToolOutput, ...]
    settled: ToolsSettled


async def run_batch(turn: BatchTurn, offered: Toolset, calls: Sequence[ToolCall], round: int) -> BatchRun:
    """Run *calls*; every one has exactly one result afterwards.

    A cancellation reaches every running call, gives the open ones their result, and goes on.
    """
    batch = _Batch(turn, offered, round)
    try:
        run = await batch.run(calls)
    except BaseException:
        batch.close()
        raise
    turn.add(*run.messages)
    return run


class _Batch:
    def __init__(self, turn: BatchTurn, offered: Toolset, round: int) -> None:
        self._turn = turn
        self._offered = offered
        self._round = round
        self._slots: list[_Slot] = []
        self._unread: list[ToolCall] = []

    async def run(self, calls: Sequence[ToolCall]) -> BatchRun:
        self._unread = list(calls)
        for index, call in enumerate(calls):
            self._slots.append(await self._decided(call, index))
            self._unread.pop(0)
        await self._dispatch([slot for slot in self._slots if isinstance(slot.decided, Ready)])
        for segment in _segments(self._slots):
            if any(slot.unanswered for slot in self._slots):  # an exclusive one: nothing overtakes it
                await self._leave(segment)
            else:
                await self._run_segment(segment)
        for slot in self._slots:
            if slot.message is None:
                await self._ask(slot)
        messages = tuple(slot.message for slot in self._slots if slot.message is not None)
        settled = ToolsSettled(
            tuple(_outcome(slot, served=self._turn.may_serve(slot.operation.capability())) for slot in self._slots),
            tuple(slot.unanswered for slot in self._slots if slot.unanswered),
            sum(slot.asked for slot in self._slots),
            Spent(),
        )
        outputs = tuple(slot.output for slot in self._slots if slot.output is not None)
        return BatchRun(messages, outputs, settled)

    def close(self) -> None:
        """Give every call that has none its result, after a cancellation or a failure."""
        turn_id = self._turn.scope.turn_id
        messages: list[Message] = []
        closing: list[Settled] = []
        for slot in self._slots:
            if slot.message is None:
                closing.append(close_call(turn_id, slot.call, dispatched=slot.dispatched, begun=slot.begun))
                if slot.dispatched and slot.decided is not None:
                    self._turn.settled(slot.operation, slot.decided.event, ToolErrorKind.OUTCOME_UNKNOWN)
            messages.append(slot.message or closing[-1].message)
        closing += [close_call(turn_id, call) for call in self._unread]
        messages += [entry.message for entry in closing[len(closing) - len(self._unread) :]]
        # In memory first: a disk that is full must not leave the conversation torn.
        self._turn.add(*messages)
        self._turn.append(*closing)

    # ---- decide --------------------------------------------------------------------------

    async def _decided(self, call: ToolCall, index: int) -> _Slot:
        tool = self._offered.get(call.name)
        problem, kind, arguments = "", None, b"{}"
        if tool is None:
            tool = _unknown(call.name)
            problem = f"Error: there is no tool {call.name!r}{nearest(call.name, self._offered) or '.'} {self._offer()}"
            kind = ToolErrorKind.UNKNOWN
        else:
            try:
                arguments = tool.prepare(call.arguments)
            except ArgumentProblems as error:
                problem = f"Error: invalid arguments for '{call.name}': {'; '.join(error.problems)}"
                kind = ToolErrorKind.ARGUMENTS
        turn, note = self._turn, ""
        if not problem:
            taken = turn.quota.take(tool)
            problem, note, kind = taken.refusal, taken.note, ToolErrorKind.LIMIT
        operation = ToolCallOperation(
            turn.runner, turn, turn.scope, tool, call.id, arguments, self._round, index,
            turn.left_s(turn.quota.timeout_s(tool)),
        )  # fmt: skip
        slot = _Slot(call, operation, effects_seen=turn.effects, note=note)
        if problem:
            operation.kind = kind
            output = await turn.operations.finish(operation, operation.event, ToolOutput.error(problem))
            await self._settle(slot, output)
            return slot
        try:
            slot.decided = await turn.operations.decide(operation)
        except errors.HookError as error:
            await self._fail(slot, f"Denied: a policy failed, so this was not done ({error.plugin}).")
            return slot
        await self._note(slot, slot.decided)
        return slot

    async def _note(self, slot: _Slot, decided: Decided[ToolCallEvent, ToolOutput]) -> None:
        slot.decided = decided
        if isinstance(decided, Asked):
            slot.asked = True
            if slot.operation.fingerprint(decided.event) in self._turn.refused:
                await self._deny(slot, Deny(REFUSED))
        elif isinstance(decided, Denied):
            await self._deny(slot, decided.deny)

    def _offer(self) -> str:
        return f"Offered are: {', '.join(self._offered)}." if self._offered else "No tools are offered."

    # ---- run -----------------------------------------------------------------------------

    async def _dispatch(self, slots: Sequence[_Slot]) -> None:
        risky = [slot for slot in slots if not slot.operation.tool.repeatable]
        if not risky or self._turn.scope.dry_run:
            return
        entries = tuple(
            (slot.call.id, self.key(slot), slot.operation.fingerprint(slot.decided.event))
            for slot in risky
            if slot.decided is not None
        )
        self._turn.append(Dispatched(self._turn.scope.turn_id, entries))
        for slot in risky:
            slot.dispatched = True
        await self._turn.commit()

    def key(self, slot: _Slot) -> str:
        """The idempotency key: the same for every attempt at this call."""
        return f"{self._turn.scope.session_id}.{slot.operation.id}"

    async def _leave(self, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            if slot.message is None:
                slot.dispatched = False
                slot.operation.kind = ToolErrorKind.NOT_RUN
                await self._settle(slot, ToolOutput.error("This call was not run: one before it was not approved."))

    async def _run_segment(self, slots: Sequence[_Slot]) -> None:
        free = [slot for slot in slots if not slot.operation.tool.serial]
        serial = [slot for slot in slots if slot.operation.tool.serial]
        if len(free) + bool(serial) <= 1:
            for slot in slots:
                await self._perform(slot)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for slot in free:
                    group.create_task(self._perform(slot))
                if serial:
                    group.create_task(self._perform_in_order(serial))
        except BaseExceptionGroup as failures:
            # Calls fail as values; what comes out is one failure of the host, such as a full disk.
            raise failures.exceptions[0] from failures

    async def _perform_in_order(self, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            await self._perform(slot)

    async def _perform(self, slot: _Slot) -> None:
        if slot.operation.tool.spec.exclusive and isinstance(slot.decided, Asked):
            await self._ask(slot)
            return
        if isinstance(slot.decided, Ready | Answered):
            decided = await self._current(slot, slot.decided)
            if decided is not slot.decided:
                await self._note(slot, decided)
                slot.dispatched = slot.dispatched and isinstance(decided, Ready)
            if slot.message is None and isinstance(decided, Ready | Answered):
                await self._execute(slot, decided)

    async def _current(
        self, slot: _Slot, decided: Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput]
    ) -> Decided[ToolCallEvent, ToolOutput]:
        """Return *decided*, decided again if a sibling has taken effect since."""
        if slot.effects_seen == self._turn.effects:
            return decided
        slot.effects_seen = self._turn.effects
        return await self._turn.operations.confirm(decided)

    async def _execute(
        self, slot: _Slot, decided: Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput]
    ) -> None:
        turn, event = self._turn, decided.event
        slot.begun = True
        turn.tell(ToolStarted(turn.scope, slot.call.id, slot.call.name, event.capability, event.arguments_json))
        try:
            output = await turn.operations.perform(decided)
        except errors.Denied as error:
            await self._deny(slot, Deny(error.tell_model, tell_user=error.reason))
            return
        except errors.PluggentError as error:
            slot.operation.kind = slot.operation.kind or ToolErrorKind.FAILED
            failed = ToolOutput.error(f"Error: this call failed in a plugin around it: {error}")
            output = await turn.operations.finish(slot.operation, event, failed)
        turn.effects += slot.operation.ran and slot.operation.tool.changes
        slot.ends_turn = slot.ends_turn or slot.operation.ends_turn
        await self._settle(slot, output)

    async def _ask(self, slot: _Slot) -> None:
        asked = slot.decided
        if not isinstance(asked, Asked):
            return
        if slot.operation.fingerprint(asked.event) in self._turn.refused:
            await self._deny(slot, Deny(REFUSED))
            return
        if not self._turn.may_ask():
            await self._deny(slot, Deny("this turn has asked a person too often"))
            return
        decided = await self._turn.put(asked)
        if isinstance(decided, Ready | Answered):
            decided = await self._current(slot, decided)
        match decided:
            case Ready() | Answered():
                slot.decided = decided
                await self._dispatch([slot] if isinstance(decided, Ready) else [])
                await self._execute(slot, decided)
            case Denied(deny=deny):
                self._turn.refused.add(slot.operation.fingerprint(asked.event))
                await self._deny(slot, deny)
            case Asked():
                await self._deny(slot, Deny("a policy asks about something else now; the approval does not cover it"))
            case None if self._turn.scope.dry_run:
                await self._settle(slot, ToolOutput(WOULD_ASK.format(slot.call.name, asked.verdict.reason)))
            case None:
                slot.unanswered = f"'{slot.call.name}' needs approval: {asked.verdict.reason}"
                await self._fail(slot, NOBODY)

    # ---- settle --------------------------------------------------------------------------

    async def _deny(self, slot: _Slot, deny: Deny) -> None:
        slot.ends_turn = slot.ends_turn or deny.ends_turn
        await self._fail(slot, f"Denied: {deny.tell_model}")

    async def _fail(self, slot: _Slot, text: str) -> None:
        slot.denied = True
        slot.operation.kind = ToolErrorKind.DENIED
        if not slot.begun:
            self._turn.quota.give_back(slot.operation.tool)
            slot.note = ""
        await self._settle(slot, ToolOutput.error(text))

    async def _settle(self, slot: _Slot, output: ToolOutput) -> None:
        turn, operation = self._turn, slot.operation
        output, whole = fit(output, turn.quota.result_bytes(operation.tool))
        content: tuple[Part, ...] = (
            (Text(output.for_model),) if isinstance(output.for_model, str) else tuple(output.for_model)
        )
        if slot.note:
            content = (*content, Text(f"\n\n{slot.note}"))
        message = Message.tool(slot.call, content, is_error=output.is_error)
        outcome = ToolErrorKind.OUTCOME_UNKNOWN if operation.unsure else operation.kind or ""
        turn.append(Settled(turn.scope.turn_id, slot.call.id, message, outcome, whole))
        slot.output, slot.message = output, message
        if slot.dispatched and slot.decided is not None:
            turn.settled(operation, slot.decided.event, outcome)
        turn.tell(
            ToolFinished(
                turn.scope,
                slot.call.id,
                slot.call.name,
                operation.capability(),
                # What is for the person goes to him through the output policies, not past them.
                attrs.evolve(output, for_user=None, media=()),
                operation.elapsed_s,
                operation.ran,
            )
        )
        shown = (*((Text(output.for_user),) if output.for_user else ()), *output.media)
        if shown and not (output.silent and turn.may_serve(operation.capability())):
            await turn.show(Message.assistant(shown), operation.capability())


def _segments(slots: Sequence[_Slot]) -> list[list[_Slot]]:
    """Cut a batch at its exclusive calls, each of which is a segment of its own."""
    segments: list[list[_Slot]] = [[]]
    for slot in slots:
        if slot.operation.tool.spec.exclusive:
            segments += [[slot], []]
        else:
            segments[-1].append(slot)
    return [segment for segment in segments if segment]


def _outcome(slot: _Slot, *, served: bool) -> Outcome:
    output = slot.output or ToolOutput()
    seen = hashlib.sha256(repr(output.for_model).encode("utf-8", "surrogatepass")).hexdigest()
    return Outcome(slot.call.id, seen, slot.denied, slot.ends_turn, output.handled and served, output.pause_for_input)


def _unknown(name: str) -> BoundTool:
    """Return a stand-in for a tool that does not exist, so that its failure takes the usual way."""
    spec = ToolSpec(name)
    return BoundTool(f"unknown:tool/{name}", "", spec, _Nothing(spec), "", None, by_effect(None), Checker({}))


class _Nothing:
    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def call(self, arguments: object, context: object) -> ToolOutput:
        raise errors.ToolError(f"there is no tool {self.spec.name!r}", kind=ToolErrorKind.UNKNOWN)
