"""Paints the pieces of one answer, one after the other, as lines for a terminal."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

from pluggent_host.cli.blocks import Code, CodeBegins, CodeEnds, Item, Piece, Prose
from pluggent_host.cli.markup import DIM, LONGEST_BLOCK, ansi, code, markdown, paragraph, wrapped
from pluggent_host.cli.output import harmless

_WIDEST_PROSE = 120
_CONTEXT_LINES, _CONTEXT_CHARACTERS = 100, 8_000
"""How far back highlighting looks, for strings and comments of many lines."""
_SEAM = 30
"""By how many characters the end of what was printed is found again."""


class Painter:
    """Paints one answer, piece after piece; between blocks there is an empty line."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._language = ""
        self._before: tuple[str, ...] = ()
        self._begun = False
        self._printed = ""
        """What was painted already of the next piece, a paragraph, as plain text."""

    def paint(self, pieces: Iterable[Piece]) -> list[str]:
        """Return the lines of *pieces*, with escape sequences for their styles."""
        return [ansi(line) for piece in pieces for line in self._spaced(piece)]

    def settle(self, piece: Piece) -> list[str]:
        """Return the lines of *piece*, the unfinished one, that stay as they are whatever follows; each once.

        Those are lines of a paragraph before everything that may turn out to be markup.
        """
        found = None
        if isinstance(piece, Prose) and len(piece.source) <= LONGEST_BLOCK:
            found = paragraph(_whole_words(piece.source))
        if found is None or not found[0].plain.startswith(self._printed):
            return []
        text, sure = found
        lines = wrapped(text[len(self._printed) : sure], self._prose_columns)[:-1]
        at = len(self._printed)
        for line in lines:
            said = line.plain.strip()
            at = text.plain.find(said, at) + len(said)
        if not lines or not text.plain[at : at + 1].isspace():
            return []
        space = [] if self._printed or not self._begun else [Text()]
        self._printed, self._begun = text.plain[: at + 1], True
        return [ansi(line) for line in space + lines]

    def preview(self, pieces: Iterable[Piece]) -> list[tuple[str, int]]:
        """Return the lines as *pieces* look so far, with their widths; they will be painted again when complete."""
        copied = copy.copy(self)
        lines = [line for piece in pieces for line in copied._spaced(piece)]  # noqa: SLF001 (a copy of itself)
        for line in lines:
            line.expand_tabs(4)
        return [(ansi(line), cell_len(line.plain)) for line in lines]

    @property
    def _prose_columns(self) -> int:
        return min(self.columns, _WIDEST_PROSE)

    def _spaced(self, piece: Piece) -> list[Text]:
        joins = isinstance(piece, Code | CodeEnds) or (isinstance(piece, Item) and not piece.first)
        space = [Text()] if self._begun and not joins and not self._printed else []
        self._begun = True
        return space + self._piece(piece)

    def _piece(self, piece: Piece) -> list[Text]:
        printed, self._printed = self._printed, ""
        match piece:
            case CodeBegins(info):
                self._language, self._before = info, ()
                return [Text(f"```{harmless(info)}", DIM)]
            case Code(lines):
                starts = range(0, len(lines), _CONTEXT_LINES)
                return [line for at in starts for line in self._code(lines[at : at + _CONTEXT_LINES])]
            case CodeEnds():
                return [Text("```", DIM)]
            case Item(source, number):
                return markdown(source, self._prose_columns, number)
            case Prose(source):
                return _rest_of(source, printed, self._prose_columns)

    def _code(self, lines: tuple[str, ...]) -> list[Text]:
        painted = code((*self._before, *lines), self._language)[len(self._before) :]
        self._before = (*self._before, *lines)[-_CONTEXT_LINES:]
        while sum(map(len, self._before)) > _CONTEXT_CHARACTERS:
            self._before = self._before[len(self._before) // 2 + 1 :]
        return painted


def _rest_of(source: str, printed: str, columns: int) -> list[Text]:
    """Return the lines of *source* behind what was *printed*."""
    if not printed:
        return markdown(source, columns, None)
    found = paragraph(source) if len(source) <= LONGEST_BLOCK else None
    if found is not None and found[0].plain.startswith(printed):
        rest = found[0][len(printed) :]
    else:  # it became something else; rather twice than not at all
        seam = printed[-_SEAM:].strip()
        rest = Text(harmless(source[source.find(seam) + len(seam) :] if seam in source else source).strip())
    return wrapped(rest, columns) if rest.plain.strip() else []


def _whole_words(source: str) -> str:
    """Return *source* without its last word: marks at the very end mean something else when more of them come."""
    end = max(source.rfind(" "), source.rfind("\n"))
    return source[: end + 1]
