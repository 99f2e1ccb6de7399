"""Unified diffs in time that grows with the lines: unique lines are anchors, only small gaps are compared. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

AROUND = 3
"""Lines of context."""
MOST_COMPARED = 10_000
"""Pairs of lines that are compared in a gap; a larger one is shown as taken out and put in."""


class Span(NamedTuple):
    """Lines ``old_start`` to ``old_end`` become ``new_start`` to ``new_end``, counted from 0, ends excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Diff(NamedTuple):
    """The difference of two texts: the hunks of a unified diff, and how many lines it adds and takes out."""

    hunks: str
    added: int
    removed: int


class Changed(NamedTuple):
    """The part of two texts in which they differ, whole lines with some around: from ``start`` to the ends."""

    start: int
    old_end: int
    new_end: int

    @property
    def size(self) -> int:
        """The characters of the larger part."""
        return max(self.old_end, self.new_end) - self.start


def changed(old: str, new: str) -> Changed:
    r"""Return the part that differs.

    >>> changed("a\nb\n", "a\nc\n")
    Changed(start=0, old_end=4, new_end=4)
    """
    most = min(len(old), len(new))
    head = _common(most, lambda at, end: old[at:end] == new[at:end])
    ends = len(old), len(new)
    tail = _common(most - head, lambda at, end: old[ends[0] - end : ends[0] - at] == new[ends[1] - end : ends[1] - at])
    start = head
    for _ in range(AROUND + 1):
        start = max(0, old.rfind("\n", 0, start))
    start += old.startswith("\n", start) and start > 0
    end = len(old) - tail
    for _ in range(AROUND + 1):
        end = (old.find("\n", end) + 1) or len(old)
    return Changed(start, end, end + len(new) - len(old))


def _common(most: int, is_same: Callable[[int, int], bool]) -> int:
    """Return how many of the first *most* characters are the same, compared in pieces."""
    at, step = 0, 1 << 16
    while step:
        while at + step <= most and is_same(at, at + step):
            at += step
        step >>= 1
    return at


def difference(old: str, new: str, within: Changed | None = None) -> Diff:
    r"""Return the difference of two texts. Lines end with ``\n`` alone.

    >>> print(difference("a\nb\n", "a\nc\n").hunks)
    @@ -1,2 +1,2 @@
     a
    -b
    +c
    """
    start, old_end, new_end = within or changed(old, new)
    before, after = lines_of(old[start:old_end]), lines_of(new[start:new_end])
    spans = list(differences(before, after))
    above = old.count("\n", 0, start)
    made = [line for group in _grouped(spans) for line in _hunk(before, after, group, above)]
    added = sum(span.new_end - span.new_start for span in spans)
    return Diff("\n".join(made), added, sum(span.old_end - span.old_start for span in spans))


def lines_of(text: str) -> list[str]:
    r"""Return the lines of *text*, each with its ``\n``."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def differences(old: list[str], new: list[str]) -> Iterator[Span]:
    """Yield the spans in which *old* and *new* differ, in their order."""
    last: Span | None = None
    for span in _between(old, new, Span(0, len(old), 0, len(new)), is_deep=True):
        if last is not None and last.old_end == span.old_start and last.new_end == span.new_start:
            last = Span(last.old_start, span.old_end, last.new_start, span.new_end)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _between(old: list[str], new: list[str], within: Span, *, is_deep: bool) -> Iterator[Span]:
    start, end, new_start, new_end = within
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    gap = Span(start, end, new_start, new_end)
    if start == end or new_start == new_end:
        if start != end or new_start != new_end:
            yield gap
    elif (end - start) * (new_end - new_start) <= MOST_COMPARED:
        yield from _compared(old, new, gap)
    elif is_deep and (anchors := _anchors(old, new, gap)):
        at, new_at = start, new_start
        for anchor, new_anchor in (*anchors, (end, new_end)):
            yield from _between(old, new, Span(at, anchor, new_at, new_anchor), is_deep=False)
            at, new_at = anchor, new_anchor
    else:
        yield gap


def _compared(old: list[str], new: list[str], gap: Span) -> Iterator[Span]:
    from difflib import SequenceMatcher  # when something has changed

    start, end, new_start, new_end = gap
    for tag, a, b, c, d in SequenceMatcher(None, old[start:end], new[new_start:new_end], autojunk=False).get_opcodes():
        if tag != "equal":
            yield Span(start + a, start + b, new_start + c, new_start + d)


def _anchors(old: list[str], new: list[str], gap: Span) -> list[tuple[int, int]]:
    """Return the lines that both have once, in an order that both have (patience diff)."""
    start, end, new_start, new_end = gap
    counts = Counter(old[start:end])
    new_counts = Counter(new[new_start:new_end])
    places = {line: at for at, line in enumerate(new[new_start:new_end], new_start) if new_counts[line] == 1}
    pairs = [
        (at, places[line]) for at, line in enumerate(old[start:end], start) if counts[line] == 1 and line in places
    ]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of *pairs* in which the second numbers rise."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, value) in enumerate(pairs):
        at = bisect_left(ends, value)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1] = [value]
        last[at : at + 1] = [number]
    found: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _grouped(spans: list[Span]) -> Iterator[list[Span]]:
    group: list[Span] = []
    for span in spans:
        if group and span.old_start - group[-1].old_end > 2 * AROUND:
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _hunk(old: list[str], new: list[str], group: list[Span], above: int) -> Iterator[str]:
    first, last = group[0], group[-1]
    lead = min(AROUND, first.old_start)
    tail = min(AROUND, len(old) - last.old_end)
    start, end = first.old_start - lead, last.old_end + tail
    new_start, new_end = first.new_start - lead, last.new_end + tail
    yield f"@@ -{_range(start, end, above)} +{_range(new_start, new_end, above)} @@"
    at = start
    for span in group:
        yield from _marked(" ", old[at : span.old_start])
        yield from _marked("-", old[span.old_start : span.old_end])
        yield from _marked("+", new[span.new_start : span.new_end])
        at = span.old_end
    yield from _marked(" ", old[at:end])


def _range(start: int, end: int, above: int) -> str:
    size = end - start
    return f"{above + start + 1 if size else above + start},{size}"


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line.removesuffix(chr(10))}"
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
