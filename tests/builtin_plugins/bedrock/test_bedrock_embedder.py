"""Vectors from Bedrock: each family in its own words, what was recorded, and what is no vector."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from zlib import crc32

import pytest
from pluggent_bedrock.embedder import BedrockEmbedder, family_of
from pluggent_bedrock.plugin import BedrockEmbedders
from pluggent_bedrock.settings import Settings
from pluggent_hookspecs import Embedder, EmbeddingIncomplete, EmbeddingRequest, ProvideEvent, ProviderError, Secret
from pluggent_provider_http.server_errors import Faults
from pluggent_testing.embedders import EmbedderConformance, opened
from pluggent_testing.wires.http_server import LoopbackServer, Received, Steps, answer
from recordings import needs_recordings, whole_exchanges

TITAN_1, TITAN_2 = "amazon.titan-embed-text-v1", "us.amazon.titan-embed-text-v2:0"
COHERE_3, COHERE_4 = "cohere.embed-english-v3", "us.cohere.embed-v4:0"
NOVA = "amazon.nova-2-multimodal-embeddings-v1:0"
KEY = "bedrock-key-7f3a"


def honest(asked: Received) -> Steps:
    """Answer as Bedrock does: a vector that depends on the text, and on its role where there is one."""
    body = asked.json
    match body:
        case {"inputText": text}:
            row = vector(text, body.get("dimensions", 6))
            return as_json({"embedding": row, "inputTextTokenCount": len(text)})
        case {"texts": texts}:
            rows = [vector(text + body["input_type"], body.get("output_dimension", 6)) for text in texts]
            return as_json({"embeddings": {"float": rows} if "v4" in asked.path else rows})
        case _:
            asked_for = body["singleEmbeddingParams"]
            text = asked_for["text"]["value"] + asked_for["embeddingPurpose"]
            return as_json({"embeddings": [{"embedding": vector(text, asked_for.get("embeddingDimension", 6))}]})


def vector(text: str, size: int) -> list[float]:
    return [crc32(f"{place}{text}".encode()) / 2**32 for place in range(size)]


def as_json(value: Any) -> Steps:
    return answer(json.dumps(value).encode())


@asynccontextmanager
async def embedding() -> AsyncGenerator[Embedder]:
    with LoopbackServer(honest) as server:
        async with opened(plugin_at(server.origin)) as embedder:
            yield embedder


def plugin_at(url: str) -> BedrockEmbedders:
    return BedrockEmbedders(Settings(base_url=url, region="eu-west-1", api_key=Secret.of(KEY)))


class OfBedrock(EmbedderConformance):
    many = 5

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedding()


class TestTitan1(OfBedrock):
    model, dimensions, truncates = TITAN_1, None, False


class TestTitan2(OfBedrock):
    model, truncates = TITAN_2, False


class TestCohere3(OfBedrock):
    model, dimensions, roles, many = COHERE_3, None, True, 200


class TestCohere4(OfBedrock):
    model, roles, many = COHERE_4, True, 200


class TestNova(OfBedrock):
    model, roles = NOVA, True


# ---- recorded -------------------------------------------------------------------------------


@needs_recordings
def test_every_recorded_answer_is_read_and_asked_for_in_the_same_words() -> None:
    (embedder,) = plugin_at("http://127.0.0.1:1").provide_embedders(ProvideEvent())
    assert isinstance(embedder, BedrockEmbedder)
    read = same = 0
    for name, sent, body in whole_exchanges("/invoke"):
        if not {"embedding", "embeddings"} & set(body):
            continue
        model = model_of(sent)
        texts = sent.get("texts") or [sent.get("inputText") or sent["singleEmbeddingParams"]["text"]["value"]]
        request = EmbeddingRequest(model, texts, **meant(sent))
        found = embedder.read(json.dumps(body).encode(), request, Faults("bedrock", "http://x"))
        assert len(found.vectors) == len(texts), name
        assert found.usage.input == body.get("inputTextTokenCount"), name
        assert list(found.vectors[0]) == pytest.approx(first_of(body), rel=1e-6), name
        made = json.loads(json.dumps(family_of(model).body(request)))
        same += made == sent
        read += 1
    assert read > 25
    assert read - same <= 10, "those with words that the contract does not have"


def model_of(sent: dict[str, Any]) -> str:
    if "taskType" in sent:
        return NOVA
    if "texts" in sent:
        return COHERE_4
    return TITAN_2 if "normalize" in sent else TITAN_1


def meant(sent: dict[str, Any]) -> dict[str, Any]:
    """Return what of the contract a recorded request says."""
    inner = sent.get("singleEmbeddingParams", {})
    words = [sent.get("input_type"), inner.get("embeddingPurpose")]
    size = sent.get("dimensions") or sent.get("output_dimension") or inner.get("embeddingDimension")
    cut = "END" in (sent.get("truncate"), inner.get("text", {}).get("truncationMode"))
    document = "search_document" in words or "GENERIC_INDEX" in words
    return {"role": "document" if document else "query", "dimensions": size, "truncate": cut}


def first_of(body: dict[str, Any]) -> list[float]:
    found = body.get("embedding") or body["embeddings"]
    found = found["float"] if isinstance(found, dict) else found
    first = found[0]
    return found if isinstance(first, float) else first["embedding"] if isinstance(first, dict) else first


# ---- broken ---------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(honest) as running:
        yield running


async def refusal(server: LoopbackServer, request: EmbeddingRequest) -> ProviderError:
    async with opened(plugin_at(server.origin)) as embedder:
        with pytest.raises(ProviderError) as caught:
            await embedder.embed(request)
    return caught.value


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"", "protocol"),
        (200, b"[]", "protocol"),
        (200, b'{"embedding": null}', "protocol"),
        (200, b'{"embedding": []}', "protocol"),
        (200, b'{"embedding": [1, NaN]}', "protocol"),
        (200, b'{"embedding": [1e39]}', "protocol"),
        (200, b'{"embedding": {"a": 1}}', "protocol"),
        (200, b'{"__type": "ThrottlingException", "message": "slow down"}', "rate_limited"),
        (400, b'{"message": "400 Bad Request: Too many input tokens. Max input tokens: 8192"}', "context_length"),
        (429, b'{"message": "Too many requests"}', "rate_limited"),
    ],
)
async def test_what_is_no_vector_is_an_error_of_its_kind(server, status, body, kind):
    server.will(answer(body, status))

    assert (await refusal(server, EmbeddingRequest(TITAN_2, ("tea",)))).kind == kind


@pytest.mark.parametrize(("rows", "words"), [([[1.0]], "1 vectors for 2 texts"), ([[1.0], [1.0, 2.0]], "different")])
async def test_other_vectors_than_the_texts_want_are_refused(server, rows, words):
    server.will(as_json({"embeddings": rows}))

    error = await refusal(server, EmbeddingRequest(COHERE_3, ("tea", "ice")))

    assert error.kind == "protocol"
    assert words in str(error)


async def test_what_came_before_a_failure_is_kept(server):
    server.will(honest, honest, answer(b'{"message": "busy"}', 503))

    error = await refusal(server, EmbeddingRequest(TITAN_2, ("a", "bb", "ccc", "dddd")))

    assert isinstance(error, EmbeddingIncomplete)
    assert (len(error.response.vectors), error.response.usage.input) == (2, 3)


async def test_a_model_whose_words_are_not_known_is_refused_by_name(server):
    error = await refusal(server, EmbeddingRequest("acme.embed", ("tea",)))

    assert (error.kind, server.requests) == ("bad_request", [])
    assert "model 'acme.embed'" in str(error)


async def test_requests_carry_the_key_and_the_models_id(server):
    async with opened(plugin_at(server.origin)) as embedder:
        await embedder.embed(EmbeddingRequest(TITAN_2, ("tea",)))

    (asked,) = server.requests
    assert asked.path == "/model/us.amazon.titan-embed-text-v2%3A0/invoke"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
