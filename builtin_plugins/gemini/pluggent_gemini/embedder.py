"""The embeddings of one server as an Embedder of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pluggent_hookspecs import EmbeddingRequest, EmbeddingResponse, Usage
from pluggent_provider_http.embedding.embedder import BYTES_A_TOKEN, BatchLimits, EmbeddingAsked, HttpEmbedder
from pluggent_provider_http.embedding.vectors import joined, vector_bytes
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.payload import MalformedError, Object, as_fields, as_list, as_object, decode_whole
from pluggent_provider_http.token_counts import as_tokens
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.access import Access
from pluggent_gemini.generate.parts import encode
from pluggent_gemini.settings import Server

if TYPE_CHECKING:  # both bring along what takes long to import
    import httpx2
    from pluggent_provider_http.server_errors import Faults

_MOST_TEXTS = 100
_MOST_TOKENS = 100_000
_MOST_DIMENSIONS = 3_072
_NUMBER_BYTES = 24
"""Of one number in an answer, at most."""
# Models that read in the text itself what it is for; a role beside it they ignore.
# https://ai.google.dev/gemini-api/docs/embeddings (November 2026)
_PREFIXED = ("gemini-embedding-2", "gemini-embedding-2-0*", "gemini-embedding-[3-9]*")
_PREFIXES = {"query": "task: search result | query: ", "document": "title: none | text: "}
_ROLES = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


class GeminiEmbedder(HttpEmbedder[Server]):
    """Asks one server for vectors; see the contract's Embedder for what its methods promise.

    Vertex AI takes the texts of Gemini's models one by one.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._access = Access(name, server, target_of(server.base_url))
        super().__init__(name, server, client, transport, base_url=self._access.base_url, access=self._access)

    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what the vendor takes, and what an answer within ``max_response_bytes`` can hold."""
        one = (request.dimensions or _MOST_DIMENSIONS) * _NUMBER_BYTES
        most = max(1, min(_MOST_TEXTS, self.server.max_response_bytes // one))
        alone = self.server.at_vertex and _is_gemini(request.model)
        return BatchLimits(1 if alone else most, _MOST_TOKENS * BYTES_A_TOKEN)

    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch."""
        if self.server.at_vertex:
            verb, body = _at_vertex(request)
        else:
            verb, body = "batchEmbedContents", _by_key(request, self._access.resource(request.model))
        path = self._access.path(request.model, verb)
        headers, faults = self._access.headers(request.model, path)
        return EmbeddingAsked(path, encode(body), headers, faults)

    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer."""
        try:
            answer = as_object(decode_whole(data), "it")
            if answer.get("error"):
                raise faults.from_payload(answer)
            rows = [vector_bytes(found.get("values")) for found in _found(answer)]
            return EmbeddingResponse(joined(rows, len(request.texts)), Usage(input=_tokens(answer)))
        except (MalformedError, RecursionError) as error:
            shown = faults.shown(data[:1_000]) or "(empty)"
            raise faults.protocol(f"answered with what is not a list of vectors: {error}: {shown}") from error


def _is_prefixed(model: str) -> bool:
    name = model.removeprefix("models/")
    return any(fnmatchcase(name, pattern) for pattern in _PREFIXED)


def _is_gemini(model: str) -> bool:
    return model.removeprefix("models/").startswith("gemini-")


def _by_key(request: EmbeddingRequest, model: str) -> dict[str, Any]:
    if request.truncate:
        raise UnsendableError("the Gemini API has no truncation of texts; cut them, or leave truncate out")
    prefixed = _is_prefixed(request.model)
    before = _PREFIXES[request.role] if prefixed else ""
    more: dict[str, Any] = {} if prefixed else {"taskType": _ROLES[request.role]}
    if request.dimensions is not None:
        more["outputDimensionality"] = request.dimensions
    # One request for each text: several texts of one request become one vector.
    return {"requests": [{"model": model, "content": _content(before + text), **more} for text in request.texts]}


def _at_vertex(request: EmbeddingRequest) -> tuple[str, dict[str, Any]]:
    size = {} if request.dimensions is None else {"outputDimensionality": request.dimensions}
    if _is_prefixed(request.model):
        (text,) = request.texts
        config = {"autoTruncate": request.truncate, **size}
        return "embedContent", {"content": _content(_PREFIXES[request.role] + text), "embedContentConfig": config}
    instances = [{"content": text, "task_type": _ROLES[request.role]} for text in request.texts]
    return "predict", {"instances": instances, "parameters": {"autoTruncate": request.truncate, **size}}


def _content(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


def _found(answer: Object) -> Iterator[Object]:
    """Yield what holds the numbers of each vector."""
    if "predictions" in answer:
        for prediction in as_list(answer["predictions"], "predictions"):
            yield as_object(as_object(prediction, "a prediction").get("embeddings"), "its embeddings")
        return
    listed = [answer["embedding"]] if "embedding" in answer else as_list(answer.get("embeddings"), "embeddings")
    for embedding in listed:
        yield as_object(embedding, "an embedding")


def _tokens(answer: Object) -> int | None:
    if "predictions" not in answer:
        return as_tokens(as_fields(answer.get("usageMetadata")).get("promptTokenCount"))
    counts = [as_tokens(as_fields(found.get("statistics")).get("token_count")) for found in _found(answer)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
