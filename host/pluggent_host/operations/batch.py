"""Many requests to one model that their vendor answers together, later: each is an operation of its own.

A policy that refuses a request leaves it out of the batch. Each result passes the hooks on replies, and on what a
person sees, when it is read, and ledgers charge each request once, however often its result is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from time import perf_counter, time
from typing import Any

import attrs
from pluggent_hookspecs import Value, errors
from pluggent_hookspecs.background import Batches, BatchResult, BatchState, BatchTicket
from pluggent_hookspecs.errors import PluggentError, ProviderError, ProviderErrorKind, SubmissionInDoubt
from pluggent_hookspecs.events import ModelRequestEvent, Scope
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.models import ModelRequest, ModelResponse

from pluggent_host.common.running import comes_from_outside, said
from pluggent_host.hooks.ledgers import Cost
from pluggent_host.operations.input_output import OutputOperation
from pluggent_host.operations.model_call import ModelCallOperation
from pluggent_host.operations.operation import Answered, Asked, Attempt, Decided, Denied, Journal, Ready, Settled
from pluggent_host.operations.pipeline import Operations
from pluggent_host.plugins.lookup import Model
from pluggent_host.tools.toolset import Toolset

MOST_AT_ONCE = 100
"""Decisions between two turns of the event loop."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FREE = Usage(input=0, output=0)
_LATER = "approved when the batch was submitted"


class NoBatches(PluggentError):  # noqa: N818 (a fact, not a failure)
    """A provider takes no batches; its models can be asked one by one."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(f"the provider '{provider}' takes no batches; ask its models one by one")


@attrs.frozen(repr=False)
class BatchItem(Value):
    """One request of a batch as it was decided about: ``request`` as it is sent, under its ``digest``.

    ``denied`` says who refused it, and why: then it is not in the batch. ``answer`` is what a policy answered in its
    place. ``asks`` are (plugin, its words) that ``approved_by`` has agreed to.
    """

    id: str
    request: ModelRequest
    digest: str
    denied: tuple[str, str] | None = None
    answer: ModelResponse | None = None
    asks: tuple[tuple[str, str], ...] = ()
    approved_by: str = ""

    @property
    def is_sent(self) -> bool:
        """Whether it is in the batch."""
        return self.denied is None and self.answer is None


@attrs.frozen(repr=False)
class Batch(Value):
    """A batch, all that is needed to find it and read its results, in this process or another; JSON both ways.

    ``key`` marks it at the vendor, ``model`` is ``provider/model``. Without a ``ticket`` it was about to be submitted:
    ``Host.find_batch`` says whether it was.
    """

    key: str
    model: str
    principal: str
    begun_s: float
    items: tuple[BatchItem, ...]
    ticket: BatchTicket | None = None

    @property
    def sent(self) -> Mapping[str, ModelRequest]:
        """The requests that the vendor gets, by their ids."""
        return {item.id: item.request for item in self.items if item.is_sent}


Keep = Callable[[Batch], Awaitable[None]]
"""Makes a batch durable: before it is submitted, and when it has its ticket."""


@attrs.frozen(eq=False, repr=False)
class BatchDesk:
    """Where the batches of one host are submitted and read."""

    operations: Operations
    journal: Journal
    scope: Scope
    found: Model
    attempt_s: float

    async def submit(self, key: str, model: str, requests: Mapping[str, ModelRequest], keep: Keep) -> Batch:
        """Decide about each of *requests*, keep what is to be sent, and send it as one batch.

        Raises ValueError for ids that cannot be sent, NoBatches, HookError, SubmissionInDoubt, ProviderError.
        """
        provider = self._provider()
        _check_ids(requests)
        items: list[BatchItem] = []
        for number, (id, request) in enumerate(requests.items()):
            items.append(await self._decided(key, id, attrs.evolve(request, model=self.found.name)))
            if number % MOST_AT_ONCE == 0:
                await asyncio.sleep(0)
        batch = Batch(key, model, self.scope.principal, time(), tuple(items))
        await keep(batch)
        if not batch.sent:
            return batch
        try:
            ticket = await self._bounded(provider.submit_batch(batch.sent, key), "submit_batch")
        except SubmissionInDoubt as error:
            ticket = await self._found_after(provider, batch, error)
        if not isinstance(ticket, BatchTicket):
            raise self._broken(f"submit_batch() returned {type(ticket).__name__}, not a BatchTicket")
        submitted = attrs.evolve(batch, ticket=ticket)
        await keep(submitted)
        return submitted

    async def find(self, batch: Batch) -> Batch:
        """Return *batch* with its ticket, if the vendor has it; as it is if it surely has not."""
        if batch.ticket is not None or not batch.sent:
            return batch
        found = await self._bounded(self._provider().find_batch(batch.key, batch.sent, batch.begun_s), "find_batch")
        return attrs.evolve(batch, ticket=found)

    async def state(self, batch: Batch) -> BatchState:
        """Return how far *batch* is."""
        if not batch.sent:
            return BatchState("ended", ended=True)
        state: BatchState = await self._bounded(self._provider().batch_state(self._ticket(batch)), "batch_state")
        return state

    async def cancel(self, batch: Batch) -> None:
        """End *batch* at its vendor."""
        if batch.sent:
            await self._bounded(self._provider().cancel_batch(self._ticket(batch)), "cancel_batch")

    async def results(self, batch: Batch, known: frozenset[str]) -> AsyncGenerator[BatchResult]:
        """Yield what became of the requests but *known* ones, as the policies let it pass."""
        items = {item.id: item for item in batch.items if item.id not in known}
        for item in list(items.values()):
            if not item.is_sent:
                del items[item.id]
                yield await self._passed(batch, item, None)
        if not items:
            return
        provider, ticket = self._provider(), self._ticket(batch)
        async with aclosing(provider.batch_results(ticket, batch.sent)) as pages:
            async for page in self._guarded(pages):
                for result in page:
                    if not isinstance(result, BatchResult):  # pyright: ignore[reportUnnecessaryIsInstance] (a plugin)
                        raise self._broken(f"batch_results() yielded {type(result).__name__}, not a BatchResult")
                    if (one := items.pop(result.id, None)) is not None:
                        yield await self._passed(batch, one, result)

    # ---- one request ---------------------------------------------------------------------

    async def _decided(self, key: str, id: str, request: ModelRequest) -> BatchItem:
        operation = self._operation(key, id, request, None)
        decided = await self.operations.decide(operation)
        settled = await self.operations.settle(decided)
        event: ModelRequestEvent = settled.event
        item = BatchItem(id, event.request, event.digest)
        match settled:
            case Denied(by=by, deny=deny):
                return attrs.evolve(item, denied=(by, deny.tell_user))
            case Answered(value=value):
                return attrs.evolve(item, answer=operation.response(value))
            case Ready():
                refused = await self.operations.reserve(settled)
                if refused is not None:
                    return attrs.evolve(item, denied=(refused.by, refused.reason))
                if not isinstance(decided, Asked):
                    return item
                asks = tuple((plugin, ask.tell_user) for plugin, ask in decided.asks)
                by = settled.approval.by if settled.approval is not None else ""
                return attrs.evolve(item, asks=asks, approved_by=by)

    async def _passed(self, batch: Batch, item: BatchItem, result: BatchResult | None) -> BatchResult:
        """Return *result*, or what stands in the place of one, behind all hooks."""
        if item.denied is not None:
            return _denied(item.id, *item.denied)
        operation = self._operation(batch.key, item.id, item.request, result)
        event = operation.freeze(operation.event)
        if event.digest != item.digest:
            return _denied(item.id, "host", "the request is not the one that was decided about")
        started, failure, finish = perf_counter(), "", ""
        try:
            settled = self._as_approved(await self.operations.decide_frozen(operation, event), item)
            if isinstance(settled, Denied):
                return _denied(item.id, settled.by, settled.deny.tell_user)
            if item.answer is not None:
                response = await self.operations.finish(operation, event, item.answer)
            else:
                response = await self.operations.perform(settled)
            finish = response.finish_reason
            return await self._shown(operation, item.id, response)
        except errors.Denied as denied:
            failure = denied.reason
            return _denied(item.id, denied.by, denied.reason)
        except ProviderError as error:
            failure = error.message
            outcome = "failed" if result is None or result.outcome == "done" else result.outcome
            return BatchResult(item.id, outcome, kind=error.kind, message=error.message)
        finally:
            if item.answer is None and operation.attempts:
                for each in operation.calls(perf_counter() - started, finish, failure):
                    self.journal.emit(each.event(self.scope, 0))

    async def _shown(self, operation: BatchOperation, id: str, response: ModelResponse) -> BatchResult:
        """Return the result with *response*, as the policies on what a person sees let it pass."""
        message = response.message
        if not message.content:
            return BatchResult(id, "done", response)
        out = OutputOperation(self.journal, self.scope, message, "reply", f"{operation.id}.out")
        settled = await self.operations.settle(await self.operations.decide(out))
        if isinstance(settled, Denied):
            return _denied(id, settled.by, settled.deny.tell_user)
        shown = attrs.evolve(settled.event.message, tool_calls=message.tool_calls)
        return BatchResult(id, "done", attrs.evolve(response, message=shown))

    def _as_approved(
        self, decided: Decided[ModelRequestEvent, ModelResponse], item: BatchItem
    ) -> Settled[ModelRequestEvent, ModelResponse]:
        if isinstance(decided, Asked):
            asks = {(plugin, ask.tell_user) for plugin, ask in decided.asks}
            if asks <= set(item.asks):
                return self.operations.approved(decided, item.approved_by, _LATER)
        return self.operations.settle_unasked(decided)

    def _operation(self, key: str, id: str, request: ModelRequest, result: BatchResult | None) -> BatchOperation:
        found, limit_s = self.found, self.attempt_s
        operation = BatchOperation(
            self.journal, self.scope, found.provider, found.capability, request, Toolset(), 0, lambda: limit_s, None,
            _no_model, self.operations.settle, f"batch.{key}.{id}",
        )  # fmt: skip
        operation.result_of = result
        return operation

    # ---- the provider --------------------------------------------------------------------

    def _provider(self) -> Batches:
        provider = self.found.provider
        if not isinstance(provider, Batches):
            raise NoBatches(provider.name)
        return provider

    def _ticket(self, batch: Batch) -> BatchTicket:
        if batch.ticket is None:
            problem = "the batch has no ticket: it may not have been submitted; look for it with find_batch()"
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, problem, provider=self.found.provider.name)
        if batch.ticket.target != self.found.provider.target:
            problem = f"the batch is at {batch.ticket.target}, and this provider asks {self.found.provider.target}"
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, problem, provider=self.found.provider.name)
        return batch.ticket

    async def _found_after(self, provider: Batches, batch: Batch, error: SubmissionInDoubt) -> BatchTicket:
        """Return the ticket of a batch whose submission was not answered. Raises *error* if the vendor shows none."""
        found: BatchTicket | None = None
        with contextlib.suppress(ProviderError):
            found = await self._bounded(provider.find_batch(batch.key, batch.sent, batch.begun_s), "find_batch")
        if found is None:
            raise error
        return found

    async def _bounded(self, awaitable: Awaitable[Any], what: str) -> Any:
        started = perf_counter()
        try:
            async with asyncio.timeout(self.attempt_s):
                return await awaitable
        except PluggentError:
            raise
        except TimeoutError as error:
            if perf_counter() - started < self.attempt_s:
                raise self._broken(said(error)) from error
            problem = f"no answer within {self.attempt_s:g} s ([timeouts] model_s)"
            if what == "submit_batch":
                name = self.found.provider.name
                raise SubmissionInDoubt(ProviderErrorKind.TIMEOUT, problem, provider=name) from error
            raise ProviderError(ProviderErrorKind.TIMEOUT, problem, provider=self.found.provider.name) from error
        except BaseException as error:
            if comes_from_outside(error):
                raise
            raise self._broken(said(error)) from error

    async def _guarded(self, pages: AsyncGenerator[Sequence[BatchResult]]) -> AsyncGenerator[Sequence[BatchResult]]:
        while True:
            page: Sequence[BatchResult] | None = await self._bounded(anext(pages, None), "batch_results")
            if page is None:
                return
            yield page

    def _broken(self, problem: str) -> ProviderError:
        message = f"the plugin failed: {problem}"
        return ProviderError(ProviderErrorKind.PROTOCOL, message, provider=self.found.provider.name)


class BatchOperation(ModelCallOperation):
    """One request of a batch. Its result, once there is one, is what executing it comes to."""

    result_of: BatchResult | None = None

    def changed(self, event: ModelRequestEvent, value: Any, plugin: str) -> ModelRequestEvent:
        if not isinstance(value, ModelRequest):
            raise ValueError(f"returned {type(value).__name__}, not a ModelRequest")
        if value.model != event.request.model:
            raise ValueError("changed the model; all requests of a batch are for one")
        if any(tool not in event.request.tools for tool in value.tools):
            raise ValueError("added a tool, or changed the definition of one; tools can only be left out")
        if value.hosted:
            raise ValueError("added a tool of the vendor; these are for turns of a session")
        return attrs.evolve(event, request=value)

    def cost(self, event: ModelRequestEvent, attempt: int) -> Cost:
        cost = super().cost(event, attempt)
        return cost._replace(event=attrs.evolve(cost.event, run=self.id))

    async def reissued(self, changed: Any, model: str, number: int) -> ModelCallOperation:
        raise ValueError("a request of a batch is not reissued: its vendor has answered it, or is going to")

    async def execute(self, event: ModelRequestEvent, attempt: Attempt) -> ModelResponse:
        result = self.result_of
        assert result is not None, "a batch is not executed by itself"
        self.attempts = attempt.number
        if result.response is None:
            self.used = _FREE if result.outcome in ("cancelled", "expired") else Usage()
            raise ProviderError(result.kind, result.message or result.outcome, retryable=False)
        try:
            return self.take(result.response)
        except TypeError as error:
            problem = f"the plugin failed: {said(error)}"
            raise ProviderError(
                ProviderErrorKind.PROTOCOL, problem, provider=self._provider.name, retryable=False
            ) from error


async def _no_model(name: str) -> Model:
    raise ValueError(f"a request of a batch is not reissued for {name}")


def _denied(id: str, by: str, why: str) -> BatchResult:
    return BatchResult(id, "failed", kind=ProviderErrorKind.REFUSED, message=f"denied by {by}: {why}")


def _check_ids(requests: Mapping[str, ModelRequest]) -> None:
    if not requests:
        raise ValueError("there is no request in the batch")
    for id, request in requests.items():
        if request.hosted:
            raise ValueError(f"'{id}' has tools of the vendor; these are for turns of a session")
        if not _ID.fullmatch(id):
            raise ValueError(f"the id {id!r} cannot be sent: 1 to 64 of A-Z a-z 0-9 _ -")
