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
from collections.abc import Awaitable
from time import perf_counter
from typing import Any

import attrs

from pluggent_host.chains import Impl
from pluggent_host.threads import Threads

log = logging.getLogger("pluggent.hooks")

HELD_LOOP_S = 0.05


class Late(Exception):  # noqa: N818 (a state, told apart from a plugin's own TimeoutError)
    """The deadline of a hook call has passed."""


@attrs.frozen
class Answer:
    """What one implementation came back with: a value, or what went wrong."""

    value: Any
    problem: str = ""
    elapsed_s: float = 0.0


class Caller:
    """Calls implementations for one host; owns the tasks that were given up."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def call(self, impl: Impl, event: object, deadline: float) -> Answer:
        """Call *impl* with *event* until *deadline* (``perf_counter`` seconds).

        Only a cancellation of the calling task itself comes out as an exception.
        """
        started = perf_counter()
        try:
            if impl.blocking:
                value: Any = self._threads.run(impl.function, event)
            else:
                value = impl.function(event)
                if perf_counter() - started > HELD_LOOP_S:
                    log.warning(
                        "plugin %s held the event loop for %.0f ms", impl.plugin, 1e3 * (perf_counter() - started)
                    )
            if value is not None and (impl.is_async or impl.blocking or inspect.isawaitable(value)):
                value = await self.bounded(value, deadline)
        except KeyboardInterrupt:
            raise
        except Late:
            return Answer(None, "was too late", perf_counter() - started)
        except asyncio.CancelledError as error:
            if _being_cancelled():
                raise
            return Answer(None, f"raised {error!r} although nobody cancelled", perf_counter() - started)
        except BaseException as error:  # noqa: BLE001 (a plugin may raise anything; it becomes a value)
            return Answer(None, f"raised {type(error).__name__}: {error}", perf_counter() - started)
        ended = perf_counter()
        if ended > deadline:
            return Answer(None, "was too late", ended - started)
        return Answer(value, "", ended - started)

    async def bounded(self, awaitable: Awaitable[Any], deadline: float, *, stopping_s: float = 0.0) -> Any:
        """Return what *awaitable* comes to, run in a task of its own. Raises Late at *deadline*.

        It is then cancelled, given *stopping_s* seconds to clean up, and left behind.
        """
        task = _start(_settle(awaitable))
        if not task.done():
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
            try:
                await asyncio.wait((task,), timeout=max(0.0, deadline - perf_counter()))
            except asyncio.CancelledError:
                await _stop(task, stopping_s)
                raise
            if not task.done():
                await _stop(task, stopping_s)
                raise Late
        if task.cancelled():
            raise asyncio.CancelledError
        value, error = task.result()
        if error is not None:
            raise error
        return value

    async def close(self, timeout_s: float) -> None:
        """Cancel what was abandoned and wait for it, *timeout_s* at most."""
        tasks = tuple(self._abandoned)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)


async def _stop(task: asyncio.Task[Any], stopping_s: float) -> None:
    task.cancel()
    if stopping_s:
        await asyncio.wait((task,), timeout=stopping_s)


async def _settle(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    # An exception that is no Exception would leave the task through the event loop itself.
    try:
        return await awaitable, None
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 (a plugin may raise anything; Caller.call reports it)
        return None, error


if sys.version_info >= (3, 12):

    def _start(coroutine: Any) -> asyncio.Task[Any]:
        # Eager: what does not really wait costs no trip through the loop.
        return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)

else:

    def _start(coroutine: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
