"""Server-sent events by the HTML standard, wherever the reads are cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st
from pluggent_provider_http.framing.sse import EventSplitter, EventTooLargeError


def split(*chunks: bytes) -> list[bytes]:
    splitter = EventSplitter(1_000_000)
    return [*(event for chunk in chunks for event in splitter.feed(chunk)), *splitter.close()]


def reference(stream: bytes) -> list[bytes]:
    """The standard's text, step by step, on the whole stream; the end counts as a blank line."""
    events, data = [], []
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in [*lines, b""]:
        if line == b"":
            if data:
                events.append(b"\n".join(data))
            data = []
        elif line.startswith(b":"):
            continue
        else:
            name, colon, value = line.partition(b":")
            if name == b"data":
                data.append(value[1:] if colon and value[:1] == b" " else value)
    return events


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_with_lf_cr_or_both(end):
    stream = end.join([b"data: one", b"", b"data: two", b"", b""])

    assert split(stream) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
        (b": ping\n\n: pong\ndata: x\n\n", [b"x"]),
        (b"data: a\ndata: b\ndata:c\n\n", [b"a\nb\nc"]),
        (b"event: message\nid: 7\nretry: 10\ndata: x\n\n", [b"x"]),
        (b"data:x\n\ndata:  y\n\n", [b"x", b" y"]),
        (b"data\n\ndata\ndata\n\n", [b"", b"\n"]),
        (b"\n\n\n\ndata: x\n\n\n\n", [b"x"]),
        (b"database: x\n\nevent: done\n\n", []),
        (b"data: x\n\ndata: [DONE]", [b"x", b"[DONE]"]),
        ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()]),
        (b"", []),
    ],
)
def test_the_standard_is_kept(stream, events):
    assert split(stream) == events


def test_a_cr_ends_its_line_before_the_next_read_comes():
    splitter = EventSplitter(100)

    assert splitter.feed(b"data: x\r\r") == [b"x"]
    assert splitter.feed(b"\ndata: y\r\n\r") == [b"y"]
    assert splitter.feed(b"\ndata: z\n\n") == [b"z"]


def test_a_character_may_be_cut_anywhere():
    stream = 'data: "\N{SNOWMAN}\N{GRINNING FACE}"\n\n'.encode()

    assert split(*(stream[i : i + 1] for i in range(len(stream)))) == ['"\N{SNOWMAN}\N{GRINNING FACE}"'.encode()]


def test_an_event_that_never_ends_is_refused():
    splitter = EventSplitter(1000)

    splitter.feed(b"data: more\n" * 90)

    with pytest.raises(EventTooLargeError):
        splitter.feed(b"data: more\n")


pieces = st.sampled_from(
    (
        *(b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"data: x"),
        *(b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xf0\x9f", b"event: e", b": c", b"id", b"[DONE]", b"\x00"),
    )
)
streams = st.lists(pieces, max_size=30).map(b"".join)


@given(streams, st.lists(st.integers(0, 80), max_size=12))
@example(b"data: x\r\n\r\ndata: y\r\n\r\n", [8, 9, 10, 11])
def test_any_cut_gives_the_events_of_the_standard(stream, cuts):
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]

    assert split(*chunks) == reference(stream)
