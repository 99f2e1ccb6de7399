"""Answers as Bedrock sends them: whole, in events, odd, broken; what they add up to."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from bedrock_server import (
    START,
    answer,
    begun,
    end,
    event,
    exception,
    failure_of,
    over,
    piece,
    reply_of,
    sent,
    streamed,
    whole,
)
from hypothesis import given, strategies as st
from pluggent_bedrock.settings import Server
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    Image,
    Message,
    ProviderErrorKind as Kind,
    Reasoning,
    ReasoningDelta,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    VendorPart,
    thaw,
)
from pluggent_provider_http.aws.event_stream import frame

SEALED = {"reasoningContent": {"redactedContent": "c2VhbGVk"}}
ALL = b"".join(
    [
        START,
        piece(0, reasoningContent={"text": "Let me \N{SNOWMAN} see"}),
        piece(0, reasoningContent={"signature": "c2ln"}),
        over(0),
        piece(1, **SEALED),
        over(1),
        piece(2, text="I look "),
        piece(2, text="it up."),
        over(2),
        begun(3, toolUse={"toolUseId": "t1", "name": "add", "type": "tool_use"}),
        piece(3, toolUse={"input": '{"a"'}),
        piece(3, toolUse={"input": ": 1}"}),
        over(3),
        end("tool_use", {"inputTokens": 10, "outputTokens": 7, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 3}),
    ]
)
WHOLE = answer(
    {"reasoningContent": {"reasoningText": {"text": "Let me \N{SNOWMAN} see", "signature": "c2ln"}}},
    SEALED,
    {"text": "I look it up."},
    {"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 1}}},
    reason="tool_use",
    usage={"inputTokens": 10, "outputTokens": 7, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 3},
    metrics={"latencyMs": 7},
)


# ---- what it adds up to -----------------------------------------------------------------


def test_a_stream_makes_what_the_whole_answer_is():
    streamed_reply, whole_reply = reply_of(ALL), reply_of(WHOLE)

    assert streamed_reply.message.content == whole_reply.message.content == (
        Reasoning("Let me \N{SNOWMAN} see", "c2ln"), VendorPart("bedrock", SEALED), Text("I look it up."),
    )  # fmt: skip
    assert streamed_reply.message.tool_calls == (ToolCall("t1", "add", '{"a": 1}'),)
    assert whole_reply.message.tool_calls == (ToolCall("t1", "add", '{"a":1}'),)
    assert streamed_reply.usage == whole_reply.usage == Usage(input=18, output=7, cached=5, cache_write=3)
    assert streamed_reply.finish_reason is whole_reply.finish_reason is FinishReason.TOOL_CALLS
    assert streamed_reply.message.extra == whole_reply.message.extra
    assert thaw(streamed_reply.extra) == thaw(whole_reply.extra) == {"metrics": {"latencyMs": 7}}


def test_what_one_read_brings_is_one_batch():
    found, failure = streamed(START + piece(0, text="Hel") + piece(0, text="lo") + over(0) + end())

    assert failure is None
    assert found == [
        TextDelta("Hello"), Finished(usage=Usage(input=10, output=5), extra={"metrics": {"latencyMs": 7}}),
    ]  # fmt: skip


def test_pieces_come_as_the_model_makes_them():
    found, _ = streamed(ALL)

    assert [one for one in found if isinstance(one, ReasoningDelta | ToolCallDelta)] == [
        ReasoningDelta("Let me \N{SNOWMAN} see"), ReasoningDelta("", "c2ln"), ToolCallDelta(0, "t1", "add"),
        ToolCallDelta(0, arguments='{"a"'), ToolCallDelta(0, arguments=": 1}"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "meant"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("guardrail_intervened", FinishReason.CONTENT_FILTER),
        ("content_filtered", FinishReason.CONTENT_FILTER),
        ("tool_use", FinishReason.OTHER),
        ("malformed_model_output", FinishReason.OTHER),
        ("malformed_tool_use", FinishReason.OTHER),
        ("new_7f3a", FinishReason.OTHER),
    ],
)
def test_why_it_ended_is_told(reason, meant):
    reply = whole({"text": "hi"}, reason=reason)

    assert reply.finish_reason is meant
    assert reply.extra.get("stopReason") == (reason if meant is FinishReason.OTHER else None)


def test_calls_decide_where_a_model_ends_every_reply_alike():
    use = {"toolUse": {"toolUseId": "t1", "name": "add", "input": {}}}

    assert whole(use).finish_reason is FinishReason.TOOL_CALLS


def test_tier_router_guardrail_and_the_models_own_fields_are_kept():
    trace = {"promptRouter": {"invokedModelId": "arn:m"}, "guardrail": {"modelOutput": ["x"]}}
    reply = whole(
        {"text": "hi"}, serviceTier={"type": "flex"}, trace=trace, additionalModelResponseFields={"/stop": 1},
        performanceConfig={"latency": "optimized"},
    )  # fmt: skip

    assert (reply.model, reply.meta.service_tier) == ("arn:m", "flex")
    assert thaw(reply.extra) == {
        "trace": trace, "additionalModelResponseFields": {"/stop": 1}, "performanceConfig": {"latency": "optimized"},
    }  # fmt: skip


def test_citations_stay_with_their_text():
    cited = {"title": "t", "location": {"web": {"url": "https://x"}}}
    stream = START + piece(0, text="As ") + piece(0, citation=cited) + piece(0, text="said.") + over(0)
    stream += piece(1, text=" More.") + over(1) + end()
    block = {"citationsContent": {"content": [{"text": "As said."}], "citations": [cited]}}
    reply = reply_of(stream)

    assert reply.message.text == "As said. More."
    assert whole(block, {"text": " More."}).message == reply.message
    body = sent(Message.user("q"), reply.message, Message.user("on"))
    assert body["messages"][1]["content"] == [block, {"text": " More."}]


def test_pictures_are_parts():
    stream = START + begun(0, image={"format": "png"}) + piece(0, image={"source": {"bytes": "aGk="}}) + over(0) + end()
    block = {"image": {"format": "png", "source": {"bytes": "aGk="}}}

    assert reply_of(stream).message.content == whole(block).message.content == (Image(data="aGk="),)


def test_tools_of_the_vendor_are_kept_and_go_back():
    use = {"toolUseId": "t1", "name": "nova_code_interpreter", "type": "server_tool_use"}
    result = {"toolUseId": "t1", "type": "nova_code_interpreter_result", "status": "success"}
    stream = START + begun(0, toolUse=use) + piece(0, toolUse={"input": '{"snippet":'})
    stream += piece(0, toolUse={"input": '"1+1"}'}) + over(0) + begun(1, toolResult=result)
    stream += piece(1, toolResult=[{"text": "2"}]) + piece(1, toolResult=[{"json": {"a": 1}}]) + over(1)
    stream += piece(2, text="It is 2.") + over(2) + end()
    blocks = [
        {"toolUse": {**use, "input": {"snippet": "1+1"}}},
        {"toolResult": {**result, "content": [{"text": "2"}, {"json": {"a": 1}}]}},
        {"text": "It is 2."},
    ]
    reply = reply_of(stream)

    assert reply.message.tool_calls == ()
    assert whole(*blocks).message == reply.message
    server = Server(cache="off", server_tools=("nova_code_interpreter",))
    body = sent(Message.user("q"), reply.message, Message.user("on"), server=server)
    assert body["messages"][1]["content"] == blocks
    assert body["toolConfig"] == {"tools": [{"systemTool": {"name": "nova_code_interpreter"}}]}


def test_what_did_not_exist_when_this_was_written_is_kept_or_passed_over():
    stream = START + event("new_event", a=1) + begun(0, new={"a": 1}) + piece(0, new={"b": 2}) + over(0)
    stream += piece(1, text="hi") + piece(1, new="x") + over(1) + end()

    assert reply_of(stream).message.content == (VendorPart("bedrock", {"new": {"a": 1, "b": 2}}), Text("hi"))


def test_sealed_thinking_in_pieces_is_one():
    stream = START + piece(0, reasoningContent={"redactedContent": "YQ=="})
    stream += piece(0, reasoningContent={"redactedContent": "Yg=="}) + over(0) + piece(1, text="hi") + over(1) + end()

    (part, _) = reply_of(stream).message.content
    assert part == VendorPart("bedrock", {"reasoningContent": {"redactedContent": "YWI="}})


def test_a_server_that_sends_no_stops_and_no_metadata_is_understood():
    reply = reply_of(START, piece(0, text="hi"), event("messageStop", stopReason="end_turn"))

    assert (reply.message.text, reply.usage) == ("hi", Usage())


@pytest.mark.parametrize("count", [-1, 1.5, "10", None, True, 10**400, [], float("nan")])
def test_what_is_no_count_is_unknown(count):
    reply = reply_of(answer({"text": "hi"}, usage={"inputTokens": count, "outputTokens": 5}))

    assert (reply.usage.input, reply.usage.output) == (None, 5)


def test_what_the_cache_took_without_a_count_of_the_rest_is_not_a_sum():
    reply = reply_of(answer({"text": "hi"}, usage={"outputTokens": 5, "cacheReadInputTokens": 7}))

    assert reply.usage == Usage(output=5, cached=7)


# ---- cut and broken -----------------------------------------------------------------------


@given(st.lists(st.integers(0, len(ALL)), max_size=12))
def test_any_cut_gives_the_same_reply(cuts):
    edges = [0, *sorted(cuts), len(ALL)]

    assert reply_of(*(ALL[start:stop] for start, stop in pairwise(edges))) == reply_of(ALL)


def test_a_stream_that_ends_too_early_is_an_error_wherever_it_ends():
    stops = len(ALL) - len(end("tool_use", {"inputTokens": 10, "outputTokens": 7, "cacheReadInputTokens": 5,
                                            "cacheWriteInputTokens": 3}))  # fmt: skip
    said = stops + len(event("messageStop", stopReason="tool_use"))

    for at in range(len(ALL)):
        if at < said:
            assert failure_of(ALL[:at]).kind in {Kind.STREAM_BROKEN, Kind.PROTOCOL}
        else:
            assert reply_of(ALL[:at]).message == reply_of(ALL).message


def test_what_came_before_an_exception_is_handed_on():
    found, failure = streamed(START + piece(0, text="Hel") + exception("throttlingException", "slow down"))

    assert found == [TextDelta("Hel")]
    assert failure is not None
    assert (failure.kind, "slow down" in str(failure)) == (Kind.RATE_LIMITED, True)


def test_what_came_before_damage_is_handed_on():
    found, failure = streamed(START + piece(0, text="Hel") + b"\x00" * 20)
    reply = Reply()
    reply.add(found)

    assert reply.message().text == "Hel"
    assert failure is not None
    assert failure.kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("throttlingException", Kind.RATE_LIMITED),
        ("validationException", Kind.BAD_REQUEST),
        ("modelStreamErrorException", Kind.UNAVAILABLE),
        ("modelTimeoutException", Kind.TIMEOUT),
        ("internalServerException", Kind.UNAVAILABLE),
        ("serviceUnavailableException", Kind.UNAVAILABLE),
        ("accessDeniedException", Kind.AUTHENTICATION),
        ("expiredTokenException", Kind.AUTHENTICATION),
        ("newException", Kind.UNAVAILABLE),
    ],
)
def test_an_exception_in_a_stream_is_an_error_of_its_kind(name, kind):
    error = failure_of(START, exception(name, "it failed"))

    assert error.kind is kind
    assert "it failed" in str(error)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"", Kind.PROTOCOL, "nothing"),
        (b"<html>busy</html>", Kind.PROTOCOL, "busy"),
        (b'{"message":"no such thing"}', Kind.PROTOCOL, "output is not an object"),
        (b'{"__type":"ThrottlingException","message":"slow"}', Kind.RATE_LIMITED, "slow"),
        (answer({"text": "hi"}, reason=""), Kind.PROTOCOL, "no stopReason"),
        (answer({"new": {}, "more": 1}), Kind.PROTOCOL, "other than one member"),
        (answer({"text": 3}), Kind.PROTOCOL, "text is not an object"),
        (answer({"toolUse": {"toolUseId": "t"}}), Kind.PROTOCOL, "names no tool"),
        (START + event("contentBlockDelta", delta={"text": "a"}), Kind.PROTOCOL, "no contentBlockIndex"),
        (START + piece(0, toolUse={"input": "{}"}), Kind.PROTOCOL, "which is none"),
        (START + piece(0, text="a") + piece(0, reasoningContent={"text": "b"}), Kind.PROTOCOL, "which is none"),
        (START + begun(0, image={}) + begun(0, image={}), Kind.PROTOCOL, "begins twice"),
        (START + begun(0), Kind.PROTOCOL, "other than one member"),
        (START, Kind.STREAM_BROKEN, "no messageStop"),
        (event("ping"), Kind.PROTOCOL, "empty stream"),
        (START + begun(0, toolUse={"toolUseId": "t", "name": "x", "type": "server_tool_use"})
         + piece(0, toolUse={"input": "{oops"}) + over(0), Kind.PROTOCOL, "not JSON"),
        (START + piece(0, reasoningContent={"redactedContent": "!"})
         + piece(0, reasoningContent={"redactedContent": "!"}) + over(0), Kind.PROTOCOL, "not base64"),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_an_error(data, kind, words):
    error = failure_of(data)

    assert error.kind is kind
    assert words in str(error)


def test_calls_without_ids_or_with_one_twice_get_their_own():
    uses = [{"toolUse": {"toolUseId": given, "name": "add", "input": {}}} for given in ("", "a", "a", None)]

    assert [call.id for call in whole(*uses, reason="tool_use").message.tool_calls] == [
        "call_0",
        "a",
        "call_1",
        "call_2",
    ]


NAMES = st.sampled_from(["text", "toolUse", "reasoningContent", "image", "name", "input", "start", "delta", "usage",
                         "contentBlockIndex"])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
EVENTS = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]


@given(VALUES, st.sampled_from(EVENTS))
def test_any_event_is_read_or_refused(value, name):
    odd = frame({":event-type": name, ":message-type": "event"}, json.dumps(value).encode())

    streamed(START, odd, piece(1, text="hi"), end())
