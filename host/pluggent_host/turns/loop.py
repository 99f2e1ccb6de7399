"""The loop of one turn: asks next_step.py what to do, and does it by operations. And one call without a model."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter, time
from typing import Any, assert_never

import attrs
import msgspec
from pluggent_contract_values.sanitize import clean, clean_message
from pluggent_hookspecs import Json, errors, thaw
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import HookError, ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import InputEvent, ModelRequestEvent, Scope, ToolSelectionEvent
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.models import FinishReason, ModelRequest, ModelResponse
from pluggent_hookspecs.observations import HookFailed, TextShown, ToolFinished, TurnEnded, TurnStarted
from pluggent_hookspecs.tools import ToolOutput
from pluggent_transcript.entries import BY_HOST, WARNING, Said, TurnOver
from pluggent_transcript.pending import Paused, Pending, Run, Waiting
from pluggent_transcript.rebuild import close_call

from pluggent_host.common.running import said, uncancelled
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.order import Chain
from pluggent_host.operations.input_output import InputOperation
from pluggent_host.operations.model_call import ModelCallOperation
from pluggent_host.operations.operation import Answered, Denied, Granted, Journal, Ready, Settled, unanswered
from pluggent_host.tools.hosted import HOSTED, as_offered, hosted_of, hosted_outputs, may_run
from pluggent_host.tools.toolset import Toolset
from pluggent_host.turns.background import RunRecord
from pluggent_host.turns.consent import Consent, Hold, Waits, frozen_again, pending_of, submitted_again
from pluggent_host.turns.meter import Meter, Quota
from pluggent_host.turns.nested import NestedCalls
from pluggent_host.turns.next_step import (
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
from pluggent_host.turns.parts import TurnParts
from pluggent_host.turns.record import Agent, Conversation, Services, TurnRecord
from pluggent_host.turns.result import Feed, TurnResult, broken_by
from pluggent_host.turns.streaming import Deltas, OutputGate, thoughts, visible
from pluggent_host.turns.tool_batch import BatchRun, run_batch

_OF_HOST = re.compile(r"t\d+\.")
"""The prefix of operation ids, and so of nested calls."""
WITHHELD = "The result of this call was withheld: {}"


_CUT: Mapping[FinishReason | None, str] = {
    FinishReason.LENGTH: "the reply was cut off: it had reached the most tokens that it may have",
    FinishReason.CONTENT_FILTER: "the reply was ended by the provider's content filter",
}
"""What is said of a turn that is complete and whose last reply is not."""


class Turn:
    """One turn of one session, new or, with ``waiting``, from where it paused. Used once."""

    def __init__(self, parts: TurnParts, waiting: Waiting | None = None) -> None:
        self.parts = parts
        self.scope = parts.scope
        self.operations = parts.operations
        self.conversation = parts.conversation
        self.record = parts.record
        self.meter = parts.meter
        self.consent = parts.consent
        self.gate = parts.gate
        self.runner = NestedCalls(parts).runner
        self.offered = parts.agent.offer.current
        self.said = Message.user("")
        self.reply: Message | None = None
        self.round = 0
        self.ended = False
        self._so_far = ""
        self._finish: FinishReason | None = None
        self._value: tuple[Any, ...] = ()
        self._batch: BatchRun | None = None
        self._held: Hold | None = None
        self._run: RunRecord | None = None
        self._state = State(parts.meter.limits)
        if waiting is not None:
            paused = waiting.paused
            self.said, self.round, self._so_far = waiting.said, paused.round, paused.so_far
            if paused.stage == "tool_call":
                self.reply = self.conversation.messages[-1]

    # ---- the turn ------------------------------------------------------------------------

    async def run(self, message: Message) -> TurnResult[Any]:
        """Run the whole turn. Raises ProviderError and HookError; policies and limits are results."""
        self.conversation.begin(self.scope, self.parts.services)
        operation: InputOperation[TurnResult[Any] | Message] = InputOperation(
            self.record, self.scope, clean_message(message), self.start
        )
        try:
            return await self.begun(await self.consent.settle(await self.operations.decide(operation)))
        except BaseException as error:
            ended = self.broken(error)
            if ended is None:
                raise
            return ended

    async def begun(
        self, settled: Settled[InputEvent, TurnResult[Any] | Message] | Waits[InputEvent, TurnResult[Any] | Message]
    ) -> TurnResult[Any]:
        """Start the turn from the decision on its input; pause if the input needs approval."""
        match settled:
            case Denied(deny=deny):
                return self.over(Done(Why.DENIED, deny.tell_user))
            case Waits(asked):
                pending = pending_of(asked, self.operations.identities(asked.asks))
                self.said = asked.event.message
                if pending is None:
                    return self.over(Done(Why.DENIED, unanswered(asked).deny.tell_user))
                return await self._pause(State(self.meter.limits), (pending,))
            case Ready() | Answered():
                result: TurnResult[Any] | Message = await self.operations.perform(settled)
                if not isinstance(result, Message):
                    return result
                self._begin(settled.event.message)
                return await self.answered(result)

    def broken(self, error: BaseException) -> TurnResult[Any] | None:
        """End the turn because of *error*, unless it has ended before; return its result if that is a denial."""
        if self.ended:
            return None
        if isinstance(error, errors.Denied):
            return self.over(Done(Why.DENIED, error.reason))
        self.over(broken_by(error))
        return None

    async def start(self, event: InputEvent) -> TurnResult[Any]:
        """Take in what was said, and go on from there."""
        self._begin(event.message)
        return await self.drive(State(self.meter.limits), Started())

    async def drive(self, state: State, event: Event | Awaitable[Event]) -> TurnResult[Any]:
        """Go on from *state* with *event* until the turn is over, or waits for a person."""
        try:
            self._state = state
            state, effect = step(state, event if isinstance(event, EVENTS) else await event)
            while not isinstance(effect, Done | Pause):
                self._state = state
                state, effect = step(state, await self._do(effect))
        except BaseException as error:
            self.over(broken_by(error))
            raise
        if isinstance(effect, Pause):
            return await self._wait(state)
        self._close(effect)
        return self.over(effect)

    async def _wait(self, state: State) -> TurnResult[Any]:
        if (held := self._held) is not None:
            more: dict[str, Any] = {"before": held.before, "warning": held.warning, "run": held.run}
            now = 1 if held.pending.asks else 0
            return await self._pause(state, (held.pending,), why=held.why, now=now, **more)
        assert self._batch is not None
        settled = self._batch.settled
        return await self._pause(
            state, self._batch.pending, self._batch.messages, outcomes=settled.outcomes, now=settled.asks
        )

    def _place(self, round: int, pending: tuple[Pending, ...], at_s: float, *, now: int = 0, **more: Any) -> Paused:
        """Return what the turn goes on from; asked again when it resumes, the questions of *now* count then."""
        terms = attrs.evolve(self.parts.agent.terms(self.scope), agreed=self.consent.agreed)
        return Paused(
            self.scope.turn_id, at_s, round, pending, self._state.progress(), usage=self.meter.usage,
            elapsed_s=self.meter.spent().elapsed_s, refused=tuple(self.consent.refused),
            counted=self.meter.quota.counted(), so_far=self._so_far, terms=terms,
            asks=max(0, self.meter.asks - now), **more,
        )  # fmt: skip

    async def _pause(
        self, state: State, pending: tuple[Pending, ...], results: Sequence[Message] = (), *, now: int = 1,
        why: str = "", **more: Any,
    ) -> TurnResult[Any]:  # fmt: skip
        self._state = state
        paused = self._place(self.round, pending, time(), now=now, **more)
        self.conversation.wait(paused, self.said, results, self.parts.agent.form)
        try:
            self.record.append(paused)
        except BaseException:
            self.conversation.close_waiting()  # what is written nowhere does not wait
            raise
        await self.record.commit()  # a person is told that it waits
        return self.paused(paused, why)

    def paused(self, paused: Paused, why: str = "") -> TurnResult[Any]:
        """Leave the turn as it is; return what it waits with."""
        self.ended = True
        asks = [f"'{each.name}' needs approval: {each.why}" for each in paused.pending if each.asks]
        detail = "; ".join([why, *asks] if why else asks)
        return attrs.evolve(self.result(Done(Why.PAUSED, detail)), pending=paused.pending)

    async def answered(self, answer: Message) -> TurnResult[Any]:
        """End the turn with what a policy, or a layer around it, answered in its place."""
        if not await self.say(answer):
            return self.over(Done(Why.DENIED, self.gate.last_note))
        assert self.reply is not None  # as the output policies let it pass
        problems = "; ".join(self._read_output(self.reply))
        return self.over(Done(Why.INVALID_OUTPUT, problems) if problems else Done(Why.COMPLETED))

    def _begin(self, message: Message) -> None:
        self.said = message
        self.conversation.say(Said(self.scope.turn_id, message))
        self.record.emit(TurnStarted(self.scope, message))

    async def _do(self, effect: AskModel | RunTools) -> Event:
        match effect:
            case AskModel(round, notice, warning):
                told = Message.user(notice or warning)
                if notice:
                    self.conversation.say(Said(self.scope.turn_id, told, BY_HOST))
                elif warning:
                    self.record.append(Said(self.scope.turn_id, told, WARNING))
                return await self.ask_model(round, "" if notice else warning)
            case RunTools(_, round):
                assert self.reply is not None
                return self.after(
                    await run_batch(self.parts, self.runner, self.offered, self.reply.tool_calls, round), round
                )
            case _:
                assert_never(effect)

    def after(self, run: BatchRun, round: int) -> Event:
        """Return what the next step has to know of *run*, the batch of the reply of *round*."""
        self._batch, self.round = run, round
        return attrs.evolve(run.settled, spent=self.meter.spent())

    def _close(self, done: Done) -> None:
        if self.reply is None or not done.close:
            return
        calls = self.reply.tool_calls
        closing = [close_call(self.scope.turn_id, call) for call in calls if call.id in done.close]
        self.record.add(*(entry.message for entry in closing))
        self.record.append(*closing)

    def over(self, done: Done) -> TurnResult[Any]:
        """End the turn; what waited of it, if it was paused, has its one result."""
        if done.why is Why.COMPLETED and not done.detail:
            done = attrs.evolve(done, detail=self._incomplete())
        self.conversation.close_waiting()
        self.record.append(TurnOver(self.scope.turn_id, done.why, done.detail, self.meter.usage))
        self.ended = True
        return self.result(done)

    def _incomplete(self) -> str:
        """Say what is wrong with a last reply that is not one as a model ends it; "" if nothing is."""
        if self._finish in _CUT:
            return _CUT[self._finish]
        empty = self.reply is not None and not self._so_far and not self.reply.content and not self.reply.tool_calls
        return "the model's reply is empty" if empty else ""

    def result(self, done: Done) -> TurnResult[Any]:
        """Tell that the turn is over, and return what it came to."""
        answered = done.why in (Why.COMPLETED, Why.INVALID_OUTPUT)
        text = self._so_far + visible(self.reply) if answered and self.reply else "\n".join(self.gate.notes)
        self.record.emit(TurnEnded(self.scope, done.why, text, self.meter.usage, done.detail))
        result: TurnResult[Any] = TurnResult(
            text, done.why, self.meter.usage, self.scope.turn_id, self.reply, done.detail, done.limit,
            finish_reason=self._finish,
        )  # fmt: skip
        if not self._value or done.why is not Why.COMPLETED:
            return result
        return attrs.evolve(result, value=self._value[0], has_output=True)

    # ---- the model -----------------------------------------------------------------------

    async def ask_model(self, round: int, warning: str = "", paused: Paused | None = None) -> Event:
        """Send the request of *round*, or keep it until a person has agreed; in *paused* it was made before."""
        run = None if paused is None else paused.run
        operation = await self._request(round, warning, run)
        # What would be sent now may be another request, which is not approved: it takes the usual way.
        frozen = None if paused is None else frozen_again(operation, paused)
        if frozen is None and paused is not None and run is not None and run.ticket is not None:
            frozen = submitted_again(operation, paused)
        event = await self._asked(operation, frozen, warning, run)
        if isinstance(event, Stopped) and operation.run is not None:
            await operation.run.cancel()
        return event

    async def _asked(
        self, operation: ModelCallOperation, frozen: ModelRequestEvent | None, warning: str, run: Run | None
    ) -> Event:
        if frozen is not None and (refused := await self.consent.stored_refusal(operation, frozen)) is not None:
            return Stopped(Why.DENIED, refused.deny.tell_user)
        response = await self._reply(operation, frozen)
        if isinstance(response, Held):
            return response
        if not isinstance(response, Waits):
            return await self._replied(operation, response)
        asked = response.asked
        pending = pending_of(asked, self.operations.identities(asked.asks))
        if pending is None:
            return Stopped(Why.DENIED, unanswered(asked).deny.tell_user)
        self._held = Hold(pending, operation.freeze(operation.event).digest, warning, run)
        self.round = asked.event.round
        return Held()

    async def _request(self, round: int, warning: str, run: Run | None) -> ModelCallOperation:
        """Return the request of *round*, with the tools that are offered now, and what *run* is known of it."""
        agent, services = self.parts.agent, self.parts.services
        chain, hook_s = services.chains.by_hook.get("select_tools", ()), services.settings.timeouts.hook_s
        tools = (await agent.offer.latest()).offered
        offered = await select_tools(chain, services.caller, hook_s, self.record, self.scope, tools)
        system = (agent.system,) if agent.system is not None else ()
        warned = (Message.user(warning),) if warning else ()
        ticket = None if run is None else run.ticket
        other = ticket is not None and ticket.provider != agent.model.provider.name
        model = await services.model(f"{ticket.provider}/{ticket.model}") if ticket and other else agent.model
        request = ModelRequest(
            model.name, (*system, *self.conversation.messages, *warned), offered.specs, agent.parameters,
            may_run(hosted_of(model), dry_run=self.scope.dry_run),
        )  # fmt: skip
        operation = ModelCallOperation(
            self.record, self.scope, model.provider, model.capability, request, offered, round,
            partial(self.meter.left_s, services.settings.timeouts.model_s), self.parts.deltas,
            services.model, self.consent.settle_now,
        )  # fmt: skip
        operation.doubtful = self.conversation.doubtful.calls.__contains__
        self._run = RunRecord.begin(operation, model.provider, warning, run, self.record, self.operations, self._place)
        return operation

    async def _replied(self, operation: ModelCallOperation, response: ModelResponse | Stopped) -> Event:
        """Take in the reply to *operation*."""
        self._held = None
        if isinstance(response, Stopped):
            return response
        self.offered = operation.offered
        asked = operation.answering or operation.asked or operation.event
        message = with_distinct_ids(clean_message(response.message), operation.event.round)
        message = as_offered(message, asked, self.parts.agent.model)
        if not await self.say(message):
            return Stopped(Why.DENIED, self.gate.last_note)
        reply = self.reply
        assert reply is not None
        self._tell_hosted(operation, reply)
        self._finish = response.finish_reason
        paused = self._finish is FinishReason.PAUSED and not reply.tool_calls
        if paused:
            self._so_far += visible(reply)
        elif reply.tool_calls:
            self._so_far = ""
        problems = () if paused or reply.tool_calls else self._read_output(reply)
        calls = tuple((call.id, f"{call.name} {call.arguments}") for call in reply.tool_calls)
        return Replied(calls, self.meter.spent(), paused, problems)

    def _read_output(self, reply: Message) -> tuple[str, ...]:
        """Read *reply* in the form that was asked for; return what is wrong with it."""
        if self.parts.agent.form is None:
            return ()
        self._value, problems = self.parts.agent.form.of_reply(reply, self._so_far)
        self._so_far = "" if problems else self._so_far
        return (_CUT[FinishReason.LENGTH], *problems) if problems and self._finish is FinishReason.LENGTH else problems

    async def _reply(
        self, operation: ModelCallOperation, frozen: ModelRequestEvent | None = None
    ) -> ModelResponse | Stopped | Held | Waits[ModelRequestEvent, ModelResponse]:
        """Return the reply, why the turn cannot go on, or the request if it waits for a person or for its run.

        *frozen* is the request where it was made before. Raises ProviderError and HookError.
        """
        operations = self.operations
        decided = await (
            operations.decide(operation) if frozen is None else operations.decide_frozen(operation, frozen)
        )
        settled = await self.consent.settle(decided)
        match settled:
            case Waits():
                return settled
            case Denied(deny=deny):
                return Stopped(Why.DENIED, deny.tell_user)
            case Ready() | Answered():
                return await self._made(operation, settled)

    async def _made(
        self,
        operation: ModelCallOperation,
        decided: Granted[ModelRequestEvent, ModelResponse],
    ) -> ModelResponse | Stopped | Held:
        started, error, finish, held = perf_counter(), "", "", False
        try:
            response = await self.operations.perform(decided)
            finish = response.finish_reason
            return response
        except errors.Denied as denied:
            error = denied.reason
            self.gate.take_back("denied by a policy")
            return Stopped(Why.DENIED, denied.reason)
        except ProviderError as failure:
            error = str(failure)
            held = self._waits_for_run(decided.event, failure)
            if held:
                return Held()
            await self._keep_partial(operation)
            if failure.kind is ProviderErrorKind.TIMEOUT and self.meter.is_out_of_time():
                return self._no_time()
            raise
        except errors.PluggentError as failure:
            error = str(failure)
            self.gate.take_back("a policy failed")
            if self.meter.is_out_of_time():  # a layer that waits to try again is given up with the turn
                return self._no_time()
            raise
        except asyncio.CancelledError:
            error = "cancelled"
            await uncancelled(self._keep_partial(operation))
            raise
        finally:
            if not held:
                self.meter.book(operation, self.record, perf_counter() - started, finish, error)
                if operation.run is not None and operation.run.is_live:
                    await uncancelled(operation.run.cancel())

    def _waits_for_run(self, event: ModelRequestEvent, failure: ProviderError) -> bool:
        """Let the turn wait for its run, if that may go on in spite of *failure*; say whether it does."""
        held = None if self._run is None or self.meter.is_out_of_time() else self._run.held(event, failure)
        if held is None:
            return False
        self._held, self.round = held, event.round
        self.gate.take_back("the reply is to be fetched later")
        return True

    def _no_time(self) -> Stopped:
        return Stopped(Why.LIMIT, f"limit 'wall_s' reached ({self.meter.limits.wall_s:g})", "wall_s")

    async def _keep_partial(self, operation: ModelCallOperation) -> None:
        """Keep what had come of a broken stream, if the result hooks let it pass."""
        partial = operation.partial() if operation.partial is not None else None
        if partial is None or not visible(partial):
            self.gate.take_back("the reply broke off")
            return
        try:
            response = await self.operations.finish(operation, operation.event, ModelResponse(partial))
            await self.say(clean_message(attrs.evolve(response.message, tool_calls=())))
        except errors.PluggentError:
            self.gate.take_back("withheld by a policy")
            self.gate.notes.append("the partial reply was withheld by a policy")

    # ---- what the person sees ------------------------------------------------------------

    async def say(self, message: Message) -> bool:
        """Let a reply pass the output policies, show it, and take it into the conversation."""
        seen = message
        if message.content:
            out = await self.gate.release(message, "reply")
            if out is None:
                return False
            seen = attrs.evolve(out, tool_calls=message.tool_calls)
        if self.parts.deltas is not None:
            self.parts.deltas.settle(visible(seen), thoughts(seen))
        elif visible(seen):
            self.record.emit(TextShown(self.scope, visible(seen)))
        self.conversation.say(Said(self.scope.turn_id, seen))
        self.reply = seen
        return True

    def _tell_hosted(self, operation: ModelCallOperation, reply: Message) -> None:
        """Tell observers what the vendor's own tools did; it has passed the policies on the reply."""
        asked = operation.answering or operation.event
        provider = asked.provider.partition(":provider/")[2]
        for number, (name, output) in enumerate(hosted_outputs(reply)):
            id, capability = f"{operation.id}.hosted{number}", f"{provider}{HOSTED}{name}"
            self.record.emit(ToolFinished(self.scope, id, name, capability, output, 0.0))


def turn_parts(
    services: Services, conversation: Conversation, agent: Agent, scope: Scope, feed: Feed | None = None,
    *, waiting: Waiting | None = None, direct: bool = False,
) -> TurnParts:  # fmt: skip
    """Return the parts of a new turn, or of the one that is *waiting*; *direct*: of one call without a model."""
    operations, settings = services.operations, services.settings
    emit = services.emit if feed is None else feed.after(services.emit)
    record = TurnRecord(services, conversation, emit, conversation.flush, not direct)
    meter = Meter(agent.limits, Quota(agent.limits))
    # The caller of a direct call is there to be asked at once, or the call is denied.
    consent = Consent(operations, conversation, meter, settings.on_ask == "pause" and not direct)
    if waiting is not None:
        paused = waiting.paused
        meter.restore(paused.elapsed_s, paused.usage, paused.asks, paused.counted)
        consent.restore(waiting, scope.principal)
    deltas = None if feed is None else Deltas(record, scope, feed, services, settings.stream == "provisional")
    gate = OutputGate(record, scope, operations, services.chains, deltas, consent, direct)
    return TurnParts(
        services, operations, conversation, agent, scope, record, meter, consent, deltas, gate,
        settings.grants.handled,
    )  # fmt: skip


def with_distinct_ids(message: Message, round: int) -> Message:
    """Return *message* with call ids that are distinct, not empty and not of the form of operation ids."""
    ids = [call.id for call in message.tool_calls]
    if len(set(ids)) == len(ids) and all(ids) and not any(map(_OF_HOST.match, ids)):
        return message
    calls: list[ToolCall] = []
    taken = set(ids)
    for index, call in enumerate(message.tool_calls):
        if not call.id or _OF_HOST.match(call.id) or ids.index(call.id) != index:
            made = next(id for n in itertools.count() if (id := f"call_{round}_{index + n}") not in taken)
            taken.add(made)
            call = attrs.evolve(call, id=made)  # noqa: PLW2901 (the same call under an id of its own)
        calls.append(call)
    return attrs.evolve(message, tool_calls=tuple(calls))


# ---- one call without a model --------------------------------------------------------------


_PLAIN = frozenset({str, int, bool, type(None)})


async def call_directly(
    services: Services,
    conversation: Conversation,
    agent: Agent,
    scope: Scope,
    name: str,
    arguments: str | Mapping[str, Json],
    book: Callable[[Usage], None],
) -> ToolOutput:
    """Run one call as a batch of one and return its output, failures and denials included; *book* what it used.

    No model's text follows that could be withheld, so the output itself has passed the output policies.
    """
    text = arguments if isinstance(arguments, str) else _as_text(arguments)
    turn = turn_parts(services, conversation, agent, scope, direct=True)
    conversation.begin(scope, services)
    try:
        offered = await agent.offer.latest()
        run = await run_batch(
            turn, NestedCalls(turn).runner, offered, (ToolCall(f"{scope.turn_id}.direct", name, text),), 0
        )
    finally:
        book(turn.meter.usage)
        turn.record.append(TurnOver(scope.turn_id, "direct", usage=turn.meter.usage))
    return _released(run.outputs[0], turn.gate.passed)


def _as_text(arguments: Mapping[str, Json]) -> str:
    """Return *arguments* as JSON. Raises TypeError and ValueError for what is none."""
    if all(type(value) in _PLAIN for value in arguments.values()):  # a file of a megabyte, for example
        with suppress(UnicodeEncodeError):
            return msgspec.json.encode(dict(arguments)).decode()
    return json.dumps(thaw(arguments), ensure_ascii=False)


def _released(output: ToolOutput, passed: ToolOutput | Deny | None) -> ToolOutput:
    match passed:
        case None:
            return output
        case Deny(tell_user=why):
            return attrs.evolve(output, for_model=clean(WITHHELD.format(why)), data=None, is_error=True)
        case ToolOutput(for_model=text, data=data):
            return attrs.evolve(output, for_model=text, data=data)


async def select_tools(
    chain: Chain, caller: Caller, hook_s: float, journal: Journal, scope: Scope, tools: Toolset
) -> Toolset:
    """Return what of *tools* is offered to the model now. Raises HookError."""
    deadline = perf_counter() + hook_s
    for impl in chain:
        event = ToolSelectionEvent(scope, tools.specs, {name: tool.capability for name, tool in tools.items()})
        answer = await caller.call(impl, event, deadline)
        problem = answer.problem
        if not problem and answer.value is not None:
            try:
                tools = tools.narrowed(tuple(answer.value))
            except Exception as error:  # noqa: BLE001 (an iterator of the plugin's may raise anything)
                problem = said(error)
        if problem:
            journal.emit(HookFailed(scope, impl.plugin, "select_tools", problem))
            raise HookError(impl.plugin, "select_tools", problem)
    return tools
