"""Observers that remember what they are told."""

import inspect
from collections.abc import Callable
from typing import Any

from pluggent_hookspecs import Scope, TextShown
from pluggent_host.common.threads import Threads
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.chains import Impl
from pluggent_host.hooks.event_bus import Observers

SCOPE = Scope("s", "t")


def shown(text: str) -> TextShown:
    return TextShown(SCOPE, text)


class Told:
    """Observers over some functions, without a host around them."""

    def __init__(self, *functions: Callable[[Any], Any], observe_s: float = 0.5, **more: Any) -> None:
        self.threads = Threads(name="observing")
        chain = tuple(
            Impl(f"plugin-{number}", function, is_async=inspect.iscoroutinefunction(function), **more)
            for number, function in enumerate(functions)
        )
        self.observers = Observers(chain, Caller(self.threads), observe_s)

    async def close(self, timeout_s: float = 1) -> None:
        await self.observers.close(timeout_s)
        self.threads.close()
