"""Operations below a running tool call: another tool, the model, a person, memory. All under policy.

An ask down here goes to somebody who can answer now; nobody there is a denial, never a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import attrs
from pluggent_hookspecs import Json, errors, freeze, thaw
from pluggent_hookspecs.decisions import Ask
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ModelRequestEvent, Scope, ToolCallEvent
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message, Role, Text
from pluggent_hookspecs.models import ModelParameters, ModelRequest, ModelResponse
from pluggent_hookspecs.observations import QuestionAnswered, ToolLogged, ToolProgressed, ToolStarted
from pluggent_hookspecs.questions import Accepted, Elicited
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.common.deadline import Deadline
from pluggent_host.common.escape import escape_all
from pluggent_host.common.sanitize import clean, clean_json, clean_message, finite
from pluggent_host.common.suggest import did_you_mean
from pluggent_host.operations.model_call import ModelCallOperation, message_digest
from pluggent_host.operations.outcomes import Answered, Decided, Denied, Ready, Settled as SettledCall, Unanswered
from pluggent_host.operations.question import Question, QuestionOperation
from pluggent_host.operations.tool_call import CallContext, CallRunner, ToolCallOperation
from pluggent_host.tools.arguments import ArgumentProblems, canonical
from pluggent_host.tools.results import fit
from pluggent_host.tools.toolset import Toolset
from pluggent_host.transcript.entries import Dispatched, Settled, Spending
from pluggent_host.turns.parts import TurnParts
from pluggent_host.turns.tool_batch import WOULD_ASK

E = TypeVar("E")
R = TypeVar("R")

FILTERS = ("transform_tool_result", "decide_tool_result", "transform_output", "decide_output")
"""While one of these is implemented, the progress of a tool is told without its words, and no log of it at all."""


@attrs.frozen(eq=False)
class Nesting:
    """The calls of one turn that run below each other."""

    turn: TurnParts
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    _outer: dict[str, ToolCallOperation] = attrs.field(factory=dict[str, ToolCallOperation])

    def scope(self, outer: ToolCallOperation) -> Scope:
        """Return where something below *outer* happens."""
        return attrs.evolve(self.turn.scope, origin="tool", parent_id=outer.id)

    def next_id(self, outer: ToolCallOperation) -> str:
        """Return an id for something below *outer*."""
        return f"{outer.id}.{next(self.numbers)}"

    @contextlib.contextmanager
    def entered(self, id: str, outer: ToolCallOperation) -> Generator[None]:
        """Know that the call *id* runs below *outer*."""
        self._outer[id] = outer
        try:
            yield
        finally:
            del self._outer[id]

    def above(self, call: ToolCallOperation) -> list[ToolCallOperation]:
        """Return the calls above *call*, the nearest first."""
        above: list[ToolCallOperation] = []
        outer = self._outer.get(call.id)
        while outer is not None:
            above.append(outer)
            outer = self._outer.get(outer.id)
        return above

    @contextlib.contextmanager
    def standing_still(self, outer: ToolCallOperation) -> Generator[None]:
        """Stop the clocks of *outer* and of every call above it."""
        clocks = [call.clock for call in (outer, *self.above(outer))]
        for clock in clocks:
            clock.stop()
        try:
            yield
        finally:
            for clock in clocks:
                clock.start()

    async def settle(self, decided: Decided[E, R], outer: ToolCallOperation) -> SettledCall[E, R]:
        """Return *decided*, or what comes of it at once; the clocks above stop while a person is asked."""
        return await self.turn.consent.settle_now(decided, self.standing_still(outer))


# ---- the model ----------------------------------------------------------------------------


@attrs.frozen
class Prompt:
    """What a tool wants to ask. ``why``, if there is one, is why a person has to agree first."""

    messages: tuple[Message, ...]
    parameters: ModelParameters
    why: str = ""


class NestedModelCall(ModelCallOperation):
    """A model call of a tool. With ``agreement`` a person has to agree, whatever policies allow."""

    agreement: Ask | None = None
    asker = ""
    """The capability of the tool that asks."""

    def doubt(self, event: ModelRequestEvent) -> Ask | None:
        return self.agreement

    def fingerprint(self, event: ModelRequestEvent) -> str:
        """What the call is, whichever time it is made: who asks, and what."""
        said = b"".join(message.memo(message_digest, message_digest) for message in event.request.messages)
        return hashlib.sha256(b"model\0" + self.asker.encode() + b"\0" + said).hexdigest()

    def rendered(self, event: ModelRequestEvent) -> str:
        request = event.request
        most = request.parameters.max_output_tokens
        number = most or "any number of"
        head = f"ask {escape_all(request.model)} at {escape_all(event.target)}, at most {number} tokens back:"
        return "\n".join([head, *(line for message in request.messages for line in _lines(message))])

    async def reissued(self, changed: Any, model: str, number: int) -> ModelCallOperation:
        child = await super().reissued(changed, model, number)
        assert isinstance(child, NestedModelCall)
        child.agreement, child.asker = self.agreement, self.asker
        return child


def prompt_of(prompt: str | Sequence[Message], system: str, parameters: ModelParameters | None, why: str) -> Prompt:
    """Return the request that a tool makes. Raises ValueError and TypeError for what is no conversation."""
    given: Sequence[object] = (Message.user(prompt),) if isinstance(prompt, str) else tuple(prompt)
    if not given:
        raise ValueError("prompt: there is no message in it")
    above = (Message.system(clean(system)),) if system else ()
    return Prompt((*above, *map(_said, given)), parameters or ModelParameters(), why)


def _said(message: object) -> Message:
    if not isinstance(message, Message):
        raise TypeError(f"prompt: expected text or messages, got {type(message).__name__}")
    if message.role not in (Role.USER, Role.ASSISTANT) or message.tool_calls:
        what = "with calls of tools" if message.tool_calls else f"of role {message.role}"
        raise ValueError(f"prompt: a message {what}; there can be messages of user and assistant, without calls")
    return clean_message(message)


async def ask_model(nesting: Nesting, outer: ToolCallOperation, prompt: Prompt) -> ModelResponse:
    """Ask the session's model. Raises Denied and ProviderError."""
    agent, turn, services = nesting.turn.agent, nesting.turn, nesting.turn.services
    request = ModelRequest(agent.model.name, prompt.messages, (), prompt.parameters)
    call = NestedModelCall(
        turn.record, nesting.scope(outer), agent.model.provider, agent.model.capability, request, Toolset(),
        outer.event.round, lambda: services.settings.timeouts.model_s, None, services.model,
        lambda decided: nesting.settle(decided, outer), nesting.next_id(outer),
    )  # fmt: skip
    call.asker = outer.tool.capability
    if prompt.why:
        who = f"'{outer.tool.plugin}', for its tool '{outer.tool.spec.name}'"
        call.agreement = Ask(f"{who}, wants to ask the model: {clean(prompt.why)}", reach="once")
    return await _performed(nesting, outer, call, await _agreed(nesting, outer, call))


async def _agreed(
    nesting: Nesting, outer: ToolCallOperation, call: NestedModelCall
) -> Ready[ModelRequestEvent, ModelResponse] | Answered[ModelRequestEvent, ModelResponse]:
    settled = await nesting.settle(await nesting.turn.operations.decide(call), outer)
    if isinstance(settled, Denied):
        outer.ends_turn = outer.ends_turn or settled.deny.ends_turn
        raise errors.Denied(settled.by, settled.deny.tell_model, settled.event.digest)
    return settled


async def _performed(
    nesting: Nesting, outer: ToolCallOperation, call: NestedModelCall,
    agreed: Ready[ModelRequestEvent, ModelResponse] | Answered[ModelRequestEvent, ModelResponse],
) -> ModelResponse:  # fmt: skip
    turn = nesting.turn
    started, failure, finish = perf_counter(), "", ""
    try:
        response = await nesting.turn.operations.perform(agreed)
        finish = response.finish_reason
        return response
    except errors.Denied as refused:
        failure = refused.reason
        # What is for the person stays out of what the tool, and by it the model, reads.
        raise errors.Denied(refused.by, refused.tell_model, refused.digest) from refused
    except BaseException as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        outer.ends_turn = outer.ends_turn or call.ends_turn
        for each in call.calls(perf_counter() - started, finish, failure):
            turn.meter.spend(each.usage)
            turn.record.append(Spending(call.scope.turn_id, each.model, each.usage, each.error))
            turn.record.tell(each.event(call.scope, outer.event.round))


def _lines(message: Message) -> list[str]:
    texts = [part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in message.content]
    return [f"{message.role} | {escape_all(line)}" for line in "\n".join(texts).split("\n")]


# ---- people -------------------------------------------------------------------------------


async def ask_person(nesting: Nesting, outer: ToolCallOperation, question: Question) -> Elicited:
    """Return what came of asking. Raises Denied and LimitReached."""
    turn, services = nesting.turn, nesting.turn.services
    if not turn.meter.may_ask():
        raise errors.LimitReached("asks", turn.meter.limits.asks)
    operation = QuestionOperation(
        turn.record, nesting.scope(outer), services, outer.tool.capability, question, nesting.next_id(outer)
    )
    decided = await turn.operations.decide(operation)
    if isinstance(decided, Denied):
        outer.ends_turn = outer.ends_turn or decided.deny.ends_turn
        raise errors.Denied(decided.by, decided.deny.tell_model, decided.event.digest)
    assert isinstance(decided, Ready)  # it can neither ask nor answer: see ANSWERS
    started = perf_counter()
    with nesting.standing_still(outer), turn.meter.person():
        answer = await turn.operations.perform(decided)
    outcome, given = type(answer).__name__.lower(), tuple(answer.content) if isinstance(answer, Accepted) else ()
    told = QuestionAnswered(
        operation.scope, outer.event.call_id, outer.tool.capability, question.source, outcome,
        operation.by, given, perf_counter() - started,
    )  # fmt: skip
    turn.record.tell(told)
    return answer


# ---- all of it ----------------------------------------------------------------------------


MakeContext = Callable[["NestedCalls", ToolCallOperation, Deadline, Path | None, int], CallContext]
"""Makes the ToolContext of a call, at a depth below the reply."""


class NestedCalls:
    """Makes contexts for the calls of one turn and runs what tools ask for through them."""

    def __init__(self, turn: TurnParts, context: MakeContext) -> None:
        services, agent = turn.services, turn.agent
        self._turn = turn
        self._agent = agent
        self._nesting = Nesting(turn)
        self._loop = asyncio.get_running_loop()
        self._context = context
        self.runner = CallRunner(services.caller, services.threads, agent.protected, self._begun, self._doubts)

    def _begun(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return self._context(self, call, clock, self._agent.workspace, len(self._nesting.above(call)))

    def _doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str:
        return self._turn.conversation.doubts(call, event, self._turn.services.threads.running())

    @property
    def _filtered(self) -> bool:
        return any(self._turn.services.chains[hook] for hook in FILTERS)

    def progressed(self, call: ToolCallOperation, done: float, total: float | None, message: str) -> None:
        number = finite(done)
        if number is None:  # it says nothing of how far the tool is, and no wire can carry it
            return
        # What every other text has to pass cannot be asked from here, in whatever thread this is.
        text = "" if self._filtered else clean(str(message))
        event = ToolProgressed(call.scope, call.event.call_id, call.tool.spec.name, number, finite(total), text)
        self._loop.call_soon_threadsafe(self._turn.record.tell, event)

    def logged(self, call: ToolCallOperation, level: str, message: str, logger: str, data: Json) -> None:
        if self._filtered:  # as above, and without its words a log says nothing
            return
        text, part, facts = clean(str(message)), clean(str(logger)), _facts(data)
        event = ToolLogged(call.scope, call.event.call_id, call.tool.spec.name, level, text, part, facts)
        self._loop.call_soon_threadsafe(self._turn.record.tell, event)

    # ---- another tool --------------------------------------------------------------------

    async def nested_tool(
        self, outer: ToolCallOperation, depth: int, name: str, arguments: Mapping[str, Json]
    ) -> ToolOutput:
        tools: Toolset = self._agent.tools
        if name not in tools:
            raise errors.ToolError(f"there is no tool {name!r}{did_you_mean(name, tools)}", kind=ToolErrorKind.UNKNOWN)
        if depth > self._turn.meter.limits.delegation_depth:
            raise errors.LimitReached("delegation_depth", self._turn.meter.limits.delegation_depth)
        try:
            prepared = tools[name].prepare(canonical(arguments).decode())
        except ArgumentProblems as error:
            raise errors.ToolError("; ".join(error.problems), tool=name, kind=ToolErrorKind.ARGUMENTS) from error
        quota = self._turn.meter.quota
        if refusal := quota.take(tools[name]).refusal:
            raise errors.ToolError(refusal.removeprefix("Error: "), tool=name, kind=ToolErrorKind.LIMIT)
        id = self._nesting.next_id(outer)
        call = ToolCallOperation(
            self.runner, self._turn.record, self._nesting.scope(outer), tools[name], id, prepared,
            outer.event.round, outer.event.index, min(outer.timeout_s, quota.timeout_s(tools[name])), id,
        )  # fmt: skip
        with self._nesting.entered(id, outer):
            return await self._run(call, outer)

    async def _run(self, call: ToolCallOperation, outer: ToolCallOperation) -> ToolOutput:
        try:
            agreed = await self._agreed(call, outer)
        except BaseException:
            self._turn.meter.quota.give_back(call.tool)
            raise
        if isinstance(agreed, ToolOutput):
            self._turn.meter.quota.give_back(call.tool)
            return agreed
        turn, name, capability = self._turn, call.tool.spec.name, call.tool.capability
        risky = isinstance(agreed, Ready) and not call.tool.repeatable and not call.scope.dry_run
        try:
            if risky:
                key = (call.event.call_id, f"{call.scope.session_id}.{call.id}", call.fingerprint(agreed.event))
                turn.record.append(Dispatched(call.scope.turn_id, (key,)))
                await turn.record.commit()
            turn.record.tell(ToolStarted(call.scope, call.event.call_id, name, capability, agreed.event.arguments_json))
            output, whole = fit(await self._performed(call, agreed), turn.meter.quota.result_bytes(call.tool))
        except BaseException:
            if risky:
                call.unsure = True
                self._settle(call, ToolOutput.error("This call was interrupted while it ran."), None)
            raise
        finally:
            turn.meter.effects += call.ran and call.tool.changes
            outer.ends_turn = outer.ends_turn or call.ends_turn
        if risky:
            self._settle(call, output, whole)
        seen: ToolOutput | None = None
        try:
            seen = await turn.gate.seen(output, call)
        finally:
            turn.record.tell(call.finished(name, output, seen))
        return output

    async def _performed(
        self, call: ToolCallOperation, agreed: Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput]
    ) -> ToolOutput:
        try:
            return await self._turn.operations.perform(agreed)
        except errors.Denied as refused:  # by a ledger, or because the decision had grown old
            call.kind = ToolErrorKind.DENIED
            if not call.ran:
                self._turn.meter.quota.give_back(call.tool)
            return ToolOutput.error(f"Denied: {refused.tell_model}")

    async def _agreed(
        self, call: ToolCallOperation, outer: ToolCallOperation
    ) -> Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput] | ToolOutput:
        """Return what may be performed, or what the tool is told instead."""
        settled = await self._nesting.settle(await self._turn.operations.decide(call), outer)
        match settled:
            case Unanswered(why=why) if call.scope.dry_run:
                return ToolOutput(WOULD_ASK.format(call.tool.spec.name, why))
            case Denied(deny=deny):
                outer.ends_turn = outer.ends_turn or deny.ends_turn
                return ToolOutput.error(f"Denied: {deny.tell_model}")
            case Ready() | Answered():
                return settled

    def _settle(self, call: ToolCallOperation, output: ToolOutput, whole: str | None) -> None:
        content = (Text(output.for_model),) if isinstance(output.for_model, str) else output.for_model
        made = Message(Role.TOOL, content, tool_call_id=call.event.call_id, name=call.tool.spec.name)
        message = clean_message(made)
        self._turn.record.append(Settled(call.scope.turn_id, call.event.call_id, message, call.outcome, whole))

    # ---- the model, people and memory ----------------------------------------------------

    async def nested_model(self, outer: ToolCallOperation, prompt: Prompt) -> ModelResponse:
        return await ask_model(self._nesting, outer, prompt)

    async def nested_question(self, outer: ToolCallOperation, question: Question) -> Elicited:
        return await ask_person(self._nesting, outer, question)

    def nested_memory(self, outer: ToolCallOperation, store: str) -> MemoryAccess:
        nesting = self._nesting
        return self._turn.services.memory(
            store,
            self._turn.record,
            nesting.scope(outer),
            nesting.numbers,
            lambda decided: nesting.settle(decided, outer),
        )


def _facts(data: Json) -> Json:
    """Return *data* as any wire can carry it. What is no JSON is left out: a log is no reason to fail."""
    try:
        return freeze(clean_json(json.loads(json.dumps(thaw(data), allow_nan=False))))
    except (TypeError, ValueError, RecursionError):
        return None
