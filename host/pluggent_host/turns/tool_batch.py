"""Runs all tool calls of one reply: decided in order, run side by side, each with one result.

Every outcome is a value for the model. Calls with effects run one after the other among
themselves, an exclusive one alone; asks are put to a person when the rest is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ToolCallEvent
from pluggent_hookspecs.messages import Message, Part, Text, ToolCall
from pluggent_hookspecs.observations import ToolFinished, ToolStarted
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.arguments import ArgumentProblems
from pluggent_host.batch_turn import BatchTurn
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.nearest import nearest
from pluggent_host.pausing import Pending
from pluggent_host.results import fit
from pluggent_host.slots import Slot, notable, outcome_of, segments, stops, unknown_tool, with_shown
from pluggent_host.standing import limits, narrowest
from pluggent_host.step import Spent, ToolsSettled
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import Dispatched, Settled, close_call
from pluggent_host.wellformed import clean, clean_message

NOBODY = "This call needs a person's approval, and nobody was there to give it. It was not run."

WOULD_ASK = "Dry run: '{}' would need a person's approval ({}) and was not run. Go on as if it had been."

NOT_APPROVED = "This call was not run: one before it was not approved."

SKIPPED = (
    "This call was not run: '{0}', a call before it in the same reply, {1}, and what stands behind it runs"
    " only if it succeeds. Look at that result first."
)

REFUSED = "a person has already refused exactly this call"
TOO_OFTEN = "this turn has asked a person too often"


@attrs.frozen
class BatchRun:
    """What came of a batch; messages and outputs in the order of the calls. ``pending`` calls have neither yet."""

    messages: tuple[Message, ...]
    outputs: tuple[ToolOutput, ...]
    settled: ToolsSettled
    pending: tuple[Pending, ...] = ()


async def run_batch(turn: BatchTurn, offered: Toolset, calls: Sequence[ToolCall], round: int) -> BatchRun:
    """Run *calls*; every one has exactly one result afterwards.

    A cancellation reaches every running call, gives the open ones their result, and goes on.
    """
    batch = Batch(turn, offered, round)
    try:
        run = await batch.run(calls)
    except BaseException:
        batch.close()
        raise
    if not run.pending:
        turn.add(*run.messages)
    return run


class Batch:
    """The calls of one reply on their way; see run_batch."""

    def __init__(self, turn: BatchTurn, offered: Toolset, round: int) -> None:
        self._turn = turn
        self._offered = offered
        self._round = round
        self._slots: list[Slot] = []
        self._unread: list[ToolCall] = []

    async def run(self, calls: Sequence[ToolCall]) -> BatchRun:
        """Decide all *calls* in order, then run what may run."""
        self._unread = list(calls)
        for index, call in enumerate(calls):
            self._slots.append(await self._decided(call, index))
            self._unread.pop(0)
        return await self._go_on()

    async def _go_on(self) -> BatchRun:
        stopper: Slot | None = None
        for segment in segments(self._slots):
            last = segment[-1]
            if stopper is not None:
                await self._skip(segment, stopper)
            elif any(slot.unanswered or slot.pending for slot in self._slots):  # nothing overtakes one in its place
                await self._leave(segment)
            else:
                await self._dispatch([slot for slot in segment if isinstance(slot.decided, Ready)])
                await self._run_segment(segment)
                if last.open and last.in_place:
                    await self._ask(last)
            stopper = stopper or (last if last.stopped else None)
        for slot in self._slots:
            if slot.open:
                await self._ask(slot)
        messages = tuple(slot.message for slot in self._slots if slot.message is not None)
        settled = ToolsSettled(
            tuple(
                outcome_of(slot, served=self._turn.may_serve(slot.operation.capability()))
                for slot in self._slots
                if slot.message is not None
            ),
            tuple(slot.unanswered for slot in self._slots if slot.unanswered),
            sum(slot.asked for slot in self._slots),
            Spent(),
            tuple(slot.call.id for slot in self._slots if slot.pending is not None),
        )
        outputs = tuple(slot.output for slot in self._slots if slot.output is not None)
        pending = tuple(slot.pending for slot in self._slots if slot.pending is not None)
        return BatchRun(messages, outputs, settled, pending)

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

    async def _decided(self, call: ToolCall, index: int) -> Slot:
        tool = self._offered.get(call.name)
        problem, kind, arguments = "", None, b"{}"
        if tool is None:
            tool = unknown_tool(call.name)
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
        slot = self._slot(call, operation, note=note)
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

    def _slot(self, call: ToolCall, operation: ToolCallOperation, **more: Any) -> Slot:
        turn = self._turn
        stopping = stops(operation.tool, turn.stops_batch)
        return Slot(call, operation, effects_seen=turn.effects, stops=stopping, **more)

    async def _note(self, slot: Slot, decided: Decided[ToolCallEvent, ToolOutput]) -> None:
        slot.decided = decided
        slot.asked = isinstance(decided, Asked)
        if isinstance(decided, Denied):
            await self._deny(slot, decided.deny)
        elif self._turn.refused and slot.operation.fingerprint(decided.event) in self._turn.refused:
            await self._deny(slot, Deny(REFUSED))

    def _offer(self) -> str:
        return f"Offered are: {', '.join(self._offered)}." if self._offered else "No tools are offered."

    # ---- run -----------------------------------------------------------------------------

    async def _dispatch(self, slots: Sequence[Slot]) -> None:
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

    def key(self, slot: Slot) -> str:
        """The idempotency key: the same for every attempt at this call."""
        return f"{self._turn.scope.session_id}.{slot.operation.id}"

    async def _leave(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if slot.message is None and self._turn.pauses:
                self._wait(slot)
            elif slot.message is None:
                await self._pass_over(slot, ToolErrorKind.NOT_RUN, NOT_APPROVED)

    async def _skip(self, slots: Sequence[Slot], stopper: Slot) -> None:
        text = SKIPPED.format(stopper.call.name, "was denied" if stopper.denied else "failed")
        for slot in slots:
            if slot.message is None:
                await self._pass_over(slot, ToolErrorKind.SKIPPED, text)

    async def _pass_over(self, slot: Slot, kind: ToolErrorKind, text: str) -> None:
        slot.dispatched, slot.asked, slot.note = False, False, ""
        self._turn.quota.give_back(slot.operation.tool)
        slot.operation.kind = kind
        await self._settle(slot, ToolOutput.error(text))

    async def _run_segment(self, slots: Sequence[Slot]) -> None:
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

    async def _perform_in_order(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            await self._perform(slot)

    async def _perform(self, slot: Slot) -> None:
        if isinstance(slot.decided, Ready | Answered):
            decided = await self._current(slot, slot.decided)
            if decided is not slot.decided:
                await self._note(slot, decided)
                slot.dispatched = slot.dispatched and isinstance(decided, Ready)
            if slot.message is None and isinstance(decided, Ready | Answered):
                await self._execute(slot, decided)

    async def _current(
        self, slot: Slot, decided: Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput]
    ) -> Decided[ToolCallEvent, ToolOutput]:
        """Return *decided*, decided again if a sibling has taken effect since."""
        if slot.effects_seen == self._turn.effects:
            return decided
        slot.effects_seen = self._turn.effects
        return await self._turn.operations.confirm(decided)

    async def _execute(
        self, slot: Slot, decided: Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput]
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
            failed = ToolOutput.error(clean(f"Error: this call failed in a plugin around it: {error}"))
            output = await turn.operations.finish(slot.operation, event, failed)
        turn.effects += slot.operation.ran and slot.operation.tool.changes
        await self._settle(slot, output)

    async def _ask(self, slot: Slot) -> None:
        asked = slot.decided
        if not isinstance(asked, Asked):
            return
        if slot.operation.fingerprint(asked.event) in self._turn.refused:  # since it was decided about
            await self._deny(slot, Deny(REFUSED))
            return
        decided = self._turn.answer(asked)
        if decided is None and not self._turn.may_ask():
            await self._deny(slot, Deny(TOO_OFTEN))
            return
        decided = decided or await self._turn.put(asked)
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
            case None:
                await self._unanswered(slot, asked.verdict.reason)

    async def _unanswered(self, slot: Slot, reason: str) -> None:
        if self._turn.scope.dry_run:
            await self._settle(slot, ToolOutput(WOULD_ASK.format(slot.call.name, reason)))
        elif self._turn.pauses:
            self._wait(slot)
        else:
            slot.unanswered = f"'{slot.call.name}' needs approval: {reason}"
            await self._fail(slot, NOBODY)

    def _wait(self, slot: Slot) -> None:
        """Leave the call as it is: somebody is to be asked about it later."""
        decided = slot.decided
        event = slot.operation.event if decided is None else decided.event
        # One that only waits for another has no ask of its own; it is decided about again then.
        asked = decided.asks if isinstance(decided, Asked) else ()
        asks = tuple((plugin, ask.tell_user) for plugin, ask in asked)
        slot.dispatched = False
        slot.pending = Pending(
            slot.call.id, slot.call.name, event.capability, event.definition, event.arguments_json, event.digest,
            asks, slot.operation.rendered(event), event.scope.workspace, event.scope.principal,
            narrowest(asked), limits(asked),
            self._turn.operations.identities(asked),
        )  # fmt: skip

    # ---- settle --------------------------------------------------------------------------

    async def _deny(self, slot: Slot, deny: Deny) -> None:
        slot.ends_turn = slot.ends_turn or deny.ends_turn
        await self._fail(slot, f"Denied: {deny.tell_model}")

    async def _fail(self, slot: Slot, text: str) -> None:
        slot.denied = True
        slot.operation.kind = ToolErrorKind.DENIED
        if not slot.operation.ran:
            self._turn.quota.give_back(slot.operation.tool)
            slot.note = ""
        await self._settle(slot, ToolOutput.error(clean(text)))

    async def _settle(self, slot: Slot, output: ToolOutput) -> None:
        turn, operation = self._turn, slot.operation
        slot.ends_turn = slot.ends_turn or operation.ends_turn
        output, whole = fit(output, turn.quota.result_bytes(operation.tool))
        content: tuple[Part, ...] = (
            (Text(output.for_model),) if isinstance(output.for_model, str) else tuple(output.for_model)
        )
        if slot.note:
            content = (*content, Text(f"\n\n{slot.note}"))
        message = clean_message(Message.tool(slot.call, content, is_error=output.is_error))
        outcome = operation.outcome
        slot.output = output
        told = notable(slot, served=turn.may_serve(operation.capability()))
        turn.append(Settled(turn.scope.turn_id, slot.call.id, message, outcome, whole, told))
        slot.message = message  # not before it is durable
        if slot.dispatched and slot.decided is not None:
            turn.settled(operation, slot.decided.event, outcome)
        turn.tell(
            ToolFinished(
                turn.scope,
                slot.call.id,
                slot.call.name,
                operation.capability(),
                # What is for the person goes to him through the output policies, not past them.
                attrs.evolve(output, for_user=None, media=()) if output.for_user or output.media else output,
                operation.elapsed_s,
                operation.ran,
                outcome,
            )
        )
        shown = (*((Text(output.for_user),) if output.for_user else ()), *output.media)
        if shown and not (output.silent and turn.may_serve(operation.capability())):
            out = await turn.show(Message.assistant(shown), operation.capability())
            slot.output = with_shown(output, out)
