"""A value on its way from a plugin, which may come when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from pluggent_host.chains import Impl


class Coming:
    """One answer of one implementation. Whatever comes after it was given up goes to *late*, in the loop."""

    def __init__(self, late: Callable[[Any], None]) -> None:
        self._late = late
        self._value: Any = None
        self._given_up = False

    def give_up(self) -> Any:
        """Return what has come so far, None if nothing has; what comes from now on is late."""
        self._given_up = True
        return self._value

    async def noted(self, awaitable: Awaitable[Any]) -> Any:
        """Return what *awaitable* comes to, and take note of it."""
        value = await awaitable
        self._came(value)
        return value

    def through(self, impl: Impl) -> Impl:
        """Return *impl*, which runs in a thread, so that note is taken of what it returns."""
        loop, function = asyncio.get_running_loop(), impl.function

        def noted(event: object) -> Any:
            value = function(event)
            # Before the thread tells that it is done: whoever waits finds the value noted.
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the ledger
                loop.call_soon_threadsafe(self._came, value)
            return value

        return attrs.evolve(impl, function=noted)

    def _came(self, value: Any) -> None:
        self._value = value
        if self._given_up:
            self._late(value)
