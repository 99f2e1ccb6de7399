"""Suggests the known name that a misspelt one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name most like *word*, or ``""``.

    >>> nearest("decide_toolcall", ["decide_tool_call", "observe"])
    "; did you mean 'decide_tool_call'?"
    >>> nearest("zebra", ["decide_tool_call", "observe"])
    ''
    """
    import difflib  # 1 ms, and only somebody who made a mistake waits for it

    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
