"""The embeddings of one server as an Embedder of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from pluggent_hookspecs import EmbeddingRequest, EmbeddingResponse, ProviderErrorKind
from pluggent_provider_http.embedding.data_list import read_data_list
from pluggent_provider_http.embedding.embedder import BYTES_A_TOKEN, BatchLimits, EmbeddingAsked, HttpEmbedder
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.addressing import access_to, around_model, path_for, request_headers
from pluggent_openai.settings import Server

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2

_EMBEDDINGS = "/embeddings"
_MOST_DIMENSIONS = 4096
"""Of the models that people use; where a request does not say, an answer may be as long as that."""
_ENTRY_BYTES = 128
"""What stands around a vector in an answer, at most."""

_encode = msgspec.json.Encoder().encode


class OpenAIEmbedder(HttpEmbedder[Server]):
    """Asks one server for vectors, as base64; see the contract's Embedder for what its methods promise."""

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        before, self._after = around_model(server.base_url)
        super().__init__(name, server, client, transport, base_url=before, access=access_to(name, server))

    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what the settings allow, and what an answer within ``max_response_bytes`` can hold."""
        server = self.server
        one = (request.dimensions or _MOST_DIMENSIONS) * 16 // 3 + _ENTRY_BYTES  # float32 as base64
        most = max(1, server.max_response_bytes // one)
        return BatchLimits(min(server.embed_texts, most), server.embed_tokens * BYTES_A_TOKEN)

    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch."""
        faults = Faults(self.name, self.target, request.model, path=_EMBEDDINGS)
        if request.truncate:
            problem = (
                "the request cannot be sent: the server has no truncation of texts; cut them, or leave truncate out"
            )
            raise faults.error(ProviderErrorKind.BAD_REQUEST, problem)
        path = path_for(self._after, request.model, faults) + _EMBEDDINGS
        headers, faults = request_headers(self.access, self.server, request.model, _EMBEDDINGS)
        body: dict[str, Any] = {"model": request.model, "input": request.texts, "encoding_format": "base64"}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        return EmbeddingAsked(path, _encode(body), headers, faults)

    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer."""
        return read_data_list(data, len(request.texts), faults, tokens="prompt_tokens")
