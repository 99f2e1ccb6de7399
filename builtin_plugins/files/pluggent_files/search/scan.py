"""Searches the content of open files, piece by piece, without decoding what does not match."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pluggent_workspace_files.reach import PIECE

from pluggent_files.search.patterns import Pattern
from pluggent_files.text import is_binary

LONGEST_LINE = 16 * PIECE
"""Of a longer line only so much is searched at a time."""


class Line(NamedTuple):
    """A line that matches: its number, from 1, its bytes, and where in them the match begins and ends."""

    number: int
    line: bytes
    start: int
    end: int
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()


def matching_lines(
    opened: int, pattern: Pattern, stopped: Callable[[], bool], context: int = 0
) -> Iterator[Line] | None:
    """Return the lines of the open file that match, with *context* lines around; None for a binary file.

    They end early where *stopped* says True, which is asked before each piece.
    """
    first = os.read(opened, PIECE)
    if is_binary(first):
        return None
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _in_utf16(opened, first, pattern, context)
    return _in_pieces(opened, first.removeprefix(codecs.BOM_UTF8), pattern, stopped, context)


def _in_utf16(opened: int, first: bytes, pattern: Pattern, context: int) -> Iterator[Line]:
    """Search a file in UTF-16 as the UTF-8 of its text, as far as it goes."""
    data = first
    while len(data) < LONGEST_LINE and (piece := os.read(opened, PIECE)):
        data += piece
    text = data.decode("utf-16", "replace").encode()
    yield from _matches(text, pattern, 1, context)


def _in_pieces(
    opened: int, first: bytes, pattern: Pattern, stopped: Callable[[], bool], context: int
) -> Iterator[Line]:
    """Search in pieces that end where a line ends. Context does not reach across pieces of a megabyte."""
    number, rest, is_last = 1, first, False
    while not is_last and not stopped():
        piece = os.read(opened, PIECE)
        is_last = not piece
        rest += piece
        end = len(rest) if is_last else rest.rfind(b"\n") + 1
        if end == 0 and len(rest) >= LONGEST_LINE:
            end = len(rest)
        if end:
            yield from _matches(rest if end == len(rest) else rest[:end], pattern, number, context)
            number += rest.count(b"\n", 0, end) if not is_last else 0
            rest = rest[end:]


def _matches(data: bytes, pattern: Pattern, number: int, context: int) -> Iterator[Line]:
    at, counted = 0, 0
    while found := _next(data, pattern, at):
        start, end = found
        if start == len(data) and (not data or data.endswith(b"\n")):
            return  # behind the last line
        first = data.rfind(b"\n", 0, start) + 1
        last = data.find(b"\n", end)
        last = len(data) if last < 0 else last
        number += data.count(b"\n", counted, first)
        counted = first
        before, after = _around(data, first, last, context) if context else ((), ())
        yield Line(number, data[first:last], start - first, end - first, before, after)
        at = last + 1
        if at > len(data):
            return


def _next(data: bytes, pattern: Pattern, at: int) -> tuple[int, int] | None:
    if pattern.literal is not None:
        found = data.find(pattern.literal, at)
        return None if found < 0 else (found, found + len(pattern.literal))
    match = pattern.expression.search(data, at)
    return None if match is None else match.span()


def _around(data: bytes, first: int, last: int, count: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    before: list[bytes] = []
    start = first
    while start > 0 and len(before) < count:
        begin = data.rfind(b"\n", 0, start - 1) + 1
        before.append(data[begin : start - 1])
        start = begin
    after: list[bytes] = []
    end = last
    while end + 1 < len(data) and len(after) < count:
        stop = data.find(b"\n", end + 1)
        stop = len(data) if stop < 0 else stop
        after.append(data[end + 1 : stop])
        end = stop
    return tuple(reversed(before)), tuple(after)
