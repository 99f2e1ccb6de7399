"""A terminal in memory that understands what the stage writes, and shows what a person would see."""

import re
import unicodedata

_PIECES = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Screen:
    """Rows that scroll, with everything that has scrolled out kept in ``text``. No escapes but the stage's own."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns = columns
        self.rows = rows
        self.lines = [""]
        self.row = 0
        self.column = 0
        self._wraps = True

    @property
    def text(self) -> str:
        """All rows, without the spaces at their ends."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")

    def feed(self, written: str) -> None:
        """Show *written*. Raises ValueError for a sequence that the stage has no business with."""
        for private, numbers, letter, character in _PIECES.findall(written):
            if character:
                self._put(character)
            elif letter != "m":
                self._obey(private + numbers + letter)

    def _obey(self, sequence: str) -> None:
        match sequence:
            case "A":
                # Nobody gets above the top of the screen.
                self.row = max(self.row - 1, len(self.lines) - self.rows, 0)
            case "2K":
                self.lines[self.row] = ""
            case "?7l" | "?7h":
                self._wraps = sequence == "?7h"
            case "?2004h" | "?2004l":
                pass
            case _:
                raise ValueError(f"the sequence {sequence!r} was not expected")

    def _put(self, character: str) -> None:
        match character:
            case "\r":
                self.column = 0
            case "\n":
                self._down()
            case _:
                self._show(character)

    def _down(self) -> None:
        self.column = 0  # as a terminal does for a program, ONLCR
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def _show(self, character: str) -> None:
        if ord(character) < 32 or character == "\x7f":
            raise ValueError(f"the character {character!r} was not expected")
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.column + width > self.columns:
            if not self._wraps:
                return
            self._down()
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += width
