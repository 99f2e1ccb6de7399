"""Where requests go and how the key travels: Azure's ways, paths with a model, servers that cannot stream tools."""

import pytest
from openai_server import (
    DONE,
    KEY,
    LENT,
    REPLY,
    OddServer,
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
    ModelParameters,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
)

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


async def test_a_request_that_cannot_be_sent_reaches_nobody():
    async with OddServer(json_answer(REPLY)) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            with pytest.raises(ProviderError, match="top_k"):
                await provider.complete(request(parameters=ModelParameters(top_k=5)))

    assert server.requests == []
