"""Voyage's ``/v1/embeddings``: base64, by type of text.

https://docs.voyageai.com/reference/embeddings-api says what it takes.
"""

from __future__ import annotations

from typing import Any

from pluggent_hookspecs import EmbeddingRequest, EmbeddingResponse
from pluggent_provider_http.embedding.data_list import read_data_list
from pluggent_provider_http.embedding.embedder import BYTES_A_TOKEN, BatchLimits, EmbeddingAsked, HttpEmbedder
from pluggent_provider_http.server_errors import Faults

from pluggent_embedders.bearer import asked_at
from pluggent_embedders.settings import Voyage

_EMBEDDINGS = "/embeddings"


class VoyageEmbedder(HttpEmbedder[Voyage]):
    """Asks Voyage for vectors; see the contract's Embedder for what its methods promise."""

    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what one request may hold."""
        return BatchLimits(self.server.embed_texts, self.server.embed_tokens * BYTES_A_TOKEN)

    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch."""
        body: dict[str, Any] = {
            "model": request.model,
            "input": request.texts,
            "input_type": request.role,
            "truncation": request.truncate,  # without it, Voyage cuts
            "encoding_format": "base64",
        }
        if request.dimensions is not None:
            body["output_dimension"] = request.dimensions
        return asked_at(self.server, Faults(self.name, self.target, request.model, path=_EMBEDDINGS), body)

    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer."""
        return read_data_list(data, len(request.texts), faults, tokens="total_tokens")
