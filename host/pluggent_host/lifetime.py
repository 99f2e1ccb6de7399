"""The lifetime of one plugin: entered and left in one task of its own, each under a deadline.

One task, because what a plugin opens (a cancel scope, a task group) has to be left where it
was entered; its own, because a plugin that ignores being cancelled must not hold the host.
"""

from __future__ import annotations

import asyncio

from pluggent_hookspecs.plugins import Opens, PluginContext

STOPPING_S = 0.5
"""How long a plugin that was given up may take to notice."""


class Lifetime:
    """Enters ``plugin.open(context)`` and leaves it again."""

    def __init__(self, plugin: Opens, context: PluginContext) -> None:
        self._plugin = plugin
        self._context = context
        self._entered = asyncio.Event()
        self._leave = asyncio.Event()
        self._task: asyncio.Task[BaseException | None] | None = None

    async def enter(self, limit_s: float) -> BaseException | None:
        """Return None once the plugin is open, else what went wrong; it is closed then."""
        task = self._task = asyncio.create_task(self._live(), name=f"pluggent-plugin-{self._context.plugin}")
        entered = asyncio.create_task(self._entered.wait())
        try:
            await asyncio.wait((task, entered), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._give_up(task)
            raise
        finally:
            entered.cancel()
        if self._entered.is_set() and not task.done():
            return None
        return await self._ended(task, f"it did not open within {limit_s:g} s")

    async def leave(self, limit_s: float) -> BaseException | None:
        """Return None once the plugin is closed, else what went wrong."""
        task = self._task
        if task is None:
            return None
        self._leave.set()
        await asyncio.wait((task,), timeout=limit_s)
        return await self._ended(task, f"it did not close within {limit_s:g} s")

    async def _live(self) -> BaseException | None:
        try:
            async with self._plugin.open(self._context):
                self._entered.set()
                await self._leave.wait()
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 (a SystemExit of a plugin would end the program)
            return error
        return None

    async def _ended(self, task: asyncio.Task[BaseException | None], late: str) -> BaseException | None:
        if not task.done():
            await self._give_up(task)
            return TimeoutError(late)
        if task.cancelled():
            return asyncio.CancelledError("it cancelled itself")
        return task.result()

    async def _give_up(self, task: asyncio.Task[BaseException | None]) -> None:
        self._leave.set()  # whoever ignores the cancellation and opens too late, leaves at once
        task.cancel()
        await asyncio.wait((task,), timeout=STOPPING_S)
