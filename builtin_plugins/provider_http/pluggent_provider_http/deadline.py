"""Bounds the waits of one answer with a single timer, however many waits there are.

``asyncio.timeout`` around every read costs 6 µs each; here a wait notes its deadline, and
a timer that is already set looks at it when it fires and is set again if it was too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """Waits, each with its own limit, in one loop; between them no limit runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._until: float | None = None
        self._waiter: asyncio.Task[object] | None = None
        self._expired = False

    async def wait(self, awaitable: Awaitable[T], seconds: float) -> T:
        """Return what *awaitable* returns. Raises TimeoutError once *seconds* have passed."""
        self._waiter = waiter = asyncio.current_task()
        assert waiter is not None
        cancelling = waiter.cancelling()
        self._until = until = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > until:
            self._set_timer(until)
        try:
            return await awaitable
        except asyncio.CancelledError as cancelled:
            if self._expired and waiter.uncancel() <= cancelling:
                raise TimeoutError from cancelled
            raise
        finally:
            self._until = self._waiter = None

    def stop(self) -> None:
        """Take the timer back; call it when the answer is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        self.stop()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._until is None or self._waiter is None:
            return
        if self._loop.time() < self._until:
            self._set_timer(self._until)
        else:
            self._expired = True
            self._waiter.cancel()
