"""Shows output to the person while a command runs: whole lines, several at a time."""

from __future__ import annotations

import asyncio

from pluggent_hookspecs import ToolContext

_PAUSE_S = 0.1
_MOST_TEXT = 4_000
"""Characters that are shown at a time; of more only the end is."""


class LiveOutput:
    """Reports output as progress: the number of lines so far, and the new ones."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._text = ""
        self._lines = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, text: str) -> None:
        """Take more output; it is shown soon."""
        self._lines += text.count("\n")
        self._text = (self._text + text)[-2 * _MOST_TEXT :]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._show)

    def close(self) -> None:
        """Show what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._report(self._text)
        self._text = ""

    def _show(self) -> None:
        self._timer = None
        whole, newline, rest = self._text.rpartition("\n")
        if not newline and len(rest) > _MOST_TEXT:
            whole, rest = rest, ""
        self._text = rest
        self._report(whole)

    def _report(self, text: str) -> None:
        if text.strip():
            cut = (
                text
                if len(text) <= _MOST_TEXT
                else f"…{text[-_MOST_TEXT:].partition(chr(10))[2] or text[-_MOST_TEXT:]}"
            )
            self._context.progress(self._lines, None, cut)
