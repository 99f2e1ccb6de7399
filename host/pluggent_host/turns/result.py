"""A running turn to be watched: its events as they come, its result afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.observations import Observation

from pluggent_host.calling import to_its_end
from pluggent_host.feed import Feed
from pluggent_host.turn_result import TurnResult

T = TypeVar("T")


class TurnStream(Generic[T]):
    """A running turn: enter it, iterate over its events, read ``result`` afterwards.

    Leaving it early cancels the turn and waits until nothing of it runs any more.
    """

    def __init__(self, feed: Feed, run: Callable[[], Awaitable[TurnResult[T]]]) -> None:
        self._feed = feed
        self._run = run
        self._task: asyncio.Task[TurnResult[T]] | None = None

    @property
    def result(self) -> TurnResult[T]:
        """What the turn came to. Raises SessionError before its end, or what the turn raised."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise SessionError("the turn has no result yet: read its events to the end first")
        return self._task.result()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise SessionError("a stream is used once; call session.stream() again")
        self._task = asyncio.create_task(self._to_the_end(), name="pluggent-turn")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Observation]:
        return self._events()

    async def aclose(self) -> None:
        """End the turn if it still runs. Safe twice."""
        if self._task is None:
            return
        if not self._task.done():
            self._feed.abandon()
            self._task.cancel()
        await to_its_end(self._task)
        if not self._task.cancelled():
            self._task.exception()

    async def _to_the_end(self) -> TurnResult[T]:
        try:
            return await self._run()
        finally:
            self._feed.end()

    async def _events(self) -> AsyncIterator[Observation]:
        if self._task is None:
            raise SessionError("enter the stream first: async with session.stream(…) as events")
        async for event in self._feed.events():
            yield event
        await asyncio.wait((self._task,))
        self._task.result()
