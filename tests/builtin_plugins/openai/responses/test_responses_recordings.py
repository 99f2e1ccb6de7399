"""Streams of the Responses API that vendors have really sent: each is read, and goes back item by item."""

from __future__ import annotations

import json
from typing import Any

from pluggent_hookspecs import Message, VendorPart
from pluggent_testing.providers.values import check_deltas, check_reply
from recordings import needs_recordings, streams, whole_exchanges
from responses_server import SERVER, reply_of, sent, streamed, whole_of


@needs_recordings
def test_every_recorded_stream_is_read_and_goes_back():
    read = 0
    for name, body in streams("/responses"):
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
        (whole,) = [event["response"]["output"] for event in events if event["type"] == "response.completed"]
        ends = {event["output_index"]: event for event in events if event["type"] == "response.output_item.done"}
        # Some items have no end of their own; where they have one, that counts: thinking is sealed anew afterwards.
        output = [ends[place]["item"] if place in ends else item for place, item in enumerate(whole)]
        deltas, failure = streamed(body)
        assert failure is None, (name, failure)
        check_deltas(deltas)
        reply = check_reply(reply_of(body))
        back, body_sent = sent([Message.user("hi"), reply.message])
        items = [item for item in back["input"][1:] if item.get("output") != "(no result was recorded)"]
        if any(item["type"] == "reasoning" and not is_whole(item) for item in output):
            assert "not encrypted" in body_sent.notes[0], name
            continue
        assert [plainly(item) for item in items] == [plainly(item) for item in output], name
        read += 1
    assert read > 20


def is_whole(item: dict[str, Any]) -> bool:
    """Whether thinking can go back: what was stored at the server is not found in a stateless request."""
    return bool(item.get("encrypted_content") or item.get("content"))


def plainly(item: dict[str, Any]) -> dict[str, Any]:
    """Return *item* without what says nothing."""
    item = {key: value for key, value in item.items() if value not in (None, [])}
    for part in item.get("content", ()):
        part.pop("logprobs", None)
    return item


PLACED = frozenset({
    "background", "conversation", "error", "frequency_penalty", "id", "incomplete_details", "instructions",
    "max_output_tokens", "max_tool_calls", "metadata", "model", "object", "output", "output_text",
    "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "status",
    "store", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "usage", "user",
})  # fmt: skip
"""Fields of an answer that have a place of their own, or repeat the request."""
HOSTED = {"web_search_call": "web_search", "file_search_call": "file_search", "mcp_call": "mcp/",
          "mcp_list_tools": "mcp/", "image_generation_call": "image_generation",
          "code_interpreter_call": "code_interpreter", "compaction": ""}  # fmt: skip
"""The items of tools at the vendor that are recorded, and how their names begin."""
UNFINISHED = "the answer is made in the background, which is not asked for"


@needs_recordings
def test_every_recorded_answer_is_read_without_loss():
    seen: set[str] = set()
    for name, _, body in whole_exchanges("/responses"):
        if not isinstance(body, dict) or "output" not in body or body.get("status") in ("queued", "in_progress"):
            continue  # a stream; a compaction by itself; UNFINISHED
        reply = whole_of(body)
        kept = {str(part.value["type"]): part.hosted for part in reply.message.content if isinstance(part, VendorPart)}
        for kind, hosted in kept.items():
            assert kind in HOSTED, (name, kind)
            assert hosted.startswith(HOSTED[kind]), (name, kind, hosted)
        seen |= set(kept)
        said = {field for field, value in body.items() if value not in (None, [], {})}
        assert said - reply.extra.keys() <= PLACED, (name, said)
        back, body_sent = sent([Message.user("hi"), reply.message], server=SERVER)
        items = [item for item in back["input"][1:] if item.get("output") != "(no result was recorded)"]
        if body_sent.notes:  # thinking that is not encrypted, and what came with it, is of no use to a request
            assert "left out" in body_sent.notes[0], name
            continue
        assert [item["type"] for item in items] == [item["type"] for item in body["output"]], name
    assert seen >= HOSTED.keys() - {"compaction"}
