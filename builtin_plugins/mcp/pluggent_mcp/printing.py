"""How the commands print: plain lines, a table, one JSON document. Nothing in it does anything to a terminal."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Sequence


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
    sys.stderr.write(f"{harmless(text)}\n")


def document(value: object) -> None:
    """Print *value* as JSON; ASCII, which no terminal takes amiss."""
    sys.stdout.write(f"{json.dumps(value, indent=2)}\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print *rows* in columns."""
    shown = [tuple(harmless(cell).replace("\n", " ") for cell in row) for row in (columns, *rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(columns))]
    for row in shown:
        line("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
