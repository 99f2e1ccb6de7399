"""Every conversation that the contract allows becomes a request that keeps the API's rules."""

import json
import re

import pytest
from anthropic_server import broken_rules, count_marks, sent, turns
from hypothesis import given, settings as depth, strategies as st
from pluggent_hookspecs import (
    Audio,
    Image,
    Message,
    ModelRequest,
    ProviderError,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)

A, B = ToolCall("toolu_a", "add", '{"a":1}'), ToolCall("toolu_b", "add", '{"a":2}')
OURS = {"anthropic": {"model": "m"}}
SEARCH = VendorPart("anthropic", {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}})
FOUND = VendorPart("anthropic", {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []})


def said(*found) -> list[tuple[str, list]]:
    """Return roles and what is in them, shortened."""
    short = {"text": "text", "tool_use": "id", "tool_result": "tool_use_id", "thinking": "thinking"}
    return [(one["role"], [block.get(short.get(block["type"], ""), block["type"]) for block in one["content"]])
            for one in found]  # fmt: skip


def reply(*parts, calls=(), extra=None) -> Message:
    return Message(Role.ASSISTANT, tuple(Text(p) if isinstance(p, str) else p for p in parts), calls, extra=extra or {})


def test_messages_of_one_role_in_a_row_become_one_turn():
    found = turns(Message.user("a"), Message.user("b"), reply("c"), reply("d"), Message.user("e"))

    assert said(*found) == [("user", ["a", "b"]), ("assistant", ["c", "d"]), ("user", ["e"])]


def test_results_come_first_and_in_the_order_of_their_calls():
    found = turns(
        Message.user("q"), reply("ok", calls=(A, B)), Message.user("wait"), Message.tool(B, "2"), Message.tool(A, "1")
    )

    assert said(*found)[-1] == ("user", ["toolu_a", "toolu_b", "wait"])


def test_a_call_without_a_result_gets_one_that_says_so():
    found = turns(Message.user("q"), reply(calls=(A, B)), Message.tool(B, "2"), Message.user("go on"))

    assert found[-1]["content"][0] == {
        "type": "tool_result", "tool_use_id": "toolu_a", "content": "(no result was recorded)", "is_error": True,
    }  # fmt: skip
    assert said(*found)[-1] == ("user", ["toolu_a", "toolu_b", "go on"])


def test_calls_at_the_end_get_results_too():
    assert said(*turns(Message.user("q"), reply(calls=(A,))))[-1] == ("user", ["toolu_a"])


def test_calls_between_two_replies_get_their_results_between_them():
    found = turns(Message.user("q"), reply(calls=(A,)), reply("done"), Message.user("ok"))

    assert [one["role"] for one in found] == ["user", "assistant", "user", "assistant", "user"]


def test_a_result_of_no_call_is_told_as_text():
    found = turns(Message.user("q"), Message.tool(A, "1"), reply("ok"), Message.user("go on"))

    assert said(*found)[0] == ("user", ["q", "Result of an earlier call of add:", "1"])


def test_an_id_that_occurs_twice_is_another_one_the_second_time():
    round_ = [Message.user("q"), reply(calls=(A,)), Message.tool(A, "1")]
    found = turns(*round_, *round_)

    assert said(*found) == [
        ("user", ["q"]), ("assistant", ["toolu_a"]), ("user", ["toolu_a", "q"]),
        ("assistant", ["toolu_a_2"]), ("user", ["toolu_a_2"]),
    ]  # fmt: skip


def test_two_calls_of_one_id_in_a_reply_keep_both_results_apart():
    found = turns(Message.user("q"), reply(calls=(A, A)), Message.tool(A, "1"), Message.tool(A, "2"))

    assert said(*found)[1:] == [("assistant", ["toolu_a", "toolu_a_2"]), ("user", ["toolu_a", "toolu_a_2"])]
    assert [block["content"] for block in found[2]["content"]] == ["1", "2"]


def test_some_results_of_a_reply_do_not_hide_that_one_is_missing():
    found = turns(Message.user("q"), reply(calls=(A, B)), Message.tool(A, "1"), reply("so"), Message.user("r"))

    assert said(*found)[2] == ("user", ["toolu_a", "toolu_b"])


def test_ids_of_other_vendors_are_mapped_always_alike():
    other = ToolCall("call.1|fc", "a.b", "{}")
    first = turns(Message.user("q"), reply(calls=(other,)), Message.tool(other, "1"))
    longer = turns(Message.user("q"), reply(calls=(other,)), Message.tool(other, "1"), reply("ok"), Message.user("?"))

    assert first == longer[:3]
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", first[1]["content"][0]["id"])
    assert first[1]["content"][0]["id"] == first[2]["content"][0]["tool_use_id"]


def test_blank_texts_and_empty_messages_are_left_out():
    found = turns(Message.user("q"), reply("  "), Message.user(""), Message.user(" \n"), Message.user("r"))

    assert said(*found) == [("user", ["q", "r"])]


def test_a_conversation_that_begins_with_a_reply_gets_a_beginning():
    assert said(*turns(reply("c"), Message.user("d"))) == [
        ("user", ["(earlier messages are left out)"]), ("assistant", ["c"]), ("user", ["d"]),
    ]  # fmt: skip


@pytest.mark.parametrize("messages", [[], [Message.system("s")], [Message.user(" ")], [reply()]])
def test_a_conversation_that_says_nothing_is_refused(messages):
    with pytest.raises(ProviderError, match="no message says anything"):
        sent(ModelRequest("m", messages))


def test_a_reply_at_the_end_loses_its_trailing_white_space_there_only():
    assert said(*turns(Message.user("q"), reply("The answer: \n")))[-1] == ("assistant", ["The answer:"])
    assert said(*turns(Message.user("q"), reply("The answer: \n"), Message.user("r")))[1][1] == ["The answer: \n"]


# ---- system messages --------------------------------------------------------------------


def test_leading_system_messages_stand_before_the_conversation():
    body = sent(ModelRequest("m", (Message.system("a"), Message(Role.DEVELOPER, (Text("b"),)), Message.user("q"))))

    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert said(*body["messages"]) == [("user", ["q"])]


def test_a_later_system_message_stays_one_for_models_that_take_it():
    found = turns(
        Message.user("q"), Message.system("be terse"), Message.system("be kind"), reply("a"), Message.user("r")
    )

    assert said(*found) == [
        ("user", ["q"]), ("system", ["be terse", "be kind"]), ("assistant", ["a"]), ("user", ["r"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "messages", "expected"),
    [
        ("opus-4-1", (Message.user("q"), Message.system("s")), [("user", ["q", "<system>\ns\n</system>"])]),
        (
            "opus-5",
            (Message.user("q"), Message.system("s"), Message.user("r")),
            [("user", ["q", "<system>\ns\n</system>", "r"])],
        ),
        (
            "opus-5",
            (Message.user("q"), reply("a"), Message.system("s")),
            [("user", ["q"]), ("assistant", ["a"]), ("user", ["<system>\ns\n</system>"])],
        ),
    ],
)
def test_where_it_cannot_stand_it_is_a_block_of_the_user(model, messages, expected):
    assert said(*turns(*messages, model=model)) == expected


def test_a_system_message_after_results_stands_behind_them():
    found = turns(Message.user("q"), reply(calls=(A,)), Message.tool(A, "1"), Message.system("s"))

    assert said(*found)[2:] == [("user", ["toolu_a"]), ("system", ["s"])]


def test_a_system_message_holds_text_only():
    with pytest.raises(ProviderError, match="system message holds text only"):
        turns(Message(Role.SYSTEM, (Image(url="https://x/y.png"),)), Message.user("q"))


# ---- what goes back of replies ----------------------------------------------------------


def test_thinking_goes_back_only_signed_and_only_to_whom_it_came_from():
    signed, unsigned = Reasoning("deep", "sig"), Reasoning("shallow")
    ours, foreign = reply(signed, unsigned, "a", extra=OURS), reply(signed, "b")

    found = turns(Message.user("q"), ours, Message.user("r"), foreign, Message.user("s"))

    assert found[1]["content"] == [
        {"type": "thinking", "thinking": "deep", "signature": "sig"}, {"type": "text", "text": "a"},
    ]  # fmt: skip
    assert found[3]["content"] == [{"type": "text", "text": "b"}]


def test_a_reply_of_thinking_alone_is_left_out():
    redacted = VendorPart("anthropic", {"type": "redacted_thinking", "data": "x"})
    found = turns(Message.user("q"), reply(Reasoning("a", "s"), redacted, extra=OURS), Message.user("r"))

    assert said(*found) == [("user", ["q", "r"])]


def test_parts_of_other_vendors_are_left_out():
    foreign = VendorPart("openai", {"type": "x"})

    assert said(*turns(Message.user((Text("q"), foreign)), reply(foreign, "a", extra=OURS), Message.user("r"))) == [
        ("user", ["q"]), ("assistant", ["a"]), ("user", ["r"]),
    ]  # fmt: skip


def test_uses_and_results_of_the_vendors_tools_go_back_unchanged():
    found = turns(Message.user("q"), reply(SEARCH, FOUND, "a", extra=OURS), Message.user("r"))

    assert found[1]["content"][:2] == [dict(SEARCH.value), {**FOUND.value, "content": []}]


def test_a_paused_reply_goes_back_at_the_end_as_it_is_and_together_with_what_followed():
    paused, rest = reply("Looking", SEARCH, extra=OURS), reply(FOUND, "Found it.", extra=OURS)

    assert said(*turns(Message.user("q"), paused))[-1] == ("assistant", ["Looking", "server_tool_use"])
    assert said(*turns(Message.user("q"), paused, rest, Message.user("r")))[1] == (
        "assistant", ["Looking", "server_tool_use", "web_search_tool_result", "Found it."],
    )  # fmt: skip


def test_a_use_whose_result_never_came_is_left_out_and_so_is_a_result_without_its_use():
    assert said(*turns(Message.user("q"), reply("Looking", SEARCH, extra=OURS), Message.user("stop")))[1] == (
        "assistant", ["Looking"],
    )  # fmt: skip
    assert said(*turns(Message.user("q"), reply(SEARCH, extra=OURS), Message.user("stop")))[1] == (
        "assistant", ["(no answer)"],
    )  # fmt: skip
    assert said(*turns(Message.user("q"), reply(FOUND, "a", extra=OURS), Message.user("r")))[1] == (
        "assistant", ["a"],
    )  # fmt: skip


def test_pictures_and_sound_of_another_vendors_reply_leave_a_note():
    found = turns(Message.user("q"), reply(Image(data="x"), Audio("y"), Audio("y", transcript="hi")), Message.user("r"))

    assert said(*found)[1] == ("assistant", ["(image not shown)", "(audio not shown)", "hi"])


@pytest.mark.parametrize(
    ("arguments", "sent_as"),
    [
        ('{"a": 1.50}', {"a": 1.5}),
        ("", {}),
        ("{", {"_invalid": "{"}),
        ("[1]", {"_invalid": "[1]"}),
        ('{"a": NaN}', {"_invalid": '{"a": NaN}'}),
        ("[" * 5000, {"_invalid": "[" * 5000}),
        ('"\ud800"', {"_invalid": '"?"'}),
    ],
    ids=["object", "empty", "cut", "list", "nan", "deep", "surrogate"],
)
def test_arguments_go_back_as_an_object_whatever_the_model_wrote(arguments, sent_as):
    odd = ToolCall("toolu_a", "add", arguments)

    found = turns(Message.user("q"), reply(calls=(odd,)), Message.tool(odd, "no", is_error=True))

    assert found[1]["content"][0]["input"] == sent_as
    assert found[2]["content"][0] == {
        "type": "tool_result", "tool_use_id": "toolu_a", "content": "no", "is_error": True,
    }  # fmt: skip


def test_a_later_request_begins_with_the_same_bytes():
    messages = [
        Message.system("s"), Message.user("q"), reply("ok", calls=(A,)), Message.tool(A, "1"),
        reply(Reasoning("t", "s"), "a", extra=OURS), Message.user("r"),
    ]  # fmt: skip
    first = json.dumps(turns(*messages[:4]))
    later = json.dumps(turns(*messages))

    assert later.startswith(first[:-1])


# ---- any conversation -------------------------------------------------------------------

words = st.sampled_from(("", " ", "a", "b\n", "\N{SNOWMAN} ", "<system>"))
ids = st.sampled_from(("toolu_1", "toolu_2", "x.y", "", "call|3"))
calls = st.builds(ToolCall, ids, st.sampled_from(("add", "a.b")), st.sampled_from(("{}", '{"a":1}', "{oops", "3")))
vendor_ids = st.sampled_from(("s1", "s2"))
vendor = st.one_of(
    st.builds(lambda i: VendorPart("anthropic", {"type": "server_tool_use", "id": i, "input": {}}), vendor_ids),
    st.builds(lambda i: VendorPart("anthropic", {"type": "web_tool_result", "tool_use_id": i}), vendor_ids),
    st.just(VendorPart("anthropic", {"type": "redacted_thinking", "data": "x"})),
    st.just(VendorPart("openai", {"type": "y"})),
)
replied = st.one_of(
    st.builds(Text, words), st.builds(Refusal, words), st.builds(Reasoning, words, st.sampled_from((None, "sig"))),
    vendor, st.just(Image(data="x")),
)  # fmt: skip
asked = st.one_of(st.builds(Text, words), st.just(Image(url="https://x/y.png")), st.builds(Reasoning, words))
layouts = st.one_of(
    st.none(),
    st.just({"anthropic": {"model": "m"}}),
    st.builds(
        lambda entries: {"anthropic": {"model": "m", "blocks": entries}},
        st.lists(st.sampled_from((1, 2, "part", "call", {"text": 1, "citations": [{"x": 1}]})), max_size=4),
    ),
)
messages = st.one_of(
    st.builds(lambda parts: Message(Role.USER, parts), st.lists(asked, max_size=2)),
    st.builds(
        lambda parts, made, extra: Message(Role.ASSISTANT, parts, made, extra=extra or {}),
        st.lists(replied, max_size=4), st.lists(calls, max_size=3), layouts,
    ),
    st.builds(
        lambda made, parts, bad: Message(Role.TOOL, parts, tool_call_id=made, name="add", is_error=bad),
        ids, st.lists(asked, max_size=2), st.booleans(),
    ),
    st.builds(lambda text, role: Message(role, (Text(text),)), words, st.sampled_from((Role.SYSTEM, Role.DEVELOPER))),
)  # fmt: skip


@st.composite
def rounds(draw) -> list[Message]:
    """Draw a reply with calls and most of their results, in most cases in order."""
    answered = draw(st.lists(calls, min_size=1, max_size=3))
    results = [Message.tool(call, draw(words)) for call in answered]
    kept = draw(st.lists(st.booleans(), min_size=3, max_size=3))
    results = [result for result, keep in zip(results, kept, strict=False) if keep or draw(st.booleans())]
    results = draw(st.permutations(results)) if draw(st.booleans()) else results
    return [reply("x", calls=tuple(answered)), *results, *draw(st.lists(messages, max_size=1))]


conversations = st.lists(st.one_of(st.lists(messages, max_size=2), rounds()), max_size=5).map(
    lambda parts: [message for part in parts for message in part]
)


@depth(max_examples=400)
@given(conversations, st.booleans(), st.sampled_from(("off", "5m", "1h")))
def test_any_conversation_keeps_the_rules(conversation, modern, cache):
    asking = ModelRequest("opus-5" if modern else "opus-4-1", (*conversation, Message.user("go")), (ToolSpec("add"),))

    body = sent(asking, cache=cache)
    unfinished = sent(ModelRequest("m", (Message.user("q"), *conversation)), cache=cache)

    assert broken_rules(body, system_turns=modern) == []
    assert broken_rules(unfinished, system_turns=False) == []
    assert (count_marks(body) > 0) == (cache != "off")
