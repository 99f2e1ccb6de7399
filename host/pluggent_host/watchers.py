"""Events of a host, or of one session, for whoever wants to follow them; nobody is held up by it."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import EventsDropped, Observation, SessionClosed

K = TypeVar("K")
Over = Callable[[], bool]

WAITING_EVENTS = 10_000
"""How many events wait for a consumer before newer ones are dropped."""


class EventStream(Generic[K]):
    """Events as they happen: an async context manager that is an async iterator.

    It begins when it is entered, and ends with the host or the session. A consumer that falls
    more than 10,000 events behind misses some, and gets an EventsDropped in their place.
    """

    def __init__(self, watchers: Watchers, kinds: tuple[type[Any], ...], session_id: str, over: Over) -> None:
        self._watchers = watchers
        self._over = over
        self._kinds = (*kinds, EventsDropped) if kinds else ()
        self._session_id = session_id
        self._events: deque[K] = deque()
        self._news = asyncio.Event()
        self._missed = 0
        self._entered = self._ended = False

    def put(self, event: Observation) -> None:
        """Take *event* if it is wanted; never waits."""
        if self._session_id and _session_of(event) != self._session_id:
            return
        if not self._kinds or isinstance(event, self._kinds):
            if self._missed or len(self._events) >= WAITING_EVENTS:
                self._missed += 1
            else:
                self._events.append(cast("K", event))
            self._news.set()
        if self._session_id and isinstance(event, SessionClosed):
            self.end()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._news.set()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise SessionError("a stream of events is used once; call events() again")
        self._entered = True
        self._watchers.streams.add(self)
        self._ended = self._watchers.closed or self._over()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watchers.streams.discard(self)
        self.end()

    async def __aiter__(self) -> AsyncIterator[K | EventsDropped]:
        if not self._entered:
            raise SessionError("enter the stream first: async with host.events() as events")
        while True:
            while self._events:
                yield self._events.popleft()
            if self._missed:
                missed, self._missed = self._missed, 0
                yield EventsDropped(missed)
            elif self._ended:
                return
            else:
                self._news.clear()
                await self._news.wait()


class Watchers:
    """All streams of events of one host."""

    def __init__(self) -> None:
        self.streams: set[EventStream[Any]] = set()
        self.closed = False

    def tell(self, event: Observation) -> None:
        """Give *event* to every stream that wants it."""
        for stream in self.streams:
            stream.put(event)

    def stream(
        self, kinds: tuple[type[Any], ...], session_id: str = "", over: Over = lambda: False
    ) -> EventStream[Any]:
        """Return a stream of events of these *kinds* (default: all), of one session if it is named.

        *over* says whether that session is closed. Raises TypeError for kinds that are no classes.
        """
        if wrong := [kind for kind in kinds if not inspect.isclass(kind)]:
            raise TypeError(f"events: expected classes of events, such as TurnEnded, got {wrong[0]!r}")
        return EventStream(self, kinds, session_id, over)

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        for stream in self.streams:
            stream.end()


def _session_of(event: Observation) -> str:
    scope = getattr(event, "scope", None)
    return scope.session_id if isinstance(scope, Scope) else ""
