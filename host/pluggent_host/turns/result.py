"""What a turn came to, as a value, and a running turn to be watched: its events, then its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

import attrs
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import FinishReason
from pluggent_hookspecs.observations import Observation, ToolLogged, ToolProgressed
from pluggent_transcript.pending import Pending

from pluggent_host.common.event_queue import EventQueue
from pluggent_host.common.running import to_its_end
from pluggent_host.turns.next_step import Done, Why

T = TypeVar("T")


@attrs.frozen(repr=False)
class TurnResult(Value, Generic[T]):
    """What a turn came to. ``why`` says how it ended, ``detail`` more about it.

    ``text`` is what the person was shown by the model; ``message`` the whole last reply.
    ``limit`` names the limit that was reached, if one was. ``value`` is the reply in the form
    that was asked for, ``has_output`` whether there is one; ``output`` is it or raises.
    ``finish_reason`` is why the last reply of a model ended, None if there was none; ``detail`` of a completed turn
    says so if it was cut off, filtered or empty.
    ``pending`` are what a paused turn waits with: see Session.resume.
    """

    text: str
    why: Why
    usage: Usage
    turn_id: str
    message: Message | None = None
    detail: str = ""
    limit: str = ""
    value: T | None = None
    pending: tuple[Pending, ...] = ()
    has_output: bool = False
    finish_reason: FinishReason | None = None

    @property
    def output(self) -> T:
        """The reply in the form that was asked for. Raises SessionError if the turn has none."""
        if not self.has_output:
            why = f"the turn ended as {self.why}" + (f": {self.detail}" if self.detail else "")
            raise SessionError(f"there is no output of a form that was asked for: {why}")
        return cast("T", self.value)


def broken_by(error: BaseException) -> Done:
    """Return the end of a turn that *error* broke off."""
    return Done(Why.FAILED, str(error)) if isinstance(error, Exception) else Done(Why.CANCELLED)


WAITING_EVENTS = 1000
"""How many events wait for the reader of a turn before the turn waits for it."""


class Feed(EventQueue[Observation]):
    """The events of one turn; of a call's progress and log, what a slow reader cannot follow is dropped."""

    def __init__(self) -> None:
        super().__init__(WAITING_EVENTS, expendable=(ToolProgressed, ToolLogged))
        self.by_reply = False
        """Whether a reply is shown when it is whole, not as it comes."""

    def after(self, emit: Callable[[Observation], None]) -> Callable[[Observation], None]:
        """Return what emits an event by *emit*, then takes it."""

        def both(event: Observation) -> None:
            emit(event)
            self.put(event)

        return both


class TurnStream(Generic[T]):
    """A running turn: enter it, iterate over its events, read ``result`` afterwards.

    Leaving it early cancels the turn and waits until nothing of it runs any more.
    """

    def __init__(self, feed: Feed, run: Callable[[], Awaitable[TurnResult[T]]]) -> None:
        self._feed = feed
        self._run = run
        self._task: asyncio.Task[TurnResult[T]] | None = None

    def by_reply(self) -> Self:
        """Show each reply when it is whole; call it before entering. For who shows nothing before the end.

        A reply that breaks off may then be tried again, because none of it was seen.
        """
        self._feed.by_reply = True
        return self

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
