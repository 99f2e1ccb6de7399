"""The provider against a mock of the Messages API that others wrote: npm @copilotkit/aimock."""

import asyncio
import json
from pathlib import Path

import pytest
from aimock_peer import LONG, ODD_FIXTURES, aimock_at_work, cut_short, journal, text_of
from anthropic_server import KEY, batches, provider_at
from pluggent_hookspecs import (
    File,
    Finished,
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Text,
    ToolSpec,
    VendorPart,
)

CALLS = [
    {"id": f"toolu_{name}", "name": name, "arguments": {"city": "Bern", "text": "\N{SNOWMAN}"}} for name in ("wx", "tz")
]
FIXTURES = [
    *ODD_FIXTURES,
    {"match": {"userMessage": "greet"}, "response": {
        "content": "Hi there! \N{SNOWMAN}", "usage": {"input_tokens": 10, "output_tokens": 5}}},
    {"match": {"userMessage": "look"}, "response": {"content": "I see."}},
    {"match": {"userMessage": "weather", "hasToolResult": False}, "response": {"toolCalls": CALLS}},
    {"match": {"userMessage": "weather", "toolCallId": "toolu_tz"}, "response": {"content": "Snow at noon."}},
    {"match": {"userMessage": "ponder", "hasToolResult": False}, "response": {
        "toolCalls": CALLS[:1], "reasoning": "Hmm. \N{SNOWMAN}", "reasoningSignature": "c2lnbmVk",
        "redactedThinking": ["b3BhcXVl"]}},
    {"match": {"userMessage": "ponder", "hasToolResult": True}, "response": {"content": "I pondered."}},
    {"match": {"userMessage": "mixed", "hasToolResult": False}, "response": {"content": "", "toolCalls": [], "blocks": [
        {"type": "text", "text": "first "}, {"type": "toolCall", **CALLS[0]}, {"type": "text", "text": "then"}]}},
    {"match": {"userMessage": "mixed", "hasToolResult": True}, "response": {"content": "mixed well"}},
    {"match": {"userMessage": "too long"}, "response": {"status": 400, "error": {
        "message": "prompt is too long: 215000 tokens > 200000 maximum", "type": "invalid_request_error"}}},
    {"match": {"userMessage": "overloaded"}, "response": {
        "error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529}},
    {"match": {"userMessage": "cut"}, "response": {"content": LONG}, "truncateAfterChunks": 6, "latency": 30},
]  # fmt: skip


@pytest.fixture(scope="module")
def aimock(peers_folder: Path, tmp_path_factory):
    """Start the mock and return its URL."""
    with aimock_at_work(peers_folder, tmp_path_factory.mktemp("aimock"), FIXTURES) as url:
        yield url


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
async def provider(aimock, request):
    provider = provider_at(aimock, silence_s=5, first_byte_s=5, stream=request.param)
    yield provider
    await provider.close()


@pytest.fixture
async def streaming(aimock):
    provider = provider_at(aimock, silence_s=5, first_byte_s=5)
    yield provider
    await provider.close()


WX, TZ = ToolSpec("wx", "Weather"), ToolSpec("tz", "Time zone")


async def failure_of(provider, text: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await batches(provider, ModelRequest("opus-5", (Message.user(text),)))
    assert KEY not in str(caught.value)
    return caught.value


def last_body(url: str) -> dict:
    """Return the last request as the mock understood it."""
    return journal(url)[-1]["body"]


async def test_a_text_comes_with_its_usage(provider, aimock):
    reply = await provider.complete(ModelRequest("opus-5", (Message.system("Be kind."), Message.user("greet"))))

    assert (reply.message.text, reply.finish_reason) == ("Hi there! \N{SNOWMAN}", FinishReason.STOP)
    assert (reply.usage.input, reply.usage.output, reply.model) == (10, 5, "opus-5")
    roles = [(one["role"], one["content"]) for one in last_body(aimock)["messages"]]
    assert roles == [("system", "Be kind."), ("user", "greet")]


async def test_a_long_text_comes_in_pieces(streaming):
    found = await batches(streaming, ModelRequest("opus-5", (Message.user("tell"),)))

    assert text_of(found) == LONG
    assert isinstance(found[-1], Finished)


async def test_pictures_and_documents_are_taken(provider):
    seen = (Text("look"), Image(data="iVBORw0KGgo="), Image(url="https://x.test/y.png"), File(file_id="file_1"))

    assert (await provider.complete(ModelRequest("opus-5", (Message.user(seen),)))).message.text == "I see."


async def test_a_round_of_two_tools_goes_there_and_back(provider, aimock):
    asked = Message.user("weather")

    first = await provider.complete(ModelRequest("opus-5", (asked,), (WX, TZ)))
    results = [Message.tool(call, (Text("snow"), Image(data="iVBORw0KGgo="))) for call in first.message.tool_calls]
    second = await provider.complete(ModelRequest("opus-5", (asked, first.message, *results), (WX, TZ)))

    assert [(call.id, call.name, json.loads(call.arguments)) for call in first.message.tool_calls] == [
        (call["id"], call["name"], call["arguments"]) for call in CALLS
    ]
    assert first.finish_reason is FinishReason.TOOL_CALLS
    assert second.message.text == "Snow at noon."
    assert [one["tool_call_id"] for one in last_body(aimock)["messages"][-2:]] == ["toolu_wx", "toolu_tz"]


async def test_thinking_goes_back_as_the_api_wants_it_in_a_round_of_tools(provider):
    asked = Message.user("ponder")
    how = ModelParameters(reasoning_effort="low")

    first = await provider.complete(ModelRequest("opus-4-1", (asked,), (WX,), how))
    result = Message.tool(first.message.tool_calls[0], "snow")
    second = await provider.complete(ModelRequest("opus-4-1", (asked, first.message, result), (WX,), how))

    assert first.message.content == (
        VendorPart("anthropic", {"type": "redacted_thinking", "data": "b3BhcXVl"}),
        Reasoning("Hmm. \N{SNOWMAN}", "c2lnbmVk"),
    )
    assert second.message.text == "I pondered."


async def test_thinking_that_is_lost_in_a_round_of_tools_is_refused_by_the_mock_so_the_test_above_means_something(
    provider,
):
    asked = Message.user("ponder")
    how = ModelParameters(reasoning_effort="low")
    first = await provider.complete(ModelRequest("opus-4-1", (asked,), (WX,), how))
    lost = Message.assistant((), first.message.tool_calls)
    result = Message.tool(first.message.tool_calls[0], "snow")

    with pytest.raises(ProviderError, match="must begin with a `thinking` block"):
        await provider.complete(ModelRequest("opus-4-1", (asked, lost, result), (WX,), how))


async def test_text_and_calls_keep_their_order(provider, aimock):
    asked = Message.user("mixed")

    first = await provider.complete(ModelRequest("opus-5", (asked,), (WX,)))
    result = Message.tool(first.message.tool_calls[0], "snow")
    second = await provider.complete(ModelRequest("opus-5", (asked, first.message, result), (WX,)))

    assert first.message.text == "first then"
    assert first.message.extra["anthropic"]["blocks"] == (6, "call", 4)
    assert second.message.text == "mixed well"


async def test_a_rate_limit_says_when_to_come_back_and_passes(streaming):
    error = await failure_of(streaming, "limited")
    reply = await streaming.complete(ModelRequest("opus-5", (Message.user("limited"),)))

    assert (error.kind, error.retry_after, error.retryable) == (Kind.RATE_LIMITED, 7.0, True)
    assert reply.message.text == "At last."


async def test_a_request_that_is_too_long_says_by_how_much(provider):
    error = await failure_of(provider, "too long")

    assert (error.kind, error.actual, error.limit, error.retryable) == (Kind.CONTEXT_LENGTH, 215_000, 200_000, False)


async def test_an_overloaded_server_is_unavailable(provider):
    error = await failure_of(provider, "overloaded")

    assert (error.kind, error.status) == (Kind.UNAVAILABLE, 529)


async def test_a_stream_that_is_cut_is_broken_after_what_came(streaming):
    text, error = await cut_short(streaming, ModelRequest("opus-5", (Message.user("cut"),)))

    assert error.kind is Kind.STREAM_BROKEN
    assert text
    assert LONG.startswith(text)


async def test_malformed_json_is_a_protocol_error(provider):
    assert (await failure_of(provider, "malformed")).kind is Kind.PROTOCOL


async def test_a_hang_up_is_worth_another_try(provider):
    error = await failure_of(provider, "hang up")

    assert (error.kind, error.retryable) == (Kind.UNAVAILABLE, True)


async def test_a_slow_stream_is_given_up(aimock):
    hasty = provider_at(aimock, silence_s=0.2, first_byte_s=0.2)
    async with asyncio.timeout(10):
        error = await failure_of(hasty, "slow")
    await hasty.close()

    assert error.kind is Kind.TIMEOUT


async def test_models_are_listed(streaming):
    assert [model.id for model in await streaming.list_models()]
