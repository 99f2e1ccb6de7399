"""Streamed replies, as real servers send them: well, oddly, broken."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from openai_server import DONE, call, chunk, completion, event, request
from pluggent_hookspecs import (
    Audio,
    Finished,
    FinishReason,
    Image,
    Message,
    ModelRequest,
    PartDelta,
    ProviderError,
    ProviderErrorKind as Kind,
    ReasoningDelta,
    RefusalDelta,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    UsageDelta,
)
from pluggent_openai.errors import Faults
from pluggent_openai.stream import StreamReader

FAULTS = Faults("openai", "http://x/v1", "m")
TEXT = (
    event(chunk({"role": "assistant", "content": ""}))
    + event(chunk({"content": "Hel"}))
    + event(chunk({"content": "lo"}))
)
STOP = event(chunk({}, "stop"))
USAGE = event({"id": "c1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}})


def read(*reads: bytes, asked: ModelRequest | None = None, limit: int = 100_000) -> list:
    """Return the deltas of all reads in a row, or raise what went wrong."""
    reader = StreamReader(asked or request(), FAULTS, limit)
    found = []
    for data in reads:
        found += reader.feed(data)
        if reader.failure is not None:
            raise reader.failure
    if not reader.done:
        found += reader.end()
    if reader.failure is not None:
        raise reader.failure
    return found


def reply(*reads: bytes, asked: ModelRequest | None = None):
    collected = Reply()
    collected.add(read(*reads, asked=asked))
    return collected.response()


def failure(*reads: bytes, limit: int = 100_000) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read(*reads, limit=limit)
    return caught.value


def calls(*pieces: dict, finish: str | None = "tool_calls", asked: ModelRequest | None = None):
    stream = [event(chunk(piece)) for piece in pieces]
    ending = [event(chunk({}, finish))] if finish else []
    return reply(b"".join([*stream, *ending, DONE]), asked=asked).message.tool_calls


def test_a_text_is_the_pieces_of_each_read_and_then_the_end():
    assert read(TEXT, event(chunk({"content": "!"})), STOP + USAGE + DONE) == [
        TextDelta("Hello"),
        TextDelta("!"),
        UsageDelta(Usage(input=9, output=5)),
        Finished(FinishReason.STOP, Usage(input=9, output=5), "m-1", "c1"),
    ]


def test_thinking_refusals_pictures_and_sound_are_told_apart():
    picture = {"type": "image_url", "image_url": {"url": "https://x/p.png"}}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "c"}]}

    assert read(
        event(chunk({"reasoning_content": "a"})),
        event(chunk({"reasoning": "b"})),
        event(chunk({"content": [thinking, {"type": "text", "text": "d"}, picture]})),
        event(chunk({"refusal": "no"})),
        event(chunk({"audio": {"data": "QUJD", "transcript": "abc"}})),
        STOP,
    )[:-1] == [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        ReasoningDelta("c"),
        TextDelta("d"),
        PartDelta(Image(url="https://x/p.png")),
        RefusalDelta("no"),
        PartDelta(Audio("QUJD", "pcm16", "abc")),
    ]


def test_what_else_the_vendor_said_is_kept():
    done = reply(event(chunk({"content": "a"}, service_tier="flex")), event(chunk({}, "weird")), DONE)

    assert (done.finish_reason, done.extra) == (FinishReason.OTHER, {"service_tier": "flex", "finish_reason": "weird"})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("eos", FinishReason.STOP),
        ("function_call", FinishReason.TOOL_CALLS),
    ],
)
def test_finish_reasons_are_the_contracts(said, meant):
    assert reply(TEXT, event(chunk({}, said))).finish_reason is meant


def test_only_the_first_choice_counts():
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": None}
    both = {"choices": [other, {"index": 0, "delta": {"content": "this"}, "finish_reason": "stop"}]}

    assert reply(event({"choices": [other]}) + event(both) + DONE).message.text == "this"


def test_nothing_after_done_counts():
    assert reply(TEXT + STOP + DONE + event(chunk({"content": "more"}))).message.text == "Hello"


def test_blank_events_and_unknown_ones_are_passed_over():
    stream = b": ping\n\ndata:\n\n" + event({"type": "ping"}) + TEXT + event({"choices": None}) + STOP

    assert reply(stream).message.text == "Hello"


def test_a_message_in_place_of_deltas_is_taken():
    piece = {"choices": [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}]}

    assert reply(event(piece), DONE).message.text == "whole"


# ---- tool calls -------------------------------------------------------------------------

ADD = ToolCall("call_a", "add", '{"a":1}')
SUB = ToolCall("call_b", "sub", '{"b":2}')


def test_a_call_comes_in_pieces():
    stream = [
        event(chunk(call(0, "call_a", "add", ""))),
        event(chunk(call(0, arguments='{"a"'))) + event(chunk(call(0, arguments=":1}"))),
        event(chunk({}, "tool_calls")) + DONE,
    ]

    assert read(*stream) == [
        ToolCallDelta(0, "call_a", "add"),
        ToolCallDelta(0, arguments='{"a"'),
        ToolCallDelta(0, arguments=":1}"),
        Finished(FinishReason.TOOL_CALLS, model="m-1", id="c1"),
    ]


def test_calls_side_by_side_are_told_apart_by_their_index():
    assert calls(
        call(0, "call_a", "add", '{"a"'),
        call(1, "call_b", "sub", '{"b"'),
        call(0, arguments=":1}"),
        call(1, arguments=":2}"),
    ) == (ADD, SUB)


def test_a_name_may_be_repeated_in_every_piece():
    assert calls(call(0, "call_a", "add", '{"a"'), call(0, "call_a", "add", ":"), call(0, "call_a", "add", "1}")) == (
        ADD,
    )


def test_a_name_may_be_repeated_without_index_and_id():
    assert calls(call(None, None, "add", '{"a"'), call(None, None, "add", ":1}")) == (
        ToolCall("call_0", "add", '{"a":1}'),
    )


def test_a_name_may_be_sent_twice():
    assert calls(call(0, "call_a", "add"), call(0, "call_a", "add", ""), call(0, None, None, '{"a":1}')) == (ADD,)


def test_a_whole_call_may_be_sent_twice():
    assert calls(call(0, "call_a", "add", '{"a":1}'), call(0, "call_a", "add", '{"a":1}')) == (ADD,)


def test_a_missing_index_means_the_call_of_that_id():
    assert calls(
        call(None, "call_a", "add", '{"a"'), call(None, "call_b", "sub", '{"b"'), call(None, "call_a", None, ":1}"),
        call(None, "call_b", None, ":2}"),
    ) == (ADD, SUB)  # fmt: skip


def test_a_missing_index_and_id_means_the_last_call():
    assert calls(
        call(None, "call_a", "add", '{"a"'), call(None, None, None, ":1}"), call(None, "call_b", "sub"),
        call(None, None, None, '{"b":2}'),
    ) == (ADD, SUB)  # fmt: skip


def test_one_index_for_two_calls_with_ids_of_their_own():
    assert calls(
        call(0, "call_a", "add", '{"a"'),
        call(0, None, None, ":1}"),
        call(0, "call_b", "sub", '{"b"'),
        call(0, None, None, ":2}"),
    ) == (ADD, SUB)


def test_one_index_for_two_calls_of_one_tool():
    assert calls(call(0, "x", "add", '{"a":1}'), call(0, "y", "add", '{"a":2}')) == (
        ToolCall("x", "add", '{"a":1}'),
        ToolCall("y", "add", '{"a":2}'),
    )


def test_whole_calls_without_index_and_id_in_one_list():
    pieces = [
        {"function": {"name": "add", "arguments": '{"a":1}'}},
        {"function": {"name": "add", "arguments": '{"a":1}'}},
    ]

    assert calls({"tool_calls": pieces}) == (ToolCall("call_0", "add", '{"a":1}'), ToolCall("call_1", "add", '{"a":1}'))


def test_two_calls_without_arguments_index_and_id_in_one_list():
    piece = {"id": "", "function": {"name": "ping"}}

    assert calls({"tool_calls": [piece, piece]}) == (ToolCall("call_0", "ping"), ToolCall("call_1", "ping"))


@pytest.mark.parametrize("arguments", [None, "", "{}", {}, ...])
def test_no_arguments_are_an_empty_object(arguments):
    assert calls(call(0, "x", "ping", arguments)) == (ToolCall("x", "ping", "{}"),)


@pytest.mark.parametrize("first", [None, "{}", {}, ...])
def test_arguments_may_follow_after_none(first):
    assert calls(call(0, "call_a", "add", first), call(0, arguments='{"a":1}')) == (ADD,)


def test_arguments_may_be_missing_and_then_an_empty_object():
    assert calls(call(0, "x", "ping"), call(0, arguments="{}")) == (ToolCall("x", "ping", "{}"),)


def test_arguments_may_be_an_object():
    assert calls(call(0, "call_a", "add", {"a": 1})) == (ADD,)


def test_arguments_that_are_no_json_are_handed_on():
    assert calls(call(0, "x", "add", '{"a": oops')) == (ToolCall("x", "add", '{"a": oops'),)


def test_missing_ids_are_made_and_are_new_to_the_conversation():
    before = Message.assistant((), (ToolCall("call_0", "add"), ToolCall("call_1", "add")))

    made = calls(call(0, None, "add"), call(1, "", "sub"), asked=request(before))

    assert [one.id for one in made] == ["call_2", "call_3"]


def test_an_id_given_twice_is_replaced_the_second_time():
    made = calls(call(0, "x", "add", '{"a":1}'), call(1, "x", "sub", '{"b":2}'))

    assert made == (ToolCall("x", "add", '{"a":1}'), ToolCall("call_0", "sub", '{"b":2}'))


def test_an_id_given_twice_without_index_belongs_to_two_tools():
    made = calls(call(None, "x", "add", '{"a":1}'), call(None, "x", "sub", '{"b":2}'))

    assert [(one.id, one.name) for one in made] == [("x", "add"), ("call_0", "sub")]


def test_a_name_may_come_after_the_id():
    assert calls(call(0, "call_a"), call(0, None, None, '{"a"'), call(0, None, "add", ":1}")) == (ADD,)


def test_the_old_function_call_is_a_call():
    stream = event(chunk({"function_call": {"name": "add", "arguments": '{"a"'}}))
    stream += event(chunk({"function_call": {"arguments": ":1}"}})) + event(chunk({}, "function_call"))

    assert reply(stream).message.tool_calls == (ToolCall("call_0", "add", '{"a":1}'),)


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
def test_calls_are_calls_whatever_the_finish_reason(finish):
    ending = event(chunk({}, finish)) if finish else b""

    assert reply(event(chunk(call(0, "x", "add"))), ending + DONE).finish_reason is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    "piece", [call(0, "x"), {"tool_calls": "x"}, {"tool_calls": [7]}, {"tool_calls": [{"function": 7}]}]
)
def test_a_call_that_is_none_is_an_error(piece):
    assert failure(event(chunk(piece)) + event(chunk({}, "tool_calls"))).kind is Kind.PROTOCOL


def pieces_of(number: int, name: str, arguments: str, quirks: dict) -> list[dict]:
    """Return one call as a server with these quirks streams it."""
    index = {"own": number, "zero": 0, "none": None}[quirks["index"]]
    id_ = {"own": f"id{number}", "same": "id", "none": None}[quirks["id"]]
    cut = quirks["cut"]
    texts = [""] * quirks["empty_first"] + [text for text in (arguments[:cut], arguments[cut:]) if text]
    return [
        call(
            index,
            id_ if quirks["id_every_time"] or position == 0 else None,
            name if quirks["name_every_time"] or position == 0 else None,
            text,
        )
        for position, text in enumerate(texts)
    ]


@given(
    st.lists(st.sampled_from(["add", "sub"]), min_size=1, max_size=4),
    st.fixed_dictionaries(
        {
            "index": st.sampled_from(["own", "zero", "none"]),
            "id": st.sampled_from(["own", "same", "none"]),
            "id_every_time": st.booleans(),
            "name_every_time": st.booleans(),
            "empty_first": st.booleans(),
            "cut": st.integers(0, 9),
        }
    ),
)
@settings(deadline=None)
def test_calls_that_follow_each_other_survive_every_mixture_of_quirks(names, quirks):
    sent = [(name, f'{{"n":{number + 1}00}}') for number, name in enumerate(names)]

    made = calls(*(piece for number, one in enumerate(sent) for piece in pieces_of(number, *one, quirks)))

    assert [(one.name, one.arguments) for one in made] == sent
    assert len({one.id for one in made}) == len(made)


@given(st.lists(st.integers(1, 400), max_size=12))
@settings(deadline=None)
def test_any_cut_of_the_bytes_gives_the_same_reply(cuts):
    stream = (
        TEXT
        + event(chunk({"content": "\N{SNOWMAN}\u2028"}))
        + event(chunk(call(0, "call_a", "add", '{"a"'))).replace(b"\n", b"\r\n")
        + event(chunk(call(0, arguments=":1}")))
        + event(chunk({}, "tool_calls"))
        + USAGE
        + DONE
    )
    edges = sorted({0, *(min(cut * 3, len(stream)) for cut in cuts), len(stream)})

    assert reply(*(stream[a:b] for a, b in pairwise(edges))) == reply(stream)


# ---- how it ends ------------------------------------------------------------------------


def test_an_end_without_done_is_accepted_after_a_finish_reason():
    assert reply(TEXT, STOP).finish_reason is FinishReason.STOP


def test_an_end_without_a_finish_reason_is_accepted_after_done():
    assert reply(TEXT, DONE).finish_reason is FinishReason.STOP


def test_a_last_event_without_its_blank_line_counts():
    assert reply(TEXT, b"data: [DONE]").message.text == "Hello"
    assert reply(TEXT, STOP.rstrip()).message.text == "Hello"


def test_a_stream_with_neither_is_broken():
    assert failure(TEXT).kind is Kind.STREAM_BROKEN
    assert failure(TEXT).retryable


def test_a_stream_cut_inside_an_event_is_broken():
    assert failure(TEXT, STOP[:30]).kind is Kind.STREAM_BROKEN


def test_a_cut_after_the_finish_reason_loses_nothing():
    assert reply(TEXT, STOP, USAGE[:20]).message.text == "Hello"


def test_usage_that_came_before_a_cut_is_told():
    reader = StreamReader(request(), FAULTS)

    assert reader.feed(USAGE) == [UsageDelta(Usage(input=9, output=5))]


@pytest.mark.parametrize("stream", [b"", b"\n\n", b": ping\n\n", DONE, USAGE + DONE, b"\xef\xbb\xbf"])
def test_an_empty_stream_is_an_error_and_no_empty_reply(stream):
    assert failure(stream).kind in (Kind.PROTOCOL, Kind.STREAM_BROKEN)


def test_a_reply_that_says_stop_without_any_text_is_legal():
    assert reply(event(chunk({"role": "assistant", "content": ""})), STOP, DONE).message == Message.assistant("")


def test_done_without_any_content_or_reason_is_an_error():
    assert failure(event(chunk({"role": "assistant"})), DONE).kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"error": {"message": "slow down", "code": 429}}, Kind.RATE_LIMITED),
        ({"error": {"message": "slow down", "type": "rate_limit_error"}}, Kind.RATE_LIMITED),
        ({"error": {"message": "busy", "type": "overloaded_error"}}, Kind.UNAVAILABLE),
        ({"error": {"message": "boom", "type": "server_error"}}, Kind.UNAVAILABLE),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, Kind.BAD_REQUEST),
        ({"error": {"message": "long", "code": "context_length_exceeded"}}, Kind.CONTEXT_LENGTH),
        ({"error": {"message": "no", "code": "content_filter"}}, Kind.REFUSED),
        ({"error": "boom"}, Kind.UNAVAILABLE),
        ({"object": "error", "message": "bad", "code": 400}, Kind.BAD_REQUEST),
        (chunk(error={"message": "boom", "code": 502}), Kind.UNAVAILABLE),
        ({"choices": [{"index": 0, "delta": {"content": ""}, "error": {"message": "x", "code": 408}}]}, Kind.TIMEOUT),
    ],
)
def test_an_error_inside_the_stream_is_raised_as_its_kind(payload, kind):
    assert failure(TEXT, event(payload)).kind is kind


def test_what_came_before_an_error_in_the_same_read_is_not_lost():
    reader = StreamReader(request(), FAULTS)

    assert reader.feed(TEXT + event({"error": {"message": "boom"}})) == [TextDelta("Hello")]
    assert "boom" in str(reader.failure)


@pytest.mark.parametrize(
    "payload",
    [
        "oops", 7, [], {"choices": 7}, {"choices": [7]}, {"choices": [{"delta": 7}]},
        {"choices": [{"index": 0, "delta": {"content": 7}}]},
        {"choices": [{"index": 0, "delta": {"content": [{"type": "hologram"}]}}]},
    ],
)  # fmt: skip
def test_an_event_of_another_shape_is_a_protocol_error(payload):
    for before in (b"", TEXT):
        assert failure(before, event(payload)).kind is Kind.PROTOCOL


def test_an_event_that_is_no_json_is_a_protocol_error_that_shows_it():
    error = failure(TEXT, b"data: {oops\n\n")

    assert error.kind is Kind.PROTOCOL
    assert "{oops" in str(error)


def test_endless_nesting_is_a_protocol_error():
    deep = b'data: {"choices":' + b"[" * 50_000 + b"\n\n"

    assert failure(TEXT, deep).kind is Kind.PROTOCOL


def test_an_event_that_is_too_large_is_a_protocol_error():
    assert failure(TEXT, b"data: " + b"x" * 2000, limit=1000).kind is Kind.PROTOCOL


# ---- answers that are no stream ---------------------------------------------------------


@pytest.mark.parametrize("space", [b"", b"\n ", b"\xef\xbb\xbf"])
def test_a_whole_reply_in_place_of_a_stream_is_accepted(space):
    whole = json.dumps(completion({"content": "Hello"}, usage={"prompt_tokens": 1})).encode()

    found = reply(space, whole[:20], whole[20:])

    assert (found.message.text, found.usage) == ("Hello", Usage(input=1))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html><body>Sign in</body></html>", Kind.PROTOCOL),
        (b'{"error": {"message": "busy", "code": 503}}', Kind.UNAVAILABLE),
        (b'{"choices": []}', Kind.PROTOCOL),
        (b"{oops", Kind.PROTOCOL),
        (b"Bad gateway", Kind.PROTOCOL),
    ],
)
def test_another_body_in_place_of_a_stream_is_an_error(body, kind):
    assert failure(body).kind is kind
