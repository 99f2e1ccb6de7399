"""A bounded queue of events from several producers to one consumer, in one event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, Literal, TypeVar

K = TypeVar("K")


class EventQueue(Generic[K]):
    """A bounded queue with back-pressure (``on_full="wait"``: producers await ``space``), or one that drops.

    ``put`` never waits: a full waiting queue loses events of the classes *expendable*, a dropping one all of them
    until the consumer has read the rest and calls ``missed``.
    """

    def __init__(
        self, limit: int, *, on_full: Literal["wait", "drop"] = "wait", expendable: tuple[type, ...] = ()
    ) -> None:
        self._limit = limit
        self._drops = on_full == "drop"
        self._expendable = expendable
        self._events: deque[K] = deque()
        self._news = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self._ended = self._abandoned = False
        self._missed = 0

    def put(self, event: K) -> None:
        """Add *event*, or drop it where the queue is full."""
        if self._abandoned:
            return
        full = len(self._events) >= self._limit
        if self._missed or (full and self._drops):
            self._missed += 1
        elif not (full and isinstance(event, self._expendable)):
            self._events.append(event)
            if len(self._events) >= self._limit:
                self._space.clear()
        self._news.set()

    @property
    def full(self) -> bool:
        """Whether ``space`` would wait."""
        return not self._space.is_set()

    async def space(self) -> None:
        """Wait until the consumer has caught up."""
        if not self._space.is_set():
            await self._space.wait()

    @property
    def ended(self) -> bool:
        """Whether ``end`` was called."""
        return self._ended

    def end(self) -> None:
        """Let the consumer end once it has read the rest."""
        self._ended = True
        self._news.set()
        self._space.set()

    async def events(self) -> AsyncIterator[K]:
        """Yield events until the end, or up to a gap."""
        while True:
            while self._events:
                event = self._events.popleft()
                if len(self._events) < self._limit // 2:
                    self._space.set()
                yield event
            if self._ended or self._missed:
                return
            self._news.clear()
            await self._news.wait()

    def missed(self) -> int:
        """Return how many events were dropped after the last one yielded, and accept new ones again."""
        missed, self._missed = self._missed, 0
        return missed

    def abandon(self) -> None:
        """Drop everything from now on, for a consumer that is gone."""
        self._abandoned = True
        self._events.clear()
        self._space.set()
