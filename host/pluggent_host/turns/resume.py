"""A paused turn goes on: from its stored bytes, decided again, with the answers that were given."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from time import time
from typing import Any, TypeVar

import attrs
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import InputEvent, ToolCallEvent
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.batch import Batch, BatchRun
from pluggent_host.decided import Asked, Decided, Denied, Ready
from pluggent_host.edges import InputOperation
from pluggent_host.holding import frozen_again, pending_of
from pluggent_host.model_round import ask_model
from pluggent_host.operation import Operation
from pluggent_host.pausing import Pending, Resolved, Resumed, Waiting
from pluggent_host.showing import unasked
from pluggent_host.slots import Slot, unknown_tool
from pluggent_host.standing import asked_by, limits, may_approve
from pluggent_host.step import Done, Event, State, Stopped, Why
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.turn import Turn
from pluggent_host.turn_result import TurnResult

E = TypeVar("E")
R = TypeVar("R")

CHANGED = "Denied: the tool, or what is known of it, has changed since a person was asked about this call."


class ResumedTurn(Turn):
    """The second part of a turn that was paused. Used once."""

    def __init__(self, *parts: Any, waiting: Waiting) -> None:
        super().__init__(*parts)
        self._waiting = waiting
        self.said = waiting.said
        paused = waiting.paused
        if paused.stage == "tool_call":
            self.reply = self.conversation.messages[-1]
        self.round, self.asks, self.agreed = paused.round, paused.asks, paused.terms.agreed
        self.usage, self.so_far = paused.usage, paused.so_far
        self.refused |= set(paused.refused)
        self.quota.restore(paused.counted)
        self.started -= paused.elapsed_s

    def used_since(self, before: Usage) -> Usage:
        """Return what this part of the turn has used."""
        fields = attrs.asdict(self.usage)
        then = attrs.asdict(before)
        counts = {name: _less(value, then[name]) for name, value in fields.items() if name != "estimated"}
        return Usage(**counts, estimated=self.usage.estimated)

    async def resume(self) -> TurnResult[Any]:
        """Go on with the turn. Raises as Turn.run; what is still not answered pauses it again."""
        self.append(Resumed(self.scope.turn_id, time()))
        operation: InputOperation[TurnResult[Any] | Message] = InputOperation(
            self, self.scope, self.said, self._go_on, resumed=True
        )
        try:
            decided = await self._decide_input(operation, operation.freeze(operation.event))
            if self._waiting.paused.stage == "input":
                return await self.begun(decided)
            if isinstance(decided, Asked):
                return self._wait_longer(decided)
            if not isinstance(decided, Ready):
                why = (
                    decided.deny.tell_user if isinstance(decided, Denied) else "a policy answered in place of going on"
                )
                return self.give_up(Done(Why.DENIED, why))
            result: TurnResult[Any] | Message = await self.operations.perform(decided)
            if not isinstance(result, Message):
                return result
            self.conversation.close_waiting()
            return await self.answered(result)
        except BaseException as error:
            ended = self.broken(error)
            if ended is None:
                raise
            return ended

    async def _decide_input(
        self, operation: InputOperation[TurnResult[Any] | Message], event: InputEvent
    ) -> Decided[InputEvent, TurnResult[Any] | Message]:
        if (refused := self._refused(operation, event)) is not None:
            return refused
        decided = await self.operations.decide_frozen(operation, event)
        return await self.consent(decided) if isinstance(decided, Asked) else decided

    def _refused(self, operation: Operation[E, R], event: E) -> Denied[E, R] | None:
        """Return the refusal of a person if there is one: it is final, whatever policies say by now."""
        given = self._waiting.resolved.get(operation.digest(event))
        if given is None or given.agreed:
            return None
        return self.operations.refused(operation, event, given.by, given.reason)

    def _wait_longer(self, asked: Asked[InputEvent, Any]) -> TurnResult[Any]:
        """Leave all as it is, and wait for an answer to what is asked anew about what was said, too."""
        waiting = self._waiting
        before = waiting.paused
        calls = () if self.reply is None else self.reply.tool_calls
        # A model may give its calls any ids, and an answer must not be meant for two.
        id = asked.event.digest if asked.operation.id in {call.id for call in calls} else ""
        pending = pending_of(asked, self.operations.identities(asked.asks), id)
        if pending is None:
            return self.give_up(Done(Why.DENIED, unasked(asked).deny.tell_user))
        others = [each for each in before.pending if each.kind != "input"]
        paused = attrs.evolve(before, pending=(pending, *others))
        self.append(paused)
        self.conversation.waiting = attrs.evolve(waiting, paused=paused)
        return self.paused(paused)

    async def _go_on(self, event: InputEvent) -> TurnResult[Any]:
        paused = self._waiting.paused
        if paused.stage == "input":
            self.conversation.waiting = None
            return await self.start(event)
        state = State.resumed(self.limits, paused.progress)
        return await self.drive(state, self._settle() if paused.stage == "tool_call" else self._ask_again())

    async def _ask_again(self) -> Event:
        paused = self._waiting.paused
        self.conversation.waiting = None
        operation = await self.request(paused.round, paused.warning)
        # What would be sent now may be another request, that nobody has approved: it goes the usual way.
        frozen = frozen_again(operation, paused)
        if frozen is not None and (refused := self._refused(operation, frozen)) is not None:
            return Stopped(Why.DENIED, refused.deny.tell_user)
        response = await ask_model(self, operation, frozen)
        if isinstance(response, Asked):
            return self.hold(response, operation.freeze(operation.event).digest, paused.warning)
        return await self.replied(operation, response)

    async def _settle(self) -> Event:
        assert self.reply is not None
        batch = ResumedBatch(self, self.offered, self._waiting.paused.round)
        self.conversation.waiting = None
        try:
            run = await batch.resume(self.reply.tool_calls, self._waiting)
        except BaseException:
            batch.close()
            raise
        # What was asked about before the pause counts, too.
        before = int(str(self._waiting.paused.progress["asks"]))
        self.asks = max(before, self._waiting.paused.asks) + run.settled.asks
        if run.pending:
            self.conversation.waiting = self._waiting
        else:
            self.add(*run.messages)
        return self.after(run, self._waiting.paused.round)

    def answer(self, asked: Asked[ToolCallEvent, ToolOutput]) -> Decided[ToolCallEvent, ToolOutput] | None:
        return self._answered(asked) or super().answer(asked)

    def _answered(self, asked: Asked[E, R]) -> Decided[E, R] | None:
        """Return what the answer that is stored comes to, if it is one to all that is *asked* now."""
        if (refused := self._refused(asked.operation, asked.event)) is not None:
            return refused
        digest = asked.operation.digest(asked.event)
        given = self._waiting.resolved.get(digest)
        known = {ask for each in self._waiting.paused.pending if each.digest == digest for ask in each.asked}
        if given is None or not self._covered(asked, known, given.by):
            return None
        self.agree(asked, given.by)
        return self.operations.approved(asked, given.by, given.reason)

    def given(self, asked: Asked[E, R]) -> Decided[E, R] | None:
        if (answer := self._answered(asked)) is not None:
            self.asks += 1
            return answer
        agreed = self.agreed
        if agreed is None or agreed.digest != asked.operation.digest(asked.event):
            return None
        if not self._covered(asked, frozenset(agreed.asked), agreed.by):
            return None
        return self.operations.approved(asked, agreed.by, "approved when the turn began")

    def _covered(self, asked: Asked[Any, Any], known: AbstractSet[tuple[str, str, str]], by: str) -> bool:
        """Say whether *by*, who has agreed to what is *known*, may have agreed to all that is *asked* now."""
        same = asked_by(asked.asks, self.operations.identities(asked.asks)) <= known
        return same and may_approve(limits(asked.asks), by)

    def give_up(self, done: Done) -> TurnResult[Any]:
        """End the turn: every open call has its one result."""
        self.conversation.withdraw(str(done.why))
        self.ended = True
        return self.result(done)

    def over(self, done: Done) -> TurnResult[Any]:
        self.conversation.close_waiting()
        return super().over(done)


def _less(now: float | None, before: float | None) -> Any:
    return now if now is None or before is None else now - before


class ResumedBatch(Batch):
    """The calls of a reply of which some were pending."""

    async def resume(self, calls: tuple[ToolCall, ...], waiting: Waiting) -> BatchRun:
        """Settle what is open of *calls*; what had its result keeps it."""
        pending = {each.call_id: each for each in waiting.paused.pending}
        outcomes = {**{outcome.call_id: outcome for outcome in waiting.paused.outcomes}, **waiting.told}
        # All of them first, so that a cancellation finds every call where it is.
        self._slots += [self._found(call, index, waiting) for index, call in enumerate(calls)]
        for index, slot in enumerate(self._slots):
            if slot.message is not None:
                slot.outcome = outcomes.get(slot.call.id)
            elif (known := pending.get(slot.call.id)) is None:
                # The process ended before it was decided about: it takes the usual way.
                self._slots[index] = await self._decided(slot.call, index)
            else:
                given = waiting.resolved.get(known.digest)
                self._slots[index] = await self._decided_again(slot.call, index, known, given)
        return await self._go_on()

    def _found(self, call: ToolCall, index: int, waiting: Waiting) -> Slot:
        slot = self._slot(call, self._operation(call, index, b"{}"), message=waiting.results.get(call.id))
        if slot.message is not None:
            slot.output = ToolOutput(slot.message.content, is_error=slot.message.is_error)
        return slot

    async def _decided_again(self, call: ToolCall, index: int, pending: Pending, given: Resolved | None) -> Slot:
        turn = self._turn
        operation = self._operation(call, index, pending.arguments_json)
        event = operation.freeze(operation.event)
        slot = self._slot(call, operation)
        tool = operation.tool
        same = pending.capability == tool.capability and pending.definition == tool.definition
        moved = pending.workspace != turn.scope.workspace  # then it is a request that nobody has answered yet
        if not same or (pending.digest and event.digest != pending.digest and not moved):
            operation.kind = ToolErrorKind.DENIED
            await self._settle(slot, ToolOutput.error(CHANGED))
            return slot
        if given is not None and not given.agreed:  # that is final, whatever policies say by now
            turn.refused.add(operation.fingerprint(event))
            await self._note(slot, turn.operations.refused(operation, event, given.by, given.reason))
            return slot
        await self._note(slot, await turn.operations.decide_frozen(operation, event))
        return slot

    def _operation(self, call: ToolCall, index: int, arguments_json: bytes) -> ToolCallOperation:
        turn = self._turn
        tool = self._offered.get(call.name) or unknown_tool(call.name)
        return ToolCallOperation(
            turn.runner, turn, turn.scope, tool, call.id, arguments_json, self._round, index,
            turn.left_s(turn.quota.timeout_s(tool)),
        )  # fmt: skip
