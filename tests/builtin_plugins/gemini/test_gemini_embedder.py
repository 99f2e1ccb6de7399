"""Vectors and counts of tokens of the Gemini API and of Vertex AI, with servers that answer honestly or badly."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import yaml
from embedding_server import numbers
from odd_server import Loopback, OddServer, Received, answer, json_answer, read_request
from pluggent_gemini.embedder import GeminiEmbedder
from pluggent_gemini.plugin import Gemini, GeminiEmbedders
from pluggent_gemini.settings import Settings
from pluggent_hookspecs import (
    Embedder,
    EmbeddingRequest,
    Message,
    ModelRequest,
    Provider,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    Usage,
    Vectors,
)
from pluggent_testing.counters import CounterConformance
from pluggent_testing.embedders import EmbedderConformance, opened
from pluggent_testing.providers import opened as opened_provider
from recordings import FOLDER, needs_recordings

SIZE = 6
VERTEX = "/v1beta1/projects/acme-7/locations/global/publishers/google"


class Server(Loopback):
    """Embeds and counts in Google's words."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Received] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            self.requests.append(request)
            (data,) = answer(json.dumps(_answer(request.line, request.json, len(request.body))))
            assert isinstance(data, bytes)
            writer.write(data)
            await writer.drain()


def _answer(line: str, asked: Mapping[str, Any], size: int) -> Mapping[str, Any]:
    if ":countTokens" in line:
        return {"totalTokens": size // 4, "promptTokensDetails": []}
    if ":predict" in line:
        many = asked["parameters"].get("outputDimensionality", SIZE)
        rows = [numbers(f"{each['task_type']} {each['content']}", many) for each in asked["instances"]]
        return {"predictions": [{"embeddings": {"values": row, "statistics": {"token_count": 4}}} for row in rows]}
    if ":embedContent" in line:
        many = asked["embedContentConfig"].get("outputDimensionality", SIZE)
        return {"embedding": {"values": numbers(_text(asked), many)}, "usageMetadata": {"promptTokenCount": 4}}
    rows = [
        numbers(f"{each.get('taskType')} {_text(each)}", each.get("outputDimensionality", SIZE))
        for each in asked["requests"]
    ]
    return {"embeddings": [{"values": row} for row in rows], "usageMetadata": {"promptTokenCount": 4 * len(rows)}}


def _text(asked: Mapping[str, Any]) -> str:
    return str(asked["content"]["parts"][0]["text"])


@asynccontextmanager
async def embedding(path: str = "/v1beta", **settings: Any) -> AsyncGenerator[tuple[Server, Embedder]]:
    async with Server() as server:
        at = f"http://127.0.0.1:{server.port}{path}"
        made = GeminiEmbedders(Settings(base_url=at, api_key=Secret.of("key-7f3a-01234"), **settings))
        async with opened(made) as embedder:
            yield server, embedder


@asynccontextmanager
async def embedder_at(path: str = "/v1beta", **settings: Any) -> AsyncGenerator[Embedder]:
    async with embedding(path, **settings) as (_, embedder):
        yield embedder


class TestByKey(EmbedderConformance):
    model = "gemini-embedding-001"
    truncates = False
    roles = True

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedder_at()


class TestPrefixed(TestByKey):
    model = "gemini-embedding-2"


class TestVertex(EmbedderConformance):
    model = "gemini-embedding-2"
    roles = True
    many = 5

    def make_embedder(self) -> AbstractAsyncContextManager[Embedder]:
        return embedder_at(VERTEX, project="acme-7")


class TestVertexPredict(TestVertex):
    model = "text-embedding-005"
    many = 250


class TestCounts(CounterConformance):
    def make_counter(self) -> AbstractAsyncContextManager[Provider]:
        return counter_at("/v1beta")


class TestCountsAtVertex(CounterConformance):
    def make_counter(self) -> AbstractAsyncContextManager[Provider]:
        return counter_at(VERTEX, project="acme-7")


@asynccontextmanager
async def counter_at(path: str, **settings: Any) -> AsyncGenerator[Provider]:
    async with Server() as server:
        at = f"http://127.0.0.1:{server.port}{path}"
        made = Gemini(Settings(base_url=at, api_key=Secret.of("key-7f3a-01234"), **settings))
        async with opened_provider(made) as provider:
            yield provider


@pytest.mark.parametrize(
    ("model", "role", "sent"),
    [
        ("gemini-embedding-001", "query", {"text": "tea", "taskType": "RETRIEVAL_QUERY"}),
        ("gemini-embedding-2-preview", "document", {"text": "tea", "taskType": "RETRIEVAL_DOCUMENT"}),
        ("gemini-embedding-2", "query", {"text": "task: search result | query: tea", "taskType": None}),
        ("models/gemini-embedding-2", "document", {"text": "title: none | text: tea", "taskType": None}),
    ],
)
async def test_a_role_is_said_as_the_model_reads_it(model: str, role: Any, sent: dict[str, Any]) -> None:
    async with embedding() as (server, embedder):
        found = await embedder.embed(EmbeddingRequest(model, ("tea",), role, dimensions=3))

    (asked,) = server.requests[0].json["requests"]
    name = f"models/{model.removeprefix('models/')}"
    assert server.requests[0].line == f"POST /v1beta/{name}:batchEmbedContents HTTP/1.1"
    assert asked["model"] == name
    assert {"text": _text(asked), "taskType": asked.get("taskType")} == sent
    assert (asked["outputDimensionality"], found.vectors.dimensions, found.usage) == (3, 3, Usage(input=4))


async def test_vertex_takes_a_text_at_a_time_and_cuts_none_by_itself() -> None:
    async with embedding(VERTEX, project="acme-7") as (server, embedder):
        found = await embedder.embed(EmbeddingRequest("gemini-embedding-2", ("tea", "ice")))

    assert [request.json["embedContentConfig"] for request in server.requests] == [{"autoTruncate": False}] * 2
    assert (len(found.vectors), found.usage) == (2, Usage(input=8))


@pytest.mark.parametrize(
    "body",
    [
        {"embeddings": []},
        {"embeddings": [{"values": [1.0, None]}]},
        {"embeddings": [{"values": []}]},
        {"embeddings": [{}]},
        {"embeddings": 7},
        {"predictions": [{}]},
        {},
        [],
    ],
)
async def test_what_are_no_vectors_is_an_error(body: Any) -> None:
    error = await _failed(json_answer(body))

    assert error.kind is Kind.PROTOCOL


async def test_an_error_in_a_successful_answer_is_one() -> None:
    error = await _failed(json_answer({"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED"}}))

    assert error.kind is Kind.RATE_LIMITED


async def _failed(reply: Any) -> ProviderError:
    async with OddServer(reply) as server:
        made = GeminiEmbedders(Settings(base_url=server.url, api_key=Secret.of("key-7f3a-01234")))
        async with opened(made) as embedder:
            assert isinstance(embedder, GeminiEmbedder)
            with pytest.raises(ProviderError) as caught:
                await embedder.embed(EmbeddingRequest("gemini-embedding-001", ("tea",)))
    return caught.value


async def test_a_count_is_of_the_whole_request() -> None:
    asked = ModelRequest("gemini-3-flash", (Message.system("Be brief."), Message.user("hi")))
    async with OddServer(json_answer({"totalTokens": 12}), json_answer({"totalTokens": "x"})) as server:
        made = Gemini(Settings(base_url=server.url, api_key=Secret.of("key-7f3a-01234")))
        async with opened_provider(made) as provider:
            count = await provider.count(asked)  # type: ignore[attr-defined]
            with pytest.raises(ProviderError) as caught:
                await provider.count(asked)  # type: ignore[attr-defined]

    assert count == 12
    assert server.requests[0].json == {
        "generateContentRequest": {
            "model": "models/gemini-3-flash",
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
        }
    }
    assert caught.value.kind is Kind.PROTOCOL


TASKS = re.compile(r"(?:task: search result \| query|title: none \| text): ")


def recorded() -> Iterator[tuple[str, Any, Any]]:
    """Yield the address, the body of the request and of the answer of each recorded embedding of Google."""
    for file in sorted((FOLDER / "pydantic-ai" / "test_embeddings").glob("*oogle*.yaml")):
        for exchange in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["interactions"]:
            if exchange["response"]["status"]["code"] == 200:
                asked, answered = exchange["request"], exchange["response"]
                yield asked["uri"], asked["parsed_body"], answered["parsed_body"]


@needs_recordings
async def test_recorded_embeddings_are_read_and_asked_for_in_the_same_words() -> None:
    read = alike = 0
    for address, asked, answered in recorded():
        if ":countTokens" in address:
            continue
        model = address.partition("/models/")[2].partition(":")[0]
        settings: dict[str, Any] = {"project": "acme-7"} if "aiplatform" in address else {}
        requests = asked.get("requests") or asked.get("instances") or [asked]
        texts = [each["content"] if isinstance(each["content"], str) else _text(each) for each in requests]
        role: Any = "query" if "QUERY" in json.dumps(asked) or "query: " in texts[0] else "document"
        said = tuple(TASKS.sub("", text) for text in texts)
        vectors = answered.get("embeddings") or [answered.get("embedding") or answered["predictions"][0]["embeddings"]]
        size = next((each["outputDimensionality"] for each in requests if "outputDimensionality" in each), None)
        async with OddServer(json_answer(answered)) as server:
            made = GeminiEmbedders(Settings(base_url=server.url, api_key=Secret.of("key-7f3a-01234"), **settings))
            async with opened(made) as embedder:
                found = await embedder.embed(EmbeddingRequest(model, said, role, size))
        sent = server.requests[0].json
        for extra in ("parameters", "embedContentConfig"):
            sent.pop(extra, None)  # where we say that no text is cut
        assert [list(vector) for vector in found.vectors] == [list(Vectors.of([row["values"]])[0]) for row in vectors]
        read, alike = read + 1, alike + (sent == asked)
    assert (read > 15, alike > 9) == (True, True), (read, alike)
