"""Patterns of the operator: matched by RE2 in linear time, and no longer than can be held back of a stream.

What may be written is what has a longest match: letters, classes, groups, alternatives and
bounded repeats. ``*``, ``+``, ``{n,}``, anchors and looking around are refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import re2  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]

from pluggent_redact.stream_engine import LONGEST_MATCH, Match

SHORTEST = 3
"""Characters that a match has at least; shorter matches would hide half of every text."""
LONGEST_SOURCE = 500
_MEMORY = 4 << 20
_CLASSES = "dDwWsS"
_SIGNS = frozenset(".+*?()[]{}|^$\\/-_:;,=@#%&!~<>\"'` tnr")


FIRST_PIECE = 256
PIECE = 1 << 14
"""Characters that are looked through at first, and at most at once: RE2 reads what it is given from the beginning."""


@attrs.frozen
class Found:
    """Where something was found."""

    begin: int
    finish: int

    def start(self, group: str | int = 0, /) -> int:
        return self.begin

    def end(self, group: str | int = 0, /) -> int:
        return self.finish


@attrs.frozen(eq=False)
class Pattern:
    """A pattern of the operator, ready to find. ``width`` is the length of its longest match."""

    kind: str
    width: int
    search: Callable[[str], Match | None]
    anchors: tuple[str, ...] = ()
    group: str | int = 0

    def find(self, text: str, pos: int, end: int) -> Found | None:
        """Return the first match from *pos* on, before *end*."""
        piece = FIRST_PIECE
        while pos < end:
            stop = min(end, pos + piece)
            found = self._searched(text[pos : min(end, stop + self.width)])
            if found is not None and pos + found.start() < stop:
                return Found(pos + found.start(), pos + found.end())
            pos, piece = stop, min(PIECE, 2 * piece)
        return None

    def _searched(self, text: str) -> Match | None:
        try:
            return self.search(text)
        except UnicodeEncodeError:  # RE2 reads UTF-8, and a lone surrogate is none
            return self.search("".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text))

    def begins(self, text: str, pos: int, end: int, *, fresh: bool) -> int | None:
        """Return from where on a match may not be all there."""
        first = max(pos, end - self.width + 1)
        return first if first < end else None


def pattern(kind: str, source: str, *, ignore_case: bool = False) -> Pattern:
    """Make a Pattern. Raises ValueError if *source* cannot be read, or has no longest match.

    >>> pattern("staff", "EMP-[0-9]{6,8}").width
    12
    """
    if len(source) > LONGEST_SOURCE:
        raise ValueError(f"a pattern has up to {LONGEST_SOURCE} characters")
    least, most = _Reader(source).whole()
    if least < SHORTEST or most > LONGEST_MATCH:
        raise ValueError(f"it matches {least} to {most} characters, and {SHORTEST} to {LONGEST_MATCH} are possible")
    options: Any = cast("Any", re2).Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    try:
        made: Any = cast("Any", re2).compile(source, options)
    except Exception as error:  # its class is not part of its promise
        raise ValueError(f"RE2 cannot read it: {_told(error)}") from error
    return Pattern(kind, most, made.search)


def _told(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


class _Reader:
    """Reads a pattern for the lengths of its shortest and its longest match."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0

    def whole(self) -> tuple[int, int]:
        found = self._alternatives()
        if self._at < len(self._source):
            raise self._problem("there is a ) too many")
        return found

    def _alternatives(self) -> tuple[int, int]:
        found = [self._sequence()]
        while self._taken("|"):
            found.append(self._sequence())
        return min(least for least, _ in found), max(most for _, most in found)

    def _sequence(self) -> tuple[int, int]:
        least = most = 0
        while self._next() not in ("", "|", ")"):
            low, high = self._repeated(*self._item())
            least, most = least + low, most + high
        return least, most

    def _item(self) -> tuple[int, int]:
        letter = self._next()
        self._at += 1
        if letter == "(":
            return self._group()
        if letter == "[":
            self._class()
        elif letter == "\\":
            self._escape()
        elif letter in ("*", "+", "?", "{", "^", "$"):
            raise self._problem(f"{letter} is not possible here")
        return 1, 1

    def _group(self) -> tuple[int, int]:
        if self._taken("?") and not self._taken(":"):
            raise self._problem("of groups with ? only (?:…) is possible")
        self._depth += 1
        if self._depth > 20:  # noqa: PLR2004 (deeper than any real pattern)
            raise self._problem("groups are too deep")
        found = self._alternatives()
        if not self._taken(")"):
            raise self._problem("a ) is missing")
        self._depth -= 1
        return found

    def _class(self) -> None:
        self._taken("^")
        first = True
        while first or self._next() != "]":
            letter = self._next()
            self._at += 1
            if not letter:
                raise self._problem("a ] is missing")
            if letter == "\\":
                self._escape()
            elif letter == "[":
                raise self._problem("write \\[ for a [ in a class")
            first = False
        self._at += 1

    def _escape(self) -> None:
        letter = self._next()
        self._at += 1
        if not letter or letter not in (*_CLASSES, *_SIGNS):
            raise self._problem(f"\\{letter} is not possible; there are \\d \\w \\s, in capitals too, and signs")

    def _repeated(self, least: int, most: int) -> tuple[int, int]:
        sign = self._next()
        if sign in ("*", "+"):
            raise self._problem(f"{sign} has no end; write {{1,64}}, or how many there may be")
        if sign == "?":
            self._at += 1
            least = 0
        elif sign == "{":
            least, most = self._counted(least, most)
        else:
            return least, most
        if self._next() in ("?", "+", "*", "{"):
            raise self._problem("a repeat is not repeated")
        return least, most

    def _counted(self, least: int, most: int) -> tuple[int, int]:
        end = self._source.find("}", self._at)
        low, comma, high = self._source[self._at + 1 : max(end, 0)].partition(",")
        if not (low.isascii() and low.isdecimal()) or (comma and not (high.isascii() and high.isdecimal())):
            raise self._problem("a repeat is {n} or {n,m}")
        self._at = end + 1
        times = (int(low), int(high if comma else low))
        if times[1] > LONGEST_MATCH or times[0] > times[1]:
            raise self._problem(f"a repeat goes up to {LONGEST_MATCH}, and upwards")
        return least * times[0], most * times[1]

    def _next(self) -> str:
        return self._source[self._at : self._at + 1]

    def _taken(self, letter: str) -> bool:
        taken = self._next() == letter
        self._at += taken
        return taken

    def _problem(self, what: str) -> ValueError:
        return ValueError(f"at character {self._at}: {what}")
