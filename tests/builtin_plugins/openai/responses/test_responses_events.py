"""What answers of the Responses API mean: whole, streamed, and not as they should be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pluggent_hookspecs import (
    Delta,
    FinishReason,
    PartDelta,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageDelta,
    VendorPart,
    thaw,
)
from pluggent_openai.responses.events import read_reply
from responses_server import (
    ASKED,
    CREATED,
    FAULTS,
    SERVER,
    added,
    answer,
    call,
    custom_call,
    done,
    end,
    failure_of,
    message,
    numbered,
    piece,
    reply_of,
    search,
    sent,
    sse,
    streamed,
    text,
    thought,
    whole,
)

HELLO = message(text("Hello"))


def texts(deltas: Sequence[Delta]) -> list[str]:
    return [delta.text for delta in deltas if isinstance(delta, TextDelta)]


def stream(*items: dict[str, Any], **more: Any) -> list[bytes]:
    """Return a stream that brings every item whole, and at last all of them."""
    events = [event for place, item in enumerate(items) for event in (added(place, item), done(place, item))]
    return numbered(CREATED, *events, end(*items, **more))


@pytest.mark.parametrize(
    ("items", "content", "calls"),
    [
        ([HELLO], (Text("Hello"),), ()),
        ([thought("hm"), HELLO], (Reasoning("hm", "sealed"), Text("Hello")), ()),
        ([thought(), HELLO], (Reasoning("", "sealed"), Text("Hello")), ()),
        ([thought("a", "b", signature=None), HELLO], (Reasoning("a\n\nb"), Text("Hello")), ()),
        ([message({"type": "refusal", "refusal": "No."})], (Refusal("No."),), ()),
        ([call(), call("call_2", "now", "")], (), (ToolCall("call_1", "add", '{"a":1}'), ToolCall("call_2", "now"))),
        (
            [custom_call(words='say "hi"\n')],
            (),
            (ToolCall("call_1", "shell", '{"input":"say \\"hi\\"\\n"}', {"openai_responses": {"type": "custom"}}),),
        ),
        ([search(), HELLO], (VendorPart("openai_responses", search(), "web_search"), Text("Hello")), ()),
        ([{"type": "new_7f3a", "a": [1]}], (VendorPart("openai_responses", {"type": "new_7f3a", "a": [1]}),), ()),
        ([message({"type": "new_7f3a"})], (VendorPart("openai_responses", {"type": "new_7f3a"}),), ()),
        ([HELLO, call(), message(text("Bye"), id="msg_2")], (Text("HelloBye"),),
         (ToolCall("call_1", "add", '{"a":1}'),)),
    ],
    ids=lambda value: "+".join(str(item["type"]) for item in value) if isinstance(value, list) else "",
)  # fmt: skip
def test_items_become_parts_and_calls_whole_and_streamed(items, content, calls):
    one, other = whole(*items), reply_of(*stream(*items))

    assert (one.message.content, one.message.tool_calls) == (content, calls)
    assert other == one
    assert (one.model, one.id) == ("m-1", "resp_1")


def test_pieces_are_handed_on_as_they_come():
    events = numbered(
        CREATED, added(0, message()), piece("Hel"), piece("lo"), done(0, HELLO), end(HELLO)
    )  # fmt: skip

    deltas, failure = streamed(*events)

    assert failure is None
    assert texts(deltas) == ["Hel", "lo"]


def test_pieces_of_a_call_are_its_arguments():
    kind = "response.function_call_arguments.delta"
    pieces = [{"type": kind, "output_index": 0, "delta": words} for words in ('{"a"', ":", "1}")]

    reply = reply_of(*numbered(CREATED, added(0, call(arguments="")), *pieces, done(0, call()), end(call())))

    assert reply.message.tool_calls == (ToolCall("call_1", "add", '{"a":1}'),)
    assert reply.finish_reason is FinishReason.TOOL_CALLS


def test_thinking_that_is_sealed_anew_at_the_end_keeps_the_seal_of_its_item():
    sealed_anew = thought("hm", signature="another seal")

    reply = reply_of(*numbered(CREATED, done(0, thought("hm")), done(1, HELLO), end(sealed_anew, HELLO)))

    assert reply.message.content[0] == Reasoning("hm", "sealed")


def test_items_that_are_made_side_by_side_keep_no_text_waiting_and_go_back_in_their_places():
    first, second = search("ws_1"), search("ws_2")
    events = [added(0, first), added(1, second), done(1, second), added(2, message()), piece("Hel", 2), done(0, first)]
    stream = numbered(CREATED, *events, piece("lo", 2), done(2, HELLO), end(first, second, HELLO))

    deltas, _ = streamed(*stream[:6])
    reply = reply_of(*stream)

    assert deltas == [PartDelta(VendorPart("openai_responses", second, "web_search")), TextDelta("Hel")]
    assert reply.message.text == "Hello"
    body, _ = sent([reply.message])
    assert [item["id"] for item in body["input"]] == ["ws_1", "ws_2", "msg_1"]


def test_two_messages_of_one_reply_wait_for_each_other():
    events = [added(0, message()), added(1, message(id="msg_2")), piece("two", 1), piece("one", 0)]
    ends = [done(1, message(text("two"), id="msg_2")), done(0, message(text("one")))]

    reply = reply_of(*numbered(CREATED, *events, *ends, end()))

    assert reply.message.text == "onetwo"


# ---- how it ended ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "reason", "said"),
    [
        ({}, FinishReason.STOP, None),
        ({"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"}, FinishReason.LENGTH, None),
        ({"incomplete_details": {"reason": "content_filter"}, "status": "incomplete"},
         FinishReason.CONTENT_FILTER, None),
        ({"incomplete_details": {"reason": "new_7f3a"}, "status": "incomplete"}, FinishReason.OTHER, "new_7f3a"),
        ({"incomplete_details": None, "status": "incomplete"}, FinishReason.OTHER, "incomplete"),
        ({"status": "new_7f3a"}, FinishReason.OTHER, "new_7f3a"),
    ],
    ids=str,
)  # fmt: skip
def test_why_a_reply_ended(more, reason, said):
    for reply in (whole(HELLO, **more), reply_of(*stream(HELLO, **more))):
        assert (reply.finish_reason, reply.extra.get("finish_reason")) == (reason, said)
        assert reply.message.text == "Hello"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", Kind.UNAVAILABLE),
        ("rate_limit_exceeded", Kind.RATE_LIMITED),
        ("invalid_prompt", Kind.REFUSED),
        ("bio_policy", Kind.REFUSED),
        ("vector_store_timeout", Kind.TIMEOUT),
    ],
)
def test_a_reply_that_failed_is_an_error_of_its_kind(code, kind):
    failed = {"status": "failed", "error": {"code": code, "message": "It broke"}}

    for ask in (lambda: whole(**failed), lambda: reply_of(*numbered(CREATED, end(kind="failed", **failed)))):
        with pytest.raises(ProviderError, match="It broke") as caught:
            ask()
        assert caught.value.kind is kind


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_reply_that_is_not_made_yet_is_no_reply(status):
    with pytest.raises(ProviderError, match=f"its status is '{status}'; leave out 'background'") as caught:
        whole(status=status)

    assert caught.value.kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "response.queued", "response": {"status": "queued"}}],
        [added(0, message()), piece("Hel")],
        [added(0, message()), piece("Hello"), done(0, HELLO)],
        [end(kind="cancelled")],
    ],
    ids=["created", "queued", "half", "all-but-the-end", "cancelled"],
)
def test_a_stream_without_its_end_is_broken(events):
    assert failure_of(*numbered(CREATED, *events)).kind is Kind.STREAM_BROKEN


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"type": "too_many_requests", "message": "slow down"}},
        {"error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ],
    ids=["flat", "nested", "bare"],
)
def test_an_error_after_text_comes_behind_the_text(event):
    deltas, failure = streamed(*numbered(CREATED, added(0, message()), piece("Hel")), sse(event))

    assert texts(deltas) == ["Hel"]
    assert failure is not None
    assert (failure.kind, "slow down" in str(failure)) == (Kind.RATE_LIMITED, True)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "no such model", "code": "model_not_found"}}, Kind.BAD_REQUEST),
        ({"error": "oops"}, Kind.UNAVAILABLE),
        ({"object": "response"}, Kind.PROTOCOL),
        ({"choices": []}, Kind.PROTOCOL),
        ({"output": {}}, Kind.PROTOCOL),
        ({"output": [7]}, Kind.PROTOCOL),
        ({"output": [{"id": "a"}]}, Kind.PROTOCOL),
        ({"output": [{"type": "function_call"}]}, Kind.PROTOCOL),
        ({"output": [{"type": "message", "content": [{"type": "output_text", "text": 7}]}]}, Kind.PROTOCOL),
        ({"output": [{"type": "reasoning", "encrypted_content": 7}]}, Kind.PROTOCOL),
    ],
    ids=json.dumps,
)
def test_an_answer_with_status_200_that_is_no_reply(body, kind):
    with pytest.raises(ProviderError, match="openai: https") as caught:
        read_reply(json.dumps(body).encode(), ASKED, SERVER, FAULTS)

    assert caught.value.kind is kind


# ---- odd streams ----------------------------------------------------------------------------


def test_an_event_that_comes_twice_counts_once():
    events = numbered(CREATED, added(0, message()), piece("Ha"), piece("Ha"), done(0, message(text("HaHa"))),
                      end(message(text("HaHa"))))  # fmt: skip
    twice = [each for event in events for each in (event, event)]

    assert reply_of(*twice).message.text == "HaHa"


def test_equal_pieces_are_not_taken_for_one_where_a_server_numbers_nothing():
    events = [CREATED, added(0, message()), piece("Ha"), piece("Ha"), end(message(text("HaHa")))]

    for number in ({}, {"sequence_number": 0}):
        assert reply_of(*(sse({**event, **number}) for event in events)).message.text == "HaHa"


def test_the_rest_of_a_text_comes_with_the_whole_of_it():
    events = numbered(CREATED, added(0, message()), piece("Hel"), piece("lo"), done(0, HELLO), end(HELLO))

    assert reply_of(*events[:3], *events[4:]).message.text == "Hello"


def test_a_text_with_a_hole_in_it_is_an_error():
    pieces = [piece("Hel"), piece("lo"), piece("!")]
    events = numbered(CREATED, added(0, message()), *pieces, end())
    whole_one = numbered(CREATED, added(0, message()), *pieces, done(0, message(text("Hello!"))), end())

    assert failure_of(*events[:2], *(events[at] for at in (2, 4)), events[5]).kind is Kind.STREAM_BROKEN
    assert failure_of(*whole_one[:3], *whole_one[4:]).kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    "events",
    [
        [done(0, HELLO), piece("again")],
        [added(0, call(arguments="")), piece("text of a call")],
        [added(0, message()), done(0, call())],
        [added(0, message()), piece("b", index=1), piece("a", index=0)],
        [added(0, message()), piece("x"), done(0, HELLO)],
        [piece("x", place=-1)],
        [{"type": "response.output_text.delta", "delta": "x"}],
        [{"type": "response.output_text.delta", "output_index": 0, "delta": 7}],
        [{"no": "type"}],
        [{"type": "response.completed"}],
    ],
    ids=str,
)
def test_pieces_that_do_not_add_up_are_an_error(events):
    assert failure_of(*numbered(CREATED, *events, end(HELLO))).kind is Kind.PROTOCOL


def test_unknown_events_are_passed_over():
    new = {"type": "response.new_7f3a.delta", "output_index": 0, "delta": "?"}
    padding = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {"type": "x"}}

    events = numbered(CREATED, new, added(0, message()), piece("Hello"), padding, new, done(0, HELLO), end(HELLO))

    assert reply_of(*events).message.content == (Text("Hello"),)


def test_a_server_that_never_sends_a_whole_item_is_read_by_its_pieces():
    thinking = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "hm"}

    reply = reply_of(*numbered(CREATED, thinking, piece("Hel", 1), piece("lo", 1), end()))

    assert reply.message.content == (Reasoning("hm"), Text("Hello"))


# ---- what it used and what else it said -----------------------------------------------------


def test_usage_is_counted():
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2, "new": 1},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 15,
    }  # fmt: skip

    for reply in (whole(HELLO, usage=usage), reply_of(*stream(HELLO, usage=usage))):
        assert reply.usage == Usage(10, 5, cached=4, reasoning=3, cache_write=2)
        assert thaw(reply.extra) == {"usage": {"input_tokens_details": {"new": 1}}}


def test_what_a_failed_stream_used_is_told():
    usage = {"input_tokens": 10, "output_tokens": 5}
    failed = end(kind="failed", usage=usage, error={"code": "server_error", "message": "It broke"})

    deltas, failure = streamed(*numbered(CREATED, failed))

    assert failure is not None
    assert UsageDelta(Usage(10, 5)) in deltas


def test_what_repeats_the_request_is_not_kept_and_everything_else_is():
    reply = whole(
        HELLO, instructions="Be brief.", tools=[], temperature=1, service_tier="flex", billing={"payer": "me"}
    )

    assert (thaw(reply.extra), reply.meta.service_tier) == ({"billing": {"payer": "me"}}, "flex")


def test_log_probabilities_are_kept_from_the_whole_or_from_pieces():
    chances = [{"token": "Hello", "logprob": -0.5}]
    with_whole = message(text("Hello", logprobs=chances))
    by_pieces = numbered(CREATED, added(0, message()), piece("Hello", logprobs=chances), done(0, HELLO), end(HELLO))

    for reply in (whole(with_whole), reply_of(*stream(with_whole)), reply_of(*by_pieces)):
        assert thaw(reply.extra) == {"logprobs": {"content": chances}}


def test_the_whole_answer_to_a_request_for_a_stream_is_read():
    assert reply_of(json.dumps(answer(HELLO)).encode()).message.text == "Hello"
