"""Streams of the Responses API that vendors have really sent: each is read, and goes back item by item."""

from __future__ import annotations

import json
from typing import Any

from pluggent_hookspecs import Message
from pluggent_testing.providers.values import check_deltas, check_reply
from recordings import needs_recordings, streams
from responses_server import reply_of, sent, streamed


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
