"""Diffs: applied they give the new text, and no text makes them slow."""

import random
import re

import pytest
from hypothesis import given, strategies as st
from pluggent_files.changes.diff import changed, difference

NO_END = "\\ No newline at end of file"


def applied(old: str, hunks: str) -> str:
    """Return *old* after the *hunks* of a unified diff; they have to fit."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    made: list[str] = []
    at = 0
    diff = hunks.split("\n") if hunks else []
    for number, line in enumerate(diff):
        ended = not (number + 1 < len(diff) and diff[number + 1] == NO_END)
        text = line[1:] + ("\n" if ended else "")
        if header := re.fullmatch(r"@@ -(\d+),(\d+) \+\d+,\d+ @@", line):
            start = int(header[1]) - (header[2] != "0")
            made += lines[at:start]
            at = start
        elif line == NO_END:
            pass
        elif line.startswith("+"):
            made.append(text)
        else:
            assert lines[at] == text
            made += [text] if line.startswith(" ") else []
            at += 1
    return "".join([*made, *lines[at:]])


TEXTS = st.lists(st.sampled_from(["a", "b", "", "c\r", "\u4f60"]), max_size=30).map("\n".join)


@given(TEXTS, TEXTS)
def test_a_diff_applied_gives_the_new_text(old, new):
    found = difference(old, new)

    assert applied(old, found.hunks) == new
    assert bool(found.hunks) == (old != new)


@given(TEXTS, TEXTS, st.integers(0, 5))
def test_a_diff_of_a_part_has_the_numbers_of_the_whole(old, new, above):
    head = "".join(f"line {number}\n" for number in range(above * 10))

    assert applied(head + old, difference(head + old, head + new).hunks) == head + new


@given(TEXTS, TEXTS)
def test_outside_the_part_that_differs_all_is_the_same(old, new):
    start, old_end, new_end = changed(old, new)

    assert old[:start] == new[:start]
    assert old[old_end:] == new[new_end:]


def test_a_line_that_is_added_is_shown_with_three_around():
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("10\n", "10\nnew\n")

    assert difference(old, new).hunks == "@@ -8,6 +8,7 @@\n 8\n 9\n 10\n+new\n 11\n 12\n 13"


def _shuffled(lines: list[str]) -> str:
    return "\n".join(random.Random(1).sample(lines, len(lines)))  # noqa: S311 (the same every time)


NUMBERS = [str(number) for number in range(50_000)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\n" * 100_000, "b\n" * 100_000),
        ("a\n" * 100_000, "a\n" * 50_000 + "b\n" + "a\n" * 50_000),
        ("a\nb\n" * 50_000, "b\na\n" * 50_000),
        ("\n".join(NUMBERS), "\n".join(reversed(NUMBERS))),
        ("\n".join(NUMBERS), _shuffled(NUMBERS)),
        ("\n".join(NUMBERS), "\n".join(f"{number}x" if number.endswith("7") else number for number in NUMBERS)),
        ("x" * 3_000_000, "x" * 2_999_999 + "y"),
    ],
)
def test_hostile_texts_have_a_diff_too(old, new):
    # In quadratic time this would take hours.
    assert applied(old, difference(old, new).hunks) == new
