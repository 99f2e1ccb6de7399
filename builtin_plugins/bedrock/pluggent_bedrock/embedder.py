"""One region of Amazon Bedrock as an Embedder of the contract: Titan, Cohere and Nova, each in its own words.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
https://docs.aws.amazon.com/nova/latest/userguide/embeddings-schema.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs
import msgspec
from pluggent_hookspecs import EmbeddingRequest, EmbeddingResponse, Usage
from pluggent_provider_http.embedding.embedder import BatchLimits, EmbeddingAsked, HttpEmbedder
from pluggent_provider_http.embedding.vectors import joined, vector_bytes
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import as_tokens
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_bedrock.access import access_to
from pluggent_bedrock.provider import path_of
from pluggent_bedrock.settings import Server

if TYPE_CHECKING:  # it takes long to import, and only requests need it
    import httpx2

Body: TypeAlias = dict[str, Any]
_SHOWN_BYTES = 1_000
_MOST_BYTES = 1_000_000
_encode = msgspec.json.Encoder().encode


@attrs.frozen
class Family:
    """The models of one vendor: how many texts a request takes, what is sent, and where vectors and tokens stand."""

    texts: int
    body: Callable[[EmbeddingRequest], Body]
    vectors: Callable[[Object], list[Any]]
    tokens: str = ""
    """The field with the number of tokens; empty where the vendor does not say it."""


class BedrockEmbedder(HttpEmbedder[Server]):
    """Asks the models of one region for vectors; see the contract's Embedder for what its methods promise."""

    def __init__(
        self,
        name: str,
        server: Server,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        access = access_to(name, server, target_of(server.base_url))
        super().__init__(name, server, client, transport, access=access)

    def limits(self, request: EmbeddingRequest) -> BatchLimits:
        """Return what one request may hold."""
        family = _known(request.model)
        return BatchLimits(family.texts if family is not None else 1, _MOST_BYTES)  # an unknown one is refused later

    def asked(self, request: EmbeddingRequest) -> EmbeddingAsked:
        """Return what asks for the vectors of a batch."""
        path = path_of(request.model, "invoke")
        body = _encode(family_of(request.model).body(request))
        headers, faults = self.access.headers(request.model, path)
        return EmbeddingAsked(path, body, headers, faults)

    def read(self, data: bytes, request: EmbeddingRequest, faults: Faults) -> EmbeddingResponse:
        """Return the vectors in an answer."""
        family = family_of(request.model)
        try:
            answer = as_object(decode_whole(data), "it")
            if answer.get("error") or answer.get("__type"):
                raise faults.from_payload(answer)
            vectors = joined([vector_bytes(row) for row in family.vectors(answer)], len(request.texts))
        except MalformedError as error:
            shown = faults.shown(data[:_SHOWN_BYTES]) or "(empty)"
            raise faults.protocol(f"answered with what is not a list of vectors: {error}: {shown}") from error
        tokens = as_tokens(answer.get(family.tokens)) if family.tokens else None
        return EmbeddingResponse(vectors, Usage(input=tokens), request.model)


def family_of(model: str) -> Family:
    """Return what is known of *model*, also behind a region's prefix. Raises UnsendableError for an unknown one.

    >>> family_of("us.cohere.embed-v4:0").texts
    96
    """
    family = _known(model)
    if family is None:
        known = ", ".join(_FAMILIES)
        raise UnsendableError(f"model {model!r}: embedding is known of models with {known} in their names")
    return family


def _known(model: str) -> Family | None:
    return next((family for name, family in _FAMILIES.items() if name in model), None)


def _titan_1(request: EmbeddingRequest) -> Body:
    _refuse(request, "truncate", "dimensions")
    return {"inputText": request.texts[0]}


def _titan_2(request: EmbeddingRequest) -> Body:
    _refuse(request, "truncate")
    return {"inputText": request.texts[0], **_size("dimensions", request), "normalize": True}


def _cohere_3(request: EmbeddingRequest) -> Body:
    _refuse(request, "dimensions")
    return _cohere(request)


def _cohere_4(request: EmbeddingRequest) -> Body:
    return {**_cohere(request), **_size("output_dimension", request)}


def _cohere(request: EmbeddingRequest) -> Body:
    cut = "END" if request.truncate else "NONE"
    return {"texts": request.texts, "input_type": f"search_{request.role}", "truncate": cut}


def _nova(request: EmbeddingRequest) -> Body:
    purpose = "GENERIC_INDEX" if request.role == "document" else "GENERIC_RETRIEVAL"
    text = {"value": request.texts[0], "truncationMode": "END" if request.truncate else "NONE"}
    parameters = {"embeddingPurpose": purpose, **_size("embeddingDimension", request), "text": text}
    return {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": parameters}


def _size(name: str, request: EmbeddingRequest) -> Body:
    return {} if request.dimensions is None else {name: request.dimensions}


def _refuse(request: EmbeddingRequest, *names: str) -> None:
    for name in names:
        if getattr(request, name):
            raise UnsendableError(f"{name}: model {request.model!r} has no word for it; leave it out")


def _of_titan(answer: Object) -> list[Any]:
    return [answer.get("embedding")]


def _of_cohere(answer: Object) -> list[Any]:
    """Return the vectors, which are a list, or lists by their type."""
    found = answer.get("embeddings")
    typed = cast("Object", found).get("float") if isinstance(found, Mapping) else found
    return as_list(typed, "embeddings")


def _of_nova(answer: Object) -> list[Any]:
    entries = as_list(answer.get("embeddings"), "embeddings")
    return [as_object(entry, "an entry of embeddings").get("embedding") for entry in entries]


# The first name that is in the model's counts.
_FAMILIES = {
    "amazon.titan-embed-text-v1": Family(1, _titan_1, _of_titan, "inputTextTokenCount"),
    "amazon.titan-embed-g1": Family(1, _titan_1, _of_titan, "inputTextTokenCount"),
    "amazon.titan-embed-text-v2": Family(1, _titan_2, _of_titan, "inputTextTokenCount"),
    "cohere.embed-v4": Family(96, _cohere_4, _of_cohere),
    "cohere.embed-": Family(96, _cohere_3, _of_cohere),
    "amazon.nova-2-multimodal-embeddings": Family(1, _nova, _of_nova),
}
