"""Whole turns of a host with this provider, against a server on loopback."""

from __future__ import annotations

from typing import Any

import pytest
from bedrock_server import NOVA_MODEL, START, begun, end, exception, over, piece
from converse_schema import broken_rules
from pluggent_bedrock.plugin import Bedrock, BedrockEmbedders
from pluggent_bedrock.settings import Settings
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind, Secret, TextShown, tool
from pluggent_host import Host, Why
from pluggent_testing.wires.http_server import LoopbackServer, Steps, answer, chunked

FRAMES = "application/vnd.amazon.eventstream"
THOUGHT = {"reasoningText": {"text": "Adding.", "signature": "c2ln"}}
ASKS = START + piece(0, reasoningContent={"text": "Adding."}) + piece(0, reasoningContent={"signature": "c2ln"})
ASKS += over(0) + piece(1, text="I add.") + over(1) + begun(2, toolUse={"toolUseId": "t1", "name": "add"})
ASKS += piece(2, toolUse={"input": '{"a": 2, "b": 3}'}) + over(2) + end("tool_use")
SAYS = START + piece(0, text="It is 5.") + over(0) + end()


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def streamed(*reads: bytes) -> Steps:
    return chunked(FRAMES, reads)


def serving(*answers: Steps) -> LoopbackServer:
    server = LoopbackServer(lambda _: answer(b"", 500))
    server.will(*answers)
    return server


def hosting(server: LoopbackServer, **settings: Any) -> Any:
    given = Settings(base_url=server.origin, region="eu-west-1", api_key=Secret.of("bedrock-key"), **settings)
    plugins = [Bedrock(given), BedrockEmbedders(given)]
    return Host.open(model=f"bedrock/{NOVA_MODEL}", plugins=plugins, tools=[add], installed=False)


async def test_a_turn_with_a_tool_goes_there_and_back():
    with serving(streamed(ASKS), streamed(SAYS), streamed(SAYS)) as server:
        async with hosting(server) as host, await host.session() as session:
            result = await session.say("What is 2 + 3?")
            await session.say("Thanks")

    bodies = [asked.json for asked in server.requests]
    assert (result.text.endswith("It is 5."), result.why) == (True, Why.COMPLETED)
    assert (result.usage.input, result.usage.output) == (20, 10)
    assert [broken_rules(body) for body in bodies] == [[], [], []]
    reply, outcome = bodies[1]["messages"][1:]
    assert reply["content"][0] == {"reasoningContent": THOUGHT}
    assert outcome["content"][0]["toolResult"]["content"] == [{"text": "5"}]
    assert bodies[0]["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]["required"] == ["a", "b"]


async def test_a_stream_of_a_session_shows_text_as_it_comes():
    with serving(streamed(ASKS), streamed(*(SAYS[at : at + 50] for at in range(0, len(SAYS), 50)))) as server:
        async with (
            hosting(server) as host, await host.session() as session, session.stream("What is 2 + 3?") as told,
        ):  # fmt: skip
            shown = [event.text async for event in told if isinstance(event, TextShown)]

    assert "".join(shown) == "I add.It is 5."


async def test_an_exception_after_text_is_the_end_of_the_turn():
    broken = START + piece(0, text="It is") + exception("modelStreamErrorException", "the model failed")
    with serving(streamed(broken)) as server:
        async with hosting(server) as host, await host.session() as session:
            with pytest.raises(ProviderError) as caught:
                await session.say("hi")

    assert caught.value.kind is Kind.UNAVAILABLE
    assert "the model failed" in str(caught.value)


async def test_a_host_embeds_with_bedrock():
    body = b'{"embedding": [0.5, -0.5], "inputTextTokenCount": 3}'
    with serving(answer(body)) as server:
        async with hosting(server) as host:
            response = await host.embed("bedrock/amazon.titan-embed-text-v2:0", ["tea"])

    assert (list(response.vectors[0]), response.usage.input) == ([0.5, -0.5], 3)
