"""Tells observers what happened, without ever delaying or failing a turn."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from time import perf_counter

from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import DecisionMade, HookFailed, Observation

from pluggent_host.calling import Caller, said
from pluggent_host.chains import Chain, Impl

log = logging.getLogger("pluggent.observers")

FAILURES_IN_A_ROW = 5
WAITING_EVENTS = 1000
OFF = " and is no longer told"


class ToldAlone:
    """Where operations outside any session leave their traces: nobody but those who are told keeps them."""

    def __init__(self, told: Callable[[Observation], None]) -> None:
        self._told = told

    def tell(self, event: Observation) -> None:
        """Tell the host's observers."""
        self._told(event)

    def record(self, decision: DecisionMade) -> None:
        """Keep nothing: what is decided is told, too."""


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

    @property
    def anybody(self) -> bool:
        """Whether somebody listens at all."""
        return bool(self._inline or self._queued)

    def tell(self, event: Observation) -> None:
        """Hand *event* to everybody who subscribed to its type. Never raises, never waits."""
        if self._closed:  # an observer is told nothing once its plugin is about to be closed
            return
        for impl in self._inline:
            if self._wants(impl, event):
                self._tell_inline(impl, event)
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

    def _tell_inline(self, impl: Impl, event: Observation) -> None:
        started = perf_counter()
        try:
            left_over = impl.function(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (an observer may raise anything; the turn goes on)
            self._failed(impl, f"raised {said(error)}")
            return
        if asyncio.iscoroutine(left_over):
            left_over.close()
            self._failed(impl, "returned a coroutine; write `async def observe`")
        elif perf_counter() - started > self._observe_s:
            self._failed(impl, "was too slow")
        else:
            self._failures[impl] = 0

    def _enqueue(self, impl: Impl, event: Observation) -> None:
        queue = self._queues.get(impl)
        if queue is None:
            queue = self._queues[impl] = asyncio.Queue(WAITING_EVENTS)
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
                    if answer.problem:
                        self._failed(impl, answer.problem)
                    else:
                        self._failures[impl] = 0
            finally:
                queue.task_done()

    def _failed(self, impl: Impl, problem: str) -> None:
        self._failures[impl] += 1
        off = self._failures[impl] == FAILURES_IN_A_ROW
        log.warning("observer %s %s%s", impl.plugin, problem, OFF if off else "")
        if off:
            self.tell(HookFailed(Scope(), impl.plugin, "observe", problem + OFF))
