"""Follows work that is not streamed: an observer hands its events to whoever shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pluggent_hookspecs.markers import hookimpl
from pluggent_hookspecs.observations import Observation

T = TypeVar("T")


class Watcher:
    """A plugin that takes down every event. Give it to the host, then ``watch`` something."""

    def __init__(self) -> None:
        self._events = asyncio.Queue[Observation | None]()

    @hookimpl
    def observe(self, event: Observation) -> None:
        """Take *event* down; showing it happens elsewhere, and so delays nothing."""
        self._events.put_nowait(event)

    async def watch(self, work: Coroutine[Any, Any, T], show: Callable[[Observation], None]) -> T:
        """Return what *work* comes to, and call *show* with each event meanwhile."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                show(event)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        return task.result()
