"""One answer in Markdown on its way to a terminal: what is complete, and what the rest looks like by now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pluggent_host.cli.blocks import Code, CodeEnds, Piece, Rest
from pluggent_host.cli.live import Line
from pluggent_host.cli.output import cells, harmless
from pluggent_host.cli.painting import Painter

_PREVIEWED = 4_000
"""Of how many characters an unfinished block is painted: that happens several times a second."""
_LEAST_COLUMNS = 20


class Markdown:
    """Takes text in pieces of any size; gives every line once, painted and with a line break behind it."""

    def __init__(self) -> None:
        self._painter = Painter(80)
        self._rest = Rest()
        self._half = ""

    def resize(self, columns: int) -> None:
        """Paint for a terminal that is *columns* wide from here on."""
        self._painter.columns = max(columns - 1, _LEAST_COLUMNS)

    def add(self, text: str) -> str:
        """Take *text*, and return the lines of the blocks that are complete now."""
        text = self._half + text
        self._half = "\r" if text.endswith("\r") else ""  # half of a line break, perhaps
        text = text.removesuffix("\r").replace("\r\n", "\n")
        pieces, self._rest = self._rest.add(harmless(text)).divide()
        return self._lines(pieces) + self._settled()

    def end(self) -> str:
        """Return the lines of everything that is left: nothing more will come."""
        pieces = self._rest.add(harmless(self._half)).end()
        self._rest, self._half = Rest(), ""
        return self._lines(pieces)

    def unfinished(self, rows: int) -> Sequence[Line]:
        """Return what the rest looks like, its last *rows* lines at most."""
        source = self._rest.source
        if not source.strip():
            return ()
        if len(source) > _PREVIEWED:
            columns = self._painter.columns
            return [(line, cells(line)) for line in _chopped(source[-rows * columns :], columns)][-rows:]
        pieces = [piece for piece in self._rest.end() if not isinstance(piece, CodeEnds)]
        return self._painter.preview(_ended(pieces))[-rows:]

    def _settled(self) -> str:
        unfinished = self._rest.end()
        return _joined(self._painter.settle(unfinished[0])) if len(unfinished) == 1 else ""

    def _lines(self, pieces: Iterable[Piece]) -> str:
        return _joined(self._painter.paint(pieces))


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _ended(pieces: Iterable[Piece]) -> list[Piece]:
    """Return *pieces* without the empty line of code behind the last line break."""
    kept = list(pieces)
    return kept[:-1] if kept and kept[-1] == Code(("",)) else kept


def _chopped(text: str, columns: int) -> list[str]:
    """Return lines of *columns* characters at most: a look at something long, not a layout."""
    return [line[at : at + columns] for line in text.split("\n") for at in range(0, max(len(line), 1), columns)]
