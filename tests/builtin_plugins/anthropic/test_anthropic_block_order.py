"""Replies go back block by block as they came, also where parts of a message do not show the blocks."""

import pytest
from anthropic_server import call, sent, streamed_reply, text, whole_reply
from hypothesis import given, strategies as st
from pluggent_hookspecs import Message, ModelRequest, Text, VendorPart

CITED = [{"type": "page_location", "cited_text": "x", "document_index": 0}]
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]}
REDACTED = {"type": "redacted_thinking", "data": "xyz"}


def back(message: Message) -> list:
    """Return the blocks that *message* goes back as, in the middle of a conversation."""
    results = [Message.tool(made, "r") for made in message.tool_calls]
    body = sent(ModelRequest("opus-5", (Message.user("q"), message, *results, Message.user("r"))))
    return body["messages"][1]["content"]


both = pytest.mark.parametrize("replied", [whole_reply, streamed_reply], ids=["whole", "streamed"])


@both
@pytest.mark.parametrize(
    "blocks",
    [
        [text("a"), text("b")],
        [text("a"), text("b", citations=CITED), text("c")],
        [THOUGHT, text("a"), SEARCH, FOUND, text("b", citations=CITED)],
        [text("a"), call(), text("b")],
        [THOUGHT, call(arguments={"a": 1}), THOUGHT, call(id="toolu_2")],
        [THOUGHT, THOUGHT, REDACTED, text("a")],
        [text("\N{SNOWMAN}"), text("\N{GRINNING FACE}b"), call(caller={"type": "direct"})],
        [{"type": "thinking", "thinking": "", "signature": "sig"}, text("a")],
        [{"type": "mcp_tool_use", "id": "m1", "input": {}}, {"type": "mcp_tool_result", "tool_use_id": "m1"}],
    ],
)
def test_a_reply_goes_back_as_it_came(blocks, replied):
    assert back(replied(*blocks).message) == blocks


@both
def test_a_plain_reply_keeps_nothing_beside_itself(replied):
    assert replied(text("a"), call(arguments={"a": 1})).message.extra == {}


@both
@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts[:-1],
        lambda parts: (Text("redacted"), *parts[1:]),
        lambda parts: (*parts, Text("more")),
        lambda parts: parts[::-1],
        lambda parts: (VendorPart("anthropic", SEARCH), *parts),
    ],
)
def test_a_message_that_was_changed_goes_back_as_it_is_now(change, replied):
    message = replied(text("a"), SEARCH, FOUND, text("bc"), text("d", citations=CITED)).message
    parts = change(message.content)
    changed = Message(message.role, parts, extra=message.extra)

    texts = [block["text"] for block in back(changed) if block["type"] == "text"]

    assert "".join(texts) == "".join(part.text for part in parts if isinstance(part, Text))


@pytest.mark.parametrize("layout", [3, "part", ["x"], [True, None], [{"text": "x"}], [-1], [10**30], [[]]])
def test_a_layout_that_is_none_is_not_followed(layout):
    message = Message.assistant("abc")
    broken = Message(message.role, message.content, extra={"anthropic": {"blocks": layout}})

    assert back(broken) == [text("abc")]


blocks = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=3).filter(str.strip).map(text),
        st.text("ab", min_size=1, max_size=3).map(lambda said: text(said, citations=CITED)),
        st.sampled_from((THOUGHT, REDACTED)),
        st.integers().map(lambda n: {"type": "search_tool_result", "tool_use_id": "s", "n": n}),
    ),
    max_size=6,
)


@given(blocks, st.integers(0, 3))
def test_any_reply_goes_back_as_it_came(made, calls):
    made = [*made, *(call(id=f"toolu_{number}") for number in range(calls)), text("end")]
    pair = [{"type": "server_tool_use", "id": "s", "input": {}}, {"type": "x_tool_result", "tool_use_id": "s"}]

    for replied in (whole_reply, streamed_reply):
        assert back(replied(*pair, *made).message) == [*pair, *made]
