"""Writes the answer of a model to standard output as it comes: plainly, or as Markdown on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from pluggent_cli.terminal.console import Console, escape_controls
from pluggent_cli.terminal.live import Line, terminal_size

if TYPE_CHECKING:  # 150 ms, for terminals alone
    from pluggent_cli.terminal.markdown import Markdown

_LIBRARIES = ("markdown_it", "rich")


class Answer(Protocol):
    """What a turn's text is written to, in pieces."""

    def add(self, text: str) -> None:
        """Take what comes next."""
        ...

    def end(self) -> None:
        """Write all that there is, and end its line: something else follows."""
        ...

    def drop(self) -> None:
        """What was added is void: write no more of it."""
        ...

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        """Write what is complete; return the end of the rest, *rows* lines at most."""
        ...


def answer_for(console: Console, *, plain: bool, environ: Mapping[str, str] = os.environ) -> Answer:
    """Return Markdown on a terminal with colours, if its libraries are installed; else, or if *plain*, the text."""
    dumb = environ.get("TERM", "dumb") == "dumb"
    if plain or dumb or not (console.out_is_terminal and console.ink.on) or not all(map(find_spec, _LIBRARIES)):
        return PlainAnswer(console)
    return MarkdownAnswer(console)


class PlainAnswer:
    """The text as it is; escaped for a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def add(self, text: str) -> None:
        self._console.write(escape_controls(text) if self._console.out_is_terminal else text)

    def end(self) -> None:
        self._console.end_line()

    def drop(self) -> None:
        pass

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        return ()


class MarkdownAnswer:
    """Blocks are written as soon as they are complete; ``frame`` returns the unfinished one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._new: list[str] = []
        self._painted: Markdown | None = None
        self._frames = 0

    def add(self, text: str) -> None:
        self._new.append(text)

    def end(self) -> None:
        if self._new or self._painted is not None:
            painted = self._take_in(terminal_size(sys.stdout).columns)
            self._console.write(painted.end())
        self._painted = None

    def drop(self) -> None:
        self._new.clear()
        self._painted = None

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        self._frames += 1
        if self._new or self._painted is not None:
            return self._take_in(columns).unfinished(rows)
        if self._frames > 1:
            _new_markdown()  # imports rich while the model works
        return ()

    def _take_in(self, columns: int) -> Markdown:
        if self._painted is None:
            self._painted = _new_markdown()
        self._painted.resize(columns)
        text = "".join(self._new)
        self._new.clear()
        self._console.write(self._painted.add(text))
        return self._painted


def _new_markdown() -> Markdown:
    # Here and not above: rich costs 150 ms, for answers on a terminal alone.
    from pluggent_cli.terminal.markdown import Markdown

    return Markdown()
