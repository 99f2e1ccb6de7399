"""What this wire alone does against a mock of its server that others wrote: npm @copilotkit/aimock."""

from pathlib import Path

import pytest
from aimock_peer import LONG, OK, aimock_at_work, journal
from openai_server import KEY, batches, provider_at
from pluggent_hookspecs import (
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Reply,
    Text,
    ToolCall,
    ToolSpec,
    deltas,
)

CALLS = [
    {"id": f"call_{name}", "name": name, "arguments": {"city": "Bern", "text": "\N{SNOWMAN}"}} for name in ("wx", "tz")
]
FIXTURES = [
    {"match": {"userMessage": "greet"}, "response": {
        "content": "Hi there! \N{SNOWMAN}", "usage": {"prompt_tokens": 10, "completion_tokens": 5}}},
    {"match": {"userMessage": "weather", "hasToolResult": False}, "response": {"toolCalls": CALLS}},
    {"match": {"userMessage": "weather", "toolCallId": "call_tz"}, "response": {"content": "Snow at noon."}},
    {"match": {"userMessage": "broken call"}, "response": {
        "toolCalls": [{"name": "wx", "arguments": '{"city": oops'}]}},
    {"match": {"userMessage": "picture"}, "response": {"content": "A cat."}},
    {"match": {"userMessage": "look it up"}, "response": {"content": "Looking.", "toolCalls": CALLS}, "chunkSize": 3},
    {"match": {"userMessage": "think"}, "response": {"content": "Yes.", "reasoning": "Let me see."}, "chunkSize": 4},
    {"match": {"userMessage": "form", "responseFormat": "json_schema"}, "response": {"content": '{"a":1}'}},
    {"match": {"userMessage": "form", "responseFormat": "json_object"}, "response": {"content": '{"a":2}'}},
    {"match": {"userMessage": "dropped"}, "response": OK, "chaos": {"dropRate": 1}},
    {"match": {"userMessage": "too many"}, "response": OK, "chaos": {"rateLimitRate": 1}},
    {"match": {"userMessage": "refused"}, "response": {"status": 400, "error": {
        "message": "flagged", "type": "invalid_request_error", "code": "content_policy_violation"}}},
    {"match": {"userMessage": "no key"}, "response": {"status": 401, "error": {
        "message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}}},
    {"match": {"userMessage": "torn call"}, "response": {"toolCalls": CALLS}, "truncateAfterChunks": 3, "chunkSize": 5,
     "latency": 30},
    {"match": {"userMessage": "lost"}, "response": {"content": LONG}, "disconnectAfterMs": 200, "latency": 60,
     "chunkSize": 5},
]  # fmt: skip


@pytest.fixture(scope="module")
def aimock(peers_folder: Path, tmp_path_factory):
    """Start the mock and return its URL."""
    with aimock_at_work(peers_folder, tmp_path_factory.mktemp("aimock"), FIXTURES) as url:
        yield url + "/v1"


@pytest.fixture
async def provider(aimock):
    provider = provider_at(aimock, silence_s=5, first_byte_s=5)
    yield provider
    await provider.close()


both = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
WX, TZ = ToolSpec("wx", "Weather"), ToolSpec("tz", "Time zone")


async def ask(provider, *messages: Message, streamed: bool, tools=(), model="gpt-4o"):
    asked = ModelRequest(model, messages, tools, ModelParameters(temperature=0.0))
    if not streamed:
        return await provider.complete(asked)
    reply = Reply()
    reply.add(await batches(provider, asked))
    return reply.response()


async def failure_of(provider, text: str, *, streamed: bool) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(provider, Message.user(text), streamed=streamed)
    assert KEY not in str(caught.value)
    return caught.value


@both
async def test_a_text_comes_with_its_usage(provider, streamed):
    reply = await ask(provider, Message.system("Be kind."), Message.user("greet"), streamed=streamed)

    assert (reply.message.text, reply.finish_reason) == ("Hi there! \N{SNOWMAN}", FinishReason.STOP)
    assert (reply.usage.input, reply.usage.output) == (10, 5)
    assert reply.model == "gpt-4o"


@both
async def test_a_round_of_two_tools_goes_there_and_back(provider, streamed):
    asked = Message.user("weather")

    first = await ask(provider, asked, streamed=streamed, tools=(WX, TZ))
    results = [Message.tool(call, "snow") for call in first.message.tool_calls]
    second = await ask(provider, asked, first.message, *results, streamed=streamed, tools=(WX, TZ))

    arguments = '{"city":"Bern","text":"\N{SNOWMAN}"}'
    assert first.message.tool_calls == (ToolCall("call_wx", "wx", arguments), ToolCall("call_tz", "tz", arguments))
    assert first.finish_reason is FinishReason.TOOL_CALLS
    assert second.message.text == "Snow at noon."


@both
async def test_arguments_that_are_no_json_arrive_as_they_were_written(provider, streamed):
    reply = await ask(provider, Message.user("broken call"), streamed=streamed, tools=(WX,))

    assert [call.arguments for call in reply.message.tool_calls] == ['{"city": oops']


# ---- pictures, thinking, forms ----------------------------------------------------------


def last_body(aimock: str):
    """Return the body of the last request, as the mock understood it."""
    return journal(aimock.removesuffix("/v1"))[-1]["body"]


@both
async def test_pictures_arrive_where_a_stranger_looks_for_them(aimock, provider, streamed):
    said = Message.user((Text("picture"), Image(data="QUJD"), Image(url="https://x/p.png", detail="low")))

    reply = await ask(provider, said, streamed=streamed)

    assert reply.message.text == "A cat."
    assert last_body(aimock)["messages"][0]["content"] == [
        {"type": "text", "text": "picture"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "image_url", "image_url": {"url": "https://x/p.png", "detail": "low"}},
    ]


@both
async def test_text_may_come_before_calls(provider, streamed):
    reply = await ask(provider, Message.user("look it up"), streamed=streamed, tools=(WX, TZ))

    assert (reply.message.text, reply.finish_reason) == ("Looking.", FinishReason.TOOL_CALLS)
    assert [call.name for call in reply.message.tool_calls] == ["wx", "tz"]


@both
async def test_thinking_is_told_apart_and_goes_back(aimock, streamed):
    provider = provider_at(aimock.replace("/v1", "/api/v1"), compat={"like": "openrouter"})
    asked = Message.user("think")

    reply = await ask(provider, asked, streamed=streamed, model="openai/gpt-4o")
    await ask(provider, asked, reply.message, Message.user("think"), streamed=streamed)
    await provider.close()

    assert reply.message.content == (Reasoning("Let me see."), Text("Yes."))
    assert last_body(aimock)["messages"][1] == {
        "role": "assistant", "content": "Yes.", "reasoning": "Let me see.",
    }  # fmt: skip


@both
@pytest.mark.parametrize(("compat", "text"), [({}, '{"a":1}'), ({"json_schema": False}, '{"a":2}')])
async def test_the_form_of_a_reply_is_asked_for_in_the_way_of_each_server(aimock, streamed, compat, text):
    provider = provider_at(aimock, compat=compat)
    parameters = ModelParameters(output_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    asked = ModelRequest("gpt-4o", (Message.user("form"),), parameters=parameters)

    reply = Reply()
    reply.add(await batches(provider, asked)) if streamed else reply.add(deltas(await provider.complete(asked)))
    await provider.close()

    assert reply.message().text == text


async def test_a_deployment_of_azure_answers(aimock):
    base = aimock.replace("/v1", "/openai/deployments/{model}?api-version=2024-10-21")
    provider = provider_at(base, auth="api-key")

    reply = await ask(provider, Message.user("greet"), streamed=True)
    await provider.close()

    assert reply.message.text == "Hi there! \N{SNOWMAN}"


async def test_its_models_are_listed(provider):
    found = {model.id: model for model in await provider.list_models()}

    assert found["gpt-4o"].created == 1686935002
    assert found["gpt-4o"].extra == {"owned_by": "aimock"}


# ---- errors and cuts --------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("dropped", Kind.UNAVAILABLE, 500),
        ("too many", Kind.RATE_LIMITED, 429),
        ("refused", Kind.REFUSED, 400),
        ("no key", Kind.AUTHENTICATION, 401),
    ],
)
async def test_every_refusal_has_its_kind(provider, streamed, text, kind, status):
    error = await failure_of(provider, text, streamed=streamed)

    assert (error.kind, error.status) == (kind, status)


@pytest.mark.parametrize("text", ["torn call", "lost"])
async def test_a_stream_that_tears_is_broken_wherever_it_tears(provider, text):
    error = await failure_of(provider, text, streamed=True)

    assert (error.kind, error.retryable) == (Kind.STREAM_BROKEN, True)
