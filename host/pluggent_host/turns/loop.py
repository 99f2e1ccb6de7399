"""The loop of one turn: asks step.py what is next, and does it through operations."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from time import time
from typing import Any, TypeVar, assert_never

import attrs
from pluggent_hookspecs.errors import Denied as Refused
from pluggent_hookspecs.events import InputEvent, ModelRequestEvent
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import FinishReason, ModelRequest, ModelResponse
from pluggent_hookspecs.observations import TextShown, TurnEnded, TurnStarted

from pluggent_host.batch import BatchRun, run_batch
from pluggent_host.conversation import began
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.deltas import thoughts, visible
from pluggent_host.edges import InputOperation
from pluggent_host.holding import Hold, pending_of
from pluggent_host.model_round import ask_model
from pluggent_host.modelcalls import ModelCallOperation
from pluggent_host.pausing import Paused, Pending
from pluggent_host.selecting import select_tools
from pluggent_host.showing import unasked
from pluggent_host.step import (
    EVENTS,
    AskModel,
    Done,
    Event,
    Held,
    Pause,
    Replied,
    RunTools,
    Started,
    State,
    Stopped,
    Why,
    step,
)
from pluggent_host.transcript import (
    BY_HOST,
    WARNING,
    Said,
    TurnOver,
    close_call,
)
from pluggent_host.turn_books import Books
from pluggent_host.turn_result import TurnResult, broken_by
from pluggent_host.wellformed import clean_message, with_distinct_ids

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")


class Turn(Books):
    """One turn of one session. Used once."""

    # ---- the turn ------------------------------------------------------------------------

    async def run(self, message: Message) -> TurnResult[Any]:
        """Run the whole turn. Raises ProviderError and HookError; policies and limits are results."""
        # Its number is taken from here on, whatever comes of it: keys of effects are made of it.
        self.append(began(self.scope, self._services))
        operation: InputOperation[TurnResult[Any] | Message] = InputOperation(
            self, self.scope, clean_message(message), self.start
        )
        try:
            decided = await self.operations.decide(operation)
            return await self.begun(await self.consent(decided) if isinstance(decided, Asked) else decided)
        except BaseException as error:
            ended = self.broken(error)
            if ended is None:
                raise
            return ended

    async def begun(self, decided: Decided[InputEvent, TurnResult[Any] | Message]) -> TurnResult[Any]:
        """Run the turn as it was *decided* about what is said, or wait for a person to agree to that."""
        match decided:
            case Denied(deny=deny):
                return self.over(Done(Why.DENIED, deny.tell_user))
            case Asked(event=event):
                pending = pending_of(decided, self.operations.identities(decided.asks))
                self.said = event.message
                if pending is None:
                    return self.over(Done(Why.DENIED, unasked(decided).deny.tell_user))
                return self._pause(State(self.limits), (pending,))
            case Ready() | Answered():
                result: TurnResult[Any] | Message = await self.operations.perform(decided)
                if not isinstance(result, Message):
                    return result
                self._begin(decided.event.message)
                return await self.answered(result)

    def broken(self, error: BaseException) -> TurnResult[Any] | None:
        """End the turn because of *error*, unless it has ended before; return its result if that is a denial."""
        if self.ended:
            return None
        if isinstance(error, Refused):
            return self.over(Done(Why.DENIED, error.reason))
        self.over(broken_by(error))
        return None

    async def start(self, event: InputEvent) -> TurnResult[Any]:
        """Take in what was said, and go on from there."""
        self._begin(event.message)
        return await self.drive(State(self.limits), Started())

    async def drive(self, state: State, event: Event | Awaitable[Event]) -> TurnResult[Any]:
        """Go on from *state* with *event* until the turn is over, or waits for a person."""
        try:
            state, effect = step(state, event if isinstance(event, EVENTS) else await event)
            while not isinstance(effect, Done | Pause):
                state, effect = step(state, await self._do(effect))
        except BaseException as error:
            self.over(broken_by(error))
            raise
        if isinstance(effect, Pause):
            return self._wait(state)
        self._close(effect)
        return self.over(effect)

    def _wait(self, state: State) -> TurnResult[Any]:
        if self.held is not None:
            return self._pause(state, (self.held.pending,), before=self.held.before, warning=self.held.warning)
        assert self.batch is not None
        settled = self.batch.settled
        return self._pause(state, self.batch.pending, self.batch.messages, outcomes=settled.outcomes, now=settled.asks)

    def _pause(
        self, state: State, pending: tuple[Pending, ...], results: Sequence[Message] = (), *, now: int = 1, **more: Any
    ) -> TurnResult[Any]:
        terms = attrs.evolve(self._agent.terms(self.scope), agreed=self.agreed)
        # Asked again when the turn goes on, the questions of *now* count then.
        paused = Paused(
            self.scope.turn_id, time(), self.round, pending, state.progress(), usage=self.usage,
            elapsed_s=self.spent().elapsed_s, refused=tuple(self.refused), counted=self.quota.counted(),
            so_far=self.so_far, terms=terms, asks=max(0, self.asks - now), **more,
        )  # fmt: skip
        self.conversation.wait(paused, self.said, results, self._agent.form)
        try:
            self.append(paused)
        except BaseException:
            self.conversation.close_waiting()  # what is written nowhere does not wait
            raise
        return self.paused(paused)

    def paused(self, paused: Paused) -> TurnResult[Any]:
        """Leave the turn as it is; return what it waits with."""
        self.ended = True
        detail = "; ".join(f"'{each.name}' needs approval: {each.why}" for each in paused.pending if each.asks)
        return attrs.evolve(self.result(Done(Why.PAUSED, detail)), pending=paused.pending)

    async def answered(self, answer: Message) -> TurnResult[Any]:
        """End the turn with what a policy, or a layer around it, answered in its place."""
        if not await self.say(answer):
            return self.over(Done(Why.DENIED, self.out.last_note))
        problems = "; ".join(self._read_output(answer))
        return self.over(Done(Why.INVALID_OUTPUT, problems) if problems else Done(Why.COMPLETED))

    def _begin(self, message: Message) -> None:
        self.said = message
        self.append(Said(self.scope.turn_id, message))
        self.conversation.add(message)
        self.tell(TurnStarted(self.scope, message))

    async def _do(self, effect: AskModel | RunTools) -> Event:
        match effect:
            case AskModel(round, notice, warning):
                told = Message.user(notice or warning)
                if notice or warning:
                    self.append(Said(self.scope.turn_id, told, BY_HOST if notice else WARNING))
                if notice:
                    self.add(told)
                return await self._ask_model(round, "" if notice else warning)
            case RunTools(_, round):
                assert self.reply is not None
                return self.after(await run_batch(self, self.offered, self.reply.tool_calls, round), round)
            case _:
                assert_never(effect)

    def after(self, run: BatchRun, round: int) -> Event:
        """Return what the next step has to know of *run*, the batch of the reply of *round*."""
        self.batch, self.round = run, round
        return attrs.evolve(run.settled, spent=self.spent())

    def _close(self, done: Done) -> None:
        calls = self.reply.tool_calls if self.reply is not None and done.close else ()
        closing = [close_call(self.scope.turn_id, call) for call in calls if call.id in done.close]
        self.add(*(entry.message for entry in closing))
        self.append(*closing)

    def over(self, done: Done) -> TurnResult[Any]:
        self.append(TurnOver(self.scope.turn_id, done.why, done.detail, self.usage))
        self.ended = True
        return self.result(done)

    def result(self, done: Done) -> TurnResult[Any]:
        """Tell that the turn is over, and return what it came to."""
        answered = done.why in (Why.COMPLETED, Why.INVALID_OUTPUT)
        text = self.so_far + visible(self.reply) if answered and self.reply else "\n".join(self.out.notes)
        self.tell(TurnEnded(self.scope, done.why, text, self.usage, done.detail))
        result: TurnResult[Any] = TurnResult(
            text, done.why, self.usage, self.scope.turn_id, self.reply, done.detail, done.limit
        )
        if not self._value or done.why is not Why.COMPLETED:
            return result
        return attrs.evolve(result, value=self._value[0], has_output=True)

    # ---- the model -----------------------------------------------------------------------

    async def _ask_model(self, round: int, warning: str = "") -> Event:
        operation = await self.request(round, warning)
        response = await ask_model(self, operation)
        if isinstance(response, Asked):
            return self.hold(response, operation.freeze(operation.event).digest, warning)
        return await self.replied(operation, response)

    def hold(self, asked: Asked[ModelRequestEvent, ModelResponse], before: str, warning: str) -> Event:
        """Keep the request until a person has agreed to it; for *before* and *warning* see Paused."""
        pending = pending_of(asked, self.operations.identities(asked.asks))
        if pending is None:
            return Stopped(Why.DENIED, unasked(asked).deny.tell_user)
        self.held, self.round = Hold(pending, before, warning), asked.event.round
        return Held()

    async def request(self, round: int, warning: str) -> ModelCallOperation:
        """Return the request of *round*, with the tools that are offered now."""
        agent = self._agent
        chain, hook_s = self._services.chains["select_tools"], self._services.settings.timeouts.hook_s
        tools = await agent.offer.latest()
        offered = await select_tools(chain, self.caller, hook_s, self, self.scope, tools)
        system = (agent.system,) if agent.system is not None else ()
        warned = (Message.user(warning),) if warning else ()
        request = ModelRequest(
            agent.model.name, (*system, *self.conversation.messages, *warned), offered.specs, agent.parameters
        )
        return ModelCallOperation(
            self, self.scope, agent.model.provider, agent.model.capability, request, offered, round,
            lambda: self.left_s(self._services.settings.timeouts.model_s), self._deltas, self._services.model, self.put,
        )  # fmt: skip

    async def replied(self, operation: ModelCallOperation, response: ModelResponse | Stopped) -> Event:
        """Take in the reply to *operation*."""
        self.held = None
        if isinstance(response, Stopped):
            return response
        self.offered = operation.offered
        message = with_distinct_ids(clean_message(response.message), operation.event.round)
        if not await self.say(message):
            return Stopped(Why.DENIED, self.out.last_note)
        reply = self.reply
        assert reply is not None
        paused = response.finish_reason is FinishReason.PAUSED and not reply.tool_calls
        if paused:
            self.so_far += visible(reply)
        elif reply.tool_calls:
            self.so_far = ""
        problems = () if paused or reply.tool_calls else self._read_output(reply)
        calls = tuple((call.id, f"{call.name} {call.arguments}") for call in reply.tool_calls)
        return Replied(calls, self.spent(), paused, problems)

    def _read_output(self, reply: Message) -> tuple[str, ...]:
        """Read *reply* in the form that was asked for; return what is wrong with it."""
        if self._agent.form is None:
            return ()
        self._value, problems = self._agent.form.of_reply(reply, self.so_far)
        self.so_far = "" if problems else self.so_far
        return problems

    # ---- what the person sees ------------------------------------------------------------

    async def say(self, message: Message) -> bool:
        """Let a reply pass the output policies, show it, and take it into the conversation."""
        seen = message
        if message.content:
            out = await self.out.released(message, "reply")
            if out is None:
                return False
            seen = attrs.evolve(out, tool_calls=message.tool_calls)
        if self._deltas is not None:
            self._deltas.settle(visible(seen), thoughts(seen))
        elif visible(seen):
            self.tell(TextShown(self.scope, visible(seen)))
        self.append(Said(self.scope.turn_id, seen))
        self.conversation.add(seen)
        self.reply = seen
        return True
