"""Resumes a paused turn: from its stored bytes, decided again, with the answers that were given."""

from __future__ import annotations

from time import time
from typing import Any

import attrs
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import InputEvent
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.tools import ToolOutput
from pluggent_transcript.pending import Pending, Resolved, Resumed, Waiting

from pluggent_host.operations.input_output import InputOperation
from pluggent_host.operations.operation import Asked, Denied, Ready, Settled, unanswered
from pluggent_host.operations.tool_call import ToolCallOperation
from pluggent_host.tools.unknown_tool import unknown_tool
from pluggent_host.turns.consent import Waits, pending_of
from pluggent_host.turns.loop import Turn
from pluggent_host.turns.next_step import Done, Event, State, Why
from pluggent_host.turns.result import TurnResult
from pluggent_host.turns.tool_batch import Batch, BatchRun, Slot

CHANGED = "Denied: the tool, or what is known of it, has changed since a person was asked about this call."


class ResumedTurn:
    """The second part of a turn that was paused. Used once."""

    def __init__(self, turn: Turn, waiting: Waiting) -> None:
        """Go on with *turn*, made from the same *waiting*."""
        self._turn = turn
        self._waiting = waiting
        self._stage = waiting.paused.stage

    def used_since(self, before: Usage) -> Usage:
        """Return what this part of the turn has used."""
        now, then = attrs.asdict(self._turn.meter.usage), attrs.asdict(before)
        less = {name: count - then[name] for name, count in now.items() if None not in (count, then[name])}
        return Usage(**{**now, **less, "estimated": self._turn.meter.usage.estimated})

    async def resume(self) -> TurnResult[Any]:
        """Go on with the turn. Raises as Turn.run; what is still not answered pauses it again."""
        self._turn.record.append(Resumed(self._turn.scope.turn_id, time()))
        operation: InputOperation[TurnResult[Any] | Message] = InputOperation(
            self._turn.record, self._turn.scope, self._turn.said, self._go_on, resumed=True
        )
        try:
            event = operation.freeze(operation.event)
            decided: Settled[InputEvent, Any] | Waits[InputEvent, Any] | None
            decided = await self._turn.consent.stored_refusal(operation, event)
            if decided is None:
                again = await self._turn.operations.decide_frozen(operation, event)
                decided = await self._turn.consent.settle(again)
            if self._stage == "input":
                return await self._turn.begun(decided)
            if isinstance(decided, Waits):
                return await self._wait_longer(decided.asked)
            if not isinstance(decided, Ready):
                why = (
                    decided.deny.tell_user if isinstance(decided, Denied) else "a policy answered in place of going on"
                )
                return self._give_up(Done(Why.DENIED, why))
            result: TurnResult[Any] | Message = await self._turn.operations.perform(decided)
            if not isinstance(result, Message):
                return result
            self._turn.conversation.close_waiting()
            return await self._turn.answered(result)
        except BaseException as error:
            ended = self._turn.broken(error)
            if ended is None:
                raise
            return ended

    async def _wait_longer(self, asked: Asked[InputEvent, Any]) -> TurnResult[Any]:
        """Leave all as it is, and wait for an answer to what is asked anew about what was said, too."""
        waiting = self._waiting
        before = waiting.paused
        calls = () if self._turn.reply is None else self._turn.reply.tool_calls
        # A model may give its calls any ids, and an answer must not be meant for two.
        id = asked.event.digest if asked.operation.id in {call.id for call in calls} else ""
        pending = pending_of(asked, self._turn.operations.identities(asked.asks), id)
        if pending is None:
            return self._give_up(Done(Why.DENIED, unanswered(asked).deny.tell_user))
        others = [each for each in before.pending if each.kind != "input"]
        paused = attrs.evolve(before, pending=(pending, *others))
        self._turn.record.append(paused)
        await self._turn.record.commit()
        self._turn.conversation.waiting = attrs.evolve(waiting, paused=paused)
        return self._turn.paused(paused)

    async def _go_on(self, event: InputEvent) -> TurnResult[Any]:
        paused = self._waiting.paused
        if self._stage == "input":
            self._turn.conversation.waiting = None
            return await self._turn.start(event)
        state = State.resumed(self._turn.meter.limits, paused.progress)
        if self._stage == "tool_call":
            return await self._turn.drive(state, self._settle())
        self._turn.conversation.waiting = None
        return await self._turn.drive(state, self._turn.ask_model(paused.round, paused.warning, paused))

    async def _settle(self) -> Event:
        assert self._turn.reply is not None
        batch = ResumedBatch(self._turn.parts, self._turn.runner, self._turn.offered, self._waiting.paused.round)
        self._turn.conversation.waiting = None
        try:
            run = await batch.resume(self._turn.reply.tool_calls, self._waiting)
        except BaseException:
            batch.close()
            raise
        # What was asked about before the pause counts, too.
        before = int(str(self._waiting.paused.progress["asks"]))
        self._turn.meter.asks = max(before, self._waiting.paused.asks) + run.settled.asks
        if run.pending:
            self._turn.conversation.waiting = self._waiting
        else:
            self._turn.record.add(*run.messages)
        return self._turn.after(run, self._waiting.paused.round)

    def _give_up(self, done: Done) -> TurnResult[Any]:
        """End the turn: every open call has its one result."""
        self._turn.conversation.withdraw(str(done.why))
        self._turn.ended = True
        return self._turn.result(done)


class ResumedBatch(Batch):
    """The calls of a reply of which some were pending."""

    async def resume(self, calls: tuple[ToolCall, ...], waiting: Waiting) -> BatchRun:
        """Settle what is open of *calls*; what had its result keeps it."""
        pending = {each.call_id: each for each in waiting.paused.pending}
        outcomes = {**{outcome.call_id: outcome for outcome in waiting.paused.outcomes}, **waiting.told}
        # All of them first, so that a cancellation finds every call where it is.
        self._slots += [self._found(call, index, waiting, pending.get(call.id)) for index, call in enumerate(calls)]
        for index, slot in enumerate(self._slots):
            if slot.message is not None:
                slot.outcome = outcomes.get(slot.call.id)
            elif (known := pending.get(slot.call.id)) is None:
                # The process ended before it was decided about: it takes the usual way.
                self._slots[index] = await self._decided(slot.call, index)
            else:
                given = waiting.resolved.get(known.digest)
                await self._decide_again(slot, known, given)
        return await self._go_on()

    def _found(self, call: ToolCall, index: int, waiting: Waiting, pending: Pending | None) -> Slot:
        tool = self._tool(call) or unknown_tool(call.name)
        arguments = b"{}" if pending is None else pending.arguments_json
        slot = self._slot(call, tool, index, arguments, message=waiting.results.get(call.id))
        if slot.message is not None:
            slot.output = ToolOutput(slot.message.content, is_error=slot.message.is_error)
        return slot

    async def _decide_again(self, slot: Slot, pending: Pending, given: Resolved | None) -> None:
        turn, operation, tool = self._turn, slot.operation, slot.operation.tool
        event = operation.freeze(operation.event)
        same = pending.capability == tool.capability and pending.definition == tool.definition
        if not same or (pending.digest and event.digest != pending.digest and not self._is_new(operation, pending)):
            operation.kind = ToolErrorKind.DENIED
            await self._settle(slot, ToolOutput.error(CHANGED))
            return
        if given is not None and not given.agreed:  # that is final, whatever policies say by now
            await self._note(slot, await turn.consent.refuse(operation, event, given))
            return
        await self._note(slot, await turn.operations.decide_frozen(operation, event))

    def _is_new(self, operation: ToolCallOperation, pending: Pending) -> bool:
        """Say whether this request has no answer yet: another folder or principal, or one that digests did not name."""
        scope, event = self._turn.scope, operation.event
        if (pending.workspace, pending.principal) != (scope.workspace, scope.principal):
            return True
        # Digests of an earlier version did not say who asks.
        nameless = attrs.evolve(event, scope=attrs.evolve(event.scope, principal=""))
        return operation.freeze(nameless).digest == pending.digest
