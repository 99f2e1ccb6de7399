"""Streams as servers send them: whole, cut anywhere, odd, broken; what they add up to."""

import json
from itertools import pairwise

import pytest
from anthropic_server import (
    block_events,
    broken_rules,
    call,
    events,
    message,
    read_stream,
    reader,
    reply_of,
    request,
    sent,
    sse,
    start,
    stop,
    stream_failure,
    streamed_reply,
    text,
    whole_reply,
)
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    Message,
    ModelRequest,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    ReasoningDelta,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    UsageDelta,
    VendorPart,
    thaw,
)

THOUGHT = {"type": "thinking", "thinking": "Let me \N{SNOWMAN} see", "signature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "\N{SNOWMAN}"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "https://x"}]}
ALL = (THOUGHT, text("I look"), SEARCH, FOUND, text("it up."), call(arguments={"a": "\N{GRINNING FACE}"}))
WHOLE = sse(*events(*ALL, reason="tool_use"))
BEGUN = sse(start())
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}


def piece(index: int = 0, **delta: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def said(index: int, words: str) -> dict[str, object]:
    return piece(index, type="text_delta", text=words)


# ---- what it adds up to -----------------------------------------------------------------


def test_a_stream_makes_what_the_whole_reply_is():
    streamed, whole = streamed_reply(*ALL, reason="tool_use"), whole_reply(*ALL, reason="tool_use")

    assert streamed.message.content == whole.message.content == (
        Reasoning(THOUGHT["thinking"], "c2ln"), Text("I look"), VendorPart("anthropic", SEARCH, "web_search"),
        VendorPart("anthropic", FOUND, "web_search"), Text("it up."),
    )  # fmt: skip
    assert [json.loads(one.message.tool_calls[0].arguments) for one in (streamed, whole)] == [ALL[-1]["input"]] * 2
    assert streamed.finish_reason is whole.finish_reason is FinishReason.TOOL_CALLS
    assert streamed.usage == whole.usage == Usage(input=18, output=7, cached=5, cache_write=3)
    assert streamed.message.extra == whole.message.extra == {"anthropic": {"model": "m-1"}}


def test_what_one_read_brings_is_one_batch():
    found = read_stream(BEGUN + sse(BLOCK, said(0, "Hel"), said(0, "lo"), *stop()))

    assert found == [
        UsageDelta(Usage(input=18, output=1, cached=5, cache_write=3)), TextDelta("Hello"),
        UsageDelta(Usage(input=18, output=7, cached=5, cache_write=3)),
        Finished(usage=Usage(input=18, output=7, cached=5, cache_write=3), model="m-1", id="msg_1"),
    ]  # fmt: skip


def test_thinking_comes_as_it_is_thought_and_its_signature_ends_it():
    found = read_stream(sse(start(), *block_events(0, THOUGHT), *stop()))

    assert found[1:3] == [ReasoningDelta(THOUGHT["thinking"]), ReasoningDelta("", "c2ln")]


def test_arguments_come_in_the_pieces_that_the_model_wrote():
    pieces = ['{"a"', ": 1.", "50}"]
    stream = [piece(type="input_json_delta", partial_json=one) for one in ("", *pieces)]
    begun = {"type": "content_block_start", "index": 0, "content_block": call()}

    found = read_stream(*(sse(one) for one in (start(), begun, *stream, *stop("tool_use"))))

    assert [one for one in found if isinstance(one, ToolCallDelta)] == [
        ToolCallDelta(0, "toolu_1", "add"), *(ToolCallDelta(0, arguments=one) for one in pieces),
    ]  # fmt: skip


def test_a_call_without_arguments_has_an_empty_object():
    begun = {"type": "content_block_start", "index": 0, "content_block": call()}
    ended = {"type": "content_block_stop", "index": 0}

    assert reply_of(sse(start(), begun, ended, *stop("tool_use"))).message.tool_calls == (ToolCall("toolu_1", "add"),)


def test_arguments_that_came_with_the_beginning_are_not_lost():
    begun = {"type": "content_block_start", "index": 0, "content_block": call(arguments={"a": 1})}
    ended = {"type": "content_block_stop", "index": 0}

    (made,) = reply_of(sse(start(), begun, ended, *stop("tool_use"))).message.tool_calls

    assert made.arguments == '{"a":1}'


def test_calls_side_by_side_are_kept_apart():
    found = streamed_reply(call(arguments={"a": 1}), call(id="toolu_2", arguments={"a": 2}), reason="tool_use")

    assert [(one.id, one.arguments) for one in found.message.tool_calls] == [
        ("toolu_1", '{"a": 1}'), ("toolu_2", '{"a": 2}'),
    ]  # fmt: skip


def test_a_call_without_an_id_or_with_one_twice_gets_its_own():
    earlier = Message.assistant((), (ToolCall("call_0", "add"),))
    asked = request(Message.user("q"), earlier)
    blocks = sse(*events(call(id=""), call(), call(), reason="tool_use"))

    assert [one.id for one in reply_of(blocks, asked=asked).message.tool_calls] == ["call_1", "toolu_1", "call_2"]


def test_calls_decide_where_the_server_ends_every_reply_alike():
    assert streamed_reply(call(), reason="end_turn").finish_reason is FinishReason.TOOL_CALLS


def test_blocks_that_only_the_vendor_knows_grow_as_they_come():
    grown = {"type": "content_block_start", "index": 0, "content_block": {"type": "new", "said": "a", "list": [1]}}
    more = [piece(type="new_delta", said="b", list=[2], other={"x": 1}), {"type": "content_block_stop", "index": 0}]

    (part,) = reply_of(sse(start(), grown, *more, *stop())).message.content

    assert part == VendorPart("anthropic", {"type": "new", "said": "ab", "list": (1, 2), "other": {"x": 1}})


def test_unknown_kinds_of_pieces_are_left_alone():
    found = streamed_reply(text("a"))
    odd = sse(start(), BLOCK, piece(type="sparkle_delta", sparkle="*"), said(0, "a"), *stop())

    assert reply_of(odd).message == found.message


# ---- cut anywhere -----------------------------------------------------------------------


def test_a_stream_may_be_cut_at_every_byte():
    expected = reply_of(WHOLE)

    assert reply_of(*(WHOLE[at : at + 1] for at in range(len(WHOLE)))) == expected
    for at in range(len(WHOLE)):
        assert reply_of(WHOLE[:at], WHOLE[at:]) == expected


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12), st.sampled_from((b"\n", b"\r\n", b"\r")))
def test_any_cut_and_any_line_end_give_the_same_reply(cuts, end):
    stream = WHOLE.replace(b"\n", end)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    assert reply_of(*(stream[a:b] for a, b in pairwise(edges))) == reply_of(WHOLE)


def test_a_stream_that_ends_too_early_is_an_error_wherever_it_ends():
    ends = WHOLE.index(b'"stop_reason": "tool_use"')
    end_of_reason = WHOLE.index(b"\n\n", ends)

    for at in range(len(WHOLE) - len(b"\n")):
        if at < end_of_reason:
            assert stream_failure(WHOLE[:at]).kind in {Kind.STREAM_BROKEN, Kind.PROTOCOL}
        else:
            assert reply_of(WHOLE[:at]) == reply_of(WHOLE)


def test_what_came_before_the_end_is_handed_on_first():
    reading = reader()
    reply = Reply()
    reply.add([*reading.feed(BEGUN + sse(BLOCK, said(0, "Hel"))), *reading.end()])

    assert reply.message().text == "Hel"
    assert reply.usage == Usage(input=18, output=1, cached=5, cache_write=3)
    assert reading.failure is not None
    assert reading.failure.kind is Kind.STREAM_BROKEN


def test_thousands_of_calls_with_one_id_get_ids_of_their_own():
    reply = whole_reply(*[call(id="same")] * 20_000, reason="tool_use")

    assert [made.id for made in reply.message.tool_calls[:3]] == ["same", "call_0", "call_1"]
    assert len({made.id for made in reply.message.tool_calls}) == 20_000


def test_thousands_of_citations_are_kept():
    cited = {"type": "citations_delta", "citation": {"cited_text": "a"}}
    pieces = [{"type": "content_block_delta", "index": 0, "delta": cited}] * 20_000
    reply = reply_of(sse(start(), BLOCK, said(0, "a"), *pieces, *stop()))

    assert json.dumps(thaw(reply.message.extra)).count("cited_text") == 20_000


# ---- odd and broken ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "kind", "words"),
    [
        (b"", Kind.PROTOCOL, "nothing"),
        (b"\n\n: hello\n\n", Kind.PROTOCOL, "empty stream"),
        (b"<html>busy</html>", Kind.PROTOCOL, "busy"),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}', Kind.UNAVAILABLE, "Busy"),
        (b'{"error":"no such key"}', Kind.UNAVAILABLE, "no such key"),
        (b'{"type":"message"}', Kind.PROTOCOL, "neither content"),
        (b'{"content":[]}', Kind.PROTOCOL, "no stop_reason"),
        (b'{"content":"hello","stop_reason":"end_turn"}', Kind.PROTOCOL, "content is not a list"),
        (b'{"content":[{"text":"x"}],"stop_reason":"end_turn"}', Kind.PROTOCOL, "no type"),
        (b"[1]", Kind.PROTOCOL, "not an object"),
        (b'{"a":' * 5000, Kind.PROTOCOL, "not a reply"),
        (b'{"content":"\xff"}', Kind.PROTOCOL, "not JSON"),
        (BEGUN + b"data: {oops\n\n", Kind.PROTOCOL, "oops"),
        (BEGUN + b"data: 3\n\n", Kind.PROTOCOL, "not an object"),
        (BEGUN + b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n',
         Kind.PROTOCOL, "not JSON"),
        (BEGUN + sse(said(0, "a")), Kind.PROTOCOL, "not open"),
        (BEGUN + sse(BLOCK, BLOCK), Kind.PROTOCOL, "begins twice"),
        (BEGUN + sse({"type": "content_block_start", "content_block": {}}), Kind.PROTOCOL, "no index"),
        (BEGUN + sse({"type": "content_block_start", "index": 0, "content_block": {}}), Kind.PROTOCOL, "no type"),
        (BEGUN + sse({**BLOCK, "content_block": call(name="")}), Kind.PROTOCOL, "no tool"),
        (sse({"type": "message_start"}), Kind.PROTOCOL, "message_start.message"),
        (sse({"type": "message_stop"}), Kind.PROTOCOL, "empty stream"),
        (BEGUN + sse({"type": "message_stop"}), Kind.PROTOCOL, "without any content"),
        (BEGUN + sse({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}),
         Kind.RATE_LIMITED, "slow down"),
        (BEGUN + sse({"type": "error"}), Kind.UNAVAILABLE, "no reason given"),
        (BEGUN + sse({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}},
                     piece(type="input_json_delta", partial_json="{oops"), *stop()), Kind.PROTOCOL, "cannot be used"),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_an_error(stream, kind, words):
    error = stream_failure(stream)

    assert error.kind is kind
    assert words in str(error)


def test_an_event_that_never_ends_is_refused():
    assert "more than 1,000 bytes" in str(stream_failure(BEGUN, b"data: " + b"x" * 2000, limit=1000))


def test_a_server_without_message_stop_or_stops_of_blocks_is_understood():
    lean = sse(start(), BLOCK, said(0, "a"), stop()[0])

    assert reply_of(lean).message.text == "a"


def test_a_server_that_does_not_say_why_it_ended_is_understood_if_it_said_something():
    silent = sse(start(), BLOCK, said(0, "a"), {"type": "message_stop"})
    whole = json.dumps(message(text("a"), stop=None)).encode()

    for reply in (reply_of(silent), reply_of(whole)):
        assert (reply.message.text, reply.finish_reason) == ("a", FinishReason.OTHER)
        assert "stop_reason" not in reply.extra


def test_a_reply_that_ended_for_calls_and_has_none_ended_for_another_reason():
    reply = streamed_reply(text("a"), reason="tool_use")

    assert (reply.finish_reason, reply.extra["stop_reason"]) == (FinishReason.OTHER, "tool_use")


def test_a_server_that_answers_whole_to_a_request_for_a_stream_is_understood():
    assert read_stream(json.dumps(message(text("a"))).encode())[0] == TextDelta("a")


def test_what_comes_after_the_end_is_not_read():
    assert reply_of(WHOLE, b"data: {oops\n\n", BEGUN) == reply_of(WHOLE)


def test_secrets_and_control_characters_of_an_event_are_not_shown():
    shown = str(stream_failure(BEGUN + b"data: \x1b[31moops\n\n"))

    assert "oops" in shown
    assert "\x1b" not in shown


blocks = st.lists(
    st.one_of(
        st.text(max_size=6).map(text),
        st.builds(lambda said, sign: {"type": "thinking", "thinking": said, "signature": sign}, st.text(max_size=4),
                  st.sampled_from(("", "s"))),
        st.builds(lambda n, a: call(id=f"t{n}", arguments=a), st.integers(0, 3),
                  st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)),
        st.sampled_from((SEARCH, FOUND)),
    ),
    max_size=5,
)  # fmt: skip


@given(blocks, st.sampled_from(("end_turn", "tool_use", "pause_turn", "refusal", "new")))
def test_any_reply_is_the_same_streamed_and_whole(content, reason):
    streamed, whole = (ask(*content, reason=reason) for ask in (streamed_reply, whole_reply))

    assert merged(streamed.message) == merged(whole.message)
    assert (streamed.finish_reason, streamed.usage, streamed.id) == (whole.finish_reason, whole.usage, whole.id)


def merged(message: Message) -> object:
    """Return parts and calls, arguments as values."""
    calls = [(one.id, one.name, json.loads(one.arguments)) for one in message.tool_calls]
    return message.content, calls, message.extra


odd_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)
BLOCKS = ("text", "thinking", "tool_use", "x_tool_result", "redacted_thinking")
PIECES = ("text_delta", "input_json_delta", "signature_delta", "citations_delta", "thinking_delta")
EVENTS = (
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
    *("message_delta", "message_stop", "ping", "error", "new"),
)
FIELDS = (
    *("id", "name", "input", "text", "thinking", "signature", "partial_json", "citation", "citations"),
    *("content", "stop_reason", "stop_details", "usage", "model", "explanation", "tool_use_id"),
)
odd_fields = st.fixed_dictionaries(
    {"type": st.one_of(st.sampled_from((*BLOCKS, *PIECES)), odd_values)}, optional=dict.fromkeys(FIELDS, odd_values)
)
either = st.one_of(odd_fields, odd_values)
odd_events = st.fixed_dictionaries(
    {"type": st.sampled_from(EVENTS)},
    optional={
        "index": st.one_of(st.integers(0, 2), odd_values),
        **dict.fromkeys(("message", "content_block", "delta"), either),
        **dict.fromkeys(("usage", "error"), odd_values),
    },
)


@given(st.lists(odd_events, max_size=6), st.booleans())
def test_a_stream_however_odd_makes_a_reply_that_can_go_back_or_an_error(odd, begun):
    assert wrong_when_sent_back(sse(*([start(), BLOCK] if begun else []), *odd, *stop())) == []


@given(odd_fields)
def test_an_answer_however_odd_makes_a_reply_that_can_go_back_or_an_error(odd):
    assert wrong_when_sent_back(json.dumps({"stop_reason": "end_turn", **odd}).encode()) == []


@pytest.mark.parametrize("depth", [50, 400, 900, 5000])
def test_a_block_may_be_nested_deeply_or_is_refused(depth):
    use = {"type": "server_tool_use", "id": "u", "name": "x", "input": {}}
    nested = b'{"type":"x_tool_result","tool_use_id":"u","a":%b%b}' % (b"[" * depth, b"]" * depth)
    event = b'data: {"type":"content_block_start","index":1,"content_block":%b}\n\n' % nested
    ends = [{"type": "content_block_stop", "index": index} for index in (0, 1)]
    opened = sse({"type": "content_block_start", "index": 0, "content_block": use}, ends[0])

    assert wrong_when_sent_back(BEGUN + opened + event + sse(ends[1], *stop())) == []


def wrong_when_sent_back(answer: bytes) -> list[str]:
    """Return which rules the next turn would break with what *answer* is read as; none if it is an error."""
    try:
        reply = reply_of(answer).message
    except ProviderError:
        return []
    results = [Message.tool(call, "r") for call in reply.tool_calls]
    return broken_rules(
        sent(ModelRequest("opus-5", (Message.user("q"), reply, *results, Message.user("r")))), system_turns=True
    )
