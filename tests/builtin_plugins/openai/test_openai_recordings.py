"""Streams that vendors have really sent, and the words with which they say why a reply ended."""

import json

from openai_server import reader
from pluggent_hookspecs import FinishReason, Reply
from pluggent_openai.chat.reply import finish_reason, said_reason
from pluggent_testing.providers.values import check_deltas, check_reply
from recordings import needs_recordings, reasons, streams

PATH = "/chat/completions"


@needs_recordings
def test_every_recorded_stream_is_read_as_its_server_ended_it():
    read = 0
    for name, body in streams(PATH):
        events = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
        choices = [choice for event in events for choice in json.loads(event).get("choices") or ()]
        said = [reason for choice in choices if (reason := choice.get("finish_reason"))]
        reading = reader()
        deltas = [*reading.feed(body), *reading.end()]
        if any(b'"error":{' in event for event in events):
            # A call that the server refuses is handed on as the model meant it.
            assert (reading.failure is None) is (b'"failed_generation":"{' in body), name
            continue
        assert reading.failure is None, (name, reading.failure)
        check_deltas(deltas)
        reply = Reply()
        reply.add(deltas)
        assert check_reply(reply.response()).finish_reason is FinishReason(said[-1]), name
        read += 1
    assert read > 8


@needs_recordings
def test_every_recorded_reason_has_a_meaning():
    words = reasons(PATH)

    assert {"stop", "length", "tool_calls"} <= words
    assert [word for word in words if said_reason(word) and finish_reason(word, calls=True) is FinishReason.OTHER] == []


@needs_recordings
def test_a_recorded_call_that_was_refused_is_the_one_that_the_model_meant():
    group = [body for name, body in streams(PATH) if name == "test_groq/test_tool_use_failed_error_streaming"]
    (body,) = [body for body in group if b'"failed_generation":"{' in body]
    reading = reader()
    reply = Reply()
    reply.add(reading.feed(body))
    reply.add(reading.end())

    (call,) = check_reply(reply.response()).message.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get_something_by_name", {"invalid_param": "value"})
    assert "missing properties: 'name'" in reply.response().meta.notes[0]
