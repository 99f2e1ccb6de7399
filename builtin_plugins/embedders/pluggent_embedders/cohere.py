"""Cohere's ``/v2/embed``: texts to lists of numbers, by type of text.

https://docs.cohere.com/reference/embed says what it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pluggent_hookspecs import EmbeddingRequest, EmbeddingResponse, Usage
from pluggent_provider_http.embedding.embedder import BatchLimits, EmbeddingAsked, HttpEmbedder
from pluggent_provider_http.embedding.vectors import joined, vector_bytes
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens

from pluggent_embedders.bearer import asked_at
from pluggent_embedders.settings import Cohere

_EMBED = "/embed"
_MOST_BYTES = 4_000_000
"""Of texts in one request; Cohere names no limit of tokens, and 96 texts are seldom longer."""
_SHOWN_BYTES = 1_000


class CohereEmbedder(HttpEmbedder[Cohere]):
    """Asks Cohere for vectors; see the contract's Embedder for what its methods promise."""

    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what one request may hold."""
        return BatchLimits(self.server.embed_texts, _MOST_BYTES)

    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch."""
        body: dict[str, Any] = {
            "model": request.model,
            "texts": request.texts,
            "input_type": f"search_{request.role}",
            "embedding_types": ["float"],
            "truncate": "END" if request.truncate else "NONE",
        }
        if request.dimensions is not None:
            body["output_dimension"] = request.dimensions
        return asked_at(self.server, Faults(self.name, self.target, request.model, path=_EMBED), body)

    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer."""
        try:
            answer = as_object(decode_whole(data), "it")
            if answer.get("error"):
                raise faults.from_payload(answer)
            rows = as_list(_table(answer.get("embeddings")).get("float"), "embeddings.float")
            vectors = joined([vector_bytes(row) for row in rows], len(request.texts))
        except MalformedError as error:
            shown = faults.shown(data[:_SHOWN_BYTES]) or "(empty)"
            raise faults.protocol(f"answered with what is not a list of vectors: {error}: {shown}") from error
        except RecursionError as error:
            raise faults.protocol("answered with JSON that is nested too deeply") from error
        billed = _table(_table(answer.get("meta")).get("billed_units"))
        return EmbeddingResponse(vectors, Usage(input=as_tokens(billed.get("input_tokens"))), request.model)


def _table(value: object) -> Object:
    return cast("Object", value) if isinstance(value, Mapping) else {}
