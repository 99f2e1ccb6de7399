"""The loop of one turn: asks step.py what is next, and does it through operations."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, TypeVar, assert_never

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import (
    DecisionMade,
    InputEvent,
    Observation,
    Scope,
    TextShown,
    ToolCallEvent,
    TurnEnded,
    TurnStarted,
    UserNotified,
)
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import FinishReason, ModelRequest, ModelResponse

from pluggent_host.arguments import ArgumentProblems
from pluggent_host.batch import run_batch
from pluggent_host.calling import uncancelled
from pluggent_host.clock import Deadline
from pluggent_host.conversation import Agent, Conversation, Services, began
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.deltas import follow, visible
from pluggent_host.edges import InputOperation, OutputOperation
from pluggent_host.feed import Feed
from pluggent_host.modelcalls import ModelCallOperation
from pluggent_host.nested import NestedCalls
from pluggent_host.quota import Quota
from pluggent_host.selecting import select_tools
from pluggent_host.step import AskModel, Done, Event, Replied, RunTools, Spent, Started, State, Stopped, Why, step
from pluggent_host.toolcalls import CallContext, ToolCallOperation
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import (
    SURE,
    UNSURE,
    Decided as DecidedEntry,
    Entry,
    Said,
    Spending,
    TurnOver,
    close_call,
)
from pluggent_host.turn_result import TurnResult
from pluggent_host.wellformed import clean_message, with_distinct_ids

E = TypeVar("E")
R = TypeVar("R")

NOBODY = "a person has to approve this first, and nobody was there to ask"


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
        self._conversation = conversation
        self._agent = agent
        self._feed = feed
        self._deltas = follow(self, scope, feed, services.chains, services.caller, services.settings.stream)
        self._offered = agent.tools
        self._reply: Message | None = None
        self._value: tuple[Any, ...] = ()
        self._so_far = ""
        self._notes: list[str] = []
        self.usage = Usage()
        self._started = perf_counter()
        self._thinking_s = 0.0
        self._asks = 0
        self._shown = 0
        self._nested = NestedCalls(self, agent, services)

    # ---- the journal ---------------------------------------------------------------------

    def record(self, decision: DecisionMade) -> None:
        self._conversation.append(DecidedEntry(decision))

    def tell(self, event: Observation) -> None:
        self._services.tell(event)
        if self._feed is not None:
            self._feed.put(event)

    def append(self, *entries: Entry) -> None:
        self._conversation.append(*entries)

    def add(self, *messages: Message) -> None:
        self._conversation.add(*messages)

    async def commit(self) -> None:
        if self._services.settings.fsync != "off":
            await self.threads.run(self._conversation.transcript.sync)

    # ---- the turn ------------------------------------------------------------------------

    async def run(self, message: Message) -> TurnResult[Any]:
        """Run the whole turn. Raises ProviderError and HookError; policies and limits are results."""
        # Its number is taken from here on, whatever comes of it: keys of effects are made of it.
        self.append(began(self.scope, self._services))
        operation: InputOperation[TurnResult[Any] | Message] = InputOperation(
            self, self.scope, clean_message(message), self._run
        )
        decided = await self.operations.decide(operation)
        if isinstance(decided, Asked):
            decided = await self.put(decided) or _unasked(decided)
        if isinstance(decided, Denied):
            return self._over(Done(Why.DENIED, decided.deny.tell_user))
        assert isinstance(decided, Ready | Answered)
        result: TurnResult[Any] | Message = await self.operations.perform(decided)
        if isinstance(result, Message):
            return await self._answered(decided.event, result)
        return result

    async def _run(self, event: InputEvent) -> TurnResult[Any]:
        self._begin(event.message)
        state, effect = step(State(self.limits), Started())
        try:
            while not isinstance(effect, Done):
                state, effect = step(state, await self._do(effect))
        except asyncio.CancelledError:
            self._over(Done(Why.CANCELLED))
            raise
        except BaseException as error:
            self._over(Done(Why.FAILED, str(error)))
            raise
        self._close(effect)
        return self._over(effect)

    async def _answered(self, event: InputEvent, answer: Message) -> TurnResult[Any]:
        self._begin(event.message)
        if not await self._say(answer):
            return self._over(Done(Why.DENIED, self._last_note()))
        problems = "; ".join(self._read_output(answer))
        return self._over(Done(Why.INVALID_OUTPUT, problems) if problems else Done(Why.COMPLETED))

    def _begin(self, message: Message) -> None:
        self.append(Said(self.scope.turn_id, message))
        self._conversation.add(message)
        self.tell(TurnStarted(self.scope, message))

    async def _do(self, effect: AskModel | RunTools) -> Event:
        match effect:
            case AskModel(round, notice):
                if notice:
                    said = Message.user(notice)
                    self.append(Said(self.scope.turn_id, said, "host"))
                    self.add(said)
                return await self._ask_model(round)
            case RunTools(_, round):
                assert self._reply is not None
                run = await run_batch(self, self._offered, self._reply.tool_calls, round)
                return attrs.evolve(run.settled, spent=self._spent())
            case _:
                assert_never(effect)

    def _close(self, done: Done) -> None:
        calls = self._reply.tool_calls if self._reply is not None and done.close else ()
        closing = [close_call(self.scope.turn_id, call) for call in calls if call.id in done.close]
        self.add(*(entry.message for entry in closing))
        self.append(*closing)

    def _over(self, done: Done) -> TurnResult[Any]:
        self.append(TurnOver(self.scope.turn_id, done.why, done.detail, self.usage))
        answered = done.why in (Why.COMPLETED, Why.INVALID_OUTPUT)
        text = self._so_far + visible(self._reply) if answered and self._reply else "\n".join(self._notes)
        self.tell(TurnEnded(self.scope, done.why, text, self.usage, done.detail))
        result: TurnResult[Any] = TurnResult(
            text, done.why, self.usage, self.scope.turn_id, self._reply, done.detail, done.limit
        )
        if not self._value or done.why is not Why.COMPLETED:
            return result
        return attrs.evolve(result, value=self._value[0], has_output=True)

    def _spent(self) -> Spent:
        return Spent(perf_counter() - self._started - self._thinking_s, self.usage)

    def spend(self, usage: Usage) -> None:
        self.usage += usage

    def left_s(self, most: float) -> float:
        """Seconds that one wait may take: *most*, capped by what is left of the turn."""
        if self.limits.wall_s is None:
            return most
        return max(0.001, min(most, self.limits.wall_s - self._spent().elapsed_s))

    # ---- the model -----------------------------------------------------------------------

    async def _ask_model(self, round: int) -> Event:
        agent = self._agent
        offered = await self._select_tools(agent.tools)
        system = (agent.system,) if agent.system is not None else ()
        request = ModelRequest(
            agent.model.name, (*system, *self._conversation.messages), offered.specs, agent.parameters
        )
        operation = ModelCallOperation(
            self, self.scope, agent.model.provider, agent.model.capability, request, offered, round,
            lambda: self.left_s(self._services.settings.timeouts.model_s), self._deltas, self._services.model, self.put,
        )  # fmt: skip
        response = await self._called(operation)
        if isinstance(response, Stopped):
            return response
        self._offered = operation.offered
        message = with_distinct_ids(clean_message(response.message), round)
        if not await self._say(message):
            return Stopped(Why.DENIED, self._last_note())
        reply = self._reply
        assert reply is not None
        paused = response.finish_reason is FinishReason.PAUSED and not reply.tool_calls
        if paused:
            self._so_far += visible(reply)
        elif reply.tool_calls:
            self._so_far = ""
        problems = () if paused or reply.tool_calls else self._read_output(reply)
        calls = tuple((call.id, f"{call.name} {call.arguments}") for call in reply.tool_calls)
        return Replied(calls, self._spent(), paused, problems)

    def _read_output(self, reply: Message) -> tuple[str, ...]:
        """Read *reply* in the form that was asked for; return what is wrong with it."""
        if self._agent.form is None:
            return ()
        try:
            self._value = (self._agent.form.read(self._so_far + reply.text),)
        except ArgumentProblems as error:
            return error.problems
        return ()

    async def _select_tools(self, tools: Toolset) -> Toolset:
        hook_s = self._services.settings.timeouts.hook_s
        return await select_tools(self._services.chains["select_tools"], self.caller, hook_s, self, self.scope, tools)

    async def _called(self, operation: ModelCallOperation) -> ModelResponse | Stopped:
        decided = await self.operations.decide(operation)
        if isinstance(decided, Asked):
            decided = await self.put(decided) or _unasked(decided)
        if isinstance(decided, Denied):
            return Stopped(Why.DENIED, decided.deny.tell_user)
        assert isinstance(decided, Ready | Answered)
        started, error, finish = perf_counter(), "", ""
        try:
            response = await self.operations.perform(decided)
            finish = response.finish_reason
            return response
        except errors.Denied as denied:
            error = denied.reason
            self._take_back("denied by a policy")
            return Stopped(Why.DENIED, denied.reason)
        except errors.HookError as failure:
            error = str(failure)
            self._take_back("a policy failed")
            if self._out_of_time():  # a layer that waits to try again is given up with the turn
                return self._no_time()
            raise
        except ProviderError as failure:
            error = str(failure)
            await self._keep_partial(operation)
            if failure.kind is ProviderErrorKind.TIMEOUT and self._out_of_time():
                return self._no_time()
            raise
        except asyncio.CancelledError:
            error = "cancelled"
            await uncancelled(self._keep_partial(operation))
            raise
        finally:
            for each in operation.calls(perf_counter() - started, finish, error):
                self.spend(each.usage)
                self.append(Spending(self.scope.turn_id, each.model, each.usage, each.error))
                self.tell(each.event(self.scope, decided.event.round))

    def _no_time(self) -> Stopped:
        return Stopped(Why.LIMIT, f"limit 'wall_s' reached ({self.limits.wall_s:g})", "wall_s")

    def _out_of_time(self) -> bool:
        return self.limits.wall_s is not None and self._spent().elapsed_s >= self.limits.wall_s

    async def _keep_partial(self, operation: ModelCallOperation) -> None:
        """Keep what had come of a broken stream, if the result hooks let it pass."""
        partial = operation.partial() if operation.partial is not None else None
        if partial is None or not partial.text:
            return
        try:
            response = await self.operations.finish(operation, operation.event, ModelResponse(partial))
            await self._say(clean_message(attrs.evolve(response.message, tool_calls=())))
        except errors.PluggentError:
            self._notes.append("the partial reply was withheld by a policy")

    # ---- what the person sees ------------------------------------------------------------

    async def _say(self, message: Message) -> bool:
        """Let a reply pass the output policies, show it, and take it into the conversation."""
        seen = message
        if message.content:
            out = await self._released(message, "reply")
            if out is None:
                return False
            seen = attrs.evolve(out, tool_calls=message.tool_calls)
        if self._deltas is not None:
            self._deltas.settle(visible(seen))
        elif visible(seen):
            self.tell(TextShown(self.scope, visible(seen)))
        self.append(Said(self.scope.turn_id, seen))
        self._conversation.add(seen)
        self._reply = seen
        return True

    async def show(self, message: Message, source: str) -> bool:
        out = await self._released(message, source)
        if out is None:
            return False
        self._notes.append(out.text)
        self.tell(UserNotified(self.scope, out, source))
        return True

    async def _released(self, message: Message, source: str) -> Message | None:
        if not self._services.chains["transform_output"] and not self._services.chains["decide_output"]:
            return message
        self._shown += 1
        operation = OutputOperation(self, self.scope, message, source, f"{self.scope.turn_id}.out{self._shown}")
        try:
            decided = await self.operations.decide(operation)
        except errors.HookError:
            self._take_back("a policy failed")
            raise
        if isinstance(decided, Asked):
            decided = await self.put(decided) or _unasked(decided)
        if isinstance(decided, Ready):
            return await self.operations.perform(decided)
        assert isinstance(decided, Denied)
        self._take_back("withheld by a policy")
        self._notes.append(decided.deny.tell_user)
        return None

    def _take_back(self, why: str) -> None:
        if self._deltas is not None:
            self._deltas.discard(why)

    def _last_note(self) -> str:
        return self._notes[-1] if self._notes else ""

    # ---- people --------------------------------------------------------------------------

    async def put(self, asked: Asked[E, R]) -> Decided[E, R] | None:
        started = perf_counter()
        self._asks += 1
        try:
            return await self.operations.ask(asked)
        finally:
            self._thinking_s += perf_counter() - started

    def may_ask(self) -> bool:
        return self._asks < self.limits.asks

    def may_serve(self, capability: str) -> bool:
        return capability in self._services.settings.grants.handled

    # ---- what running calls need ---------------------------------------------------------

    def context(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return self._nested.context(call, clock)

    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str:
        if event.capability in self.threads.running():
            return "an earlier call of it was given up but is still running"
        if call.tool.repeatable:
            return ""
        if call.fingerprint(event) in self._conversation.unsure:
            return "the same call was interrupted before and may already have taken effect"
        return ""

    def settled(self, call: ToolCallOperation, event: ToolCallEvent, outcome: str) -> None:
        if outcome in UNSURE:
            self._conversation.unsure.add(call.fingerprint(event))
        elif outcome in SURE:
            self._conversation.unsure.discard(call.fingerprint(event))


def _unasked(asked: Asked[E, R]) -> Denied[E, R]:
    return Denied(asked.operation, asked.event, "host", Deny(NOBODY, tell_user=f"{asked.verdict.reason}: {NOBODY}"))
