"""Thinking between tags in the text: the same parts however the text is cut, and no tag that is only written about."""

import json
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st
from openai_server import DONE, STOP, event, reader
from pluggent_hookspecs import Message, ModelRequest, Reasoning, ReasoningDelta, Reply, Text, TextDelta, ToolCall
from pluggent_openai.chat.reply import read_reply
from pluggent_openai.chat.think_tags import ThinkTags
from pluggent_openai.chat.wire import ChatWire
from pluggent_openai.dialects import Dialect, dialect_for
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.server_errors import Faults

TAGS = dialect_for("http://127.0.0.1:8000/v1")
NO_TAGS = dialect_for("https://api.openai.com/v1")
FAULTS = Faults("openai", "http://x/v1")
WORDS = ["<think>", "</think>", "<think", "</", ">", "<", "`</think>`", '"<think>"', "\n", " ", "hm", "Yes.", "é🎉"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


def parted(*pieces: str) -> tuple[str, str]:
    """Return the thinking and the text of a reply in *pieces*; thinking stands first."""
    tags, batch = ThinkTags(), Batch()
    for piece in pieces:
        tags.feed(piece, batch)
    tags.end(batch)
    deltas = batch.done()
    kinds = [type(delta) for delta in deltas]
    assert kinds in ([], [TextDelta], [ReasoningDelta], [ReasoningDelta, TextDelta])
    thought = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return thought, "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>hm</think>Yes.", "hm", "Yes."),
        ("\n<think>\nhm\n</think>\n\nYes.", "hm\n", "Yes."),
        ("<think></think>Yes.", "", "Yes."),
        ("<think>it never ends", "it never ends", ""),
        ("<think>a `</think>` is a tag</think>Yes.", "a `</think>` is a tag", "Yes."),
        ("<think>hm</think>Then <think>no</think>.", "hm", "Then <think>no</think>."),
        ("Write <think> first.", "", "Write <think> first."),
        ("`<think>` is a tag", "", "`<think>` is a tag"),
        ("<thinking>no</thinking>", "", "<thinking>no</thinking>"),
        ("hm</think>Yes.", "", "hm</think>Yes."),
        ("<thi", "", "<thi"),
        (" \n ", "", " \n "),
        ("", "", ""),
    ],
)
def test_thinking_is_what_tags_at_the_beginning_enclose(text: str, thought: str, said: str) -> None:
    assert parted(text) == (thought, said)
    assert parted(*text) == (thought, said)


@given(st.booleans(), texts, st.data())
@example(True, "a</think>b", st.none())
def test_the_parts_are_the_same_however_the_text_is_cut(thinks: bool, text: str, data: st.DataObject) -> None:
    whole = f"<think>{text}" if thinks else text
    if isinstance(data, st.DataObject):
        places = sorted({0, len(whole), *data.draw(st.lists(st.integers(0, len(whole)), max_size=10))})
    else:
        places = list(range(len(whole) + 1))

    assert parted(*(whole[start:end] for start, end in pairwise(places))) == parted(whole)


@given(texts)
def test_no_character_but_tags_and_white_space_around_them_is_lost(text: str) -> None:
    thought, said = parted(text)

    assert _bare(thought + said) == _bare(text)


def _bare(text: str) -> str:
    return text.replace("<think>", "").replace("</think>", "").translate(dict.fromkeys(map(ord, " \n")))


def streamed(dialect: Dialect, *deltas: Mapping[str, object]) -> tuple[object, ...]:
    """Return the content of a reply whose events have *deltas*."""
    reading = reader(dialect=dialect)
    reply = Reply()
    body = b"".join(event({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas) + STOP + DONE
    for at in range(0, len(body), 7):
        reply.add(reading.feed(body[at : at + 7]))
    reply.add(reading.end())
    assert reading.failure is None
    return reply.response().message.content


def whole(dialect: Dialect, **message: object) -> tuple[object, ...]:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    request = ModelRequest("m", (Message.user("hi"),))
    return read_reply(json.dumps({"choices": [choice]}).encode(), request, dialect, FAULTS).message.content


def test_a_stream_and_a_whole_reply_have_the_same_parts() -> None:
    pieces = ("<th", "ink>", "h", "m</", "think>\n", "\nYes", ".")

    assert streamed(TAGS, {"role": "assistant"}, *({"content": piece} for piece in pieces)) == (
        Reasoning("hm"), Text("Yes."),
    )  # fmt: skip
    assert whole(TAGS, content="".join(pieces)) == (Reasoning("hm"), Text("Yes."))


def test_a_server_that_parts_thinking_itself_switches_tags_off() -> None:
    text = "<think>hm</think>Yes."

    assert whole(NO_TAGS, content=text) == (Text(text),)
    assert streamed(NO_TAGS, {"content": text}) == (Text(text),)
    assert whole(TAGS, content=text, reasoning_content="so") == (Reasoning("so"), Text(text))
    assert streamed(TAGS, {"reasoning_content": "so"}, {"content": text}) == (Reasoning("so"), Text(text))


def test_what_was_held_is_not_lost_where_the_stream_turns_to_something_else() -> None:
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": "{}"}}]}

    assert streamed(TAGS, {"content": "<thi"}) == (Text("<thi"),)
    assert streamed(TAGS, {"content": "<thi"}, call) == (Text("<thi"),)
    assert streamed(TAGS, {"content": "<think>hm"}, call) == (Reasoning("hm"),)


@pytest.mark.parametrize(("model", "tagged"), [("zai-glm-4.7", True), ("qwen-3-32b", False)])
def test_glm_at_cerebras_gets_its_thinking_back_between_tags(model: str, tagged: bool) -> None:
    wire = ChatWire(dialect_for("https://api.cerebras.ai/v1"))
    call = ToolCall("call_1", "add", '{"a": 1}')
    spoken, called = Message.assistant((Reasoning("hm"), Text("Four."))), Message.assistant((Reasoning("so"),), (call,))
    request = ModelRequest(model, (Message.user("hi"), spoken, Message.user("go on"), called, Message.tool(call, "1")))

    sent = json.loads(wire.encode(request, FAULTS, stream=False).data)

    contents = [message["content"] for message in sent["messages"] if message["role"] == "assistant"]
    assert contents == (["<think>hm</think>\nFour.", "<think>so</think>\n"] if tagged else ["Four.", None])
    assert sent.get("clear_thinking") == (False if tagged else None)
