"""Suggests the nearest known name after a mistake. Standard library only: every start loads this."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name most like *word*, or ``""``.

    >>> did_you_mean("decide_toolcall", ["decide_tool_call"]), did_you_mean("zebra", ["observe"])
    ("; did you mean 'decide_tool_call'?", '')
    """
    import difflib  # 1 ms, and only needed after a mistake

    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
