"""Streamed replies, as real servers send them: well, oddly, broken; JSON in pieces becomes what it is whole."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from openai_server import DONE, STOP, call, chunk, completion, event, read_stream, reader, reply_of, stream_failure
from pluggent_hookspecs import (
    Audio,
    Finished,
    FinishReason,
    Image,
    Message,
    PartDelta,
    ProviderErrorKind as Kind,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
    UsageDelta,
    VendorPart,
)
from pluggent_openai.chat.fragments import Grown

TEXT = (
    event(chunk({"role": "assistant", "content": ""}))
    + event(chunk({"content": "Hel"}))
    + event(chunk({"content": "lo"}))
)
USAGE = event({"id": "c1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}})


def test_a_text_is_the_pieces_of_each_read_and_then_the_end():
    assert read_stream(TEXT, event(chunk({"content": "!"})), STOP + USAGE + DONE) == [
        TextDelta("Hello"),
        TextDelta("!"),
        UsageDelta(Usage(input=9, output=5)),
        Finished(FinishReason.STOP, Usage(input=9, output=5), "m-1", "c1"),
    ]


def test_thinking_refusals_pictures_and_sound_are_told_apart():
    picture = {"type": "image_url", "image_url": {"url": "https://x/p.png"}}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "c"}]}

    assert read_stream(
        event(chunk({"reasoning_content": "a"})),
        event(chunk({"reasoning": "b"})),
        event(chunk({"content": [thinking, {"type": "text", "text": "d"}, picture]})),
        event(chunk({"refusal": "no"})),
        event(chunk({"content": [{"type": "reference", "ids": [1]}]})),
        event(chunk({"audio": {"data": "QUJD", "transcript": "abc"}})),
        STOP,
    )[:-1] == [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        ReasoningDelta("c"),
        TextDelta("d"),
        PartDelta(Image(url="https://x/p.png")),
        RefusalDelta("no"),
        PartDelta(VendorPart("openai", {"type": "reference", "ids": [1]})),
        PartDelta(Audio("QUJD", "pcm16", "abc")),
    ]


def test_what_else_the_vendor_said_is_kept():
    done = reply_of(event(chunk({"content": "a"}, service_tier="flex")), event(chunk({}, "weird")), DONE)

    assert (done.finish_reason, done.extra) == (FinishReason.OTHER, {"finish_reason": "weird"})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("eos", FinishReason.STOP),
        ("model_length", FinishReason.LENGTH),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("sensitive", FinishReason.CONTENT_FILTER),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("insufficient_system_resource", FinishReason.OTHER),
        ("abort", FinishReason.OTHER),
    ],
)
def test_finish_reasons_are_the_contracts(said, meant):
    assert reply_of(TEXT, event(chunk({}, said))).finish_reason is meant


def test_the_older_word_for_calls_is_known():
    assert reply_of(event(chunk(call(0, "x", "f"))), event(chunk({}, "function_call"))).extra == {}


@pytest.mark.parametrize("said", ["", "null"])
def test_an_empty_finish_reason_in_each_chunk_makes_no_cut_stream_whole(said):
    pieces = [event(chunk({"content": text}, said)) for text in ("Hel", "lo")]

    assert stream_failure(*pieces).kind is Kind.STREAM_BROKEN
    assert reply_of(*pieces, STOP).finish_reason is FinishReason.STOP
    assert reply_of(*pieces, event(chunk({}, said)), DONE).finish_reason is FinishReason.OTHER


def test_only_the_first_choice_counts():
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": None}
    both = {"choices": [other, {"index": 0, "delta": {"content": "this"}, "finish_reason": "stop"}]}

    assert reply_of(event({"choices": [other]}) + event(both) + DONE).message.text == "this"


def test_nothing_after_done_counts():
    assert reply_of(TEXT + STOP + DONE + event(chunk({"content": "more"}))).message.text == "Hello"


def test_blank_events_and_unknown_ones_are_passed_over():
    stream = b": ping\n\ndata:\n\n" + event({"type": "ping"}) + TEXT + event({"choices": None}) + STOP

    assert reply_of(stream).message.text == "Hello"


def test_a_message_in_place_of_deltas_is_taken():
    piece = {"choices": [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}]}

    assert reply_of(event(piece), DONE).message.text == "whole"


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

    assert reply_of(*(stream[a:b] for a, b in pairwise(edges))) == reply_of(stream)


# ---- how it ends ------------------------------------------------------------------------


def test_an_end_without_done_is_accepted_after_a_finish_reason():
    assert reply_of(TEXT, STOP).finish_reason is FinishReason.STOP


def test_an_end_without_a_finish_reason_is_accepted_after_done_and_is_no_stop():
    assert reply_of(TEXT, DONE).finish_reason is FinishReason.OTHER


def test_a_last_event_without_its_blank_line_counts():
    assert reply_of(TEXT, b"data: [DONE]").message.text == "Hello"
    assert reply_of(TEXT, STOP.rstrip()).message.text == "Hello"


def test_a_stream_with_neither_is_broken():
    assert stream_failure(TEXT).kind is Kind.STREAM_BROKEN
    assert stream_failure(TEXT).retryable


def test_a_stream_cut_inside_an_event_is_broken():
    assert stream_failure(TEXT, STOP[:30]).kind is Kind.STREAM_BROKEN


def test_a_cut_after_the_finish_reason_loses_nothing():
    assert reply_of(TEXT, STOP, USAGE[:20]).message.text == "Hello"


def test_usage_that_came_before_a_cut_is_told():
    reading = reader()

    assert reading.feed(USAGE) == [UsageDelta(Usage(input=9, output=5))]


@pytest.mark.parametrize("stream", [b"", b"\n\n", b": ping\n\n", DONE, USAGE + DONE, b"\xef\xbb\xbf"])
def test_an_empty_stream_is_an_error_and_no_empty_reply(stream):
    assert stream_failure(stream).kind in (Kind.PROTOCOL, Kind.STREAM_BROKEN)


def test_a_reply_that_says_stop_without_any_text_is_legal():
    assert reply_of(event(chunk({"role": "assistant", "content": ""})), STOP, DONE).message == Message.assistant("")


def test_done_without_any_content_or_reason_is_an_error():
    assert stream_failure(event(chunk({"role": "assistant"})), DONE).kind is Kind.PROTOCOL


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
    assert stream_failure(TEXT, event(payload)).kind is kind


def test_what_came_before_an_error_in_the_same_read_is_not_lost():
    reading = reader()

    assert reading.feed(TEXT + event({"error": {"message": "boom"}})) == [TextDelta("Hello")]
    assert "boom" in str(reading.failure)


@pytest.mark.parametrize(
    "payload",
    [
        "oops", 7, [], {"choices": 7}, {"choices": [7]}, {"choices": [{"delta": 7}]},
        {"choices": [{"index": 0, "delta": {"content": 7}}]},
        {"choices": [{"index": 0, "delta": {"content": [{"no": "type"}]}}]},
    ],
)  # fmt: skip
def test_an_event_of_another_shape_is_a_protocol_error(payload):
    for before in (b"", TEXT):
        assert stream_failure(before, event(payload)).kind is Kind.PROTOCOL


def test_an_event_that_is_no_json_is_a_protocol_error_that_shows_it():
    error = stream_failure(TEXT, b"data: {oops\n\n")

    assert error.kind is Kind.PROTOCOL
    assert "{oops" in str(error)


def test_endless_nesting_is_a_protocol_error():
    deep = b'data: {"choices":' + b"[" * 50_000 + b"\n\n"

    assert stream_failure(TEXT, deep).kind is Kind.PROTOCOL


def test_an_event_that_is_too_large_is_a_protocol_error():
    assert stream_failure(TEXT, b"data: " + b"x" * 2000, limit=1000).kind is Kind.PROTOCOL


# ---- answers that are no stream ---------------------------------------------------------


@pytest.mark.parametrize("space", [b"", b"\n ", b"\xef\xbb\xbf"])
def test_a_whole_reply_in_place_of_a_stream_is_accepted(space):
    whole = json.dumps(completion({"content": "Hello"}, usage={"prompt_tokens": 1})).encode()

    found = reply_of(space, whole[:20], whole[20:])

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
    assert stream_failure(body).kind is kind


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def grown(*pieces):
    all_of_it = Grown()
    for piece in pieces:
        all_of_it.add(piece)
    return all_of_it.whole()


def test_texts_grow_and_lists_get_longer():
    assert grown({"a": "x", "b": [1]}, {"a": "y", "b": [2, 3]}, {"a": "z"}) == {"a": "xyz", "b": [1, 2, 3]}


def test_objects_grow_inside():
    assert grown({"a": {"b": "x"}}, {"a": {"b": "y", "c": 1}}) == {"a": {"b": "xy", "c": 1}}


def test_numbers_and_flags_are_replaced():
    assert grown({"a": 1, "b": True}, {"a": 2, "b": False}) == {"a": 2, "b": False}


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_nothing_takes_nothing_away(nothing):
    assert grown({"a": "x"}, {"a": nothing, "b": nothing}) == {"a": "x"}


def test_what_names_a_thing_does_not_grow():
    names = {"id": "i", "type": "t", "format": "f", "role": "r", "name": "n", "object": "o", "index": 0}

    assert grown(names, names) == names


def test_entries_with_an_index_find_their_own_whatever_the_order():
    assert grown(
        {"d": [{"index": 1, "type": "a", "text": "x"}]},
        {"d": [{"index": 0, "type": "a", "text": "1"}, {"index": 1, "type": "a", "text": "y"}]},
        {"d": [{"index": 1, "type": "b", "data": "z"}]},
    )["d"] == [
        {"index": 1, "type": "a", "text": "xy"},
        {"index": 0, "type": "a", "text": "1"},
        {"index": 1, "type": "b", "data": "z"},
    ]


def test_a_value_of_another_kind_takes_the_place_of_the_first():
    assert grown({"a": "x"}, {"a": [1]}, {"a": [2]}) == {"a": [1, 2]}
    assert grown({"a": [1]}, {"a": "x"}) == {"a": "x"}


@given(
    st.dictionaries(st.sampled_from("abc"), WORDS | st.lists(st.integers(), min_size=1), min_size=1),
    st.lists(st.integers(1, 3), max_size=8),
)
@settings(deadline=None)
def test_any_cut_gives_the_same_whole(value, cuts):
    pieces: list[dict] = []
    rest = dict(value)
    for cut in cuts:
        pieces.append({key: each[:cut] for key, each in rest.items() if each[:cut]})
        rest = {key: each[cut:] for key, each in rest.items()}
    pieces.append({key: each for key, each in rest.items() if each})

    assert grown(*pieces) == value


def test_a_text_is_joined_once_however_many_pieces_it_has():
    class Piece(str):
        __slots__ = ()

        def __add__(self, other):
            raise AssertionError("joined pair by pair, which costs more with every piece")

        __radd__ = __add__

    whole = grown(*({"text": Piece("xy"), "list": [{"index": 0, "text": Piece("z")}]} for _ in range(500)))

    assert whole == {"text": "xy" * 500, "list": [{"index": 0, "text": "z" * 500}]}
