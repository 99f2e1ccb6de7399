"""What events and whole answers mean: reasons, counts, blocked prompts, and what is odd in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gemini_server import call, event, failure_of, reply_of, said, signed, sse, streamed, text, thought
from pluggent_hookspecs import (
    Audio,
    FinishReason,
    Image,
    ProviderErrorKind as Kind,
    Usage,
    UsageDelta,
    VendorPart,
    thaw,
)

END = sse(event(text("."), ends="STOP"))
REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR",
         "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        FinishReason.CONTENT_FILTER,
    ),
    **dict.fromkeys(
        ("LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "NO_IMAGE",
         "IMAGE_OTHER", "MISSING_THOUGHT_SIGNATURE", "new_7f3a"),
        FinishReason.OTHER,
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_every_finish_reason_has_a_meaning_and_its_word_is_kept(reason: str) -> None:
    reply = reply_of(sse(event(text("so"), ends=reason, finishMessage="why")))

    assert reply.finish_reason is REASONS[reason]
    assert reply.extra["finishMessage"] == "why"
    kept = reply.finish_reason in (FinishReason.OTHER, FinishReason.CONTENT_FILTER)
    assert reply.extra.get("finishReason") == (reason if kept else None)


def test_a_candidate_without_content_is_a_reply_without_words() -> None:
    reply = reply_of(sse({"candidates": [{"finishReason": "SAFETY", "index": 0}], "responseId": "r"}))

    assert (reply.message.content, reply.finish_reason) == ((), FinishReason.CONTENT_FILTER)


def test_a_blocked_prompt_is_refused_with_its_reason() -> None:
    feedback = {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "It looks like an attack."}

    error = failure_of(sse({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}}))

    assert (error.kind, error.retryable) == (Kind.REFUSED, False)
    assert "MODEL_ARMOR: It looks like an attack." in str(error)


def test_an_error_in_a_successful_answer_is_an_error_of_its_kind() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    said_ = {"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": details}}

    for answer in (sse(said_), json.dumps(said_).encode(), json.dumps([said_]).encode()):
        error = failure_of(answer)
        assert (error.kind, error.retry_after) == (Kind.RATE_LIMITED, 34.5)


def test_thoughts_are_counted_as_output_and_results_of_the_vendors_tools_as_input() -> None:
    counts = {
        "promptTokenCount": 32,
        "cachedContentTokenCount": 16,
        "toolUsePromptTokenCount": 100,
        "candidatesTokenCount": 41,
        "thoughtsTokenCount": 47,
        "totalTokenCount": 220,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 30}, {"modality": "AUDIO", "tokenCount": 2}],
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}],
        "serviceTier": "flex",
    }

    reply = reply_of(sse(event(text("so"), ends="STOP", usage=counts)))

    assert reply.usage == Usage(input=132, output=88, cached=16, reasoning=47, audio=5, input_audio=2)
    assert reply.meta.service_tier == "flex"
    kept = reply.extra["usage"]
    assert isinstance(kept, dict | type(reply.extra))
    assert kept["toolUsePromptTokenCount"] == 100


def test_output_that_was_not_counted_is_the_rest_of_the_total() -> None:
    counts = {"promptTokenCount": 18, "totalTokenCount": 18}

    assert reply_of(sse(event(ends="SAFETY", usage=counts))).usage == Usage(input=18, output=0)


def test_counts_are_known_before_the_end() -> None:
    deltas, failure = streamed(sse(event(text("a"), usage={"promptTokenCount": 8, "candidatesTokenCount": 1})))

    assert UsageDelta(Usage(input=8, output=1)) in deltas
    assert failure is not None
    assert failure.kind is Kind.STREAM_BROKEN


def test_what_each_event_says_of_its_sources_is_joined() -> None:
    reply = reply_of(
        sse(event(text("a"), groundingMetadata={})),
        sse(
            event(text("b"), groundingMetadata={"webSearchQueries": ["x"], "groundingChunks": [{"web": {"uri": "u"}}]})
        ),
        sse(
            event(
                text("c"), urlContextMetadata={"urlMetadata": [1]}, groundingMetadata={"webSearchQueries": ["x", "y"]}
            )
        ),
        sse(event(ends="STOP", avgLogprobs=-0.5)),
    )

    assert thaw(reply.extra) == {
        "groundingMetadata": {"webSearchQueries": ["x", "y"], "groundingChunks": [{"web": {"uri": "u"}}]},
        "urlContextMetadata": {"urlMetadata": [1]},
        "avgLogprobs": -0.5,
    }


def test_unknown_parts_are_kept_whole() -> None:
    new = {"new7f3a": {"deep": [1]}, "thoughtSignature": "eA=="}

    assert said(new).message.content == (VendorPart("gemini", new),)


def test_media_are_parts_of_the_contract_where_it_has_them() -> None:
    def data(kind: str, **more: Any) -> dict[str, Any]:
        return {"inlineData": {"mimeType": kind, "data": "aGk=", **more}}

    raw = data("audio/L16;codec=pcm;rate=24000")

    assert said(data("image/jpeg"), data("audio/wav"), raw).message.content == (
        Image(data="aGk=", media_type="image/jpeg"),
        Audio("aGk=", "wav"),
        VendorPart("gemini", raw),
    )


def test_arguments_are_kept_as_they_were_written() -> None:
    body = sse(event(call("f", a=1.0), ends="STOP")).replace(b'{"a": 1.0}', b'{ "a" : 1.0 }')

    assert [made.arguments for made in reply_of(body).message.tool_calls] == ['{ "a" : 1.0 }']


def test_arguments_with_a_number_that_is_not_finite_are_refused() -> None:
    body = sse(event(call(a=7), ends="STOP")).replace(b"7", b"NaN")

    assert failure_of(body).kind is Kind.PROTOCOL


def test_a_number_that_is_not_finite_elsewhere_is_unknown() -> None:
    body = sse(event(text("so"), ends="STOP", avgLogprobs=7)).replace(b"7", b"NaN")

    assert "avgLogprobs" not in reply_of(body).extra


@pytest.mark.parametrize(
    "parts",
    [
        [{"functionCall": {"args": {}}}],
        [{"functionCall": 7}],
        [{"text": 7}],
        ["text"],
        {"text": "a"},
        [{"functionCall": {"name": "f", "willContinue": True}}],
    ],
)
def test_a_malformed_part_is_an_error(parts: Any) -> None:
    broken = event()
    broken["candidates"][0]["content"]["parts"] = parts

    assert failure_of(sse(broken)).kind is Kind.PROTOCOL


def test_an_answer_that_says_nothing_is_an_error() -> None:
    assert failure_of(sse({"usageMetadata": {"promptTokenCount": 3}})).kind is Kind.PROTOCOL
    assert failure_of(b"{}").kind is Kind.PROTOCOL
    assert failure_of(b"[]").kind is Kind.PROTOCOL


def test_a_stream_as_one_list_is_read() -> None:
    events = [event(thought("hm")), event(text("so")), event(signed(text(""), "eA=="), ends="STOP")]

    assert (
        reply_of(json.dumps(events).encode()).message
        == said(thought("hm"), text("so"), signed(text(""), "eA==")).message
    )


def test_what_follows_the_end_is_not_read() -> None:
    assert reply_of(END + END).message.text == "."
