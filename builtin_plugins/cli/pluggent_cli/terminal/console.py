"""Output: streams, colours, escaping, columns. Knows neither plugins nor turns."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, TypeAlias

from pluggent_contract_values.escape import escape_all, escape_controls as escape_controls  # noqa: PLC0414 (commands take both from here)

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_NARROW, _WIDEST = 40, 120
_GAP = "  "

Line: TypeAlias = tuple[str, int]
"""A line as it is written, and how many columns it takes."""


class Ink:
    """Colours text for one stream, or leaves it as it is."""

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def __call__(self, style: str, text: str) -> str:
        return f"\033[{_STYLES[style]}m{text}\033[0m" if self.on and text else text


class Console:
    """Standard output for what was asked for, standard error for everything about it.

    ``color`` is auto, always or never. Either stream may be closed; then nothing is written.
    """

    def __init__(
        self,
        color: str = "auto",
        *,
        json: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.json = json
        self.quiet = quiet
        self.verbose = verbose
        self.out_is_terminal = is_terminal(sys.stdout)
        self.err_is_terminal = is_terminal(sys.stderr)
        self.ink = Ink(on=wants_color(color, environ, terminal=self.out_is_terminal))
        self.err_ink = Ink(on=wants_color(color, environ, terminal=self.err_is_terminal))
        self._ascii = ascii_wanted(environ)
        self._column = 0
        """Where standard output stands, if it is a terminal: a note begins on a line of its own."""
        self.above: Callable[[Callable[[], None]], None] | None = None
        """Clears what is drawn at the bottom of the terminal while something is written."""

    # ---- writing -------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Write *text* to standard output as it is, at once."""
        if sys.stdout is None or not text:
            return
        self._put(sys.stdout, text)
        self._column = len(text) - text.rfind("\n") - 1 + (self._column if "\n" not in text else 0)

    def line(self, text: str = "") -> None:
        """Write a line to standard output, on a line of its own."""
        self.write(("\n" if self._column else "") + (self.signs(text) if self.out_is_terminal else text) + "\n")

    def end_line(self) -> None:
        """End the line that standard output is in the middle of, if it is."""
        if self._column:
            self.write("\n")

    def note(self, text: str) -> None:
        """Write a line about the work to standard error, unless that was not wanted."""
        if not self.quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """Write a line to standard error, always."""
        if self.out_is_terminal:
            self.end_line()
        if sys.stderr is not None:
            self._put(sys.stderr, (self.signs(text) if self.err_is_terminal else text) + "\n")

    def problem(self, text: str) -> None:
        """Write what went wrong, escaped, to standard error. On a terminal its lines break at spaces."""
        said = f"error: {escape_controls(text)}"
        lines = prose_lines(said, self.width) if self.err_is_terminal else [said]
        first = self.err_ink("red", "error:") + lines[0].removeprefix("error:")
        self.error("\n".join([first, *lines[1:]]))

    def signs(self, text: str) -> str:
        """Return *text* with ASCII in the place of our signs, where the locale has no others."""
        return text.translate(_SIGNS) if self._ascii and not text.isascii() else text

    def drawn(self, text: str) -> str:
        """Return *text*, a drawn answer, with its lines and bullets in ASCII where the locale has no others."""
        return text.translate(_DRAWN) if self._ascii and not text.isascii() else text

    @property
    def in_line(self) -> bool:
        """Whether standard output is in the middle of a line."""
        return self._column > 0

    def _put(self, stream: IO[str], text: str) -> None:
        def put() -> None:
            stream.write(text)
            stream.flush()

        if self.above is None:
            put()
        else:
            self.above(put)

    def document(self, value: Mapping[str, Any] | Sequence[Any]) -> None:
        """Write *value* as the one JSON document of a command."""
        encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
        self.line(json_text(value, plain=encoding != "utf8"))

    # ---- layout --------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns to write in: those of the terminal, at most 120; 80 where there is none."""
        return width()

    def table(self, head: Sequence[str], rows: Iterable[Row]) -> None:
        """Write *rows* in columns, or, where they do not fit, each cell but the first below it."""
        listed = list(rows)
        widths = [max(map(cells, column)) for column in zip(head, *(row.cells for row in listed), strict=True)]
        fits = sum(widths) + len(_GAP) * (len(widths) - 1) <= self.width
        if fits:
            self.line(self.ink("dim", _joined(head, widths)))
        for row in listed:
            styled = [self.ink(style, cell) for style, cell in zip(row.styles, row.cells, strict=True)]
            if fits:
                pads = [" " * (width - cells(cell)) for width, cell in zip(widths, row.cells, strict=True)]
                self.line(_GAP.join(cell + pad for cell, pad in zip(styled, pads, strict=True)).rstrip())
            else:
                self.line(styled[0])
                self.line(_GAP + " · ".join(cell for cell in styled[1:] if cell))
            for style, text in row.below:
                for part in wrapped(text, self.width - 4):
                    self.line(f"    {self.ink(style, part)}")


def warning(console: Console, text: str) -> str:
    """Return *text* as a line for standard error."""
    return console.err_ink("yellow", f"warning: {escape_all(text)}")


def console_for(options: argparse.Namespace) -> Console:
    """Return the console that *options* ask for."""
    return Console(options.color, json=options.json, quiet=options.quiet, verbose=options.verbose)


class Row:
    """A row of a table; ``below`` are (style, text) paragraphs under it."""

    def __init__(self, cells: Sequence[str], styles: Sequence[str] = (), below: Iterable[tuple[str, str]] = ()) -> None:
        self.cells = [escape_all(cell) for cell in cells]
        self.styles = [*styles, *["plain"] * (len(cells) - len(styles))]
        self.below = [(style, text) for style, text in below if text]


_STYLES["plain"] = "0"


def _joined(texts: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)).rstrip()


# ---- streams and colours ----------------------------------------------------------------


def is_terminal(stream: IO[str] | None) -> bool:
    """Say whether *stream* is there and is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it was closed
        return False


def wants_color(color: str, environ: Mapping[str, str], *, terminal: bool) -> bool:
    """Say whether to colour: as *color* says, else NO_COLOR, else FORCE_COLOR, else on a terminal.

    >>> wants_color("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, terminal=True)
    False
    """
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    forced = environ.get("FORCE_COLOR", "")
    if forced:
        return forced != "0"
    return terminal and environ.get("TERM") != "dumb"


_SIGNS = str.maketrans({"→": "->", "←": "<-", "·": "-", "…": "...", "⏎": "|", "✓": "+", "✗": "x"})
_DRAWN = str.maketrans({"─": "-", "▌": "|", "•": "*"})


def ascii_wanted(environ: Mapping[str, str]) -> bool:
    """Say whether the locale is one without our signs, such as C.

    >>> ascii_wanted({"LC_ALL": "C", "LANG": "en_US.UTF-8"}), ascii_wanted({"LANG": "C.utf8"}), ascii_wanted({})
    (True, False, False)
    """
    chosen = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    return "utf8" not in chosen.lower().replace("-", "")


def width() -> int:
    """Return the columns to write in; see Console.width."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(_NARROW, min(int(columns), _WIDEST))
    for descriptor in (1, 2):
        try:
            return max(_NARROW, min(os.get_terminal_size(descriptor).columns, _WIDEST))
        except OSError:
            continue
    return 80


# ---- text -------------------------------------------------------------------------------


def json_text(value: Mapping[str, Any] | Sequence[Any], *, plain: bool = False) -> str:
    r"""Return *value* as JSON to be read by people too: what steers a terminal is escaped.

    *plain*: all but ASCII is escaped, for an output with another encoding than UTF-8.

    >>> print(json_text(["天\x9b2J"]))
    [
      "天\u009b2J"
    ]
    """
    import json  # 5 ms, for those who asked for it

    text = json.dumps(value, indent=2, ensure_ascii=plain, default=str)
    return re.sub("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", _as_escape, text)


def _as_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def moment(seconds: float) -> str:
    """Return a time (seconds since 1970) as a person here reads it."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # the calendar has no such date
        return "?"


def cells(text: str) -> int:
    """Return how many columns *text* takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata  # for those who write more than ASCII

    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, most: int, size: int | None = None) -> str:
    """Return *text* in *most* columns, or its beginning and how long (*size*, if that is known better) it is.

    >>> cut("abcdefghij" * 10, 30)
    'abcdefghija… (100 characters)'
    """
    if cells(text) <= most:
        return text
    end = f"… ({len(text) if size is None else size:,} characters)"
    left, kept = most - len(end), ""
    for character in text:
        left -= cells(character)
        if left <= 0:
            break
        kept += character
    return kept + end


_CONTINUES = "    … "
"""Begins the continuation of a line: no line itself begins so."""
_LOOKED_BACK = 24
"""How far from the end of a line a space is looked for, to break there."""


def wrapped(text: str, columns: int) -> list[str]:
    """Return the lines of *text*, broken at spaces where they are longer than *columns*.

    >>> wrapped("one two three", 8)
    ['one two', 'three']
    """
    lines: list[str] = []
    for paragraph in escape_controls(text).splitlines() or [""]:
        line = ""
        for word in paragraph.split(" "):
            if line and cells(line) + 1 + cells(word) > columns:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(line)
    return lines


_TO_COPY = re.compile(r"\b(?:pluggent|pip|chmod) [^;()\n]*|\S+ = [^;()\n]*")
_JOINT = "\ue000"


def _joined_words(found: re.Match[str]) -> str:
    words = found[0].rstrip()
    return words.replace(" ", _JOINT) + found[0][len(words) :]


def prose_lines(text: str, columns: int) -> list[str]:
    """Return the lines of *text* as ``wrapped`` does, but a command or a setting in it stays whole, to be copied.

    >>> prose_lines("it is not there; pluggent trust --list", 20)
    ['it is not there;', 'pluggent trust --list']
    """
    return [line.replace(_JOINT, " ") for line in wrapped(_TO_COPY.sub(_joined_words, text), columns)]


def _pieces(line: str, columns: int) -> list[str]:
    """Return an ASCII *line* as ``hanging`` breaks it, at once; nothing where a piece has only blanks."""
    rest = columns - len(_CONTINUES)
    if len(line) <= columns or rest < 1:
        return [line] if len(line) <= columns else []
    pieces: list[str] = []
    at, most = 0, columns
    while len(line) - at > most:
        space = line.rfind(" ", at + most - _LOOKED_BACK, at + most) if most > _LOOKED_BACK else -1
        end = at + most if space < 0 else space + 1
        pieces.append(line[at:end])
        at, most = end, rest
    pieces.append(line[at:])
    return [pieces[0], *(_CONTINUES + piece for piece in pieces[1:])] if all(map(str.strip, pieces)) else []


def hanging(text: str, columns: int) -> list[str]:
    """Return the lines of *text*, each broken where *columns* end, in ASCII at a space if one is near.

    No continuation looks like the beginning of a line.

    >>> hanging("abcdefghij", 8)
    ['abcdefgh', '    … ij']
    >>> hanging("confined: it writes to /srv/ann/project", 36)
    ['confined: it writes to ', '    … /srv/ann/project']
    """
    lines: list[str] = []
    for paragraph in escape_controls(text).splitlines() or [""]:
        if paragraph.isascii() and (pieces := _pieces(paragraph, columns)):
            lines += pieces
            continue
        line = ""
        for character in paragraph:
            if cells(line + character) > columns and line.strip(_CONTINUES):
                lines.append(line)
                line = _CONTINUES
            line += character
        lines.append(line)
    return lines
