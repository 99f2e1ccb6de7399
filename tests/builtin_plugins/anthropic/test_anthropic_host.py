"""Whole turns of a host with this provider, against a server on loopback."""

import json

import pytest
from anthropic_server import KEY, broken_rules, call, events, plugin_at, sse, streamed, text, whole
from odd_server import CLOSE, STREAM_HEAD, OddServer, http_chunk, json_answer
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind, Refusal, TextShown, tool
from pluggent_host import Host, Why

THOUGHT = {"type": "thinking", "thinking": "Adding.", "signature": "c2ln"}
ASKS = (THOUGHT, text("I add."), call(arguments={"a": 2, "b": 3}))
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


pytestmark = pytest.mark.usefixtures("patience")


def hosting(server: OddServer, **settings):
    plugin, _ = plugin_at(server.url, **settings)
    return Host.open(model="anthropic/opus-5", plugins=[plugin], tools=[add], installed=False)


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_a_turn_with_a_tool_goes_there_and_back(streams):
    answer = streamed if streams else whole
    script = (answer(*ASKS, reason="tool_use"), answer(text("It is 5.")), answer(text("Bye.")))
    async with OddServer(*script) as server, hosting(server, stream=streams) as host, await host.session() as session:
        result = await session.say("What is 2 + 3?")
        await session.say("Thanks")

    bodies = [sent.json for sent in server.requests]
    assert (result.text.endswith("It is 5."), result.why) == (True, Why.COMPLETED)
    assert (result.usage.input, result.usage.output, result.usage.cached) == (36, 14, 10)
    assert [broken_rules(body, system_turns=True) for body in bodies] == [[], [], []]
    assert [block["type"] for block in bodies[1]["messages"][1]["content"]] == ["thinking", "text", "tool_use"]
    assert bodies[1]["messages"][1]["content"][0] == THOUGHT
    assert bodies[1]["messages"][2]["content"][0]["content"] == "5"
    assert json.dumps(bodies[2]["messages"]).count("It is 5.") == 1
    assert bodies[0]["tools"][0]["input_schema"]["required"] == ["a", "b"]


async def test_a_stream_of_a_session_shows_text_as_it_comes():
    script = (streamed(*ASKS, reason="tool_use"), streamed(text("It is 5.")))
    async with (
        OddServer(*script) as server, hosting(server) as host, await host.session() as session,
        session.stream("What is 2 + 3?") as told,
    ):  # fmt: skip
        shown = [event.text async for event in told if isinstance(event, TextShown)]

    assert "".join(shown) == "I add.It is 5."


async def test_a_paused_reply_is_sent_back_and_goes_on():
    script = (streamed(text("Looking"), SEARCH, reason="pause_turn"), streamed(FOUND, text(" found.")))
    async with OddServer(*script) as server, hosting(server) as host, await host.session() as session:
        result = await session.say("Search x")

    assert result.why is Why.COMPLETED
    second = server.requests[1].json["messages"]
    assert [block["type"] for block in second[-1]["content"]] == ["text", "server_tool_use"]
    assert second[-1]["content"][1] == SEARCH


async def test_arguments_that_are_no_json_are_told_to_the_model_which_sees_what_it_wrote():
    odd = [
        {"type": "content_block_start", "index": 0, "content_block": call()},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": '}},
        {"type": "content_block_stop", "index": 0},
    ]
    begun = events(reason="tool_use")
    broken = (STREAM_HEAD, http_chunk(sse(begun[0], *odd, *begun[2:])), b"0\r\n\r\n")
    script = (broken, streamed(text("Sorry.")))
    async with OddServer(*script) as server, hosting(server) as host, await host.session() as session:
        result = await session.say("What is 2 + 3?")

    asked, answered = server.requests[1].json["messages"][1:3]
    assert result.why is Why.COMPLETED
    assert asked["content"][0]["input"] == {"_invalid": '{"a": '}
    assert answered["content"][0]["is_error"] is True


async def test_a_refusal_is_said_and_ends_the_turn():
    refused = [*events(), {"type": "message_stop"}]
    refused[-3] = {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "Not that."}},
        "usage": {"output_tokens": 1},
    }
    answer = (STREAM_HEAD, http_chunk(sse(*refused)), b"0\r\n\r\n")
    async with OddServer(answer) as server, hosting(server) as host, await host.session() as session:
        result = await session.say("Do something bad")

    assert result.message is not None
    assert result.message.content == (Refusal("Not that."),)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (
            json_answer({"type": "error", "error": {"type": "overloaded_error"}}, 529),
            Kind.UNAVAILABLE,
        ),
        ((STREAM_HEAD, http_chunk(sse(*events(text("Hello"))[:4])), CLOSE), Kind.STREAM_BROKEN),
    ],
)
async def test_a_model_that_cannot_be_asked_is_an_error_of_the_turn(answer, kind):
    async with OddServer(answer) as server, hosting(server) as host, await host.session() as session:
        with pytest.raises(ProviderError) as caught:
            await session.say("hello")

    assert caught.value.kind is kind
    assert KEY not in str(caught.value)


async def test_a_session_that_is_opened_again_sends_the_same_history(tmp_path):
    script = (streamed(*ASKS, reason="tool_use"), streamed(THOUGHT, text("It is 5.")), streamed(text("Bye.")))
    known = ""
    async with OddServer(*script) as server:
        for words in ("What is 2 + 3?", "Thanks"):
            plugin, _ = plugin_at(server.url, cache="off")
            options = {"plugins": [plugin], "tools": [add], "installed": False, "state_dir": tmp_path}
            async with Host.open(model="anthropic/opus-5", **options) as host, await host.session(known) as session:
                known = session.id
                result = await session.say(words)

    before, after = server.requests[1].json["messages"], server.requests[2].json["messages"]
    assert result.text == "Bye."
    assert after[: len(before)] == before
    assert after[3]["content"] == [THOUGHT, text("It is 5.")]
