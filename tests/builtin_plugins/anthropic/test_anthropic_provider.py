"""The provider over real connections: headers, errors, losses, leaving early, the list of models."""

import asyncio
import json
import logging
from contextlib import aclosing

import httpx2
import pytest
from anthropic_server import (
    KEY,
    LENT,
    batches,
    failure_of,
    message,
    plugin_at,
    provider_at,
    request,
    sse,
    start,
    stop,
    streamed,
    text,
    whole,
)
from odd_server import (
    CLOSE,
    GO,
    LEAVE,
    RESET,
    STREAM_HEAD,
    OddServer,
    answer,
    http_chunk,
    json_answer,
    leave_early,
    stream_answer,
)
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import (
    ListsModels,
    Message,
    ModelInfo,
    ModelParameters,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    TextDelta,
    deltas,
)

OK = streamed(text("Hello"))
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
HELLO = sse(
    start(), BLOCK, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}
)


pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture
async def at():
    """Make providers, and close them at the end."""
    made = []

    def make(url: str, **settings):
        made.append(provider_at(url, **settings))
        return made[-1]

    yield make
    for provider in made:
        await provider.close()


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


# ---- what is asked ----------------------------------------------------------------------


async def test_a_reply_comes_from_one_post():
    async with OddServer(OK) as server:
        plugin, provider = plugin_at(server.url, headers={"X-Team": "a"})
        async with plugin.open(LENT):
            reply = await provider.complete(request(model="m"))

    (sent,) = server.requests
    assert reply.message.text == "Hello"
    assert sent.line == "POST /v1/messages HTTP/1.1"
    assert sent.json == {
        "model": "m", "max_tokens": 32_000, "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }  # fmt: skip
    names = ("x-api-key", "anthropic-version", "x-team", "content-type")
    assert [sent.headers[name] for name in names] == [KEY, "2023-06-01", "a", "application/json"]
    assert {"authorization", "anthropic-beta"}.isdisjoint(sent.headers)


@pytest.mark.parametrize(
    ("base", "line"),
    [("/v1", "/v1/messages"), ("", "/v1/messages"), ("/proxy/", "/proxy/v1/messages"), ("?a=b", "/v1/messages?a=b")],
)
async def test_requests_go_below_the_base_url(base, line, at):
    async with OddServer(OK) as server:
        provider = at(server.url.removesuffix("/v1") + base)
        await provider.complete(request())

    assert server.requests[0].line == f"POST {line} HTTP/1.1"


async def test_a_bearer_and_betas_are_sent_where_they_belong(at):
    async with OddServer(OK, OK) as server:
        provider = at(server.url, auth="bearer", betas=("a-1", "b-2"), headers={"anthropic-beta": "z"})
        await provider.complete(request(parameters=ModelParameters(extra={"betas": ("b-2", "c-3")})))
        await provider.complete(request())

    first, second = server.requests
    assert (first.headers["authorization"], first.headers["anthropic-beta"]) == (f"Bearer {KEY}", "z,a-1,b-2,c-3")
    assert "x-api-key" not in first.headers
    assert "betas" not in first.json
    assert second.headers["anthropic-beta"] == "z,a-1,b-2"


async def test_a_keyless_server_gets_no_key(at):
    async with OddServer(OK) as server:
        provider = at(server.url, api_key=None)
        await provider.complete(request())

    assert {"x-api-key", "authorization"}.isdisjoint(server.requests[0].headers)


@both
async def test_a_server_that_cannot_stream_is_asked_for_whole_replies(stream, at):
    async with OddServer(whole(text("Hello"))) as server:
        provider = at(server.url, stream=False)
        found = await batches(provider) if stream else deltas(await provider.complete(request()))

    assert "stream" not in server.requests[0].json
    assert found[0] == TextDelta("Hello")


async def test_a_stream_is_told_read_by_read(at):
    steps = (STREAM_HEAD, http_chunk(HELLO), GO, http_chunk(sse(*stop())), b"0\r\n\r\n")
    async with OddServer(steps) as server:
        provider = at(server.url)
        async with aclosing(provider.stream(request())) as stream:
            first = await anext(stream)
            server.go.set()
            rest = [delta async for batch in stream for delta in batch]

    assert first[-1] == TextDelta("Hello")
    assert rest[-1].id == "msg_1"


async def test_connections_are_used_again(at):
    async with OddServer(OK, OK, json_answer({"error": {}}, 429), json_answer({"data": []}), OK) as server:
        provider = at(server.url)
        await provider.complete(request())
        await batches(provider)
        await failure_of(provider)
        await provider.list_models()
        await provider.complete(request())

    assert (server.connections, len(server.requests)) == (1, 5)


# ---- what goes wrong --------------------------------------------------------------------


@both
async def test_an_error_has_its_kind_its_words_and_its_id(stream, at):
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": f"too many for {KEY}"}}
    async with OddServer(json_answer(body, 429, {"retry-after": "7", "request-id": "req_011"})) as server:
        error = await failure_of(at(server.url), stream=stream)

    assert (error.kind, error.status, error.retry_after, error.retryable) == (Kind.RATE_LIMITED, 429, 7.0, True)
    assert "(request req_011)" in str(error)
    assert KEY not in f"{error!s}{error!r}"


async def test_a_prompt_that_is_too_long_says_by_how_much(at):
    words = "prompt is too long: 215000 tokens > 200000 maximum"
    async with OddServer(json_answer({"error": {"type": "invalid_request_error", "message": words}}, 400)) as server:
        error = await failure_of(at(server.url))

    assert (error.kind, error.actual, error.limit) == (Kind.CONTEXT_LENGTH, 215_000, 200_000)


async def test_a_missing_model_is_named_with_what_to_check(at):
    async with OddServer(json_answer({"error": {"type": "not_found_error", "message": "model: x"}}, 404)) as server:
        error = str(await failure_of(at(server.url)))

    assert "'opus-5'" in error
    assert "/messages" in error


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ((CLOSE,), Kind.UNAVAILABLE),
        ((RESET,), Kind.UNAVAILABLE),
        ((STREAM_HEAD, http_chunk(HELLO), CLOSE), Kind.STREAM_BROKEN),
        ((STREAM_HEAD, http_chunk(HELLO), RESET), Kind.STREAM_BROKEN),
        ((STREAM_HEAD, http_chunk(HELLO), b"0\r\n\r\n"), Kind.STREAM_BROKEN),
        ((STREAM_HEAD, http_chunk(HELLO), LEAVE), Kind.TIMEOUT),
        ((LEAVE,), Kind.TIMEOUT),
        (answer("<html>busy</html>"), Kind.PROTOCOL),
        (answer(""), Kind.PROTOCOL),
    ],
)
async def test_a_loss_has_its_kind(steps, kind, at):
    async with OddServer(steps) as server:
        provider = at(server.url, silence_s=0.05, first_byte_s=0.1)
        error = await failure_of(provider)

    assert (error.kind, error.provider) == (kind, "anthropic")


@pytest.mark.parametrize("key", [Secret("env:NO_SUCH_VARIABLE"), Secret.of("sk-ключ"), Secret.of(" ")])
async def test_a_key_that_cannot_be_sent_is_an_authentication_error_that_does_not_show_it(key, at):
    error = await failure_of(at("http://127.0.0.1:9", api_key=key))

    assert error.kind is Kind.AUTHENTICATION
    assert "ключ" not in str(error)


async def test_the_key_is_in_no_log_and_in_no_repr(caplog):
    caplog.set_level(logging.DEBUG)
    async with OddServer(OK) as server:
        plugin, provider = plugin_at(server.url, headers={"x-second": "hush-hush"})
        async with plugin.open(LENT):
            await provider.complete(request())

    shown = f"{provider!r}{plugin!r}{caplog.text}"
    assert KEY not in shown
    assert "hush-hush" not in shown


async def test_a_request_that_cannot_be_sent_reaches_no_server(at):
    async with OddServer() as server:
        with pytest.raises(ProviderError, match="seed"):
            await at(server.url).complete(request(parameters=ModelParameters(seed=1)))

    assert server.requests == []


# ---- leaving early ----------------------------------------------------------------------


@both
@pytest.mark.parametrize("steps", [(LEAVE,), (STREAM_HEAD, LEAVE), (STREAM_HEAD, http_chunk(HELLO), LEAVE)])
async def test_a_cancelled_call_closes_its_connection(steps, stream, at):
    async with OddServer(steps) as server:
        await leave_early(server, at(server.url), request(), stream=stream)

    assert server.left.is_set()


async def test_a_stream_that_is_closed_early_closes_its_connection(at):
    async with OddServer((STREAM_HEAD, http_chunk(HELLO), LEAVE)) as server:
        stream = at(server.url).stream(request())
        assert (await anext(stream))[-1] == TextDelta("Hello")
        await stream.aclose()
        await server.left.wait()


async def test_a_server_that_goes_on_after_the_end_is_not_waited_for(at):
    steps = (STREAM_HEAD, http_chunk(HELLO + sse(*stop())), LEAVE)
    async with OddServer(steps) as server:
        provider = at(server.url, silence_s=0.05)
        assert (await provider.complete(request())).message.text == "Hello"
        await server.left.wait()


# ---- what the application gives ---------------------------------------------------------


async def test_a_client_of_the_application_is_used_and_left_open():
    async with OddServer(OK) as server, httpx2.AsyncClient(headers={"x-mine": "1"}) as client:
        plugin = Anthropic(Anthropic.Settings(base_url=server.url, api_key=None), client=client)
        (provider,) = plugin.provide_providers(ProvideEvent())
        async with plugin.open(LENT):
            await provider.complete(request())

        assert not client.is_closed
    assert server.requests[0].headers["x-mine"] == "1"


async def test_many_calls_at_once_keep_their_replies_apart():
    async def echo(asked: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=message(text(json.loads(asked.read())["model"])))

    plugin = Anthropic(Anthropic.Settings(base_url="http://x.test", api_key=None), transport=httpx2.MockTransport(echo))
    (provider,) = plugin.provide_providers(ProvideEvent())
    asked = [ModelRequest(f"m{number}", (Message.user("q"),)) for number in range(50)]

    replies = await asyncio.gather(*(provider.complete(one) for one in asked))

    assert [reply.message.text for reply in replies] == [one.model for one in asked]


# ---- the list of models -----------------------------------------------------------------


def model(name: str, **more: object) -> dict[str, object]:
    return {"type": "model", "id": name, "display_name": name.title(), "created_at": "2026-07-24T00:00:00Z", **more}


async def test_models_come_page_by_page(at):
    pages = [
        {"data": [model("one", max_input_tokens=200, max_tokens=64)], "has_more": True, "last_id": "one"},
        {"data": [model("two", lifecycle="active", line=None)], "has_more": False, "last_id": "two"},
    ]
    async with OddServer(*map(json_answer, pages)) as server:
        provider = at(server.url)
        found = await provider.list_models()

    assert isinstance(provider, ListsModels)
    assert found == [
        ModelInfo("one", "One", 1784851200.0, 200, 64),
        ModelInfo("two", "Two", 1784851200.0, extra={"lifecycle": "active"}),
    ]
    assert [sent.line for sent in server.requests] == [
        "GET /v1/models?limit=1000 HTTP/1.1", "GET /v1/models?limit=1000&after_id=one HTTP/1.1",
    ]  # fmt: skip
    assert server.requests[0].headers["x-api-key"] == KEY


async def test_a_list_that_goes_in_circles_ends(at):
    page = {"data": [model("one")], "has_more": True, "last_id": "one"}
    async with OddServer(*[json_answer(page)] * 5) as server:
        provider = at(server.url)
        found = await provider.list_models()

    assert [one.id for one in found] == ["one", "one"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("made", ["", "soon", "9999999-01-01", 7])
async def test_a_date_that_is_none_is_unknown(made, at):
    async with OddServer(json_answer({"data": [model("one", created_at=made)]})) as server:
        provider = at(server.url)
        (found,) = await provider.list_models()

    assert found.created is None


@pytest.mark.parametrize("body", [[], {}, {"data": 3}, {"data": [3]}, {"data": [{"display_name": "x"}]}])
async def test_what_is_no_list_is_an_error(body, at):
    async with OddServer(json_answer(body)) as server:
        with pytest.raises(ProviderError) as caught:
            await at(server.url).list_models()

    assert caught.value.kind is Kind.PROTOCOL


async def test_a_list_that_may_not_be_seen_is_an_error_of_its_kind(at):
    async with OddServer(json_answer({"error": {"type": "authentication_error"}}, 401)) as server:
        with pytest.raises(ProviderError) as caught:
            await at(server.url).list_models()

    assert caught.value.kind is Kind.AUTHENTICATION


async def test_a_stream_answer_may_be_chunked_in_any_way(at):
    data = HELLO + sse(*stop())
    async with OddServer(stream_answer(*(data[at : at + 7] for at in range(0, len(data), 7)))) as server:
        provider = at(server.url)
        assert (await provider.complete(request())).message.text == "Hello"
