"""Which entry goes first: a heap in which entries may be gone without being taken out."""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeAlias, TypeVar

Rank: TypeAlias = tuple[float, float]


class Entry(Protocol):
    """What waits here; ``gone`` says that it need not be considered any more."""

    gone: bool


E = TypeVar("E", bound=Entry)
_SLACK = 64


class Waiting(Generic[E]):
    """Entries by rank. Those that are gone are skipped, and cleared out now and then."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, E]] = []
        self._added = 0
        self._limit = _SLACK

    def add(self, rank: Rank, entry: E) -> None:
        """Put *entry* where its *rank* belongs; of equal ranks the first added goes first."""
        self._added += 1
        heapq.heappush(self._heap, (rank, self._added, entry))
        if len(self._heap) > self._limit:
            self._heap = [waiting for waiting in self._heap if not waiting[2].gone]
            heapq.heapify(self._heap)
            self._limit = _SLACK + 2 * len(self._heap)

    def first(self) -> tuple[Rank, E] | None:
        """Return the entry of the lowest rank, and its rank; None if there is none."""
        while self._heap and self._heap[0][2].gone:
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][2]) if self._heap else None

    def take(self) -> tuple[Rank, E] | None:
        """Return what ``first`` returns, and take it out."""
        first = self.first()
        if first is not None:
            heapq.heappop(self._heap)
        return first
