"""Cache points of the contract, in the words of each vendor; where there are none, the reply says so."""

from typing import Any

import pytest
from anthropic_server import message, text
from odd_server import OddServer, deltas_of, json_answer, stream_answer
from openai_server import DONE, HELLO, REPLY, STOP
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import CachePoint, Finished, Image, Message, ModelRequest, ProviderError, Text, ToolCall
from pluggent_hookspecs.messages import Role
from pluggent_openai.plugin import OpenAI
from pluggent_testing.providers import opened
from responses_server import answer as responses_answer, message as said, text as words

pytestmark = pytest.mark.usefixtures("patience")

POINT = CachePoint()
CALL = ToolCall("toolu_1", "add", '{"a": 1}')
SYSTEM = Message(Role.SYSTEM, (Text("Be brief."), POINT))
LONG = Message.user((Text("a long text"), CachePoint("1h"), Text("and a question")))
NOTE = "a cache point of a message was left out: this server is not known to keep what ends there"


async def sent_to(plugin: Any, whole: Any, *messages: Message, **settings: Any) -> tuple[dict[str, Any], Any]:
    """Return what *messages* are on the wire, and the reply."""
    async with OddServer(json_answer(whole)) as server, opened(plugin(plugin.Settings(
        base_url=server.url, api_key=None, **settings
    ))) as provider:  # fmt: skip
        reply = await provider.complete(ModelRequest("m", messages))
    return server.requests[0].json, reply


async def at_anthropic(*messages: Message, **settings: Any) -> dict[str, Any]:
    return (await sent_to(Anthropic, message(text("Hello")), *messages, stream=False, **settings))[0]


async def at_openai(*messages: Message, **settings: Any) -> tuple[dict[str, Any], Any]:
    responses = settings.get("api") == "responses"
    return await sent_to(OpenAI, responses_answer(said(words("Hello"))) if responses else REPLY, *messages, **settings)


async def test_anthropic_marks_the_block_before_a_point_and_sets_none_of_its_own():
    sent = await at_anthropic(SYSTEM, LONG)

    assert sent["system"] == [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "a long text", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "and a question"},
    ]


async def test_anthropic_marks_results_and_replies_as_a_whole():
    sent = await at_anthropic(
        Message.user("add"), Message.assistant((Text("I add."), POINT), (CALL,)), Message.tool(CALL, (Text("2"), POINT))
    )

    _, reply, result = sent["messages"]
    assert [block.get("cache_control") for block in reply["content"]] == [None, {"type": "ephemeral"}]
    assert result["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2", "cache_control": {"type": "ephemeral"}}
    ]


@pytest.mark.parametrize("settings", [{"api": "responses"}, {"api": "chat"}], ids=["responses", "chat"])
async def test_openai_marks_the_part_before_a_point(settings):
    picture = Message.user((Image(url="https://x/y.png"), CachePoint("30m"), Text("what is it?"), POINT))

    sent, reply = await at_openai(picture, compat={"like": "openai"}, **settings)

    (turn,) = sent["input"] if "input" in sent else sent["messages"]
    assert [part.get("prompt_cache_breakpoint") for part in turn["content"]] == [
        {"mode": "explicit", "ttl": "30m"},
        {"mode": "explicit"},
    ]
    assert reply.meta.notes == ()


async def test_a_reply_has_no_place_for_a_point_in_responses():
    history = (Message.user("hi"), Message.assistant((Text("Hello."), POINT)), Message.user("go on"))

    sent, reply = await at_openai(*history, api="responses", compat={"like": "openai"})

    assert sent["input"][1] == {"role": "assistant", "content": "Hello."}
    assert reply.meta.notes == (NOTE,)


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_server_that_knows_no_points_gets_none_and_the_reply_says_so(api):
    sent, reply = await at_openai(SYSTEM, LONG, Message.user((Text("b"), POINT)), api=api, compat={"like": "vllm"})

    assert "cache" not in str(sent)
    assert reply.meta.notes == (NOTE.replace("a message was", "3 messages was"),)


async def test_a_stream_says_so_too():
    async with (
        OddServer(stream_answer(HELLO, STOP, DONE)) as server,
        opened(OpenAI(OpenAI.Settings(base_url=server.url, api_key=None))) as provider,
    ):
        deltas = await deltas_of(provider, ModelRequest("m", (LONG,)))

    (end,) = [delta for delta in deltas if isinstance(delta, Finished)]
    assert end.meta.notes == (NOTE,)


async def test_a_result_of_a_tool_takes_no_point_in_chat_completions():
    history = (Message.user("add"), Message.assistant((), (CALL,)), Message.tool(CALL, (Text("2"), POINT)))

    sent, reply = await at_openai(*history, api="chat", compat={"like": "openai"})

    assert sent["messages"][2] == {"role": "tool", "content": "2", "tool_call_id": "toolu_1"}
    assert reply.meta.notes == (NOTE,)


async def test_a_point_with_nothing_before_it_is_refused():
    first = Message.user((POINT, Text("a")))

    with pytest.raises(ProviderError, match="nothing stands before it"):
        await at_anthropic(first)
    for api in ("responses", "chat"):
        with pytest.raises(ProviderError, match="nothing stands before it"):
            await at_openai(first, api=api, compat={"like": "openai"})


async def test_a_time_that_anthropic_does_not_keep_anything_for_is_refused():
    with pytest.raises(ProviderError, match="for 5m or 1h, not '30m'"):
        await at_anthropic(Message.user((Text("a"), CachePoint("30m"))))


async def test_one_message_is_marked_for_one_server_and_not_for_another():
    marked, _ = await at_openai(LONG, api="chat", compat={"like": "openai"})
    plain, reply = await at_openai(LONG, api="chat", compat={"like": "vllm"})

    assert "prompt_cache_breakpoint" in marked["messages"][0]["content"][0]
    assert "cache" not in str(plain)
    assert reply.meta.notes == (NOTE,)
