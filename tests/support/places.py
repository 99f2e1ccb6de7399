"""Tools and hooks that hang or write down when they run: for tests of order and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from pluggent_hookspecs import ToolContext, hookimpl, tool
from talking import WAIT_S


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


class Log:
    """Makes tools that write down when they begin and end, and how many ran at once at most."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.running = 0
        self.most = 0

    def tool(self, name: str, **marks: Any) -> Callable[..., Awaitable[str]]:
        """Return a tool called *name* that lets all others have a turn before it ends."""

        @tool(name=name, **marks)
        async def run(n: int = 0) -> str:
            """Run."""
            self.lines.append(f"{name}{n} begins")
            self.running += 1
            self.most = max(self.most, self.running)
            for _ in range(5):
                await asyncio.sleep(0)
            self.running -= 1
            self.lines.append(f"{name}{n} ends")
            return f"{name}{n}"

        return run

    def alone(self, *names: str) -> bool:
        """Tell whether each of *names* began and ended with nothing in between."""
        return all(self.lines[self.lines.index(f"{name} begins") + 1] == f"{name} ends" for name in names)


class Stuck:
    """A blocking tool that hangs in its thread until it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.contexts: list[ToolContext] = []

    def tool(self, **marks: Any) -> Callable[..., str]:
        """Return the tool."""

        @tool(name="stuck", **marks)
        def run(context: ToolContext, n: int = 0) -> str:
            """Hang."""
            self.contexts.append(context)
            self.release.wait(WAIT_S)
            return f"free {n}"

        return run

    @contextlib.contextmanager
    def freed(self) -> Generator[None]:
        """Release every call at the end, and wait for the threads."""
        try:
            yield
        finally:
            self.release.set()
            for thread in threading.enumerate():
                if thread.name.startswith("pluggent-"):
                    thread.join(WAIT_S)
