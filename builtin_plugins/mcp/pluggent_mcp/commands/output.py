"""How the commands print: plain lines, a table, one JSON document. Nothing in it does anything to a terminal."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Sequence

GAP = "  "
NARROWEST = 20
"""Columns that the last cell of a row has at least; where there are fewer, it stands below the others."""
WIDEST = 300
"""Characters of a row where there is no terminal: somebody may look for what stands at its end."""


def harmless(text: str) -> str:
    r"""Return *text* without what steers a terminal or cannot be seen; tabs and ends of lines stay.

    >>> harmless("red\x1b[31m\u202e")
    'red\\x1b[31m\\u202e'
    """
    return "".join(char if char in "\n\t" or unicodedata.category(char)[0] != "C" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode()


def line(text: str) -> None:
    """Print *text*."""
    sys.stdout.write(f"{harmless(text)}\n")


def note(text: str) -> None:
    """Tell the person *text*, beside the output."""
    sys.stdout.flush()  # at a terminal each stands where it belongs
    sys.stderr.write(f"{harmless(text)}\n")


def document(value: object) -> None:
    """Print *value* as JSON; ASCII, which no terminal takes amiss."""
    sys.stdout.write(f"{json.dumps(value, indent=2)}\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print *rows* in columns; the last one is cut to the width of the terminal, and shows that it was."""
    shown = [tuple(harmless(cell).replace("\n", " ") for cell in row) for row in (columns, *rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(columns) - 1)]
    room = _width() - sum(widths) - len(GAP) * len(widths)
    for row in shown:
        before = GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        if room >= NARROWEST:
            line(f"{before}{GAP}{cut(row[-1], room)}".rstrip())
        else:
            line(before.rstrip())
            line(f"{GAP * 2}{cut(row[-1], _width() - len(GAP) * 2)}")


def cut(text: str, limit: int) -> str:
    r"""Return *text*, no longer than *limit*; the last character says that something is missing.

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
