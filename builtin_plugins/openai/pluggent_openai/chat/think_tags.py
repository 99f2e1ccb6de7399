"""Thinking that stands in the text between <think> and </think>, of servers that do not take it out. Pure.

Only at the beginning of a reply: a tag later in a text, or right behind a quotation mark or a backtick, is
something that the model writes about.
"""

from __future__ import annotations

from pluggent_hookspecs import ReasoningDelta, TextDelta
from pluggent_provider_http.delta_batch import Batch

_OPEN, _CLOSE = "<think>", "</think>"
_MOST_HELD = 1_000
"""A reply that begins with more white space than this is text."""
_QUOTES = frozenset("`\"'")


class ThinkTags:
    """Parts a text that comes in pieces, wherever it is cut. ``decided``: all that follows is text.

    >>> tags, batch = ThinkTags(), Batch()
    >>> for piece in ("<thi", "nk>hm", "</think", ">", "Yes."):
    ...     tags.feed(piece, batch)
    >>> tags.end(batch)
    >>> batch.done()
    [ReasoningDelta(text='hm', signature=None), TextDelta(text='Yes.')]
    """

    __slots__ = ("_held", "_inside", "_last", "_over", "_skips", "decided")

    def __init__(self) -> None:
        self.decided = False
        self._held = ""
        self._inside = self._over = False
        self._skips = False  # line ends right behind a tag
        self._last = ""  # the last character of thinking that was handed on

    def feed(self, text: str, batch: Batch) -> None:
        """Add what *text* brings to *batch*, as thinking or as text."""
        self._held += text
        if not self.decided and not self._inside and not self._over:
            self._begin(batch)
        if self._inside:
            self._think(batch)
        if self.decided or self._over:
            self._speak(batch)

    def end(self, batch: Batch) -> None:
        """Add what was held, at the end of a reply or before what is no text; all that follows is text."""
        batch.grow(ReasoningDelta if self._inside else TextDelta, self._held)
        self._held = ""
        self._inside = self._skips = False
        self.decided = True

    def _begin(self, batch: Batch) -> None:
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._inside = self._skips = True
            self._held = start.removeprefix(_OPEN)
        elif not _OPEN.startswith(start) or len(self._held) > _MOST_HELD:
            self.end(batch)

    def _think(self, batch: Batch) -> None:
        self._skip_line_ends()
        at = self._closing()
        if at < 0:
            kept = next((size for size in range(len(_CLOSE) - 1, 0, -1) if self._held.endswith(_CLOSE[:size])), 0)
            self._hand_on(batch, len(self._held) - kept)
            return
        self._hand_on(batch, at)
        self._held = self._held.removeprefix(_CLOSE)
        self._inside, self._over, self._skips = False, True, True

    def _closing(self) -> int:
        """Return where the end tag begins in what is held, -1 if it is not there."""
        at = self._held.find(_CLOSE)
        while at >= 0 and (self._held[at - 1] if at else self._last) in _QUOTES:
            at = self._held.find(_CLOSE, at + 1)
        return at

    def _hand_on(self, batch: Batch, count: int) -> None:
        thought, self._held = self._held[:count], self._held[count:]
        if thought:
            batch.grow(ReasoningDelta, thought)
            self._last = thought[-1]

    def _speak(self, batch: Batch) -> None:
        self._skip_line_ends()
        batch.grow(TextDelta, self._held)
        self._held = ""
        self.decided = not self._skips

    def _skip_line_ends(self) -> None:
        if self._skips:
            self._held = self._held.lstrip("\r\n")
            self._skips = not self._held
