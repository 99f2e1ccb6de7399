"""Where requests go, how the key travels and is kept secret, and the list of models, as servers give it."""

import asyncio

import httpx2
import pytest
from openai_server import (
    CLOSE,
    DONE,
    KEY,
    LENT,
    REPLY,
    OddServer,
    answer,
    batches,
    call,
    chunk,
    completion,
    event,
    failure_of,
    json_answer,
    plugin_at,
    provider_at,
    request,
    stream_answer,
)
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    ListsModels,
    Message,
    ModelInfo,
    ModelParameters,
    ModelRequest,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
)
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Server, Settings

FILTERED = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": None, "param": "prompt", "code": "content_filter", "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
    }
}  # fmt: skip
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


pytestmark = pytest.mark.usefixtures("patience")


def azure(server: OddServer) -> str:
    return server.url.replace("/v1", "/openai/deployments/{model}?api-version=2024-10-21")


async def test_a_deployment_of_azure_is_asked_by_its_path_with_its_version_and_its_header():
    async with OddServer(json_answer(REPLY)) as server:
        plugin, provider = plugin_at(azure(server), auth="api-key")
        async with plugin.open(LENT):
            reply = await provider.complete(request(model="my gpt/4"))

    (sent,) = server.requests
    assert reply.message.text == "Hello"
    assert sent.line == "POST /openai/deployments/my%20gpt%2F4/chat/completions?api-version=2024-10-21 HTTP/1.1"
    assert (sent.headers["api-key"], "authorization" in sent.headers) == (KEY, False)


async def test_the_models_of_azure_stand_beside_the_deployments():
    async with OddServer(json_answer({"data": [{"id": "gpt-4o"}]})) as server:
        plugin, provider = plugin_at(azure(server), auth="api-key")
        async with plugin.open(LENT):
            (model,) = await provider.list_models()

    assert model.id == "gpt-4o"
    assert server.requests[0].line == "GET /openai/models?api-version=2024-10-21 HTTP/1.1"


async def test_a_stream_of_azure_begins_with_the_results_of_its_filter():
    begin = event(
        {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{"a": 1}]}
    )
    usage = event({"choices": [], "usage": {"prompt_tokens": 1}})
    pieces = event(chunk({"role": "assistant", "content": ""})) + event(chunk({"content": "Hi"}))
    async with OddServer(stream_answer(begin, pieces, event(chunk({}, "stop")) + usage + DONE)) as server:
        plugin, provider = plugin_at(azure(server), auth="api-key")
        async with plugin.open(LENT):
            found = await batches(provider)

    assert [type(delta) for delta in found] == [TextDelta, UsageDelta, Finished]
    assert found[-1].extra["prompt_filter_results"] == ({"a": 1},)


@both
async def test_azures_filter_is_a_refusal(stream):
    async with OddServer(json_answer(FILTERED, 400)) as server:
        plugin, provider = plugin_at(azure(server), auth="api-key")
        async with plugin.open(LENT):
            error = await failure_of(provider, stream=stream)

    assert (error.kind, error.status, error.retryable) == (Kind.REFUSED, 400, False)
    assert "content management policy" in str(error)


@pytest.mark.parametrize("model", ["", ".", ".."])
@both
async def test_a_model_that_would_change_the_path_is_refused(model, stream):
    provider = provider_at("http://127.0.0.1:9/deployments/{model}")
    asked = request(model=model)

    with pytest.raises(ProviderError, match="cannot stand in the path of base_url") as caught:
        await (batches(provider, asked) if stream else provider.complete(asked))

    assert caught.value.kind is Kind.BAD_REQUEST


async def test_a_model_may_stand_anywhere_in_the_path():
    async with OddServer(json_answer(REPLY), json_answer({"data": []})) as server:
        plugin, provider = plugin_at(server.url.replace("/v1", "/serve/{model}/v1"))
        async with plugin.open(LENT):
            await provider.complete(request(model="m-1"))
            await provider.list_models()

    assert [sent.line.split()[1] for sent in server.requests] == ["/serve/m-1/v1/chat/completions", "/serve/models"]
    assert provider.target.endswith("/serve/{model}/v1")


async def test_a_key_that_is_not_to_be_sent_is_not_even_read():
    async with OddServer(json_answer(REPLY)) as server:
        plugin, provider = plugin_at(server.url, auth="none", api_key=Secret("env:NO_SUCH_VARIABLE"))
        async with plugin.open(LENT):
            await provider.complete(request())

    assert {"authorization", "api-key"} & set(server.requests[0].headers) == set()


async def test_a_key_in_another_header_is_not_shown_either():
    async with OddServer(json_answer({"error": {"message": f"bad key {KEY}"}}, 401)) as server:
        plugin, provider = plugin_at(server.url, auth="api-key")
        async with plugin.open(LENT):
            error = await failure_of(provider, stream=False)

    assert KEY not in str(error)


def test_another_way_to_send_a_key_is_refused():
    with pytest.raises(ValueError, match="auth"):
        provider_at("http://x", auth="basic")


async def test_a_server_that_cannot_stream_tools_is_asked_for_the_whole_reply():
    answered = completion(call(0, "c1", "add", "{}"), "tool_calls", usage={"prompt_tokens": 3})
    streamed = stream_answer(event(chunk({"content": "Hi"}, "stop")), DONE)
    async with OddServer(json_answer(answered), streamed) as server:
        plugin, provider = plugin_at(server.url, compat={"stream_tools": False})
        async with plugin.open(LENT):
            with_tools = await batches(provider, request(tools=(ToolSpec("add"),)))
            without = await batches(provider)

    assert [sent.json.get("stream", False) for sent in server.requests] == [False, True]
    assert with_tools[0] == ToolCallDelta(0, "c1", "add", "{}")
    assert (with_tools[1].reason, with_tools[1].usage.input) == (FinishReason.TOOL_CALLS, 3)
    assert without[0] == TextDelta("Hi")


async def test_a_request_that_cannot_be_sent_reaches_no_server():
    async with OddServer(json_answer(REPLY)) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            with pytest.raises(ProviderError, match="top_k"):
                await provider.complete(request(parameters=ModelParameters(top_k=5)))

    assert server.requests == []


HEADER, QUERY = "sk-header0123456789", "sk-query0123456789"


async def echo(asked: httpx2.Request) -> httpx2.Response:
    word = asked.headers["authorization"].split()[1]
    return httpx2.Response(401, json={"error": {"message": f"wrong key {word} for {asked.url}"}})


def test_no_word_of_a_header_and_no_value_of_the_query_is_shown() -> None:
    settings = Settings(
        base_url=f"http://one.test/v1?key={QUERY}", api_key=None, headers={"Authorization": f"Bearer {HEADER}"}
    )
    plugin = OpenAI(settings, transport=httpx2.MockTransport(echo))
    (provider,) = plugin.provide_providers(None)  # type: ignore[arg-type] # the event is not looked at

    async def ask() -> None:
        async with plugin.open(None):  # type: ignore[arg-type] # nor is the context
            await provider.complete(ModelRequest("m", (Message.user("hi"),)))

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())

    assert "wrong key [secret]" in str(caught.value)
    assert HEADER not in str(caught.value)
    assert QUERY not in str(caught.value)


async def listed(scripted, **settings):
    """Return what a server's answer makes, and the server that was asked."""
    async with OddServer(scripted) as server, asyncio.timeout(10):
        plugin, provider = plugin_at(server.url, **settings)
        async with plugin.open(LENT):
            return await provider.list_models(), server


async def failure(scripted, **settings) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await listed(scripted, **settings)
    return caught.value


def test_the_provider_says_that_it_can():
    assert isinstance(plugin_at("http://127.0.0.1:1")[1], ListsModels)


async def test_the_list_of_openai_is_read():
    entry = {"id": "gpt-9", "object": "model", "created": 1700000000, "owned_by": "openai", "shutdown_date": None}

    found, server = await listed(json_answer({"object": "list", "data": [entry]}))

    assert found == (ModelInfo("gpt-9", "", 1700000000.0, extra={"owned_by": "openai"}),)
    assert server.requests[0].line == "GET /v1/models HTTP/1.1"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("entry", "name", "window", "output"),
    [
        ({"id": "a", "context_window": 9, "max_completion_tokens": 5}, "", 9, 5),  # Groq
        ({"id": "a", "name": "A", "context_length": 9, "top_provider": {"max_completion_tokens": 5}}, "A", 9, 5),
        ({"id": "a", "display_name": "A", "context_length": 9}, "A", 9, None),  # Together
        ({"id": "a", "name": "a", "max_context_length": 9}, "", 9, None),  # Mistral
        ({"id": "a", "max_model_len": 9}, "", 9, None),  # vLLM
        ({"id": "a", "meta": {"n_ctx_train": 9}}, "", 9, None),  # llama.cpp
        ({"id": "a", "meta": None, "context_length": "9", "top_provider": 7}, "", None, None),
    ],
)
async def test_sizes_are_found_by_every_name(entry, name, window, output):
    (found,), _ = await listed(json_answer({"data": [entry]}))

    assert (found.id, found.name, found.context_window, found.max_output_tokens) == ("a", name, window, output)


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ([{"id": "a"}, {"id": "b"}], ["a", "b"]),
        ({"models": [{"model": "a"}, {"name": "b"}, "c"]}, ["a", "b", "c"]),
        ({"data": [7, {}, None, {"id": ""}, {"id": "a", "created": "long ago"}]}, ["a"]),
        ({"data": [{"id": "a", "created": 10**400}]}, ["a"]),
        ({"data": []}, []),
    ],
)
async def test_lists_of_other_shapes_are_read_too(body, ids):
    found, _ = await listed(json_answer(body))

    assert [model.id for model in found] == ids


@pytest.mark.parametrize(
    "body", ["", "oops", "7", "{}", '{"data": 7}', "[7]", "<html>", "[" * 50_000, '{"data": null}']
)
async def test_what_is_no_list_is_a_protocol_error(body):
    error = await failure(answer(body))

    assert error.kind is Kind.PROTOCOL
    assert len(str(error)) < 1000


async def test_what_python_cannot_nest_is_a_protocol_error():
    deep = '{"a":' * 990 + "1" + "}" * 990

    assert (await failure(answer(f'{{"data": [{{"id": "a", "x": {deep}}}]}}'))).kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    ("scripted", "kind"),
    [
        (json_answer({"error": {"message": "no"}}, 401), Kind.AUTHENTICATION),
        (json_answer({"error": {"message": "no"}}, 429, {"retry-after": "3"}), Kind.RATE_LIMITED),
        (json_answer({"error": {"message": "no", "code": 503}}), Kind.UNAVAILABLE),
        (answer("", 404), Kind.BAD_REQUEST),
        ((CLOSE,), Kind.UNAVAILABLE),
    ],
)
async def test_errors_have_their_kind(scripted, kind):
    assert (await failure(scripted)).kind is kind


async def test_a_list_that_is_too_long_is_refused():
    error = await failure(json_answer({"data": [{"id": "x" * 5000}]}), max_response_bytes=1000)

    assert (error.kind, "max_response_bytes" in str(error)) == (Kind.PROTOCOL, True)


async def test_a_list_needs_its_key_too():
    error = await failure(json_answer({"data": []}, 401, {"x": KEY}))

    assert KEY not in str(error)


# ---- settings ----------------------------------------------------------------------------


def test_an_organization_that_cannot_be_sent_is_refused():
    with pytest.raises(ValueError, match="organization"):
        Server(base_url="http://x", organization="\u00e9")


async def test_a_path_and_a_query_of_the_base_url_are_kept():
    async with OddServer(json_answer(completion({"content": "a"}))) as server:
        provider = provider_at(server.url.replace("/v1", "/deep/er?version=7"))
        await provider.complete(request())
        await provider.close()

    assert server.requests[0].line == "POST /deep/er/chat/completions?version=7 HTTP/1.1"
