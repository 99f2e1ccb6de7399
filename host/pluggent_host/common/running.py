"""Runs what plugins give: awaitables, with endings in spite of cancellation, and blocking code in daemon threads.

The standard executor waits for its threads when the interpreter exits: one hung tool would hang the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import attrs
from pluggent_plugin_loader.plugin_errors import is_interrupt


def said(error: BaseException) -> str:
    """Return type and text of *error*; the ``__str__`` of a plugin's class may fail."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (a plugin's own __str__)
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def being_cancelled() -> bool:
    """Return whether the current task was cancelled and has not ended yet."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def comes_from_outside(error: BaseException) -> bool:
    """Say whether *error*, caught around plugin code, is not the plugin's: Ctrl-C, or a cancellation of this task."""
    return is_interrupt(error) or (isinstance(error, asyncio.CancelledError) and being_cancelled())


async def uncancelled(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run the rest of a cancelled turn in a task that is not cancelled itself."""
    task = asyncio.create_task(coroutine)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def to_its_end(awaitable: Awaitable[Any]) -> None:
    """Wait until *awaitable* is done, even if this task is cancelled; raise the cancellation afterwards."""
    waiting = asyncio.ensure_future(awaitable)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


T = TypeVar("T")


class Threads:
    """At most *max_workers* calls at once; further ones wait in order.

    A thread whose caller was cancelled continues, is named in ``abandoned``, and gives its place to a new one (as long
    as there are fewer than *max_workers* such threads), so that hanging calls do not stop the others.
    """

    def __init__(self, max_workers: int = 64, name: str = "pluggent") -> None:
        self._max = max_workers
        self._name = name
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._queue = SimpleQueue[_Call | None]()
        self._alive: set[threading.Thread] = set()
        self._busy: set[threading.Thread] = set()  # inside a foreign function, perhaps for ever
        self._idle = 0  # threads that wait and have not been promised a call
        self._waiting = 0  # calls that no thread has been promised to
        self._abandoned: dict[_Call, str] = {}
        self.abandoned = frozenset[str]()
        """The labels of abandoned calls that still run."""
        self._closed = False

    async def run(self, function: Callable[..., T], *args: object, label: str = "") -> T:
        """Return ``function(*args)``, run in a thread with a copy of the caller's context variables.

        A cancelled call that has not started never starts; one that has continues, see ``abandoned``, which has its
        *label* (default: the function's name). Works from any event loop. Raises RuntimeError after close().
        """
        loop = asyncio.get_running_loop()
        call = _Call(loop, contextvars.copy_context(), function, args, loop.create_future())
        self._submit(call)
        try:
            value, error = await call.future
        except asyncio.CancelledError:
            self._abandon(call, label or getattr(function, "__qualname__", repr(function)))
            raise
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return value  # type: ignore[no-any-return] # what function returned

    def close(self) -> None:
        """End the idle threads, not the busy ones. Calls that have not started raise RuntimeError. Safe twice."""
        with self._lock:
            self._closed = True
            waiting: list[_Call] = []
            with contextlib.suppress(Empty):
                while True:
                    waiting += filter(None, [self._queue.get_nowait()])
            for _ in self._alive:
                self._queue.put(None)
            ending = self._alive - self._busy - {threading.current_thread()}
        for call in waiting:
            call.answer(None, RuntimeError("the host is closed; this call was not started"))
        for thread in ending:
            thread.join(_JOIN_S)

    def _submit(self, call: _Call) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("the host is closed; no call can be started")
            if self._idle:
                self._idle -= 1
            elif len(self._alive) < self._limit():
                self._start()
            else:
                self._waiting += 1
            self._queue.put(call)

    def _limit(self) -> int:
        return self._max + min(self._max, len(self._abandoned))

    def _start(self) -> None:
        name = f"{self._name}-{next(self._numbers)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()  # raises where the system has no threads left: then it does not count
        self._alive.add(thread)

    def _abandon(self, call: _Call, label: str) -> None:
        with self._lock:
            if call.state == _WAITS:
                call.state = _DROPPED
            elif call.state == _RUNS:
                self._abandoned[call] = label
                self.abandoned = frozenset(self._abandoned.values())
                if self._waiting and len(self._alive) < self._limit():
                    self._start()
                    self._waiting -= 1

    def _work(self) -> None:
        me = threading.current_thread()
        goes_on = True
        while goes_on and (call := self._queue.get()) is not None:
            outcome = call.outcome() if self._begins(call, me) else None
            # Before the answer: its receiver finds this thread free again.
            goes_on = self._is_done(call, me)
            if outcome is not None:
                call.answer(*outcome)
            del call, outcome  # nothing is kept while this thread waits
        with self._lock:
            self._alive.discard(me)

    def _begins(self, call: _Call, me: threading.Thread) -> bool:
        with self._lock:
            if call.state == _DROPPED:
                return False
            call.state = _RUNS
            self._busy.add(me)
            return True

    def _is_done(self, call: _Call, me: threading.Thread) -> bool:
        """Return whether this thread takes another call; count it as promised or idle if so."""
        with self._lock:
            call.state = _DONE
            self._busy.discard(me)
            if self._abandoned.pop(call, None) is not None:
                self.abandoned = frozenset(self._abandoned.values())
            if len(self._alive) > self._limit():
                self._alive.discard(me)
                return False
            if self._waiting:
                self._waiting -= 1
            else:
                self._idle += 1
            return True


_JOIN_S = 1.0  # an idle thread ends within microseconds
_WAITS, _RUNS, _DONE, _DROPPED = range(4)


@attrs.define(eq=False, repr=False)
class _Call:
    """One call on its way through a thread; ``state`` is guarded by the pool's lock."""

    loop: asyncio.AbstractEventLoop
    context: contextvars.Context
    function: Callable[..., Any]
    args: tuple[object, ...]
    future: asyncio.Future[tuple[Any, BaseException | None]]
    state: int = _WAITS

    def outcome(self) -> tuple[Any, BaseException | None]:
        try:
            return self.context.run(self.function, *self.args), None
        except BaseException as error:  # noqa: BLE001 (whatever it is belongs to the caller)
            return None, error

    def answer(self, value: object, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self.loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: object, error: BaseException | None) -> None:
        if not self.future.done():
            self.future.set_result((value, error))
