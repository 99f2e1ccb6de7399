"""Where the events of a host go: to sinks, which keep records; to observers; to streams that an application reads.

Records come first. Observers and streams never delay or fail a turn.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from time import perf_counter
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import attrs
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import (
    DecisionMade,
    EventsDropped,
    HookFailed,
    ModelCalled,
    ModelRetried,
    Observation,
    PluginStateChanged,
    QuestionAnswered,
    SessionClosed,
    SessionOpened,
    TextsEmbedded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

from pluggent_host.common.event_queue import EventQueue
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.order import Chain, Chains, Impl
from pluggent_host.settings import HostSettings

K = TypeVar("K")

log = logging.getLogger("pluggent.observers")

FAILURES_IN_A_ROW = 5
OBSERVER_EVENTS = 1000
"""How many events wait for an asynchronous observer before newer ones are dropped."""
STREAM_EVENTS = 10_000
"""How many events wait for the reader of a stream before newer ones are dropped."""
OFF = " and gets no more events"

RECORDED = (
    DecisionMade, HookFailed, ModelCalled, ModelRetried, PluginStateChanged, QuestionAnswered, SessionClosed,
    SessionOpened, TextsEmbedded, ToolFinished, ToolStarted, TurnEnded, TurnStarted,
)  # fmt: skip
"""What sinks get; a decision on its own way, before anything is executed."""


class EventBus:
    """The events of one host, with its three kinds of subscribers."""

    def __init__(self, chains: Chains, caller: Caller, settings: HostSettings) -> None:
        timeouts, optional = settings.timeouts, frozenset(settings.grants.optional)
        self.observers = Observers(chains["observe"], caller, timeouts.observe_s)
        self.streams = EventStreams()
        self.sinks = Sinks(chains["write_record"], optional, caller, timeouts.hook_s, self._emit_unrecorded)

    def emit(self, event: Observation) -> None:
        """Hand *event* to sinks, observers and streams."""
        self.sinks.emit(event)
        self._emit_unrecorded(event)

    def _emit_unrecorded(self, event: Observation) -> None:
        self.observers.emit(event)
        self.streams.emit(event)


@attrs.frozen(eq=False, repr=False)
class UnrecordedJournal:
    """The journal of operations outside any session: there is no transcript, so only the bus has their events."""

    emit: Callable[[Observation], None]

    def record(self, decision: DecisionMade) -> None:
        """Keep nothing: decisions are emitted, too."""

    def flush(self) -> None:
        """Wait for nothing."""


# ---- sinks ------------------------------------------------------------------------------


@attrs.frozen(eq=False, repr=False)
class Sinks:
    """The sinks of one host. ``problems`` says which of them has lost something, and why."""

    chain: Chain
    optional: frozenset[str]
    caller: Caller
    hook_s: float
    failed: Callable[[HookFailed], None]
    problems: dict[str, str] = attrs.field(factory=dict[str, str])

    def emit(self, event: Observation) -> None:
        """Write *event*, unless it is a decision or of no interest to a record."""
        if self.chain and isinstance(event, RECORDED) and not isinstance(event, DecisionMade):
            self.write(event)

    def write(self, event: Observation) -> str:
        """Hand *event* to every sink; return why nothing may go on, empty if it may."""
        for impl in self.chain:
            answer = self.caller.call_now(impl, event, perf_counter() + self.hook_s)
            problem = answer.problem or ("" if answer.value is None else "returned something; a sink returns nothing")
            if problem:
                self.problems[impl.plugin] = problem
                scope = getattr(event, "scope", Scope())
                self.failed(HookFailed(scope, impl.plugin, "write_record", problem))
            else:
                self.problems.pop(impl.plugin, None)
        return "; ".join(f"'{plugin}' {why}" for plugin, why in self.problems.items() if plugin not in self.optional)


# ---- observers --------------------------------------------------------------------------


class Observers:
    """The ``observe`` chain of one host.

    A synchronous observer is called at once. Async and blocking ones have a queue and a task
    each, so that events reach them in order; what overflows the queue is dropped and counted.
    """

    def __init__(self, chain: Chain, caller: Caller, observe_s: float) -> None:
        self._inline = tuple(impl for impl in chain if not (impl.is_async or impl.blocking))
        self._queued = tuple(impl for impl in chain if impl.is_async or impl.blocking)
        self._queues: dict[Impl, asyncio.Queue[Observation]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._caller = caller
        self._observe_s = observe_s
        self._failures: Counter[Impl] = Counter()
        self._closed = False
        self.dropped: Counter[str] = Counter()

    def emit(self, event: Observation) -> None:
        """Hand *event* to each observer that subscribed to its type. Never raises, never waits."""
        if self._closed:  # an observer gets nothing once its plugin is about to be closed
            return
        for impl in self._inline:
            if self._wants(impl, event):
                self._note(impl, self._call_inline(impl, event))
        for impl in self._queued:
            if self._wants(impl, event):
                self._enqueue(impl, event)

    async def close(self, timeout_s: float) -> None:
        """Let the queues run empty, *timeout_s* at most, and stop."""
        self._closed = True
        for plugin, count in self.dropped.items():
            log.warning("observer %s was too slow and missed %d events", plugin, count)
        if self._tasks:
            waiting = [asyncio.ensure_future(queue.join()) for queue in self._queues.values()]
            await asyncio.wait(waiting, timeout=timeout_s)
            for task in (*waiting, *self._tasks):
                task.cancel()
            await asyncio.gather(*waiting, *self._tasks, return_exceptions=True)
            self._tasks.clear()

    def _wants(self, impl: Impl, event: Observation) -> bool:
        return self._failures[impl] < FAILURES_IN_A_ROW and (not impl.events or isinstance(event, impl.events))

    def _call_inline(self, impl: Impl, event: Observation) -> str:
        """Call a synchronous observer; return what went wrong, empty if nothing did."""
        answer = self._caller.call_now(impl, event, perf_counter() + self._observe_s)
        if not answer.waits:
            return answer.problem
        if asyncio.iscoroutine(answer.value):
            answer.value.close()
        return "returned an awaitable; write `async def observe`"

    def _enqueue(self, impl: Impl, event: Observation) -> None:
        queue = self._queues.get(impl)
        if queue is None:
            queue = self._queues[impl] = asyncio.Queue(OBSERVER_EVENTS)
            self._tasks.append(asyncio.create_task(self._drain(impl, queue), name=f"pluggent-observe-{impl.plugin}"))
        try:
            queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped[impl.plugin] += 1
            if self.dropped[impl.plugin] == 1:
                log.warning("observer %s is too slow; it misses events from now on", impl.plugin)

    async def _drain(self, impl: Impl, queue: asyncio.Queue[Observation]) -> None:
        while True:
            event = await queue.get()
            try:
                if self._wants(impl, event):
                    answer = await self._caller.call(impl, event, perf_counter() + self._observe_s)
                    self._note(impl, answer.problem)
            finally:
                queue.task_done()

    def _note(self, impl: Impl, problem: str) -> None:
        """Take note of how a call ended: after so many failures in a row an observer gets no more events."""
        if not problem:
            self._failures[impl] = 0
            return
        self._failures[impl] += 1
        off = self._failures[impl] == FAILURES_IN_A_ROW
        log.warning("observer %s %s%s", impl.plugin, problem, OFF if off else "")
        if off:
            self.emit(HookFailed(Scope(), impl.plugin, "observe", problem + OFF))


# ---- streams ----------------------------------------------------------------------------


class EventStream(Generic[K]):
    """Events as they happen: an async context manager that is an async iterator.

    It begins when it is entered, and ends with the host or the session. A consumer that falls
    more than 10,000 events behind misses some, and gets an EventsDropped in their place.
    """

    def __init__(
        self, streams: EventStreams, kinds: tuple[type[Any], ...], session: Scope | None, over: Callable[[], bool]
    ) -> None:
        self._streams = streams
        self._over = over
        self._kinds = (*kinds, EventsDropped) if kinds else ()
        self._session = session
        self._queue = EventQueue[K](STREAM_EVENTS, on_full="drop")
        self._entered = False

    def put(self, event: Observation) -> None:
        """Take *event* if it is wanted; never waits."""
        if self._session is not None and not _is_of(event, self._session):
            return
        if not self._kinds or isinstance(event, self._kinds):
            self._queue.put(cast("K", event))
        if self._session is not None and isinstance(event, SessionClosed):
            self.end()

    def end(self) -> None:
        """Nothing more will come."""
        self._queue.end()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise SessionError("a stream of events is used once; call events() again")
        self._entered = True
        self._streams.add(self)
        if self._over():
            self.end()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._streams.discard(self)
        self.end()

    async def __aiter__(self) -> AsyncIterator[K | EventsDropped]:
        if not self._entered:
            raise SessionError("enter the stream first: async with host.events() as events")
        while True:
            async for event in self._queue.events():
                yield event
            if missed := self._queue.missed():
                yield EventsDropped(missed)
            elif self._queue.ended:
                return


class EventCallback:
    """Calls *call* with each event of these *kinds* of one *session* at once, where it happens."""

    def __init__(self, call: Callable[[Any], object], kinds: tuple[type[Any], ...], session: Scope) -> None:
        self._call = call
        self._kinds = kinds
        self._session = session

    def put(self, event: Observation) -> None:
        """Call with *event* if it is wanted. An error of the callback is logged: it is not the emitter's."""
        if isinstance(event, self._kinds) and _is_of(event, self._session):
            try:
                self._call(event)
            except Exception:
                log.warning("a callback for %s failed", type(event).__name__, exc_info=True)

    def end(self) -> None:
        """Do nothing: no task waits for it."""


class EventStreams:
    """All streams of events of one host."""

    def __init__(self) -> None:
        self._streams: set[EventStream[Any] | EventCallback] = set()
        self._closed = False

    def emit(self, event: Observation) -> None:
        """Give *event* to every stream that wants it."""
        for stream in (*self._streams,):  # a callback may add or discard one
            stream.put(event)

    def stream(
        self, kinds: tuple[type[Any], ...], session: Scope | None = None, over: Callable[[], bool] = lambda: False
    ) -> EventStream[Any]:
        """Return a stream of events of these *kinds* (default: all), of one *session* if it is given.

        *over* says whether that session is closed. Raises TypeError for kinds that are not classes.
        """
        if wrong := [kind for kind in kinds if not inspect.isclass(kind)]:
            raise TypeError(f"events: expected classes of events, such as TurnEnded, got {wrong[0]!r}")
        return EventStream(self, kinds, session, over)

    def add(self, stream: EventStream[Any] | EventCallback) -> None:
        """Let *stream* have what happens from now on; it ends at once where the host is closed."""
        self._streams.add(stream)
        if self._closed:
            stream.end()

    def discard(self, stream: EventStream[Any] | EventCallback) -> None:
        """Give *stream* nothing more."""
        self._streams.discard(stream)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for stream in self._streams:
            stream.end()


def _is_of(event: Observation, session: Scope) -> bool:
    """Say whether *event* is of that session, and not of one that another principal calls the same."""
    scope = getattr(event, "scope", None)
    return isinstance(scope, Scope) and scope.session_id == session.session_id and scope.principal == session.principal
