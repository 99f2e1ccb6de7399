"""Lines at the end of a terminal that are drawn in place and go away without trace. Knows no turn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO, TypeAlias

from pluggent_host.cli.output import cells

Line: TypeAlias = tuple[str, int]
"""A line as it is written, and how many columns it takes."""

_CLEAR, _UP = "\x1b[2K", "\x1b[A"
"""Line by line: some terminals keep in their history what is cleared all at once."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""While a line is cut at the margin, it takes one row, however wide a terminal thinks an emoji is."""
_ASSUMED = os.terminal_size((80, 24))


def terminal_size(stream: TextIO) -> os.terminal_size:
    """Return columns and lines of the terminal behind *stream*; 80 by 24 where they are not known."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _ASSUMED
    return os.terminal_size((size.columns or _ASSUMED.columns, size.lines or _ASSUMED.lines))


class Live:
    """Draws on *stream*. Without *escapes* it draws one line, and only by writing over it."""

    def __init__(self, stream: TextIO, *, escapes: bool) -> None:
        self._stream = stream
        self._escapes = escapes
        self._drawn: tuple[Line, ...] = ()
        self._columns = 0

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines of the terminal."""
        return terminal_size(self._stream)

    def draw(self, lines: Sequence[Line]) -> None:
        """Show *lines* in place of those that are there."""
        columns = self.size.columns
        new = tuple(lines) if self._escapes else tuple(_cut(line, columns - 1) for line in lines[-1:])
        if new == self._drawn and columns == self._columns:
            return
        erased = self._erasing(columns)
        self._drawn, self._columns = new, columns
        text = "\r\n".join(line for line, _ in new)
        self._write(erased + (f"{_NO_WRAP}{text}{_WRAP}" if new and self._escapes else text))

    def clear(self) -> None:
        """Take the lines away."""
        if self._drawn:
            erased = self._erasing(self.size.columns)
            self._drawn = ()
            self._write(erased)

    def forget(self) -> None:
        """Leave alone what is there: somebody else has had the terminal."""
        self._drawn = ()

    def _erasing(self, columns: int) -> str:
        """Return what takes the drawn lines away, on a terminal that is *columns* wide by now."""
        if not self._drawn:
            return ""
        if not self._escapes:
            return "\r" + " " * self._drawn[0][1] + "\r"
        # A terminal that has become narrower has broken what was too wide for it.
        rows = sum(max(1, -(-min(width, self._columns) // columns)) for _, width in self._drawn)
        return "\r" + _CLEAR + (_UP + _CLEAR) * (rows - 1)

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()


def _cut(line: Line, columns: int) -> Line:
    text, _ = line
    while cells(text) > columns:
        text = text[:-1]
    return text, cells(text)
