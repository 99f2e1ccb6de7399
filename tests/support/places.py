"""Places where a turn can hang, for tests that cancel it there."""

from __future__ import annotations

import asyncio
from typing import Any

from pluggent_hookspecs import hookimpl


class Place:
    """Somewhere to hang: tells that it was reached, and whether it was left by a cancellation."""

    def __init__(self, reached: asyncio.Event | None = None) -> None:
        self.reached = reached or asyncio.Event()
        self.left = False
        self.hangs = True

    async def hang(self) -> None:
        """Wait for ever, as long as ``hangs``."""
        if self.hangs:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left = True


def hanging_hook(place: Place, name: str) -> object:
    """Return a plugin whose hook called *name* hangs at *place*."""

    async def around(self: object, event: object, call_next: Any) -> object:
        await place.hang()
        return await call_next()

    async def other(self: object, event: object) -> None:
        await place.hang()

    return type("Hanging", (), {name: hookimpl(around if name.startswith("around") else other)})()


def only_this_task() -> bool:
    """Tell whether nothing but the asking task is left in this loop."""
    return asyncio.all_tasks() == {asyncio.current_task()}
