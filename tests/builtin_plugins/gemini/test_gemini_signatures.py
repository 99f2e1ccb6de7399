"""Signatures go back exactly where they came from, and nowhere else."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from gemini_schema import problems
from gemini_server import MODEL, call, contents, event, reply_of, said, signed, sse, text, thought, written
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    CachePoint,
    FinishReason,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    VendorPart,
    thaw,
)
from pluggent_testing.providers.asking import WEATHER

CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
PARALLEL = (signed(call("add", a=1), "c2lnbi1h"), call("add", a=2), call("sub", a=3))
SKIPPED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def back(reply: Message, **more: Any) -> list[dict[str, Any]]:
    """Return the parts of *reply* as they are sent, without ids of calls that the vendor gave none."""
    results = [Message.tool(made, "3") for made in reply.tool_calls]
    body, _ = written(Message.user("hi"), reply, *results, Message.user("go on"), **more)
    assert problems(body) == []
    parts = body["contents"][1]["parts"]
    for part in parts:
        part.get("functionCall", {}).pop("id", None)
    return list(parts)


@pytest.mark.parametrize(
    "parts",
    [
        PARALLEL,
        (text("Let me see."), *PARALLEL),
        (thought("I add."), *PARALLEL),
        (signed(text("Hello."), "c2lnbg=="), text(" And more.")),
        (text("Hello."), signed(text(""), "c2lnbg==")),
        (thought("a"), signed(thought("b"), "eA=="), thought("c"), text("d")),
        (text("before "), PARALLEL[0], text("between"), PARALLEL[1]),
        (signed(CODE, "eA=="), {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, text("1")),
        (text("see"), signed(IMAGE, "eA=="), text("this")),
        ({"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "t", "args": {}}, "thoughtSignature": "eA=="}, text("x")),
    ],
)
def test_the_parts_of_a_reply_go_back_as_they_came(parts: tuple[dict[str, Any], ...]) -> None:
    assert back(said(*parts).message) == list(parts)


def test_a_cache_point_in_a_reply_does_not_break_its_seal() -> None:
    reply = said(*PARALLEL).message

    assert back(attrs.evolve(reply, content=(*reply.content, CachePoint()))) == list(PARALLEL)


def test_an_empty_text_without_a_signature_is_nothing() -> None:
    reply = said(PARALLEL[0], text(""))

    assert back(reply.message) == [PARALLEL[0]]
    assert reply.finish_reason is FinishReason.TOOL_CALLS


def test_neighbouring_texts_without_a_signature_are_one_part() -> None:
    assert back(said(text("a"), text("b"), signed(text("c"), "eA==")).message) == [
        text("ab"),
        signed(text("c"), "eA=="),
    ]


def test_calls_without_ids_get_distinct_ones_and_their_results_follow_in_order() -> None:
    asked = ModelRequest(MODEL, (Message.assistant((), (ToolCall("call_0", "add"),)),))
    reply = said(*PARALLEL, asked=asked).message
    first, second, third = reply.tool_calls

    sent = contents(Message.user("hi"), reply, *(Message.tool(made, made.arguments) for made in (third, first, second)))

    assert [made.id for made in reply.tool_calls] == ["call_1", "call_2", "call_3"]
    results = [part["functionResponse"] for part in sent[2]["parts"]]
    assert [(result["id"], result["response"]) for result in results] == [
        ("call_1", {"output": '{"a": 1}'}),
        ("call_2", {"output": '{"a": 2}'}),
        ("call_3", {"output": '{"a": 3}'}),
    ]


def test_a_reply_that_was_changed_goes_back_without_signatures_and_the_meta_says_so() -> None:
    reply = said(thought("hm"), text("secret"), *PARALLEL).message
    changed = attrs.evolve(reply, content=(reply.content[0], Text("[removed]")))
    results = [Message.tool(made, "3") for made in changed.tool_calls]

    body, sent = written(Message.user("hi"), changed, *results)

    assert body["contents"][1]["parts"][0] == text("[removed]")
    assert [part.get("thoughtSignature") for part in body["contents"][1]["parts"]] == [None, SKIPPED, None, None]
    assert sent.notes == (
        "the thinking of one earlier reply was left out: changed since, cut off, or of another model or server",
    )


@pytest.mark.parametrize(("model", "target"), [("gemini-3-pro", None), (MODEL, "https://vertex.test")])
def test_signatures_do_not_travel_to_another_model_or_server(model: str, target: str | None) -> None:
    reply = said(thought("hm"), *PARALLEL).message
    elsewhere = {"model": model, **({"target": target} if target else {})}

    parts = back(reply, **elsewhere)

    assert [part.get("thoughtSignature") for part in parts] == [SKIPPED, None, None]


def test_calls_of_another_vendor_are_marked_where_the_model_wants_signatures() -> None:
    foreign = Message.assistant((Reasoning("hm", "foreign"), Text("so")), (ToolCall("toolu_1", "add", '{"a":1}'),))
    history = (Message.user("hi"), foreign, Message.tool(foreign.tool_calls[0], "1"))

    new, notes = written(*history)
    old, _ = written(*history, model="gemini-2.0-flash")

    assert problems(new, signed=True) == []
    assert new["contents"][1]["parts"] == [
        text("so"),
        {"functionCall": {"id": "toolu_1", "name": "add", "args": {"a": 1}}, "thoughtSignature": SKIPPED},
    ]
    assert "thoughtSignature" not in old["contents"][1]["parts"][1]
    assert [note.partition(":")[0] for note in notes.notes] == ["the thinking of one earlier reply was left out"]


def test_a_reply_that_was_cut_off_goes_back_without_its_vendor_parts() -> None:
    cut = Message.assistant((VendorPart("gemini", signed(CODE, "eA==")), Text("so")))

    assert contents(Message.user("hi"), cut)[1]["parts"] == [text("so")]


def test_a_signature_of_an_application_counts_as_none() -> None:
    made = ToolCall("c", "add", "{}", {"gemini": {"thoughtSignature": "mine"}})

    (part,) = contents(Message.user("hi"), Message.assistant((), (made,)), Message.tool(made, "1"))[1]["parts"]

    assert part["thoughtSignature"] == SKIPPED


def test_notes_that_another_program_has_written_are_ignored() -> None:
    reply = said(*PARALLEL).message
    for parts in (7, [7, None], [{"text": "x"}], ["call"], ["part"] * 9, [{"thought": 1, "signed": True}]):
        own: Any = thaw(reply.extra["gemini"])
        damaged = attrs.evolve(reply, extra={"gemini": {**own, "parts": parts}})

        assert [part.get("thoughtSignature") for part in back(damaged)] == [SKIPPED, None, None]


def test_a_stream_and_a_whole_answer_make_the_same_message() -> None:
    parts = (thought("hm"), signed(text("so"), "eA=="), *PARALLEL)

    whole = reply_of(sse(event(*parts, ends="STOP"))[6:])

    assert whole.message == said(*parts).message


PART = st.one_of(
    st.builds(text, st.text(max_size=3)),
    st.builds(thought, st.text(max_size=3)),
    st.builds(call, st.sampled_from(["add", "sub"]), a=st.integers(0, 9)),
    st.just(CODE),
    st.just(IMAGE),
)
SIGNED = st.builds(signed, PART, st.text("abc", min_size=1, max_size=4))


@given(st.lists(st.one_of(PART, SIGNED), min_size=1, max_size=8))
def test_any_parts_go_back_as_they_came_neighbours_joined(parts: list[dict[str, Any]]) -> None:
    reply = said(*parts).message
    expected: list[dict[str, Any]] = []
    for part in parts:
        last = expected[-1] if expected else {}
        if part.get("text") == "" and "thoughtSignature" not in part:
            continue
        joins = "text" in part and "text" in last and "thoughtSignature" not in {**part, **last}
        if joins and last.get("thought") == part.get("thought"):
            expected[-1] = {**last, "text": f"{last['text']}{part['text']}"}
        else:
            expected.append(part)
    if not expected:
        return

    assert back(reply) == expected


def test_thinking_without_a_signature_goes_back_to_its_model() -> None:
    reply = said(thought("hm"), text("so")).message

    assert back(reply) == [thought("hm"), text("so")]
    assert contents(Message.user("hi"), attrs.evolve(reply, extra={}), tools=(WEATHER,))[1]["parts"] == [text("so")]
