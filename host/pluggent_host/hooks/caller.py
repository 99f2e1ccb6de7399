"""Calls the implementations of a chain, under one deadline, and turns what comes back into values.

The one place where plugin code of hooks is called, so the one place with broad excepts.
A synchronous implementation runs inline. An async one runs in a task of its own: what
really waits is abandoned at the deadline, so that nothing can hold a turn, and a
cancellation that a plugin swallows stays its own affair.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

import attrs
from pluggent_plugin_loader.names import APP
from pluggent_plugin_loader.plugin_errors import is_interrupt

from pluggent_host.common.running import Threads, comes_from_outside, said
from pluggent_host.hooks.order import Impl

log = logging.getLogger("pluggent.hooks")

T = TypeVar("T")
HELD_LOOP_S = 0.05
"""From which on it is logged that an implementation held the event loop."""
FELT_S = 1.0
"""From which on a person feels it, so that it is a warning."""
_LONGEST_S = 1.0
"""How long the answer of a stopped deadline is used before it is asked again."""


@attrs.define(eq=False, repr=False)
class Deadline:
    """A number of seconds from now on, which can be stopped and started again. Never negative."""

    _seconds: float
    _began: float = attrs.field(factory=perf_counter, init=False)
    _stops: int = attrs.field(default=0, init=False)

    def left(self) -> float:
        """Return the seconds left; infinity while it is stopped."""
        return float("inf") if self._stops else max(0.0, self._seconds - (perf_counter() - self._began))

    def stop(self) -> None:
        """Stop until ``start`` has been called as often."""
        if self._stops == 0:
            self._seconds = self.left()
        self._stops += 1

    def start(self) -> None:
        """Continue."""
        self._stops -= 1
        if self._stops == 0:
            self._began = perf_counter()


class Late(Exception):  # noqa: N818 (a state, told apart from a plugin's own TimeoutError)
    """The deadline of a hook call has passed."""


class Answer(NamedTuple):
    """What one implementation came back with: a value, or what went wrong.

    While it ``waits``, ``value`` is what to await and ``elapsed_s`` when the call began.
    """

    value: Any
    problem: str = ""
    elapsed_s: float = 0.0
    waits: bool = False


NOTHING = Answer(None)
"""No opinion, given at once."""
LATE = "was too late"


def _raised(error: BaseException, started: float) -> Answer:
    although = " although it was not cancelled" if isinstance(error, asyncio.CancelledError) else ""
    return Answer(None, f"raised {said(error)}{although}", perf_counter() - started)


def _note_held(impl: Impl, held_s: float) -> None:
    name = getattr(impl.function, "__name__", "a hook")
    leave_out = "" if impl.plugin.startswith(APP) else f"; to leave it out: pluggent --without {impl.plugin}"
    log.log(
        logging.WARNING if held_s >= FELT_S else logging.INFO,
        "plugin %s held the event loop for %.0f ms in %s, and nothing else ran meanwhile; its author can mark the hook"
        " with blocking=True%s", impl.plugin, 1e3 * held_s, name, leave_out,
    )  # fmt: skip


class Caller:
    """Calls implementations for one host; owns the tasks that were given up."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def call(self, impl: Impl, event: object, deadline: float) -> Answer:
        """Call *impl* with *event* until *deadline* (``perf_counter`` seconds).

        Only a cancellation of the calling task itself comes out as an exception.
        """
        answer = self.call_now(impl, event, deadline)
        return await self.awaited(impl, answer, deadline) if answer.waits else answer

    def call_now(self, impl: Impl, event: object, deadline: float) -> Answer:
        """Call *impl*; what has to be awaited is in the answer, for ``awaited``."""
        started = perf_counter()
        if impl.blocking:
            return Answer(self._threads.run(impl.function, event, label=impl.plugin), "", started, waits=True)
        try:
            value = impl.function(event)
            waits = value is not None and (impl.is_async or inspect.isawaitable(value))
        except BaseException as error:  # a plugin may raise anything; it becomes a value
            if is_interrupt(error):
                raise
            return _raised(error, started)
        ended = perf_counter()
        if ended - started > HELD_LOOP_S:
            _note_held(impl, ended - started)
        if value is None:
            return NOTHING if ended <= deadline else Answer(None, LATE, ended - started)
        if waits:
            return Answer(value, "", started, waits=True)
        return Answer(value, "" if ended <= deadline else LATE, ended - started)

    async def awaited(self, impl: Impl, answer: Answer, deadline: float) -> Answer:
        """Return what *answer*, which has to be awaited, comes to; see ``call``."""
        started = answer.elapsed_s
        try:
            value = await self.bounded(answer.value, lambda: deadline - perf_counter())
        except Late:
            return Answer(None, LATE, perf_counter() - started)
        except BaseException as error:  # a plugin may raise anything; it becomes a value
            if comes_from_outside(error):
                raise
            return _raised(error, started)
        ended = perf_counter()
        return Answer(value, "" if ended <= deadline else LATE, ended - started)

    async def bounded(self, awaitable: Awaitable[T], left: Callable[[], float], *, stopping_s: float = 0.0) -> T:
        """Return what *awaitable* comes to, run in a task of its own, while ``left()`` is positive.

        Then it is cancelled, given *stopping_s* seconds to clean up, left behind, and Late raised.
        """
        running = _Running(awaitable)
        task = _start(running.settled())
        if not task.done():
            self._abandoned.add(task)
            try:
                while not task.done() and (seconds := left()) > 0:
                    await running.wait(task, min(seconds, _LONGEST_S))
            except asyncio.CancelledError:
                await _stop(task, awaitable, stopping_s)
                raise
            else:
                if not task.done():
                    await _stop(task, awaitable, stopping_s)
                    raise Late
            finally:
                if task.done():
                    self._abandoned.discard(task)
                else:
                    task.add_done_callback(self._abandoned.discard)
        if task.cancelled():
            _never_begun(awaitable)
            raise asyncio.CancelledError
        value, error = task.result()
        if error is not None:
            raise error
        return cast("T", value)

    def leave(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run *coroutine* in a background task, as long as the host is open."""
        if self._closed:
            coroutine.close()
            return
        task = asyncio.get_running_loop().create_task(coroutine)
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)

    async def close(self, timeout_s: float) -> None:
        """Cancel what was abandoned and wait for it, *timeout_s* at most."""
        self._closed = True
        tasks = tuple(self._abandoned)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)


async def _stop(task: asyncio.Task[Any], awaitable: Awaitable[Any], stopping_s: float) -> None:
    task.cancel()
    # Even with no time to clean up, one trip through the loop lets the cancellation arrive.
    await asyncio.wait((task,), timeout=stopping_s)
    _never_begun(awaitable)


def _never_begun(awaitable: Awaitable[Any]) -> None:
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        awaitable.close()  # cancelled before its first step, it would be complained about


@attrs.define(eq=False, repr=False)
class _Running:
    """What runs in a task of its own, and who waits for it.

    It wakes the caller before its task ends: asyncio.wait() would take another trip through
    the loop, in the way of every tool and every model call.
    """

    _awaitable: Awaitable[Any]
    _waiter: asyncio.Future[None] | None = None
    _task: asyncio.Task[Any] | None = None
    """Of a task that has not begun: cancelled before its first step, it would say nothing."""
    _has_begun: bool = False

    async def settled(self) -> tuple[Any, BaseException | None]:
        self._has_begun = True
        if self._task is not None:  # a callback would be one more trip through the loop
            self._task.remove_done_callback(self._wake)
        # A BaseException that is not an Exception would leave the task through the event loop itself.
        try:
            return await self._awaitable, None
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a plugin may raise anything; Caller.call reports it
            if is_interrupt(error):
                raise
            return None, error
        finally:
            self._wake()

    async def wait(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Wait until *task* is done, *seconds* at most."""
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        if not self._has_begun:
            self._task = task
            task.add_done_callback(self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


if sys.version_info >= (3, 12):

    def _start(coroutine: Any) -> asyncio.Task[Any]:
        # Eager: what does not really wait costs no trip through the loop.
        return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)

else:

    def _start(coroutine: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)
