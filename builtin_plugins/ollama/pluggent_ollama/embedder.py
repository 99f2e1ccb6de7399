"""The embeddings of one Ollama server as an Embedder of the contract. https://docs.ollama.com/api/embed."""

from __future__ import annotations

from typing import Any

import msgspec
from pluggent_hookspecs import EmbeddingRequest, EmbeddingResponse, ProviderError, Usage
from pluggent_provider_http.embedding.embedder import BatchLimits, EmbeddingAsked, HttpEmbedder
from pluggent_provider_http.embedding.vectors import joined, vector_bytes
from pluggent_provider_http.payload import MalformedError, as_list, as_object, as_text, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens

from pluggent_ollama.addressing import request_headers, with_advice
from pluggent_ollama.request import kept
from pluggent_ollama.settings import Server

_EMBED = "/api/embed"
_MOST_BYTES = 4_000_000
_MOST_DIMENSIONS = 4096
_NUMBER_BYTES = 24
"""What a number of a vector takes in an answer, at most."""
_SHOWN_BYTES = 1_000


class OllamaEmbedder(HttpEmbedder[Server]):
    """Asks one server for vectors; see the contract's Embedder for what its methods promise."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return the vectors of all texts; an error says what to do at this machine."""
        try:
            return await super().embed(request)
        except ProviderError as error:
            raise with_advice(error, request.model) from error

    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what one request may hold, and what an answer within ``max_response_bytes`` can."""
        one = (request.dimensions or _MOST_DIMENSIONS) * _NUMBER_BYTES
        return BatchLimits(min(self.server.embed_texts, max(1, self.server.max_response_bytes // one)), _MOST_BYTES)

    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch."""
        headers, faults = request_headers(self.server, Faults(self.name, self.target, request.model, path=_EMBED))
        body: dict[str, Any] = {"model": request.model, "input": request.texts, "truncate": request.truncate}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        if self.server.num_ctx:
            body["options"] = {"num_ctx": self.server.num_ctx}
        return EmbeddingAsked(_EMBED, msgspec.json.encode(body | kept(self.server)), headers, faults)

    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer."""
        try:
            answer = as_object(decode_whole(data), "it")
            if answer.get("error"):
                raise faults.from_payload(answer)
            rows = as_list(answer.get("embeddings"), "embeddings")
            vectors = joined([vector_bytes(row) for row in rows], len(request.texts))
        except MalformedError as error:
            shown = faults.shown(data[:_SHOWN_BYTES]) or "(empty)"
            raise faults.protocol(f"answered with what is not a list of vectors: {error}: {shown}") from error
        except RecursionError as error:
            raise faults.protocol("answered with JSON that is nested too deeply") from error
        usage = Usage(input=as_tokens(answer.get("prompt_eval_count")))
        return EmbeddingResponse(vectors, usage, as_text(answer.get("model")))
