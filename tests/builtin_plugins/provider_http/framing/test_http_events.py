"""What an answer is shows in its first bytes, wherever the reads are cut."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from pluggent_provider_http.framing.sse import EventFeed, EventTooLargeError

BOM = b"\xef\xbb\xbf"


def fed(*reads: bytes) -> tuple[list[bytes], bytes | None]:
    """Return the events of an answer that came in these reads, and what it is if it is no stream."""
    feed = EventFeed()
    events = [event for data in reads for event in feed.feed(data)]
    return [*events, *feed.end()], feed.whole


@pytest.mark.parametrize(
    ("answer", "events", "whole"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"], None),
        (b": hello\n\ndata: a\n\n", [b"a"], None),
        (b"\n\n \ndata: a\n\n", [b"a"], None),
        (BOM + b"data: a\n\n", [b"a"], None),
        (b"event: x\ndata: {}\n\n", [b"{}"], None),
        (b'{"a": 1}', [], b'{"a": 1}'),
        (b" \n[1]", [], b" \n[1]"),
        (BOM + b"<html>", [], b"<html>"),
        (b"", [], b""),
        (b" \n", [], b" \n"),
        (BOM[:2], [], BOM[:2]),
    ],
)
def test_a_stream_is_told_from_what_is_none(answer, events, whole):
    assert fed(answer) == (events, whole)
    assert fed(*(answer[at : at + 1] for at in range(len(answer)))) == (events, whole)


@given(st.lists(st.sampled_from((b"data: x", b"\n", b"\r\n", b" ", b"{", b"<", BOM, b":")), max_size=12).map(b"".join),
       st.lists(st.integers(0, 60), max_size=6))  # fmt: skip
def test_cuts_change_nothing(answer, cuts):
    edges = [0, *sorted(min(cut, len(answer)) for cut in cuts), len(answer)]

    assert fed(*(answer[a:b] for a, b in pairwise(edges))) == fed(answer)


def test_an_event_has_its_limit():
    feed = EventFeed(100)

    with pytest.raises(EventTooLargeError):
        feed.feed(b"data: " + b"x" * 200)
