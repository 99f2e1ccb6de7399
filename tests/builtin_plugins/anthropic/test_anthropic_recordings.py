"""Streams that Anthropic has really sent."""

import json

from anthropic_server import reader
from pluggent_hookspecs import Reply
from pluggent_testing.providers.values import check_deltas, check_reply
from recordings import needs_recordings, reasons, streams

PATH = "/v1/messages"
MEANT = {"end_turn": "stop", "tool_use": "tool_calls"}


@needs_recordings
def test_every_recorded_stream_is_read_as_its_server_ended_it():
    read = 0
    for name, body in streams(PATH):
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
        (said,) = [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]
        reading = reader(limit=1_000_000)
        deltas = [*reading.feed(body), *reading.end()]
        assert reading.failure is None, (name, reading.failure)
        check_deltas(deltas)
        reply = Reply()
        reply.add(deltas)
        assert check_reply(reply.response()).finish_reason == MEANT[said], name
        read += 1
    assert read > 8


@needs_recordings
def test_every_recorded_reason_is_among_these():
    assert reasons(PATH) == {*MEANT, "null"}
