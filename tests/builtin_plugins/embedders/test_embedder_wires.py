"""Embedders over real connections: what is sent, what answers mean, and what is wrong with them."""

import json
from typing import Any

import pytest
from embedding_server import KEY, MAKERS, SIZE, numbers, serving, whole
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    EmbeddingIncomplete,
    EmbeddingRequest,
    ProviderError,
    Usage,
    Vectors,
)
from pluggent_provider_http.embedding.embedder import BatchLimits, batches

pytestmark = pytest.mark.usefixtures("patience")
every_vendor = pytest.mark.parametrize("vendor", MAKERS)
TEXTS = ("one", "two", "three")


def request(*texts: str, **more: Any) -> EmbeddingRequest:
    return EmbeddingRequest("m", texts or TEXTS, **more)


async def failure_of(vendor: str, *replies: bytes | None, **more: Any) -> ProviderError:
    async with serving(vendor, *replies) as (_, embedder):
        with pytest.raises(ProviderError) as caught:
            await embedder.embed(request(**more))
    return caught.value


def rows(vendor: str, *vectors: Any) -> bytes:
    """Return an answer with these vectors, as they are."""
    return whole(MAKERS[vendor][0].list_answer(vectors, 3))


def good(vendor: str, count: int = 3, size: int = 2) -> list[Any]:
    return [MAKERS[vendor][0].row((0.5,) * size)] * count


async def test_openai_is_asked_for_base64():
    async with serving("openai", organization="org") as (server, embedder):
        response = await embedder.embed(request(dimensions=4, role="query"))

    (sent,) = server.requests
    assert sent.line == "POST /v1/embeddings HTTP/1.1"
    assert sent.json == {"model": "m", "input": [*TEXTS], "encoding_format": "base64", "dimensions": 4}
    assert (sent.headers["authorization"], sent.headers["openai-organization"]) == (f"Bearer {KEY}", "org")
    assert (response.model, response.usage, response.meta.request_id) == ("m-1", Usage(input=11), "req_1")
    assert response.vectors == Vectors.of([numbers(f" {text}", 4) for text in TEXTS])


async def test_cohere_is_asked_by_the_type_of_text():
    async with serving("cohere") as (server, embedder):
        response = await embedder.embed(request(dimensions=4, role="query"))
        await embedder.embed(request(truncate=True))

    query, document = (sent.json for sent in server.requests)
    assert query == {
        "model": "m", "texts": [*TEXTS], "input_type": "search_query", "embedding_types": ["float"],
        "truncate": "NONE", "output_dimension": 4,
    }  # fmt: skip
    assert (document["input_type"], document["truncate"]) == ("search_document", "END")
    assert (response.usage, response.vectors.dimensions) == (Usage(input=11), 4)


async def test_voyage_refuses_long_texts_unless_they_may_be_cut():
    async with serving("voyage") as (server, embedder):
        await embedder.embed(request(dimensions=4))
        await embedder.embed(request(role="query", truncate=True))

    document, query = (sent.json for sent in server.requests)
    assert document == {
        "model": "m", "input": [*TEXTS], "input_type": "document", "truncation": False,
        "encoding_format": "base64", "output_dimension": 4,
    }  # fmt: skip
    assert (query["input_type"], query["truncation"]) == ("query", True)


async def test_a_text_that_openai_would_have_to_cut_is_not_sent():
    async with serving("openai") as (server, embedder):
        with pytest.raises(ProviderError, match="no truncation") as caught:
            await embedder.embed(request(truncate=True))

    assert (caught.value.kind, server.requests) == ("bad_request", [])


async def test_the_model_of_azure_stands_in_the_path():
    async with serving("openai") as (server, _):
        from embedding_server import openai_at, opened

        plugin = openai_at(f"{server.url}/deployments/{{model}}?api-version=1", auth="api-key")
        async with opened(plugin) as embedder:
            await embedder.embed(EmbeddingRequest("my model", ["a"]))

    assert server.requests[0].line == "POST /v1/deployments/my%20model/embeddings?api-version=1 HTTP/1.1"
    assert server.requests[0].headers["api-key"] == KEY


@every_vendor
async def test_without_texts_nothing_is_sent(vendor):
    async with serving(vendor) as (server, embedder):
        assert (await embedder.embed(EmbeddingRequest("m", ()))).vectors == Vectors()

    assert server.requests == []


# ---- answers


async def test_vectors_go_by_their_index():
    answer = {"data": [{"index": place, "embedding": [place, 0]} for place in (2, 0, 1)]}

    async with serving("openai", whole(answer)) as (_, embedder):
        response = await embedder.embed(request())

    assert response.vectors == Vectors.of([(0, 0), (1, 0), (2, 0)])


@pytest.mark.parametrize("written", ["numbers", "base64"])
async def test_vectors_without_an_index_are_in_order(written):
    row = {"numbers": [0.5], "base64": "AAAAPw=="}[written]

    async with serving("openai", whole({"data": [{"embedding": row}] * 3})) as (_, embedder):
        response = await embedder.embed(request())

    assert response.vectors == Vectors.of([(0.5,)] * 3)
    assert response.usage == Usage()


@pytest.mark.parametrize("places", [(0, 0, 1), (1, 2, 3), (0, 1, None), (0, 1, "2"), (0, 1, -1)], ids=str)
@pytest.mark.parametrize("row", [[0.5], "AAAAPw=="], ids=["numbers", "base64"])
async def test_an_index_that_is_missing_or_doubled_is_refused(places, row):
    answer = {"data": [{"index": place, "embedding": row} for place in places]}

    error = await failure_of("openai", whole(answer))

    assert error.kind == "protocol"
    assert "numbered from 0 up" in str(error)


@every_vendor
@pytest.mark.parametrize("count", [0, 2, 4])
async def test_fewer_or_more_vectors_than_texts_are_refused(vendor, count):
    error = await failure_of(vendor, rows(vendor, *good(vendor, count)))

    assert error.kind == "protocol"
    assert f"{count} vectors for 3 texts" in str(error)


@every_vendor
async def test_vectors_of_other_dimensions_than_asked_for_are_refused(vendor):
    error = await failure_of(vendor, rows(vendor, *good(vendor)), dimensions=4)

    assert error.kind == "protocol"
    assert "vectors of 2 dimensions, not 4" in str(error)


@every_vendor
async def test_vectors_of_different_dimensions_are_refused(vendor):
    error = await failure_of(vendor, rows(vendor, *good(vendor, 2), *good(vendor, 1, size=3)))

    assert error.kind == "protocol"
    assert "different dimensions: 2, 3" in str(error)


NOT_FINITE = {"nan": "AADAfw==", "infinity": "AACAfw==", "minus infinity": "AACA/w=="}


@every_vendor
@pytest.mark.parametrize(
    "row",
    [
        [],
        "",
        [None],
        ["1"],
        [True],
        [[1.0]],
        {},
        None,
        1.5,
        [1e39],
        [10**400],
        float("nan"),
        [float("nan")],
        *NOT_FINITE.values(),
    ],
    ids=repr,
)
async def test_what_is_no_vector_is_refused(vendor, row):
    error = await failure_of(vendor, rows(vendor, row, row, row))

    assert error.kind == "protocol"
    assert KEY not in str(error)


@pytest.mark.parametrize("row", ["AAA", "AAAAPw", "*AAAPw==", "AAAA"])
async def test_what_is_no_base64_of_float32_is_refused(row):
    assert (await failure_of("openai", rows("openai", row, row, row))).kind == "protocol"


@every_vendor
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b"{}", b'{"data": 5, "embeddings": 5}',
     b'{"data": [5], "embeddings": {"float": 5}}', b'{"data": ' + b"[" * 100_000,
     b'{"data": [{"embedding": "AAAAPw=="', b"\xff\xfe"],
    ids=lambda body: repr(body[:30]),
)  # fmt: skip
async def test_an_answer_that_is_no_list_of_vectors_is_a_protocol_error(vendor, body):
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    error = await failure_of(vendor, head + body)

    assert error.kind == "protocol"
    assert len(str(error)) < 2_000


@every_vendor
async def test_an_error_in_an_answer_of_status_200_is_that_error(vendor):
    error = await failure_of(vendor, whole({"error": {"message": f"slow down, {KEY}", "type": "rate_limit_error"}}))

    assert error.kind == "rate_limited"
    assert KEY not in str(error)


@every_vendor
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"message": f"invalid api token {KEY}"}, "authentication"),
        (404, {"message": "model 'nonexistent' not found"}, "bad_request"),
        (400, {"detail": "Model nonexistent is not supported."}, "bad_request"),
        (429, {"error": {"message": "slow"}}, "rate_limited"),
        (500, {}, "unavailable"),
    ],
)
async def test_a_refusal_is_an_error_of_its_kind_without_the_key(vendor, status, body, kind):
    error = await failure_of(vendor, whole(body, status, {"retry-after": "3"}))

    assert (error.kind, error.status) == (kind, status)
    assert KEY not in str(error)
    assert error.meta is None or error.meta.request_id == "req_1"


@every_vendor
async def test_a_usage_that_is_no_count_is_unknown(vendor):
    words, _ = MAKERS[vendor]

    async with serving(vendor, whole(words.list_answer(good(vendor), -5))) as (_, embedder):
        assert (await embedder.embed(request())).usage == Usage()


@given(st.binary(max_size=60), st.sampled_from(sorted(MAKERS)))
def test_any_bytes_are_vectors_or_a_provider_error(noise, vendor):
    from pluggent_provider_http.server_errors import Faults

    (embedder,) = MAKERS[vendor][1]("http://127.0.0.1:1/v1").provide_embedders(None)
    body = json.dumps(MAKERS[vendor][0].list_answer(good(vendor), 3)).encode()
    cut = len(noise) * 3 % len(body)

    for data in (noise, body[:cut] + noise, body[:cut] + noise + body[cut:]):
        try:
            response = embedder.read(data, request(), Faults("x", "http://x"))
        except ProviderError as error:
            assert error.kind in ("protocol", "unavailable", "bad_request")  # noqa: PT017 (or it raises nothing)
        else:
            assert len(response.vectors) == 3


# ---- batches


@given(st.lists(st.text(max_size=6), max_size=30), st.integers(1, 5), st.integers(1, 12))
def test_batches_hold_every_text_once_within_their_limits(texts, most, most_bytes):
    found = list(batches(texts, BatchLimits(most, most_bytes)))

    assert [place for start, end in found for place in range(start, end)] == list(range(len(texts)))
    for start, end in found:
        size = sum(len(text.encode()) for text in texts[start:end])
        assert 1 <= end - start <= most
        assert size <= most_bytes or end - start == 1


@pytest.mark.parametrize(
    ("vendor", "sizes"), [("openai", [2048, 2]), ("cohere", [96] * 21 + [34]), ("voyage", [1000, 1000, 50])]
)
async def test_texts_go_in_as_many_requests_as_the_vendor_needs(vendor, sizes):
    texts = tuple(f"text {number}" for number in range(2_050))

    async with serving(vendor) as (server, embedder):
        response = await embedder.embed(EmbeddingRequest("m", texts, dimensions=4))

    role = "document" if vendor == "voyage" else "search_document" if vendor == "cohere" else ""
    assert [len(sent) for sent in server.texts] == sizes
    assert response.vectors == Vectors.of([numbers(f"{role} {text}", 4) for text in texts])
    assert response.usage == Usage(input=sum(map(len, texts)))


async def test_no_request_has_more_tokens_than_the_settings_say():
    texts = ("a" * 30, "b" * 30, "c" * 30, "d" * 90)

    async with serving("openai", embed_tokens=30) as (server, embedder):
        await embedder.embed(EmbeddingRequest("m", texts))

    assert [len(sent) for sent in server.texts] == [2, 1, 1]


async def test_no_answer_is_asked_for_that_would_be_longer_than_it_may_be():
    async with serving("openai", max_response_bytes=1_000) as (server, embedder):
        await embedder.embed(request("a", "b", "c", "d", "e", dimensions=SIZE))

    assert [len(sent) for sent in server.texts] == [5]

    async with serving("openai", max_response_bytes=400) as (server, embedder):
        await embedder.embed(request("a", "b", "c", "d", "e", dimensions=SIZE))

    assert [len(sent) for sent in server.texts] == [2, 2, 1]


TOO_LARGE = [
    "Requested 438104 tokens, max 300000 tokens per request",
    "The max allowed tokens per submitted batch is 120000. Your batch has 131000 tokens after truncation.",
    "too many inputs",
    "batch size 64 > maximum allowed batch size 32",
]


@pytest.mark.parametrize("message", TOO_LARGE)
async def test_a_batch_that_the_server_finds_too_large_is_halved(message):
    refusal = whole({"error": {"message": message, "type": "invalid_request_error"}}, 400)

    async with serving("openai", refusal, None, refusal) as (server, embedder):
        response = await embedder.embed(request("a", "b", "c", "d"))

    assert server.texts == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"], ["c"], ["d"]]
    assert response.vectors == Vectors.of([numbers(f" {text}", SIZE) for text in "abcd"])


async def test_a_text_that_is_too_long_is_refused_and_no_batch_halved():
    message = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens"

    error = await failure_of("openai", whole({"error": {"message": message}}, 400))

    assert (error.kind, error.limit, error.actual) == ("context_length", 8192, 9000)


@every_vendor
async def test_vectors_that_came_before_a_failure_are_kept(vendor):
    words, _ = MAKERS[vendor]
    down = whole({"error": {"message": "overloaded"}}, 503)

    async with serving(vendor, None, down, embed_texts=2) as (server, embedder):
        with pytest.raises(EmbeddingIncomplete, match="2 of 3 texts were embedded, then: ") as caught:
            await embedder.embed(request())

    error = caught.value
    assert [len(sent) for sent in server.texts] == [2, 1]
    assert (error.kind, error.status, error.response.usage, len(error.response.vectors)) == (
        "unavailable", 503, Usage(input=6), 2,
    )  # fmt: skip
    assert words.texts


async def test_a_batch_of_other_dimensions_than_the_one_before_is_refused():
    async with serving("openai", None, rows("openai", *good("openai", 1)), embed_texts=2) as (_, embedder):
        with pytest.raises(EmbeddingIncomplete, match=f"vectors of 2 dimensions, not {SIZE}"):
            await embedder.embed(request())


@pytest.mark.parametrize("vendor", ["openai", "cohere", "voyage"])
async def test_without_a_key_nothing_is_sent(vendor, monkeypatch):
    from embedding_server import opened
    from pluggent_embedders.plugin import CohereEmbedders, VoyageEmbedders
    from pluggent_openai.plugin import OpenAIEmbedders

    for name in ("OPENAI_API_KEY", "CO_API_KEY", "VOYAGE_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    plugin = {"openai": OpenAIEmbedders, "cohere": CohereEmbedders, "voyage": VoyageEmbedders}[vendor]()

    async with opened(plugin) as embedder:
        with pytest.raises(ProviderError, match="there is no API key") as caught:
            await embedder.embed(request())

    assert caught.value.kind == "authentication"


@every_vendor
async def test_a_lone_surrogate_is_not_sent(vendor):
    async with serving(vendor) as (server, embedder):
        with pytest.raises(ProviderError, match="cannot be sent") as caught:
            await embedder.embed(request("a\ud83c"))

    assert (caught.value.kind, server.requests) == ("bad_request", [])
