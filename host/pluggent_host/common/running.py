"""Runs awaitables of plugins: the text of their errors, endings in spite of cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


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
