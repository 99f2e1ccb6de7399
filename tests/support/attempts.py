"""What makes a second attempt, and tools that hang in the first one."""

import asyncio
from collections.abc import Callable
from typing import Any

from pluggent_hookspecs import ProviderError, hookimpl, tool


class Again:
    """Makes a second attempt at a model call that fails, and tells nobody that what was shown is void."""

    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next()


def hanging_once(effects: tuple[str, ...], *, idempotent: bool = False) -> tuple[Callable[..., Any], list[str]]:
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
