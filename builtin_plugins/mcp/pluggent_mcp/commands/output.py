"""Output of the commands: lines, a table, one JSON document; without control characters."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from pluggent_mcp.invisible import is_invisible

GAP = "  "
NARROWEST = 20
"""Least width of the last column; in a narrower terminal it is printed on a line of its own."""
WIDEST = 300
"""Width of a row if the output is not a terminal."""


def escape_controls(text: str) -> str:
    r"""Return *text* with control and invisible characters escaped; tabs and line ends stay.

    >>> escape_controls("red\x1b[31m\u202e\u3164")
    'red\\x1b[31m\\u202e\\u3164'
    """
    return "".join(char if char in "\n\t" or not is_invisible(char) else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode()


def line(text: str) -> None:
    """Print *text*."""
    sys.stdout.write(f"{escape_controls(text)}\n")


def note(text: str) -> None:
    """Print *text* for the person, to stderr."""
    sys.stdout.flush()  # to keep the order in a terminal
    sys.stderr.write(f"{escape_controls(text)}\n")


def document(value: object) -> None:
    """Print *value* as JSON in ASCII."""
    sys.stdout.write(f"{json.dumps(value, indent=2)}\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print *rows* in columns; the last one is cut to the width of the terminal, with an ellipsis."""
    shown = [tuple(escape_controls(cell).replace("\n", " ") for cell in row) for row in (columns, *rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(columns) - 1)]
    left = _width() - sum(widths) - len(GAP) * len(widths)
    for row in shown:
        before = GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        if left >= NARROWEST:
            line(f"{before}{GAP}{cut(row[-1], left)}".rstrip())
        else:
            line(before.rstrip())
            line(f"{GAP * 2}{cut(row[-1], _width() - len(GAP) * 2)}")


def cut(text: str, limit: int) -> str:
    r"""Return *text*, no longer than *limit*; the last character marks the cut.

    >>> cut("a long description", 7)
    'a long\u2026'
    """
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > NARROWEST:
        return int(columns)
    try:
        return max(NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return WIDEST
