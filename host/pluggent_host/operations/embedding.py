"""Texts embedded through policies: every request to an embedder is an operation."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from time import perf_counter
from typing import Any, cast

import attrs
import msgspec
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.embeddings import Embedder, EmbeddingIncomplete, EmbeddingRequest, EmbeddingResponse, Vectors
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import EmbeddingRequestEvent, EmbeddingResponseEvent, ReserveEvent, Scope
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import Change, ModelRetried, TextsEmbedded
from pluggent_hookspecs.reply_meta import ReplyMeta

from pluggent_host.common.running import comes_from_outside, said
from pluggent_host.hooks.ledgers import Cost
from pluggent_host.operations.model_call import Settle, impossible_usage
from pluggent_host.operations.operation import (
    Attempt,
    Denied,
    Hooks,
    Journal,
    Operation,
    Settled,
    asked_by,
    with_digest,
)
from pluggent_host.operations.pipeline import Operations
from pluggent_host.operations.token_estimate import BYTES_A_TOKEN

HOOKS = Hooks(
    "transform_embedding_request",
    "decide_embedding_request",
    "around_embedding_call",
    "transform_embedding_response",
    "decide_embedding_response",
)
_ROLES = ("query", "document")
_encode = msgspec.json.Encoder().encode


async def embedded(operations: Operations, operation: EmbeddingOperation, settle: Settle) -> EmbeddingResponse:
    """Return the vectors that *operation* asks for, as the policies let it pass; *settle* asks people.

    Raises Denied, ProviderError, HookError. What came before a failure has passed the result hooks, too.
    """
    decided: Settled[EmbeddingRequestEvent, EmbeddingResponse] = await settle(await operations.decide(operation))
    if isinstance(decided, Denied):
        operation.refused(decided.deny)
        by, deny = decided.by, decided.deny
        raise errors.Denied(by, deny.tell_user, decided.event.digest, tell_model=deny.tell_model)
    started, failure = perf_counter(), ""
    try:
        response = await operations.perform(decided)
        return operation.with_price(response)
    except ProviderError as error:
        failure = str(error)
        if (came := operation.came()) is None:
            raise
        came = operation.with_price(await operations.finish(operation, operation.asked, came))
        raise EmbeddingIncomplete(error, came, len(operation.asked.request.texts)) from error
    except BaseException as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        operation.emit_end(perf_counter() - started, failure)


class EmbeddingOperation(Operation[EmbeddingRequestEvent, EmbeddingResponse]):
    """One request to one embedder. An attempt after a failure half-way sends the texts that are left."""

    name = "embedding"
    hooks = HOOKS
    failure = ""
    ends_turn = False
    """Whether a policy that refused it wants the turn to end, if it is below one."""

    def __init__(
        self, journal: Journal, scope: Scope, id: str, found: tuple[str, Embedder], request: EmbeddingRequest,
        attempt_s: float,
    ) -> None:  # fmt: skip
        capability, self._embedder = found
        event = EmbeddingRequestEvent(scope, request, capability, self._embedder.target)
        super().__init__(journal, scope, id, capability, event)
        self._attempt_s = attempt_s
        self._came: list[EmbeddingResponse] = []
        self._attempts = 0
        self._meta = ReplyMeta()
        self.asked = event
        self.used = self.spent = Usage()

    # ---- the request ---------------------------------------------------------------------

    def changed(self, event: EmbeddingRequestEvent, value: Any, plugin: str) -> EmbeddingRequestEvent:
        if not isinstance(value, EmbeddingRequest):
            raise ValueError(f"returned {type(value).__name__}, not an EmbeddingRequest")
        if len(value.texts) != len(event.request.texts):
            raise ValueError(f"returned {len(value.texts)} texts, not {len(event.request.texts)}")
        check_request(value)
        return attrs.evolve(event, request=value)

    def diff(self, before: EmbeddingRequestEvent, after: EmbeddingRequestEvent) -> Change:
        old, new = before.request, after.request
        pairs = zip(old.texts, new.texts, strict=True)
        paths = [f"texts[{place}]" for place, (one, other) in enumerate(pairs) if one != other]
        names = ("model", "role", "dimensions", "truncate")
        return Change("", (*paths, *(name for name in names if getattr(old, name) != getattr(new, name))))

    def freeze(self, event: EmbeddingRequestEvent) -> EmbeddingRequestEvent:
        return with_digest(event, self._digest(event, self.id))

    def fingerprint(self, event: EmbeddingRequestEvent) -> str:
        return self._digest(event, "")

    def _digest(self, event: EmbeddingRequestEvent, id: str) -> str:
        request = event.request
        head = [id, event.embedder, event.target, request.model, request.role, request.dimensions]
        digest = hashlib.sha256(_encode([*head, request.truncate, len(request.texts)]))
        for text in request.texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data))
            digest.update(data)
        digest.update(asked_by(event.scope))
        return digest.hexdigest()

    def rendered(self, event: EmbeddingRequestEvent) -> str:
        request = event.request
        texts = "\n".join(escape_all(text) for text in request.texts)
        return (
            f"embed {len(request.texts)} texts by {escape_all(request.model)} at {escape_all(event.target)}:\n{texts}"
        )

    @property
    def limit_s(self) -> float:
        return self._attempt_s

    def cost(self, event: EmbeddingRequestEvent, attempt: int) -> Cost:
        sent = sum(len(text.encode("utf-8", "surrogatepass")) for text in self._left(event.request).texts)
        name = f"{self._embedder.name}/{event.request.model}"
        reserved = ReserveEvent(self.scope, self.name, self.id, attempt, self.capability, name, sent // BYTES_A_TOKEN)
        return Cost(reserved, self)

    def refused(self, deny: Deny) -> None:
        self.ends_turn = self.ends_turn or deny.ends_turn

    def priced(self, cost_usd: float) -> None:
        self.used = attrs.evolve(self.used, cost_usd=cost_usd)
        self.spent += Usage(cost_usd=cost_usd)

    def with_price(self, response: EmbeddingResponse) -> EmbeddingResponse:
        """Return *response* with what ledgers know of its price, if the vendor gave none."""
        price = self.spent.cost_usd
        if price is None or response.usage.cost_usd is not None:
            return response
        return attrs.evolve(response, usage=attrs.evolve(response.usage, cost_usd=price))

    def retried(self, attempt: int, wait_s: float, failure: str) -> None:
        self.journal.emit(ModelRetried(self.scope, self.model, attempt, wait_s, failure))

    async def reissued(self, changed: Any, model: str, number: int) -> EmbeddingOperation:
        raise ValueError("an embedding is not reissued: vectors of another model or text do not compare with these")

    @property
    def model(self) -> str:
        """The model as ``embedder/model``."""
        return f"{self._embedder.name}/{self.asked.request.model}"

    def emit_end(self, elapsed_s: float, failure: str) -> None:
        """Emit what became of this, if anything was sent."""
        if self._attempts:
            texts = len(self.asked.request.texts)
            ended = TextsEmbedded(self.scope, self.model, texts, self.spent, elapsed_s, failure, self._meta)
            self.journal.emit(ended)

    # ---- asking --------------------------------------------------------------------------

    async def execute(self, event: EmbeddingRequestEvent, attempt: Attempt) -> EmbeddingResponse:
        self.asked, self.used, self._attempts = event, Usage(), attempt.number
        left = self._left(event.request)
        if left.texts or not self._came:
            try:
                self._take(await self._embedded(left), len(left.texts))
            except EmbeddingIncomplete as error:
                self._take(error.response, min(count_of(error.response), len(left.texts)))
                self._meta = error.meta or ReplyMeta()
                # Who calls again gets the rest, who gives up gets what is here.
                raise error.cause from error.cause.__cause__
            except ProviderError as error:
                self._meta = error.meta or ReplyMeta()
                raise
        return self._joined()

    def came(self) -> EmbeddingResponse | None:
        """Return the vectors that came, in however many attempts, None without any."""
        return self._joined() if any(response.vectors for response in self._came) else None

    async def _embedded(self, request: EmbeddingRequest) -> EmbeddingResponse:
        started = perf_counter()
        try:
            async with asyncio.timeout(self._attempt_s):
                return await self._embedder.embed(request)
        except ProviderError:
            raise
        except TimeoutError as error:
            if perf_counter() - started < self._attempt_s:
                raise self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {said(error)}") from error
            problem = f"no vectors within {self._attempt_s:g} s ([timeouts] model_s)"
            raise self._error(ProviderErrorKind.TIMEOUT, problem) from error
        except BaseException as error:
            if comes_from_outside(error):
                raise
            raise self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {said(error)}") from error

    def _take(self, response: EmbeddingResponse, texts: int) -> None:
        """Keep *response*, which has to have the vectors of *texts* texts. Raises ProviderError."""
        known = (one.vectors.dimensions for one in self._came if one.vectors)
        before = next(known, self.asked.request.dimensions)
        if problem := unusable(response, texts, before):
            raise self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {problem}")
        self._meta = response.meta
        self.used = response.usage
        self.spent += response.usage
        self._came.append(response)

    def _left(self, request: EmbeddingRequest) -> EmbeddingRequest:
        """Return *request* without the texts whose vectors are there."""
        done = sum(len(response.vectors) for response in self._came)
        return attrs.evolve(request, texts=request.texts[done:]) if done else request

    def _joined(self) -> EmbeddingResponse:
        if len(self._came) == 1:
            return self._came[0]
        vectors = Vectors.joined(response.vectors for response in self._came)
        usage = sum((response.usage for response in self._came), Usage())
        return attrs.evolve(self._came[-1], vectors=vectors, usage=usage)

    def _error(self, kind: ProviderErrorKind, problem: str) -> ProviderError:
        return ProviderError(kind, problem, provider=self._embedder.name)

    # ---- the vectors ---------------------------------------------------------------------

    def response(self, value: object) -> EmbeddingResponse:
        if problem := unusable(value, len(self.event.request.texts), None):
            raise ValueError(f"answered something that is no answer to these texts: {problem}")
        return cast("EmbeddingResponse", value)

    def result_event(self, event: EmbeddingRequestEvent, result: EmbeddingResponse) -> EmbeddingResponseEvent:
        return EmbeddingResponseEvent(event.scope, event.request, result, event.embedder)

    def changed_result(self, event: EmbeddingResponseEvent, value: Any, plugin: str) -> EmbeddingResponseEvent:
        if problem := unusable(value, len(event.response.vectors), None):
            raise ValueError(f"returned something that is no answer to these texts: {problem}")
        return attrs.evolve(event, response=value)

    def result(self, event: EmbeddingResponseEvent) -> EmbeddingResponse:
        return event.response

    def withheld(self, event: EmbeddingRequestEvent, deny: Deny) -> EmbeddingResponse:
        self.refused(deny)
        raise errors.Denied("decide_embedding_response", deny.tell_user, event.digest, tell_model=deny.tell_model)


def check_request(request: EmbeddingRequest) -> None:
    """Raise ValueError for a request that no embedder can answer."""
    for place, text in enumerate(cast("Sequence[object]", request.texts)):
        if not isinstance(text, str):
            raise ValueError(f"texts[{place}] is a {type(text).__name__}, not a text")
    if request.role not in _ROLES:
        raise ValueError(f"role: expected {' or '.join(_ROLES)}, got {request.role!r}")
    size = cast("object", request.dimensions)
    if size is not None and (type(size) is not int or size < 1):
        raise ValueError(f"dimensions: expected a number from 1 up, or None, got {size!r}")


def count_of(response: object) -> int:
    """Return how many vectors *response* has, 0 if it is no response."""
    vectors = cast("object", response.vectors) if isinstance(response, EmbeddingResponse) else None
    return len(vectors) if isinstance(vectors, Vectors) else 0


def unusable(response: object, texts: int, dimensions: int | None) -> str:
    """Return why *response* is not the vectors of that many texts; empty if it is."""
    if not isinstance(response, EmbeddingResponse):
        return f"it returned {type(response).__name__}, not an EmbeddingResponse"
    vectors = cast("object", response.vectors)
    if not isinstance(vectors, Vectors):
        return f"its vectors are {type(vectors).__name__}, not Vectors"
    if len(vectors) != texts:
        return f"it gave {len(vectors):,} vectors for {texts:,} texts"
    if dimensions is not None and vectors and vectors.dimensions != dimensions:
        return f"its vectors have {vectors.dimensions} dimensions, not {dimensions}"
    if not vectors.finite:
        return "its vectors have numbers that are not finite"
    problem = impossible_usage(response.usage)
    return f"it reports a usage that is not possible: {problem}" if problem else ""
