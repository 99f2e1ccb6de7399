"""The README's tables of what comes back: every row has its case here, every case its row."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic_server import (
    call,
    message,
    read_stream,
    reply_of,
    sse,
    start,
    stop,
    stream_failure,
    streamed_reply,
    text,
    whole_reply,
)
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    Message,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    Role,
    Text,
    Usage,
    UsageDelta,
    VendorPart,
)
from pluggent_provider_http.server_errors import Faults
from workspace import each_row, same, tables

TABLES = tables(Path(__file__).parents[3] / "builtin_plugins" / "anthropic" / "README.md")
BACK, EVENTS, ERRORS = (TABLES[head] for head in ("field becomes", "event becomes", "error kind"))
CITED = [{"type": "char_location"}]


def reason(name: str) -> FinishReason:
    found = {ask(text("a"), reason=name).finish_reason for ask in (whole_reply, streamed_reply)}
    (only,) = found
    return only


def reasons(*names: str) -> list[FinishReason]:
    return [reason(name) for name in names]


def usage(**counts: Any) -> Usage:
    """Return what counts become, in a whole reply and in a stream, which have to agree."""
    given = {"input_tokens": 10, "output_tokens": 7, **counts}
    begun = {name: value for name, value in given.items() if not name.startswith("output")}
    end = stop()
    end[0]["usage"] = given
    came = reply_of(sse(start() | {"message": message(stop=None, usage={**begun, "output_tokens": 1})}, *end)).usage
    assert came == whole_reply(usage=given).usage
    return came


def check_details() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not that."}
    for found in (
        whole_reply(text("a"), reason="refusal", stop_details=details),
        reply_of(sse(start(), *stop("refusal", stop_details=details))),
    ):
        assert found.extra["stop_details"] == details
        assert Refusal("Not that.") in found.message.content


def check_other_fields() -> None:
    more = {
        "container": {"id": "c"},
        "context_management": {"applied_edits": []},
        "input_transformations": [],
        "new": 1,
    }
    assert set(whole_reply(**more).extra) == set(more)
    changed = stop(container={"id": "c"})
    changed[0]["context_management"] = {"applied_edits": []}
    assert set(reply_of(sse(start(), *changed)).extra) == {"container", "context_management"}


def check_usage_extra() -> None:
    more = {"server_tool_use": {"web_search_requests": 2}, "new": 3}
    found: Any = whole_reply(usage={"input_tokens": 1, "output_tokens": 2, **more}).extra["usage"]
    assert {name: found[name] for name in more} == more


def check_tier() -> None:
    for ask in (whole_reply, streamed_reply):
        reply = ask(text("a"), usage={"input_tokens": 1, "service_tier": "priority"})
        assert (reply.meta.service_tier, reply.extra) == ("priority", {})


def check_calls() -> None:
    made = call(arguments={"a": 1}, caller={"type": "direct"})
    for ask in (whole_reply, streamed_reply):
        (found,) = ask(made, reason="tool_use").message.tool_calls
        assert (found.id, found.name, json.loads(found.arguments)) == ("toolu_1", "add", {"a": 1})
        assert found.extra == {"anthropic": {"caller": {"type": "direct"}}}


BACK_CASES: dict[str, Callable[[], None]] = {
    "`id`": same(lambda: (whole_reply().id, streamed_reply().id), ("msg_1", "msg_1")),
    "`model`": same(lambda: (whole_reply().model, streamed_reply().model), ("m-1", "m-1")),
    "`stop_reason` end_turn, stop_sequence": same(
        lambda: reasons("end_turn", "stop_sequence"), [FinishReason.STOP] * 2
    ),
    "`stop_reason` max_tokens, model_context_window_exceeded": same(
        lambda: reasons("max_tokens", "model_context_window_exceeded"), [FinishReason.LENGTH] * 2
    ),
    "`stop_reason` tool_use": same(
        lambda: (whole_reply(call(), reason="tool_use").finish_reason, reason("tool_use")),
        (FinishReason.TOOL_CALLS, FinishReason.OTHER),
    ),
    "`stop_reason` refusal": same(lambda: reason("refusal"), FinishReason.CONTENT_FILTER),
    "`stop_reason` pause_turn, compaction": same(
        lambda: reasons("pause_turn", "compaction"), [FinishReason.PAUSED] * 2
    ),
    "`stop_reason` of any other name": same(
        lambda: (reason("new"), whole_reply(reason="new").extra), (FinishReason.OTHER, {"stop_reason": "new"})
    ),
    "no `stop_reason` at all": same(
        lambda: [whole_reply(block, reason=None).finish_reason for block in (text("a"), call())],
        [FinishReason.OTHER, FinishReason.TOOL_CALLS],
    ),
    "`stop_sequence`": same(lambda: whole_reply(stop_sequence="END").extra, {"stop_sequence": "END"}),
    "`stop_details`": check_details,
    "`container`, `context_management`, `input_transformations` and any other": check_other_fields,
    "`usage.input_tokens`": same(
        lambda: usage(cache_read_input_tokens=5, cache_creation_input_tokens=3).input, 10 + 5 + 3
    ),
    "`usage.cache_read_input_tokens`": same(lambda: usage(cache_read_input_tokens=5).cached, 5),
    "`usage.cache_creation_input_tokens`": same(lambda: usage(cache_creation_input_tokens=3).cache_write, 3),
    "`usage.output_tokens`": same(lambda: usage().output, 7),
    "`usage.output_tokens_details.thinking_tokens`": same(
        lambda: usage(output_tokens_details={"thinking_tokens": 4}).reasoning, 4
    ),
    "a count that is negative, not finite or not a number": same(
        lambda: (usage(input_tokens=-1), whole_reply(usage={"output_tokens": -1}).extra["usage"]),
        (Usage(output=7), {"output_tokens": -1}),
    ),
    "`usage.service_tier`": check_tier,
    "`usage.server_tool_use`, `cache_creation` and any other": check_usage_extra,
    "block `text`": same(
        lambda: [ask(text("a", citations=CITED)).message for ask in (whole_reply, streamed_reply)],
        [Message(Role.ASSISTANT, (Text("a"),),
                 extra={"anthropic": {"model": "m-1", "blocks": [{"text": 1, "citations": CITED}]}})] * 2,
    ),
    "block `thinking`": same(
        lambda: [
            ask({"type": "thinking", "thinking": "t", "signature": "s"}).message.content
            for ask in (whole_reply, streamed_reply)
        ],
        [(Reasoning("t", "s"),)] * 2,
    ),
    "block `tool_use`": check_calls,
    "block of any other type": same(
        lambda: [ask({"type": "new", "x": [1]}).message.content for ask in (whole_reply, streamed_reply)],
        [(VendorPart("anthropic", {"type": "new", "x": [1]}),)] * 2,
    ),
}  # fmt: skip


def check_early_usage() -> None:
    found = read_stream(sse(start(), *stop()))
    assert [type(delta) for delta in found] == [UsageDelta, UsageDelta, Finished]
    assert found[0].usage == Usage(input=18, output=1, cached=5, cache_write=3)
    assert found[1].usage == Usage(input=18, output=7, cached=5, cache_write=3) == found[2].usage


def check_ignored() -> None:
    found = read_stream(sse(start(), {"type": "ping"}, {"type": "brand_new", "index": "x"}, *stop()))
    assert [type(delta) for delta in found] == [UsageDelta, UsageDelta, Finished]


EVENT_CASES: dict[str, Callable[[], None]] = {
    "`message_start`, `message_delta`": check_early_usage,
    "`content_block_start`, `content_block_delta`, `content_block_stop`": same(
        lambda: streamed_reply(text("Hello"), {"type": "new"}).message.content,
        (Text("Hello"), VendorPart("anthropic", {"type": "new"})),
    ),
    "`message_stop`": same(lambda: isinstance(read_stream(sse(start(), *stop()))[-1], Finished), True),
    "`error`": same(
        lambda: (
            stream_failure(
                sse(start(), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
            ).kind
        ),
        Kind.UNAVAILABLE,
    ),
    "`ping` and any other": check_ignored,
}


@each_row(BACK, BACK_CASES)
def test_a_field_comes_back_as_the_table_says(row):
    assert row in BACK
    BACK_CASES[row]()


@each_row(EVENTS, EVENT_CASES)
def test_an_event_becomes_what_the_table_says(row):
    assert row in EVENTS
    EVENT_CASES[row]()


@pytest.mark.parametrize("row", ERRORS)
def test_an_error_has_the_kind_that_the_table_says(row):
    kind = re.findall(r"`(\w+)`", ERRORS[row])[0]
    pairs = re.findall(r"(\d+) `(\w+)`", row)

    for status, word in pairs:
        error = {"type": "error", "error": {"type": word, "message": "no"}, "request_id": "req_1"}
        found = Faults("anthropic", "t").from_status(int(status), {}, json.dumps(error).encode())
        assert (found.kind.value, found.status) == (kind, int(status))
        assert stream_failure(sse(start(), error)).kind.value == kind
    assert pairs
