"""The deltas of one read, in order; neighbouring pieces of text and of thinking become one."""

from __future__ import annotations

from collections.abc import Iterable

from pluggent_hookspecs import Delta, ReasoningDelta, TextDelta


class Batch:
    """Collects what a provider yields at once.

    >>> batch = Batch()
    >>> batch.add_text("Hel")
    >>> batch.add((TextDelta("lo"),))
    >>> batch.done()
    [TextDelta(text='Hello')]
    """

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._kind: type[TextDelta | ReasoningDelta] = TextDelta
        self._pieces: list[str] = []

    def add_text(self, text: str) -> None:
        """Add a piece of text; faster than a delta made for it."""
        if text:
            self._piece(TextDelta, text)

    def add(self, more: Iterable[Delta]) -> None:
        """Add deltas as they are."""
        for delta in more:
            if isinstance(delta, TextDelta) or (isinstance(delta, ReasoningDelta) and delta.signature is None):
                if delta.text:
                    self._piece(type(delta), delta.text)
            else:
                self._flush()
                self._deltas.append(delta)

    def done(self) -> list[Delta]:
        """Return all of it."""
        self._flush()
        return self._deltas

    def _piece(self, kind: type[TextDelta | ReasoningDelta], text: str) -> None:
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._pieces.append(text)

    def _flush(self) -> None:
        if self._pieces:
            self._deltas.append(self._kind("".join(self._pieces)))
            self._pieces = []
