"""The deltas of one read, in order; neighbouring pieces of text and of thinking become one."""

from __future__ import annotations

from collections.abc import Iterable

from pluggent_hookspecs import Delta, ReasoningDelta, TextDelta


class Batch:
    """Collects what a provider yields at once.

    >>> batch = Batch()
    >>> batch.grow(TextDelta, "Hel")
    >>> batch.add(TextDelta("lo"))
    >>> batch.done()
    [TextDelta(text='Hello')]
    """

    __slots__ = ("_deltas", "_kind", "_pieces")

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._kind: type[TextDelta | ReasoningDelta] = TextDelta
        self._pieces: list[str] = []

    def grow(self, kind: type[TextDelta | ReasoningDelta], text: str) -> None:
        """Add a piece of text or of thinking; faster than a delta made for it."""
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        if text:
            self._pieces.append(text)

    def add(self, delta: Delta) -> None:
        """Add a delta as it is."""
        if type(delta) is TextDelta or (type(delta) is ReasoningDelta and delta.signature is None):
            self.grow(type(delta), delta.text)
        else:
            self._flush()
            self._deltas.append(delta)

    def add_all(self, more: Iterable[Delta]) -> None:
        """Add deltas as they are."""
        for delta in more:
            self.add(delta)

    def done(self) -> list[Delta]:
        """Return all of it."""
        self._flush()
        return self._deltas

    def _flush(self) -> None:
        if self._pieces:
            self._deltas.append(self._kind(self._pieces[0] if len(self._pieces) == 1 else "".join(self._pieces)))
            self._pieces = []
