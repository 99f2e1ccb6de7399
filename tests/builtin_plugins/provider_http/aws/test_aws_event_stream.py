"""Amazon's event streams: cut anywhere, damaged anywhere, and what is no such stream."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given, strategies as st
from pluggent_provider_http.aws.event_stream import FrameFeed, frame
from pluggent_provider_http.framing import FramingError

EVENT = {":event-type": "piece", ":content-type": "application/json", ":message-type": "event"}
FAILED = {":exception-type": "throttlingException", ":message-type": "exception"}
BODIES = [b'{"text":"Hello"}', b"{}", b"", '{"text":"世界 🎉"}'.encode()]
STREAM = b"".join(frame(EVENT, body) for body in BODIES)
EVENTS = [b'{"piece":%b}' % (body or b"{}") for body in BODIES]


def read(*chunks: bytes, limit: int = 1_000_000) -> list[bytes]:
    feed = FrameFeed(limit)
    return [*(event for chunk in chunks for event in feed.feed(chunk)), *feed.end()]


def damage(*chunks: bytes, limit: int = 1_000_000) -> FramingError:
    with pytest.raises(FramingError) as caught:
        read(*chunks, limit=limit)
    return caught.value


def test_a_frame_is_what_the_vendor_documents():
    made = frame({":message-type": "event"}, b"{}")

    assert made[:8] == (16 + 23 + 2 - 1).to_bytes(4, "big") + (22).to_bytes(4, "big")
    assert made[8:12] == crc32(made[:8]).to_bytes(4, "big")
    assert made[12:34] == b"\x0d:message-type\x07\x00\x05event"
    assert made[-4:] == crc32(made[:-4]).to_bytes(4, "big")


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_events(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]

    assert read(*(STREAM[start:end] for start, end in pairwise(edges))) == EVENTS


@given(st.lists(st.tuples(st.text(min_size=1, max_size=40), st.binary(max_size=200)), max_size=8), st.integers(1, 50))
def test_every_event_arrives_whatever_it_holds(events, size):
    stream = b"".join(frame({":event-type": name, ":message-type": "event"}, body) for name, body in events)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]

    expected = [json.dumps(name, ensure_ascii=False).encode() for name, _ in events]
    found = read(*pieces)

    assert [event.endswith(b":%b}" % (body or b"{}")) for event, (_, body) in zip(found, events, strict=True)] == [
        True
    ] * len(events)
    assert [json.loads(b"{%b:0}" % name) for name in expected] == [{name: 0} for name, _ in events]


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255))
def test_one_wrong_byte_is_damage_or_waits_for_more_and_no_event_is_another(at, change):
    wrong = bytearray(STREAM)
    wrong[at] ^= change
    try:
        found = read(bytes(wrong))
    except FramingError as error:
        found = error.before

    assert found == EVENTS[: len(found)]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    feed = FrameFeed(1_000)
    with suppress(FramingError):
        feed.feed(data)

    assert feed.whole is None or data.startswith(feed.whole)


def test_what_came_before_the_damage_is_not_lost():
    assert damage(STREAM + b"\x00" * 12).before == EVENTS


def test_a_frame_that_is_cut_says_nothing():
    assert read(STREAM[:-1]) == EVENTS[:-1]


def test_a_frame_of_two_gigabytes_is_refused_at_its_first_bytes():
    lengths = (2**31).to_bytes(4, "big") + (0).to_bytes(4, "big")

    assert "more than 1,000,000 bytes" in str(damage(lengths + crc32(lengths).to_bytes(4, "big")))


def prelude(length: int, headers: int) -> bytes:
    lengths = length.to_bytes(4, "big") + headers.to_bytes(4, "big")
    return lengths + crc32(lengths).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00" * 12, "whose length has a wrong checksum"),
        (prelude(16, 4), "shorter than its headers"),
        (STREAM[:-1] + b"\x00", "with a wrong checksum"),
        (prelude(15, 0), "shorter than its headers"),
    ],
)
def test_damage_is_named(data, words):
    assert words in str(damage(data))


@pytest.mark.parametrize("headers", [b"\x05ab", b"\x01a\x07\x00\xffb", b"\x01a\x63", b"\x01\xff\x07\x00\x01b", b"\x09"])
def test_headers_that_cannot_be_read_are_damage(headers):
    front = prelude(16 + len(headers) + 2, len(headers)) + headers + b"{}"

    assert "headers cannot be read" in str(damage(front + crc32(front).to_bytes(4, "big")))


def test_headers_of_every_type_are_passed_over():
    others = b"\x01a\x00\x01b\x01\x01c\x02\x00\x01d\x03\x00\x00\x01e\x04" + b"\x00" * 4 + b"\x01f\x05" + b"\x00" * 8
    others += b"\x01g\x06\x00\x02xy\x01h\x08" + b"\x00" * 8 + b"\x01i\x09" + b"\x00" * 16
    named = b"\x0b:event-type\x07\x00\x01x"
    front = prelude(16 + len(others + named) + 2, len(others + named)) + others + named + b"{}"

    assert read(front + crc32(front).to_bytes(4, "big")) == [b'{"x":{}}']


def test_an_exception_is_an_error_with_its_name_and_its_words():
    (found,) = read(frame(FAILED, b'{"message":"slow down"}'))

    assert json.loads(found) == {"error": {"type": "throttlingException", "message": "slow down"}}


@pytest.mark.parametrize("body", [b"not JSON", b"[1]", b"", b"\xff"])
def test_an_exception_that_is_not_json_is_an_error_all_the_same(body):
    (found,) = read(frame(FAILED, body))

    assert json.loads(found)["error"]["type"] == "throttlingException"


def test_an_error_without_a_shape_has_its_code_and_words():
    (found,) = read(frame({":message-type": "error", ":error-code": "Broken", ":error-message": "it is"}, b""))

    assert json.loads(found)["error"]["type"] == "Broken: it is"


@pytest.mark.parametrize("body", [b'{"message":"no"}', b"<html>", b"\n\n busy", b"Hello!", b"\xef\xbb\xbf{}"])
def test_an_answer_that_is_not_a_stream_is_kept_whole(body):
    feed = FrameFeed(1_000)
    found = [event for at in range(len(body)) for event in feed.feed(body[at : at + 1])]

    assert (found, feed.whole) == ([], body)


def test_a_stream_is_not_a_whole_answer_and_nothing_is_an_empty_one():
    feed = FrameFeed(1_000)
    assert feed.whole == b""
    feed.feed(STREAM)

    assert feed.whole is None
