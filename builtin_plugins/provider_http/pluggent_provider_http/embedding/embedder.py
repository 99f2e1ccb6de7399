"""An embedder over HTTP without its wire format: batches that the vendor takes, and nothing paid for twice."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs
from pluggent_hookspecs import (
    EmbeddingIncomplete,
    EmbeddingRequest,
    EmbeddingResponse,
    ProviderError,
    ProviderErrorKind,
    ReplyMeta,
    Usage,
    Vectors,
)

from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.provider import HttpServer, with_answer
from pluggent_provider_http.unsendable import UNSENDABLE

if TYPE_CHECKING:  # it brings the JSON decoder along, which is imported with the first request
    from pluggent_provider_http.server_errors import Faults

ServerT = TypeVar("ServerT", bound=Endpoint)


BYTES_A_TOKEN = 2
"""Texts have more bytes than this for a token: English about 4 (OpenAI's help pages), Chinese 2 to 3."""


@attrs.frozen
class BatchLimits:
    """What one request may hold: so many texts, and so many bytes of them in UTF-8."""

    texts: int
    bytes: int


def batches(texts: Sequence[str], limits: BatchLimits) -> Iterator[tuple[int, int]]:
    """Yield the first and the end of each batch: as many *texts* as *limits* allow, one at least.

    >>> list(batches(["a", "b", "cccc", "d"], BatchLimits(texts=2, bytes=3)))
    [(0, 2), (2, 3), (3, 4)]
    """
    start = size = 0
    for place, text in enumerate(texts):
        length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if place > start and (place - start >= limits.texts or size + length > limits.bytes):
            yield start, place
            start, size = place, 0
        size += length
    if texts:
        yield start, len(texts)


@attrs.frozen
class EmbeddingAsked:
    """One request, ready to be sent."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    faults: Faults


class HttpEmbedder(HttpServer[ServerT], ABC, Generic[ServerT]):
    """The base of an embedder for one server; a subclass says what is sent and what the answer means.

    Texts go in batches, one after the other. A batch that the server finds too large is halved: a refused request
    costs nothing. See HttpServer for the arguments.
    """

    @abstractmethod
    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what one request for some texts of *request* may hold."""

    @abstractmethod
    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch. Raises ProviderError, or UNSENDABLE for what cannot be sent."""

    @abstractmethod
    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer. Raises ProviderError: what the answer holds, or ``protocol``."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return the vectors of all texts; see the contract's Embedder for what it promises."""
        done: list[EmbeddingResponse] = []
        waiting = deque(batches(request.texts, self.limits(request)))
        while waiting:
            start, end = waiting.popleft()
            batch = attrs.evolve(request, texts=request.texts[start:end])
            try:
                done.append(await self._batch(batch, done))
            except ProviderError as error:
                if end - start > 1 and _is_too_large(error):
                    middle = (start + end) // 2
                    waiting.extendleft(((middle, end), (start, middle)))
                    continue
                if not done:
                    raise
                raise EmbeddingIncomplete(error, _joined(done), len(request.texts)) from error
        return _joined(done)

    async def _batch(self, request: EmbeddingRequest, done: Sequence[EmbeddingResponse]) -> EmbeddingResponse:
        await self.prepare()
        try:
            asked = self.asked(request)
        except UNSENDABLE as error:
            raise self.faults(request.model).unsendable(error) from error
        async with self.http().post(asked.path, asked.body, asked.headers, asked.faults) as answer:
            await self.check(answer)
            response = self.read(await answer.read(), request, asked.faults)
            size = response.vectors.dimensions
            wanted = done[0].vectors.dimensions if done else request.dimensions
            if wanted is not None and size != wanted:
                raise asked.faults.protocol(f"sent vectors of {size} dimensions, not {wanted}")
            return attrs.evolve(response, meta=with_answer(response.meta, answer.meta(), asked.faults))

    def faults(self, model: str) -> Faults:
        """Return what makes the errors of a request that was not sent."""
        # Here and not above: it brings the JSON decoder along.
        from pluggent_provider_http.server_errors import Faults

        return Faults(self.name, self.target, model)


_TOO_LARGE_STATUS = 413
_TOO_LARGE = re.compile(
    r"tokens per (?:request|batch)|per submitted batch|batch (?:size|is too)|array too long|too many (?:inputs|texts)"
    r"|(?:inputs|texts)\b.{0,40}\bat most",
    re.IGNORECASE,
)
"""How OpenAI, Voyage, and others put it that a request has too many texts, or too long ones together."""


def _is_too_large(error: ProviderError) -> bool:
    if error.kind not in (ProviderErrorKind.BAD_REQUEST, ProviderErrorKind.CONTEXT_LENGTH):
        return False
    return error.status == _TOO_LARGE_STATUS or _TOO_LARGE.search(error.message) is not None


def _joined(done: Sequence[EmbeddingResponse]) -> EmbeddingResponse:
    if not done:
        return EmbeddingResponse(Vectors(), Usage(), "", ReplyMeta())
    if len(done) == 1:
        return done[0]
    vectors = Vectors.joined(response.vectors for response in done)
    return attrs.evolve(done[-1], vectors=vectors, usage=sum((response.usage for response in done), Usage()))
