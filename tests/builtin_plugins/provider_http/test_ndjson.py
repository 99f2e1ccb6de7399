"""Newline-delimited JSON: the same lines, wherever the reads were cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pluggent_provider_http.framing import FramingError
from pluggent_provider_http.ndjson import LineFeed

values = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3), max_leaves=5
)


def read(pieces: list[bytes], **options: Any) -> list[bytes]:
    feed = LineFeed(**options)
    return [line for piece in pieces for line in feed.feed(piece)] + feed.end()


@given(st.lists(values, max_size=6), st.data())
def test_lines_are_the_same_however_they_are_cut(told: list[Any], data: st.DataObject) -> None:
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"])) for _ in told]
    lines = [json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") for value in told]
    stream = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    if told and data.draw(st.booleans()):
        stream = stream.rstrip(b"\r\n")
    places = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream)), max_size=8))})

    found = read([stream[start:end] for start, end in pairwise(places)])

    assert [line.rstrip(b"\r") for line in found] == lines


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_any_bytes_are_lines_or_an_error(pieces: list[bytes]) -> None:
    try:
        found = read(pieces, max_event_bytes=16)
    except FramingError:
        return

    assert b"".join(found).translate(None, b" \t\r\n\x0b\x0c") == b"".join(pieces).removeprefix(
        b"\xef\xbb\xbf"
    ).translate(None, b" \t\r\n\x0b\x0c")


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert read([b"\xef\xbb\xbf{}\n", b"\xef\xbb\xbf{}\n"]) == [b"{}", b"\xef\xbb\xbf{}"]


def test_what_came_before_a_line_that_is_too_long_is_kept() -> None:
    feed = LineFeed(max_event_bytes=10)

    with pytest.raises(FramingError, match="more than 10 bytes") as caught:
        feed.feed(b'{"a": 1}\n{"b": 2}\n' + b"x" * 11)

    assert caught.value.before == [b'{"a": 1}', b'{"b": 2}']
