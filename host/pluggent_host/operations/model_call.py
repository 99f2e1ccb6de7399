"""One model call as an operation, streamed or whole; broken and cancelled calls count too."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol, cast, get_args

import attrs
import msgspec
from pluggent_contract_values.escape import escape_all
from pluggent_contract_values.sanitize import clean_message
from pluggent_function_tools.function_tool import definition_digest
from pluggent_hookspecs import Value, errors
from pluggent_hookspecs.decisions import Ask, Deny
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import ModelRequestEvent, ModelResponseEvent, ReserveEvent, Scope
from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Role, Text, ToolCall, Usage
from pluggent_hookspecs.models import (
    Delta,
    ModelRequest,
    ModelResponse,
    Provider,
    ReasoningDelta,
    RefusalDelta,
    Reply,
    TextDelta,
    collect,
)
from pluggent_hookspecs.observations import Change, ModelCalled, ModelRetried
from pluggent_hookspecs.reply_meta import ReplyMeta

from pluggent_host.common.running import comes_from_outside, said
from pluggent_host.hooks.ledgers import Cost
from pluggent_host.operations.background import BackgroundRun
from pluggent_host.operations.operation import Attempt, Hooks, Journal, Operation, asked_by, with_digest
from pluggent_host.operations.token_estimate import input_tokens, used_so_far
from pluggent_host.plugins.lookup import Model
from pluggent_host.tools.hosted import awaits_hosted, hosted_of, may_run
from pluggent_host.tools.toolset import Toolset

HOOKS = Hooks(
    "transform_model_request",
    "decide_model_request",
    "around_model_call",
    "transform_model_response",
    "decide_model_response",
)


_NOT_BEGUN = frozenset({
    ProviderErrorKind.AUTHENTICATION, ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.CONTEXT_LENGTH,
    ProviderErrorKind.BAD_REQUEST,
})  # fmt: skip
"""Failures before the vendor has run anything."""


def _plain(value: object) -> object:
    if isinstance(value, MappingProxyType):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"{type(value).__name__} in a model request")


_encoder = msgspec.json.Encoder(order="sorted", enc_hook=_plain)
IN_DOUBT = "the same request was about to be submitted before, and may run, and be billed, already"


def message_digest(message: Message) -> bytes:
    """Return what identifies *message* in digests: sha256 of its canonical form."""
    try:
        return _digest(message)
    except UnicodeEncodeError:  # a lone surrogate, in a session that an earlier version kept
        return _digest(clean_message(message))


def _digest(message: Message) -> bytes:
    fields = [
        message.role,
        [[type(part).__name__, part] for part in message.content],
        message.tool_calls,
        message.tool_call_id,
        message.name,
        message.is_error,
        message.extra,
    ]
    return hashlib.sha256(_encoder.encode(fields)).digest()


def change_of(old: ModelRequest, new: ModelRequest) -> Change:
    """Return where *new* differs from *old*, as a Change that names no plugin yet."""
    paths = [
        f"messages[{i}]"
        for i in range(max(len(old.messages), len(new.messages)))
        if old.messages[i : i + 1] != new.messages[i : i + 1]
    ]
    paths += [name for name in ("model", "tools", "parameters", "hosted") if getattr(old, name) != getattr(new, name)]
    return Change("", tuple(paths))


def frozen(event: ModelRequestEvent, id: str) -> ModelRequestEvent:
    """Return *event* of the operation *id* under its digest."""
    request = event.request
    head = [
        event.scope.session_id,
        id,
        event.provider,
        event.target,
        request.model,
        request.parameters,
        [spec.memo(definition_digest, definition_digest) for spec in request.tools],
    ]
    if request.hosted:
        head.append([[tool.capability, tool.definition, tool.effects] for tool in request.hosted])
    digest = hashlib.sha256(_encoder.encode(head))
    digest.update(b"".join(Message.memos(request.messages, message_digest, message_digest)))
    digest.update(asked_by(event.scope))
    return with_digest(event, digest.hexdigest())


def content_digest(event: ModelRequestEvent) -> str:
    """Return what identifies the request of *event*, the same for every caller and every time."""
    return frozen(attrs.evolve(event, scope=Scope()), "").digest


FindModel = Callable[[str], Awaitable[Model]]
Settle = Callable[[Any], Awaitable[Any]]


class ShowDeltas(Protocol):
    """Where the text of a stream goes, batch by batch; told what of it is void."""

    def show(self, text: str, reasoning: str) -> bool:
        """Show it, or hold it back; return whether anybody has seen it."""
        ...

    @property
    def full(self) -> bool:
        """Whether the consumer has fallen behind."""
        ...

    async def room(self) -> None:
        """Wait until the consumer has caught up."""
        ...

    def discard(self, why: str) -> None: ...
    def end(self) -> None:
        """The stream is complete."""
        ...


class ModelCallOperation(Operation[ModelRequestEvent, ModelResponse]):
    """One call of one model. ``spent`` is what it used, however it ended."""

    name = "model_call"
    hooks = HOOKS
    failure = ""
    ends_turn = False
    """Whether a policy that refused it wants the turn to end."""

    def __init__(
        self, journal: Journal, scope: Scope, provider: Provider, capability: str, request: ModelRequest,
        offered: Toolset, round: int, attempt_s: Callable[[], float], deltas: ShowDeltas | None,
        find: FindModel, settle: Settle, id: str = "",
    ) -> None:  # fmt: skip
        event = ModelRequestEvent(scope, request, capability, provider.target, round)
        super().__init__(journal, scope, id or f"{scope.turn_id}.{round}", capability, event)
        self.offered = offered
        self.spent = self.used = Usage()
        self._provider = provider
        self._attempt_s = attempt_s
        self._deltas = deltas
        self._find = find
        self._settle = settle
        self.called = f"{provider.name}/{request.model}"
        self.children: list[Called] = []
        self.attempts = 0
        self.broke = ""
        self._unsure = True
        """Whether the last attempt may have made the vendor run something."""
        self.unsure_at: frozenset[str] = frozenset()
        """Targets at which calls in the place of this one, or above it, may have made the vendor run something."""
        self.meta = ReplyMeta()
        self.asked: ModelRequestEvent | None = None
        self.answering: ModelRequestEvent | None = None
        """What was asked in place of this request, if the reply is an answer to that."""
        self.run: BackgroundRun | None = None
        """Where a request goes that is to run in the background; None: it may not."""
        self.doubtful: Callable[[str], bool] | None = None
        """Says whether a request with this content digest may run at the vendor already."""

    # ---- the request ---------------------------------------------------------------------

    def changed(self, event: ModelRequestEvent, value: Any, plugin: str) -> ModelRequestEvent:
        if not isinstance(value, ModelRequest):
            raise ValueError(f"returned {type(value).__name__}, not a ModelRequest")
        for spec in value.tools:
            if spec.name not in self.offered:
                raise ValueError(f"added the tool '{spec.name}'; the offered tools can only be narrowed")
            if spec != self.offered[spec.name].spec:
                raise ValueError(f"changed the definition of the tool '{spec.name}'")
        for tool in value.hosted:
            if tool not in event.request.hosted:
                raise ValueError(f"added '{tool.capability}'; the tools of the vendor can only be narrowed")
        self.offered = self.offered.narrowed(spec.name for spec in value.tools)
        return attrs.evolve(event, request=value)

    def diff(self, before: ModelRequestEvent, after: ModelRequestEvent) -> Change:
        return change_of(before.request, after.request)

    def freeze(self, event: ModelRequestEvent) -> ModelRequestEvent:
        return frozen(event, self.id)

    def doubt(self, event: ModelRequestEvent) -> Ask | None:
        run = self.run
        if run is None or self.doubtful is None or run.ticket is not None or not event.request.parameters.background:
            return None
        return Ask(IN_DOUBT) if self.doubtful(content_digest(event)) else None

    @property
    def limit_s(self) -> float:
        return self._attempt_s()

    def rendered(self, event: ModelRequestEvent) -> str:
        request = event.request
        last = request.messages[-1].text if request.messages else ""
        tools = ", ".join(escape_all(tool.capability) for tool in request.hosted)
        ran = f"\nthe vendor may run: {tools}" if tools else ""
        return (
            f"ask {escape_all(request.model)} at {escape_all(event.target)}: {len(request.messages)} messages,"
            f" the last: {escape_all(last)}{ran}"
        )

    async def reissued(self, changed: Any, model: str, number: int) -> ModelCallOperation:
        """Return the call that makes *changed*, of *model* if it is named. Raises ValueError and ConfigError."""
        own = self.offered
        try:
            request: ModelRequest = self.changed(self.event, changed, "").request
            offered = self.offered
        finally:
            self.offered = own
        provider, capability = self._provider, self.capability
        if model:
            found = await self._find(model)
            names = {tool.name for tool in request.hosted}
            there = may_run(hosted_of(found), dry_run=self.scope.dry_run)
            hosted = tuple(tool for tool in there if tool.name in names)
            provider, capability = found.provider, found.capability
            request = attrs.evolve(request, model=found.name, hosted=hosted)
        child = type(self)(
            self.journal, self.scope, provider, capability, request, offered, self.event.round,
            self._attempt_s, self._deltas, self._find, self._settle, f"{self.id}.r{number}",
        )  # fmt: skip
        child.unsure_at = self.begun_at
        return child

    def refused(self, deny: Deny) -> None:
        self.ends_turn = self.ends_turn or deny.ends_turn

    def priced(self, cost_usd: float) -> None:
        self.used = attrs.evolve(self.used, cost_usd=cost_usd)
        self.spent += Usage(cost_usd=cost_usd)

    def cost(self, event: ModelRequestEvent, attempt: int) -> Cost:
        request = event.request
        sent = input_tokens(request)
        name = f"{self._provider.name}/{request.model}"
        most = request.parameters.max_output_tokens
        run = self.run.key if self.run is not None and request.parameters.background else ""
        reserved = ReserveEvent(self.scope, self.name, self.id, attempt, self.capability, name, sent, most, run)
        return Cost(reserved, self)

    @property
    def run_key(self) -> str:
        """The key of the background run that was begun or attached to; empty without one."""
        return self.run.key if self.run is not None and self.run.begun else ""

    async def settle(self, decided: Any) -> Any:
        return await self._settle(decided)

    def retried(self, attempt: int, wait_s: float, failure: str) -> None:
        self.journal.emit(ModelRetried(self.scope, self.called, attempt, wait_s, failure))

    def calls(self, elapsed_s: float, finish: str, error: str) -> tuple[Called, ...]:
        """Return every call that was made for this one, in order; the last of them ended with *finish* or *error*."""
        children = tuple(self.children)
        if not children:
            return (Called(self.called, self.spent, elapsed_s, error, finish, self.meta),)
        own = elapsed_s - sum(child.elapsed_s for child in children)
        first = (Called(self.called, self.spent, own, self.broke, meta=self.meta),) if self.attempts else ()
        return (*first, *children[:-1], attrs.evolve(children[-1], finish=finish, error=error))

    @property
    def begun_at(self) -> frozenset[str]:
        """Targets at which this call, or one in its place, may have made the vendor run something."""
        here = (self.event.target,) if self.attempts and self._unsure else ()
        return self.unsure_at.union(here)

    def absorb(self, child: Any, elapsed_s: float, error: str) -> None:
        self.unsure_at |= child.begun_at
        if not error:
            self.offered = child.offered
            self.answering = child.answering or child.asked
        self.children += [*child.children, Called(child.called, child.spent, elapsed_s, error, meta=child.meta)]
        self.partial = child.partial or self.partial

    # ---- asking --------------------------------------------------------------------------

    async def execute(self, event: ModelRequestEvent, attempt: Attempt) -> ModelResponse:
        started = perf_counter()
        self.used, self.meta = Usage(), ReplyMeta()
        again = attempt.number > 1 and self._unsure and not self.run_key
        if (again or event.target in self.unsure_at) and awaits_hosted(event.request.messages):
            problem = "the vendor may have made the calls that were approved, so the request is not repeated"
            raise ProviderError(ProviderErrorKind.UNAVAILABLE, problem, provider=self._provider.name, retryable=False)
        self.attempts, self.asked = attempt.number, event
        most = self._attempt_s()
        try:
            async with asyncio.timeout(most) as limit:
                if self._deltas is None:
                    return await self._whole(event)
                return await self._streamed(event, attempt, self._deltas, limit)
        except ProviderError as error:
            self.broke, self.meta = str(error), error.meta or ReplyMeta()
            self._unsure = error.kind not in _NOT_BEGUN
            raise
        except TimeoutError as error:
            if perf_counter() - started < most:
                raise self._broken(error) from error
            problem = f"no whole reply within {most:g} s ([timeouts] model_s)"
            raise self._error(ProviderErrorKind.TIMEOUT, problem) from error
        except BaseException as error:
            if comes_from_outside(error):
                raise
            raise self._broken(error) from error

    async def _whole(self, event: ModelRequestEvent) -> ModelResponse:
        request = event.request
        try:
            if request.parameters.background:
                response: object = await collect(self._batches(event))
            else:
                response = await self._provider.complete(request)
        except asyncio.CancelledError:
            self._use(used_so_far(request, Reply()))
            raise
        return self.take(response)

    def take(self, response: object) -> ModelResponse:
        """Count what a whole reply has used and return it. Raises TypeError, ProviderError for one that is none."""
        reply = checked_response(response)
        self.meta = reply.meta
        self._use(reply.usage)
        return reply

    def _batches(self, event: ModelRequestEvent) -> AsyncGenerator[Sequence[Delta]]:
        if not event.request.parameters.background:
            return self._provider.stream(event.request)
        if self.run is None:
            problem = "only the requests of a turn itself run in the background; leave out parameters.background"
            raise self._error(ProviderErrorKind.BAD_REQUEST, problem)
        return self.run.deltas(event)

    def _broken(self, error: BaseException) -> ProviderError:
        return self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {said(error)}")

    def _error(self, kind: ProviderErrorKind, problem: str) -> ProviderError:
        return ProviderError(kind, problem, provider=self._provider.name)

    async def _streamed(
        self, event: ModelRequestEvent, attempt: Attempt, deltas: ShowDeltas, limit: asyncio.Timeout
    ) -> ModelResponse:
        request, reply = event.request, Reply()
        attempt.on_discard = deltas.discard
        self.partial = reply.message
        try:
            async with _closing(self._batches(event)) as stream:
                async for batch in stream:
                    reply.add(batch)
                    text, reasoning = seen_in(batch)
                    if text or reasoning:
                        attempt.shown = deltas.show(text, reasoning) or attempt.shown
                        if deltas.full:
                            await _let_catch_up(deltas, limit)
            response = checked_response(reply.response())
            self.meta = response.meta
            self._use(response.usage)
            deltas.end()
            return response
        except BaseException as error:
            if self.used == Usage():  # else it was counted above
                with contextlib.suppress(ProviderError):  # the first failure counts
                    self._use(_cost_of(request, reply, error))
            raise

    def _use(self, usage: Usage) -> None:
        """Count *usage*. Raises ProviderError if it is not possible; what was reserved counts then."""
        problem = impossible_usage(usage)
        self.used = Usage(estimated=True) if problem else usage
        self.spent += self.used
        if problem:
            problem = f"the server reports a usage that is not possible: {problem}"
            raise self._error(ProviderErrorKind.PROTOCOL, problem)

    partial: Callable[[], Message] | None = None
    """Makes the reply as far as it came, while a stream is running."""

    # ---- the reply -----------------------------------------------------------------------

    def response(self, value: object) -> ModelResponse:
        if isinstance(value, str):
            return ModelResponse(Message.assistant(value))
        return _reply_of(value, "answered {}, not a ModelResponse or text")

    def result_event(self, event: ModelRequestEvent, result: ModelResponse) -> ModelResponseEvent:
        asked = self.answering or event
        return ModelResponseEvent(event.scope, asked.request, result, asked.provider, event.round)

    def changed_result(self, event: ModelResponseEvent, value: Any, plugin: str) -> ModelResponseEvent:
        return attrs.evolve(event, response=_reply_of(value, "returned {}, not a ModelResponse"))

    def result(self, event: ModelResponseEvent) -> ModelResponse:
        return event.response

    def withheld(self, event: ModelRequestEvent, deny: Deny) -> ModelResponse:
        self.ends_turn = self.ends_turn or deny.ends_turn
        raise errors.Denied("decide_model_response", deny.tell_user, event.digest, tell_model=deny.tell_model)


def _cost_of(request: ModelRequest, reply: Reply, error: BaseException) -> Usage:
    """Return what the stream of *reply* has cost, which *error* ended; what is impossible as it was reported."""
    if reply.finished or impossible_usage(reply.usage):
        return reply.usage
    came = reply.so_far()
    began = came.content or came.tool_calls or reply.usage != Usage()
    return used_so_far(request, reply) if began or not isinstance(error, ProviderError) else Usage()


def _reply_of(value: object, problem: str) -> ModelResponse:
    """Return *value*, which a plugin gave. Raises ValueError unless it is a reply of the assistant."""
    if not isinstance(value, ModelResponse):
        raise ValueError(problem.format(type(value).__name__))
    try:
        return checked_response(value)
    except TypeError as error:
        raise ValueError(f"gave a reply that is none: {error}") from error


async def _let_catch_up(deltas: ShowDeltas, limit: asyncio.Timeout) -> None:
    """Wait for a slow consumer; the model's clock is stopped meanwhile."""
    loop, at = asyncio.get_running_loop(), limit.when()
    since = loop.time()
    limit.reschedule(None)
    await deltas.room()
    limit.reschedule(None if at is None else at + loop.time() - since)


@contextlib.asynccontextmanager
async def _closing(stream: Any) -> AsyncGenerator[AsyncIterator[Sequence[Delta]]]:
    """Close *stream* on the way out, if it can be closed."""
    if inspect.iscoroutine(stream):
        stream.close()
        raise TypeError("its stream() returns a coroutine; write `async def stream` with `yield`")
    try:
        yield stream
    finally:
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()


@attrs.frozen(repr=False)
class Called(Value):
    """What one call of a model, reissued for another, came to."""

    model: str
    usage: Usage
    elapsed_s: float
    error: str
    finish: str = ""
    meta: ReplyMeta = ReplyMeta()

    def event(self, scope: Scope, round: int) -> ModelCalled:
        """Return what observers are told of it."""
        return ModelCalled(scope, self.model, round, self.usage, self.elapsed_s, self.finish, self.error, self.meta)


def seen_in(batch: Sequence[Delta]) -> tuple[str, str]:
    """Return the text, refusals included, and the reasoning of one batch."""
    text: list[str] = []
    reasoning: list[str] = []
    for delta in batch:
        if type(delta) is TextDelta or type(delta) is RefusalDelta:
            text.append(delta.text)
        elif type(delta) is ReasoningDelta:
            reasoning.append(delta.text)
    return "".join(text), "".join(reasoning)


# ---- what is wrong with a reply --------------------------------------------------------------

_PARTS = get_args(Part)
_COUNTS = ("input", "output", "cached", "reasoning", "audio", "cache_write", "input_audio")


def checked_response(response: object) -> ModelResponse:
    """Return *response*. Raises TypeError if any part of it is not a reply of an assistant."""
    if not isinstance(response, ModelResponse):
        raise TypeError(f"it returned {type(response).__name__}, not a ModelResponse")
    message = cast("object", response.message)
    if not isinstance(message, Message) or message.role is not Role.ASSISTANT:
        raise TypeError("its reply is not a message of the assistant")
    for part in message.content:
        _check_part(part)
    for call in message.tool_calls:
        _check_call(call)
    return response


def _check_part(part: object) -> None:
    if not isinstance(part, _PARTS):
        raise TypeError(f"its reply has a content part of type {type(part).__name__}")
    if isinstance(part, Text | Refusal | Reasoning) and type(part.text) is not str:
        raise TypeError("its reply has a text that is none")


def _check_call(call: object) -> None:
    if not isinstance(call, ToolCall):
        raise TypeError(f"its reply has a tool call of type {type(call).__name__}")
    if any(type(field) is not str for field in (call.id, call.name, call.arguments)):
        raise TypeError("its reply has a tool call whose id, name or arguments are not text")


def impossible_usage(usage: Usage) -> str:
    """Return what of *usage*, as a provider gave it, is not a count or an amount of money; empty if nothing is."""
    for name in _COUNTS:
        count: object = getattr(usage, name)
        if count is not None and (type(count) is not int or count < 0):
            return f"{name}={count!r}"
    for name in ("cost_usd", "hosted_usd"):
        cost: Any = getattr(usage, name)
        known = cost is None or (isinstance(cost, int | float) and not isinstance(cost, bool))
        if not known or (cost is not None and not 0 <= cost < math.inf):
            return f"{name}={cost!r}"
    return ""
