"""What a tool is given for one call: facts, and operations below it (a tool, a model, a person, memory).

All of them are under the policies of the turn.

An ask below a call goes to an approver who can answer now; without an answer it is a denial, never a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_contract_values.sanitize import clean, clean_json, clean_message, finite
from pluggent_contract_values.tool_output import fit
from pluggent_function_tools.arguments import ArgumentProblems, canonical
from pluggent_hookspecs import Json, Value, errors, freeze, thaw
from pluggent_hookspecs.decisions import Ask
from pluggent_hookspecs.embeddings import EmbeddingRequest, EmbeddingResponse, EmbeddingRole
from pluggent_hookspecs.errors import LimitReached, ToolError, ToolErrorKind
from pluggent_hookspecs.events import ModelRequestEvent, Scope, ToolCallEvent
from pluggent_hookspecs.memory import MemoryAccess, MemoryHit, MemoryItem, MemoryPage, MemoryQuery
from pluggent_hookspecs.messages import Message, Role, Text, Usage
from pluggent_hookspecs.models import ModelParameters, ModelRequest, ModelResponse
from pluggent_hookspecs.observations import LOG_LEVELS, QuestionAnswered, ToolLogged, ToolProgressed, ToolStarted
from pluggent_hookspecs.questions import Accepted, Elicited
from pluggent_hookspecs.tools import ToolOutput
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_transcript.entries import Dispatched, Settled

from pluggent_host.hooks.caller import Deadline
from pluggent_host.operations.embedding import EmbeddingOperation, check_request, embedded
from pluggent_host.operations.model_call import ModelCallOperation, message_digest
from pluggent_host.operations.operation import (
    Answered,
    Decided,
    Denied,
    Granted,
    Ready,
    Settled as SettledCall,
    Unanswered,
)
from pluggent_host.operations.token_count import CountOperation, counted
from pluggent_host.operations.tool_call import CallRunner, ToolCallOperation
from pluggent_host.tools.toolset import Toolset
from pluggent_host.turns.parts import TurnParts
from pluggent_host.turns.tool_batch import WOULD_ASK, put_backs

if TYPE_CHECKING:  # few tools ask a person for data
    from pluggent_host.operations.question import Question

E = TypeVar("E")
R = TypeVar("R")

FILTERS = ("transform_tool_result", "decide_tool_result", "transform_output", "decide_output")
"""While one of these is implemented, the progress of a tool is told without its words, and no log of it at all."""


# ---- the model ----------------------------------------------------------------------------


@attrs.frozen(repr=False)
class Prompt(Value):
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
        said = b"".join(Message.memos(event.request.messages, message_digest, message_digest))
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
    """Return the request that a tool makes. Raises ValueError and TypeError for what is not a conversation."""
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


def _lines(message: Message) -> list[str]:
    texts = [part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in message.content]
    return [f"{message.role} | {escape_all(line)}" for line in "\n".join(texts).split("\n")]


# ---- what a call is given ------------------------------------------------------------------


class _WhileAlive(Protocol):
    """Runs an operation, unless the call is over, and no longer than it."""

    def __call__(self, operate: Callable[[], Awaitable[R]]) -> Awaitable[R]: ...


class _LentMemory:
    """A memory store for as long as a call lasts."""

    __slots__ = ("__memory", "__while_alive")

    def __init__(self, memory: MemoryAccess, while_alive: _WhileAlive) -> None:
        self.__memory = memory
        self.__while_alive = while_alive

    async def save(self, items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
        return await self.__while_alive(lambda: self.__memory.save(items))

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        return await self.__while_alive(lambda: self.__memory.get(namespace, key))

    async def delete(self, namespace: str, key: str) -> bool:
        return await self.__while_alive(lambda: self.__memory.delete(namespace, key))

    async def list(self, query: MemoryQuery) -> MemoryPage:
        return await self.__while_alive(lambda: self.__memory.list(query))

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        return await self.__while_alive(lambda: self.__memory.search(namespace, text, limit))


class CallContext:
    """A ToolContext. It hands out no provider, tool or store, only what it says."""

    __slots__ = ("__below", "__call", "__clock", "__depth", "__lender", "__over", "channel", "chat_id", "workspace")

    def __init__(
        self, lender: NestedCalls, call: ToolCallOperation, clock: Deadline, workspace: Path | None, depth: int
    ) -> None:
        self.__lender = lender
        self.__call = call
        self.__clock = clock
        self.__depth = depth
        self.__over = False
        self.__below: set[asyncio.Task[Any]] = set()
        self.workspace = workspace
        self.channel = call.scope.channel
        self.chat_id = call.scope.chat_id

    @property
    def session_id(self) -> str:
        return self.__call.scope.session_id

    @property
    def turn_id(self) -> str:
        return self.__call.scope.turn_id

    @property
    def call_id(self) -> str:
        return self.__call.event.call_id

    @property
    def idempotency_key(self) -> str:
        return f"{self.session_id}.{self.__call.id}"

    @property
    def approved_state(self) -> str:
        return self.__call.approved_state

    @property
    def private_folders(self) -> tuple[Path, ...]:
        return self.__lender.private_folders

    @property
    def cancelled(self) -> bool:
        return self.__over or self.__clock.left() <= 0

    def end(self) -> None:
        """End the context: operations that the call has begun are cancelled."""
        self.__over = True
        for task in self.__below - {asyncio.current_task()}:
            task.cancel()

    def remaining_s(self) -> float:
        return self.__clock.left()

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        if not self.__over and not self.__call.looking:
            self.__lender.progressed(self.__call, done, total, message)

    def log(self, level: str, message: str, *, logger: str = "", data: Json = None) -> None:
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is not a log level; there are {', '.join(LOG_LEVELS)}")
        if not self.__over and not self.__call.looking:
            self.__lender.logged(self.__call, level, message, logger, data)

    async def call_tool(self, name: str, arguments: Mapping[str, Json]) -> ToolOutput:
        return await self.__while_alive(
            lambda: self.__lender.nested_tool(self.__call, self.__depth + 1, name, arguments)
        )

    async def call_model(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str = "",
        parameters: ModelParameters | None = None,
        ask: str = "",
    ) -> ModelResponse:
        asked = prompt_of(prompt, system, parameters, ask)
        return await self.__while_alive(lambda: self.__lender.nested_model(self.__call, asked))

    async def count(
        self, prompt: str | Sequence[Message], *, system: str = "", parameters: ModelParameters | None = None
    ) -> int:
        asked = prompt_of(prompt, system, parameters, "")
        return await self.__while_alive(lambda: self.__lender.nested_count(self.__call, asked))

    async def embed(
        self,
        model: str,
        texts: Iterable[str],
        *,
        role: EmbeddingRole = "document",
        dimensions: int | None = None,
        truncate: bool = False,
    ) -> EmbeddingResponse:
        request = EmbeddingRequest(model, texts, role, dimensions, truncate)
        check_request(request)
        return await self.__while_alive(lambda: self.__lender.nested_embedding(self.__call, request))

    async def elicit(self, message: str, schema: Mapping[str, Json], *, source: str = "") -> Elicited:
        from pluggent_host.operations.question import question_of  # here and not above: few tools ask

        self.__alive()
        try:
            question = question_of(message, schema, source)
        except ArgumentProblems as error:
            raise ToolError("; ".join(error.problems), kind=ToolErrorKind.ARGUMENTS) from error
        return await self.__while_alive(lambda: self.__lender.nested_question(self.__call, question))

    def memory(self, store: str = "") -> MemoryAccess:
        self.__alive()
        return _LentMemory(self.__lender.nested_memory(self.__call, store), self.__while_alive)

    async def __while_alive(self, operate: Callable[[], Awaitable[R]]) -> R:
        """Run one operation below the call, no longer than the call itself."""
        self.__alive()
        task = asyncio.current_task()
        assert task is not None
        first = task not in self.__below
        self.__below.add(task)
        try:
            return await operate()
        finally:
            if first:
                self.__below.discard(task)

    def __alive(self) -> None:
        if self.__call.looking:
            raise ToolError("a preview only looks: it calls no tool, model, person or memory")
        if self.__over:
            raise LimitReached("tool_timeout_s", self.__call.timeout_s)


class NestedCalls:
    """Makes contexts for the calls of one turn and runs what tools ask for through them."""

    def __init__(self, turn: TurnParts) -> None:
        services = turn.services
        self._turn = turn
        self._numbers = itertools.count(1)
        self._outer: dict[str, ToolCallOperation] = {}
        self._loop = asyncio.get_running_loop()
        doubts = partial(turn.conversation.doubts, services.threads)
        self.runner = CallRunner(services.caller, services.threads, turn.agent.protected, self._begun, doubts)

    @property
    def private_folders(self) -> tuple[Path, ...]:
        """The folders of the host that are for no tool."""
        return tuple(Path(each) for each in self._turn.agent.protected.private)

    def _begun(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return CallContext(self, call, clock, self._turn.agent.workspace, len(self._with_outer(call)) - 1)

    # ---- where something happens ---------------------------------------------------------

    def _scope(self, outer: ToolCallOperation) -> Scope:
        return attrs.evolve(self._turn.scope, origin="tool", parent_id=outer.id)

    def _next_id(self, outer: ToolCallOperation) -> str:
        return f"{outer.id}.{next(self._numbers)}"

    def _with_outer(self, call: ToolCallOperation) -> list[ToolCallOperation]:
        """Return *call* and the calls above it, the nearest first."""
        calls = [call]
        while (outer := self._outer.get(calls[-1].id)) is not None:
            calls.append(outer)
        return calls

    @contextlib.contextmanager
    def _clocks_stopped(self, outer: ToolCallOperation) -> Generator[None]:
        """Stop the clocks of *outer* and of every call above it."""
        clocks = [call.clock for call in self._with_outer(outer)]
        for clock in clocks:
            clock.stop()
        try:
            yield
        finally:
            for clock in clocks:
                clock.start()

    async def _settled(self, decided: Decided[E, R], outer: ToolCallOperation) -> SettledCall[E, R]:
        """Return *decided* settled at once; the clocks above are stopped while a person is asked."""
        return await self._turn.consent.settle_now(decided, self._clocks_stopped(outer))

    # ---- events --------------------------------------------------------------------------

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
        self._loop.call_soon_threadsafe(self._turn.record.emit, event)

    def logged(self, call: ToolCallOperation, level: str, message: str, logger: str, data: Json) -> None:
        if self._filtered:  # as above, and without its words a log says nothing
            return
        text, part, facts = clean(str(message)), clean(str(logger)), _facts(data)
        event = ToolLogged(call.scope, call.event.call_id, call.tool.spec.name, level, text, part, facts)
        self._loop.call_soon_threadsafe(self._turn.record.emit, event)

    # ---- another tool --------------------------------------------------------------------

    async def nested_tool(
        self, outer: ToolCallOperation, depth: int, name: str, arguments: Mapping[str, Json]
    ) -> ToolOutput:
        tools = self._turn.agent.tools
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
        id = self._next_id(outer)
        call = ToolCallOperation(
            self.runner, self._turn.record, self._scope(outer), tools[name], id, prepared,
            outer.event.round, outer.event.index, min(outer.timeout_s, quota.timeout_s(tools[name])), id,
        )  # fmt: skip
        self._outer[id] = outer
        try:
            return await self._run(call, outer)
        finally:
            del self._outer[id]

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
            turn.record.emit(ToolStarted(call.scope, call.event.call_id, name, capability, agreed.event.arguments_json))
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
            turn.record.emit(call.finished(name, output, seen))
        return output

    async def _performed(self, call: ToolCallOperation, agreed: Granted[ToolCallEvent, ToolOutput]) -> ToolOutput:
        try:
            return await self._turn.operations.perform(agreed)
        except errors.Denied as refused:  # by a ledger, or because the decision had grown old
            call.kind = ToolErrorKind.DENIED
            if not call.ran:
                self._turn.meter.quota.give_back(call.tool)
            return ToolOutput.error(f"Denied: {refused.tell_model}")

    async def _agreed(
        self, call: ToolCallOperation, outer: ToolCallOperation
    ) -> Granted[ToolCallEvent, ToolOutput] | ToolOutput:
        """Return what may be performed, or what the tool is told instead."""
        settled = await self._settled(await self._turn.operations.decide(call), outer)
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
        entry = Settled(call.scope.turn_id, call.event.call_id, message, call.outcome, whole, undo=put_backs(call))
        self._turn.record.append(entry)

    # ---- the model, people and memory ----------------------------------------------------

    async def nested_model(self, outer: ToolCallOperation, prompt: Prompt) -> ModelResponse:
        """Ask the session's model. Raises Denied and ProviderError."""
        turn, agent, services = self._turn, self._turn.agent, self._turn.services
        request = ModelRequest(agent.model.name, prompt.messages, (), prompt.parameters)
        call = NestedModelCall(
            turn.record, self._scope(outer), agent.model.provider, agent.model.capability, request, Toolset(),
            outer.event.round, lambda: services.settings.timeouts.model_s, None, services.model,
            partial(self._settled, outer=outer), self._next_id(outer),
        )  # fmt: skip
        call.asker = outer.tool.capability
        if prompt.why:
            who = f"'{outer.tool.plugin}', for its tool '{outer.tool.spec.name}'"
            call.agreement = Ask(f"{who}, wants to ask the model: {clean(prompt.why)}", reach="once")
        settled = await self._settled(await turn.operations.decide(call), outer)
        if isinstance(settled, Denied):
            outer.ends_turn = outer.ends_turn or settled.deny.ends_turn
            raise errors.Denied(settled.by, settled.deny.tell_model, settled.event.digest)
        started, failure, finish = perf_counter(), "", ""
        try:
            response = await turn.operations.perform(settled)
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
            turn.meter.book(call, turn.record, perf_counter() - started, finish, failure)

    async def nested_count(self, outer: ToolCallOperation, prompt: Prompt) -> int:
        """Return the tokens of what ``nested_model`` would ask. Raises Denied, ProviderError and NoTokenCount."""
        turn, model = self._turn, self._turn.agent.model
        request = ModelRequest(model.name, prompt.messages, (), prompt.parameters)
        limit_s = turn.services.settings.timeouts.model_s
        operation = CountOperation(turn.record, self._scope(outer), self._next_id(outer), model, request, limit_s)
        with _refusal_below(outer, operation):
            return await counted(turn.operations, operation, partial(self._settled, outer=outer))

    async def nested_embedding(self, outer: ToolCallOperation, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return vectors. Raises Denied, ProviderError and ConfigError."""
        turn, services = self._turn, self._turn.services
        capability, embedder, own = await services.embedder(request.model)
        operation = EmbeddingOperation(
            turn.record, self._scope(outer), self._next_id(outer), (capability, embedder),
            attrs.evolve(request, model=own), services.settings.timeouts.model_s,
        )  # fmt: skip
        failure = ""
        try:
            with _refusal_below(outer, operation):
                return await embedded(turn.operations, operation, partial(self._settled, outer=outer))
        except BaseException as error:
            failure = str(error) or type(error).__name__
            raise
        finally:
            if operation.spent != Usage():
                turn.meter.add(turn.record, turn.scope.turn_id, operation.model, operation.spent, failure)

    async def nested_question(self, outer: ToolCallOperation, question: Question) -> Elicited:
        """Return the answer. Raises Denied and LimitReached."""
        from pluggent_host.operations.question import HOOK, Answerers, QuestionOperation  # as in elicit()

        turn, services = self._turn, self._turn.services
        if not turn.meter.may_ask():
            raise errors.LimitReached("asks", turn.meter.limits.asks)
        answerers = Answerers(services.chains[HOOK], services.caller, services.settings, services.emit)
        operation = QuestionOperation(
            turn.record, self._scope(outer), answerers, outer.tool.capability, question, self._next_id(outer)
        )
        decided = await turn.operations.decide(operation)
        if isinstance(decided, Denied):
            outer.ends_turn = outer.ends_turn or decided.deny.ends_turn
            raise errors.Denied(decided.by, decided.deny.tell_model, decided.event.digest)
        assert isinstance(decided, Ready)  # it can neither ask nor answer: see ANSWERS
        started = perf_counter()
        with self._clocks_stopped(outer), turn.meter.person():
            answer = await turn.operations.perform(decided)
        outcome, given = type(answer).__name__.lower(), tuple(answer.content) if isinstance(answer, Accepted) else ()
        told = QuestionAnswered(
            operation.scope, outer.event.call_id, outer.tool.capability, question.source, outcome,
            operation.by, given, perf_counter() - started,
        )  # fmt: skip
        turn.record.emit(told)
        return answer

    def nested_memory(self, outer: ToolCallOperation, store: str) -> MemoryAccess:
        settle = partial(self._settled, outer=outer)
        return self._turn.services.memory(store, self._turn.record, self._scope(outer), self._numbers, settle)


@contextlib.contextmanager
def _refusal_below(outer: ToolCallOperation, operation: CountOperation | EmbeddingOperation) -> Generator[None]:
    """Keep what is for the person out of what the tool, and by it the model, reads of a refusal."""
    try:
        yield
    except errors.Denied as refused:
        raise errors.Denied(refused.by, refused.tell_model, refused.digest) from refused
    finally:
        outer.ends_turn = outer.ends_turn or operation.ends_turn


def _facts(data: Json) -> Json:
    """Return *data* as any wire can carry it. What is not JSON is left out: a log must not fail a call."""
    try:
        return freeze(clean_json(json.loads(json.dumps(thaw(data), allow_nan=False))))
    except (TypeError, ValueError, RecursionError):
        return None
