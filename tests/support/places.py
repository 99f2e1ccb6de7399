"""Tools and hooks that hang, stop a batch or write down when they run: for tests of order, cancellation and retries."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from pluggent_hookspecs import ProviderError, ToolContext, hookimpl, tool
from pluggent_testing.fakes import call
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


SKIPPED = (
    "This call was not run: 'gate', a call before it in the same reply, {}, and what stands behind it runs"
    " only if it succeeds. Look at that result first."
)
BATCH = (call("before"), call("gate"), call("behind"))


class BatchTools:
    """Three tools; ``gate`` stops what is behind it, and does what ``does`` says."""

    def __init__(self, does: Any = None, **marks: Any) -> None:
        self.ran: list[str] = []
        self.does = does
        self.marks: dict[str, Any] = {"effects": (), "stops_batch": True, **marks}

    def all(self) -> list[Any]:
        """Return ``before``, ``gate`` and ``behind``."""

        @tool(effects=())
        async def before() -> str:
            """Run."""
            self.ran.append("before")
            return "before"

        @tool(**self.marks)
        async def gate(context: ToolContext) -> Any:
            """Run, or not."""
            self.ran.append("gate")
            if isinstance(self.does, BaseException):
                raise self.does
            result = self.does(context) if callable(self.does) else self.does
            return await result if inspect.isawaitable(result) else result

        @tool
        async def behind() -> str:
            """Run."""
            self.ran.append("behind")
            return "behind"

        return [before, gate, behind]


class Again:
    """Makes a second attempt at a model call that fails, and emits no Discard for what was shown."""

    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next()


def hanging_once(effects: tuple[str, ...] | None, *, idempotent: bool = False) -> tuple[Callable[..., Any], list[str]]:
    """Return a tool ``hang`` that is late the first time, and the list of its runs."""
    ran: list[str] = []

    @tool(effects=effects, timeout_s=0.05, idempotent=idempotent)
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    return hang, ran


def hanging() -> tuple[Callable[..., Any], asyncio.Event, list[int]]:
    """Return a tool ``hang`` that never returns, what is set when it has started, and what grows when it is left."""
    started, left = asyncio.Event(), list[int]()

    @tool(effects=())
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append(1)
        return ""

    return hang, started, left
