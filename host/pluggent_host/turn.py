"""The loop of one turn: asks step.py what is next, and does it through operations."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from time import perf_counter, time
from typing import Any, TypeVar, assert_never

import attrs
from pluggent_hookspecs.errors import Denied as Refused
from pluggent_hookspecs.events import InputEvent, Scope, ToolCallEvent
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import FinishReason, ModelRequest
from pluggent_hookspecs.observations import DecisionMade, Observation, TextShown, TurnEnded, TurnStarted, UserNotified
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.batch import BatchRun, run_batch
from pluggent_host.clock import Deadline
from pluggent_host.conversation import Agent, Conversation, Services, began
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.deltas import follow, thoughts, visible
from pluggent_host.edges import InputOperation
from pluggent_host.feed import Feed
from pluggent_host.model_round import ask_model
from pluggent_host.modelcalls import ModelCallOperation
from pluggent_host.nested import NestedCalls
from pluggent_host.pausing import Paused
from pluggent_host.quota import Quota
from pluggent_host.selecting import select_tools
from pluggent_host.showing import Showing, unasked
from pluggent_host.step import (
    EVENTS,
    AskModel,
    Done,
    Event,
    Pause,
    Replied,
    RunTools,
    Spent,
    Started,
    State,
    Stopped,
    Why,
    step,
)
from pluggent_host.toolcalls import CallContext, ToolCallOperation
from pluggent_host.transcript import (
    BY_HOST,
    WARNING,
    Decided as DecidedEntry,
    Entry,
    Said,
    TurnOver,
    close_call,
)
from pluggent_host.turn_result import TurnResult, broken_by
from pluggent_host.wellformed import clean_message, with_distinct_ids

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")


class Turn:
    """One turn of one session. Used once."""

    def __init__(
        self, services: Services, conversation: Conversation, agent: Agent, scope: Scope, feed: Feed | None
    ) -> None:
        self.scope = scope
        self.operations = services.operations
        self.limits = agent.limits
        self.quota = Quota(agent.limits)
        self.caller = services.caller
        self.threads = services.threads
        self.protected = agent.protected
        self.runner = self
        self.refused: set[str] = set()
        self.effects = 0
        self._services = services
        self.conversation = conversation
        self._agent = agent
        self._feed = feed
        self._deltas = follow(self, scope, feed, services.chains, services.caller, services.settings.stream)
        self.offered = agent.tools
        self.said = Message.user("")
        self.ended = False
        self.reply: Message | None = None
        self.batch: BatchRun | None = None
        self.round = 0
        self._value: tuple[Any, ...] = ()
        self.so_far = ""
        self.usage = Usage()
        self.started = perf_counter()
        self._thinking_s = 0.0
        self._asks = 0
        self.out = Showing(self, scope, self.operations, services.chains, self._deltas, self.put)
        self._nested = NestedCalls(self, agent, services)

    # ---- the journal ---------------------------------------------------------------------

    def record(self, decision: DecisionMade) -> None:
        self.conversation.append(DecidedEntry(decision))

    def tell(self, event: Observation) -> None:
        self._services.tell(event)
        if self._feed is not None:
            self._feed.put(event)

    def append(self, *entries: Entry) -> None:
        self.conversation.append(*entries)

    def add(self, *messages: Message) -> None:
        self.conversation.add(*messages)

    async def commit(self) -> None:
        if self._services.settings.fsync != "off":
            await self.threads.run(self.conversation.transcript.sync)

    # ---- the turn ------------------------------------------------------------------------

    async def run(self, message: Message) -> TurnResult[Any]:
        """Run the whole turn. Raises ProviderError and HookError; policies and limits are results."""
        # Its number is taken from here on, whatever comes of it: keys of effects are made of it.
        self.append(began(self.scope, self._services))
        operation: InputOperation[TurnResult[Any] | Message] = InputOperation(
            self, self.scope, clean_message(message), self._run
        )
        try:
            decided = await self.operations.decide(operation)
            if isinstance(decided, Asked):
                decided = await self.put(decided) or unasked(decided)
            if isinstance(decided, Denied):
                return self.over(Done(Why.DENIED, decided.deny.tell_user))
            assert isinstance(decided, Ready | Answered)
            result: TurnResult[Any] | Message = await self.operations.perform(decided)
            if not isinstance(result, Message):
                return result
            self._begin(decided.event.message)
            return await self.answered(result)
        except BaseException as error:
            ended = self.broken(error)
            if ended is None:
                raise
            return ended

    def broken(self, error: BaseException) -> TurnResult[Any] | None:
        """End the turn because of *error*, unless it has ended before; return its result if that is a denial."""
        if self.ended:
            return None
        if isinstance(error, Refused):
            return self.over(Done(Why.DENIED, error.reason))
        self.over(broken_by(error))
        return None

    async def _run(self, event: InputEvent) -> TurnResult[Any]:
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
        assert self.batch is not None
        paused = Paused(
            self.scope.turn_id, time(), self.round, self.batch.pending, state.progress(), self.batch.settled.outcomes,
            self.usage, self.spent().elapsed_s, tuple(self.refused), self.quota.counted(), self.so_far,
            self._agent.terms(self.scope),
        )  # fmt: skip
        self.append(paused)
        self.conversation.wait(paused, self.said, self.batch.messages, self._agent.form)
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
                return await self._ask_model(round, (told,) if warning else ())
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

    def spent(self) -> Spent:
        return Spent(perf_counter() - self.started - self._thinking_s, self.usage)

    def spend(self, usage: Usage) -> None:
        self.usage += usage

    def left_s(self, most: float) -> float:
        """Seconds that one wait may take: *most*, capped by what is left of the turn."""
        if self.limits.wall_s is None:
            return most
        return max(0.001, min(most, self.limits.wall_s - self.spent().elapsed_s))

    # ---- the model -----------------------------------------------------------------------

    async def _ask_model(self, round: int, warned: Sequence[Message] = ()) -> Event:
        agent = self._agent
        chain, hook_s = self._services.chains["select_tools"], self._services.settings.timeouts.hook_s
        tools = await agent.offer.latest()
        offered = await select_tools(chain, self.caller, hook_s, self, self.scope, tools)
        system = (agent.system,) if agent.system is not None else ()
        request = ModelRequest(
            agent.model.name, (*system, *self.conversation.messages, *warned), offered.specs, agent.parameters
        )
        operation = ModelCallOperation(
            self, self.scope, agent.model.provider, agent.model.capability, request, offered, round,
            lambda: self.left_s(self._services.settings.timeouts.model_s), self._deltas, self._services.model, self.put,
        )  # fmt: skip
        response = await ask_model(self, operation)
        if isinstance(response, Stopped):
            return response
        self.offered = operation.offered
        message = with_distinct_ids(clean_message(response.message), round)
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

    async def show(self, message: Message, source: str) -> Message | None:
        out = await self.out.released(message, source)
        if out is not None:
            self.out.notes.append(out.text)
            self.tell(UserNotified(self.scope, out, source))
        return out

    # ---- people --------------------------------------------------------------------------

    async def put(self, asked: Asked[E, R]) -> Decided[E, R] | None:
        decided = await self.wait_for_person(self.operations.ask(asked))
        self.conversation.approved(decided, asked, self.operations.identities(asked.asks))
        return decided

    async def wait_for_person(self, answer: Awaitable[T]) -> T:
        started = perf_counter()
        self._asks += 1
        try:
            return await answer
        finally:
            self._thinking_s += perf_counter() - started

    @property
    def stops_batch(self) -> tuple[str, ...]:
        return self._services.settings.stops_batch

    @property
    def pauses(self) -> bool:
        return self._services.settings.on_ask == "pause"

    def answer(self, asked: Asked[ToolCallEvent, ToolOutput]) -> Decided[ToolCallEvent, ToolOutput] | None:
        stands = self.conversation.stands(asked.event, asked.asks, self.operations.identities(asked.asks))
        if stands is None:
            return None
        return self.operations.approved(asked, stands.by, f"approved before, {stands.how}")

    def may_ask(self) -> bool:
        return self._asks < self.limits.asks

    def may_serve(self, capability: str) -> bool:
        return capability in self._services.settings.grants.handled

    # ---- what running calls need ---------------------------------------------------------

    def context(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return self._nested.context(call, clock)

    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str:
        return self.conversation.doubts(call, event, self.threads.running())

    def settled(self, call: ToolCallOperation, event: ToolCallEvent, outcome: str) -> None:
        self.conversation.settled(call.fingerprint(event), outcome)
