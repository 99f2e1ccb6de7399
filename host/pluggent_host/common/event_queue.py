"""What a turn tells: to observers, to whoever follows its stream, and as deltas come in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from pluggent_hookspecs.observations import Observation, ToolLogged, ToolProgressed

WAITING_EVENTS = 1000


class Feed:
    """Events of one turn on their way to one consumer. Bounded: ``room`` waits for a slow one."""

    def __init__(self) -> None:
        self._events: deque[Observation] = deque()
        self._news = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self._ended = False
        self._abandoned = False

    def put(self, event: Observation) -> None:
        """Add *event*; never waits. Of a call's progress and log, what a slow consumer cannot follow is dropped."""
        full = len(self._events) >= WAITING_EVENTS
        if self._abandoned or (full and isinstance(event, ToolProgressed | ToolLogged)):
            return
        self._events.append(event)
        self._news.set()
        if len(self._events) >= WAITING_EVENTS:
            self._space.clear()

    @property
    def full(self) -> bool:
        """Whether ``room`` would wait."""
        return not self._space.is_set()

    async def room(self) -> None:
        """Wait until the consumer has caught up."""
        if not self._space.is_set():
            await self._space.wait()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._news.set()
        self._space.set()

    async def events(self) -> AsyncIterator[Observation]:
        """Yield events until the end."""
        while True:
            while self._events:
                event = self._events.popleft()
                if len(self._events) < WAITING_EVENTS // 2:
                    self._space.set()
                yield event
            if self._ended:
                return
            self._news.clear()
            await self._news.wait()

    def abandon(self) -> None:
        """The consumer is gone: keep nothing, hold nobody up."""
        self._abandoned = True
        self._events.clear()
        self._space.set()
