"""What this wire alone does against a mock of its server that others wrote: npm @copilotkit/aimock."""

import json
from pathlib import Path

import pytest
from aimock_peer import aimock_at_work, journal
from anthropic_server import provider_at
from pluggent_hookspecs import (
    File,
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    Reasoning,
    Text,
    ToolSpec,
    VendorPart,
)

CALLS = [
    {"id": f"toolu_{name}", "name": name, "arguments": {"city": "Bern", "text": "\N{SNOWMAN}"}} for name in ("wx", "tz")
]
FIXTURES = [
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


def last_body(url: str) -> dict:
    """Return the last request as the mock understood it."""
    return journal(url)[-1]["body"]


async def test_a_text_comes_with_its_usage(provider, aimock):
    reply = await provider.complete(ModelRequest("opus-5", (Message.system("Be kind."), Message.user("greet"))))

    assert (reply.message.text, reply.finish_reason) == ("Hi there! \N{SNOWMAN}", FinishReason.STOP)
    assert (reply.usage.input, reply.usage.output, reply.model) == (10, 5, "opus-5")
    roles = [(one["role"], one["content"]) for one in last_body(aimock)["messages"]]
    assert roles == [("system", "Be kind."), ("user", "greet")]


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


async def test_models_are_listed(streaming):
    assert [model.id for model in await streaming.list_models()]
