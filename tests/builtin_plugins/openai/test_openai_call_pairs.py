"""Histories in which a call or a result is alone: what a policy, an undo or another program leaves is still sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import CachePoint, Image, Message, ModelRequest, Text, ToolCall
from pluggent_openai.chat.request import Writer
from pluggent_openai.dialects import Dialect
from pluggent_openai.wire import Body
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1", "m")
A, B = ToolCall("a", "add"), ToolCall("b", "look")
USER, DONE, HELLO = Message.user("hi"), Message.assistant("done"), Message.system("hello")
ASKS, ASKS_BOTH = Message.assistant((), (A,)), Message.assistant((), (A, B))
GAVE_A, GAVE_B = Message.tool(A, "3"), Message.tool(B, "4")
PICTURE = Message.tool(A, (Text("see"), Image(url="https://x/p.png")))
ONE_MISSING = "one earlier call has no result in the conversation: the model was told so"
ONE_ORPHAN = "one earlier result has no call in the conversation: sent as words of the user"


def body(*messages: Message, dialect: Dialect | None = None) -> Body:
    return Writer(dialect or Dialect()).body(ModelRequest("m", messages), FAULTS, stream=False)


def shape(sent: Body) -> str:
    """Return what is sent, in short: role, ids of calls and of results, ``-`` for a result that is missing."""
    return " ".join(map(_short, json.loads(sent.data)["messages"]))


def _short(message: dict[str, Any]) -> str:
    ids = "".join(call["id"] for call in message.get("tool_calls", ()))
    missing = "-" if message["content"] == "(no result was recorded)" else ""
    return message["role"][0] + ids + message.get("tool_call_id", "") + missing


@pytest.mark.parametrize(
    ("messages", "sent", "notes"),
    [
        ((USER, ASKS, GAVE_A, DONE), "u aa ta a", ()),
        ((USER, ASKS_BOTH, GAVE_A, GAVE_B), "u aab ta tb", ()),
        ((USER, ASKS_BOTH, GAVE_B, GAVE_A), "u aab tb ta", ()),
        ((ASKS, GAVE_A, ASKS, GAVE_A), "aa ta aa ta", ()),
        ((USER, ASKS), "u aa ta-", (ONE_MISSING,)),
        ((USER, ASKS, USER), "u aa ta- u", (ONE_MISSING,)),
        ((ASKS, DONE, USER), "aa ta- a u", (ONE_MISSING,)),
        ((ASKS_BOTH, GAVE_B, USER), "aab tb ta- u", (ONE_MISSING,)),
        ((ASKS_BOTH, ASKS, GAVE_A), "aab ta- tb- aa ta",
         ("2 earlier calls have no result in the conversation: the model was told so",)),
        ((GAVE_A, USER), "u u", (ONE_ORPHAN,)),
        ((USER, ASKS, GAVE_A, GAVE_A), "u aa ta u", (ONE_ORPHAN,)),
        ((USER, ASKS_BOTH, GAVE_A, DONE, GAVE_B), "u aab ta tb- a u", (ONE_MISSING, ONE_ORPHAN)),
        ((ASKS_BOTH, Message.tool(ToolCall("c", "new"), "5"), GAVE_A, GAVE_B), "aab ta tb u", (ONE_ORPHAN,)),
        ((ASKS_BOTH, GAVE_A, HELLO, USER, GAVE_B, DONE), "aab ta tb s u a", ()),
        ((ASKS_BOTH, PICTURE, USER), "aab ta tb- u u", (ONE_MISSING,)),
        ((PICTURE, DONE), "u u a", (ONE_ORPHAN,)),
    ],
)  # fmt: skip
def test_calls_have_their_results_behind_them_and_results_their_calls(messages, sent, notes):
    made = body(*messages)

    assert (shape(made), made.notes) == (sent, notes)


def test_a_history_that_was_sent_before_and_has_changed_is_looked_at_again():
    talk = (USER, ASKS, GAVE_A, DONE, ASKS, GAVE_A)

    assert shape(body(*talk)) == "u aa ta a aa ta"
    assert shape(body(*talk, USER)) == "u aa ta a aa ta u"
    assert shape(body(*talk[:1], *talk[2:])) == "u u a aa ta"
    assert shape(body(*talk[:2], *talk[3:])) == "u aa ta- a aa ta"
    assert shape(body(*talk, GAVE_A)) == "u aa ta a aa ta u"
    assert shape(body(*talk, ASKS)) == "u aa ta a aa ta aa ta-"


def test_a_result_without_its_call_says_what_it_is():
    words, shown = json.loads(body(PICTURE).data)["messages"]

    assert words["content"] == "Returned by a tool call (add) that is not in this conversation:\nsee"
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]


def test_ids_that_a_server_wants_shorter_are_those_of_calls_and_of_missing_results():
    asks, result = json.loads(body(ASKS, dialect=Dialect(call_id_chars=9)).data)["messages"]

    assert len(result["tool_call_id"]) == 9
    assert asks["tool_calls"][0]["id"] == result["tool_call_id"]


def test_a_cache_point_that_is_left_out_changes_no_pairs():
    said = Message.tool(A, (Text("3"), CachePoint()))

    made = body(Message.assistant((Text("x"), CachePoint()), (A,)), said, dialect=Dialect(cache=False))

    assert shape(made) == "aa ta"
    assert len(made.notes) == 1
    assert "a cache point of 2 messages" in made.notes[0]


@given(st.lists(st.sampled_from((USER, DONE, HELLO, ASKS, ASKS_BOTH, GAVE_A, GAVE_B, PICTURE))))
def test_however_a_history_has_grown_each_call_has_its_result_and_nothing_is_lost(messages):
    for end in range(1, len(messages)):  # what was found in order before is not looked at again
        body(*messages[:end])
    sent = json.loads(body(*messages).data)["messages"]

    waiting: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []
    words = json.dumps(sent)
    for said in (USER, DONE, HELLO, GAVE_A, GAVE_B, PICTURE):
        assert words.count(f'"{said.text}"') + words.count(f'\\n{said.text}"') == messages.count(said)
