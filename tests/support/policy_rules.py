"""Plugins and people of the tests of the rules of policy."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pluggent_hookspecs import ApprovalEvent, hookimpl
from pluggent_host.settings import HostSettings

DANGER = "app:tools:tool/danger"
ASKS = HostSettings(effects={DANGER: ("shell",)})
both_orders = pytest.mark.parametrize("turned", [False, True])


def deciding(hook: str, *answers: object) -> object:
    """Return a plugin whose *hook* gives *answers* one after the other, the last one for ever."""
    waiting = list(answers)

    def decide(self: object, event: object) -> object:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    decide.__name__ = hook
    return type("Decider", (), {hook: hookimpl(decide)})()


def yes(event: ApprovalEvent) -> bool:
    return True


class Twice:
    @hookimpl
    async def around_tool_call(self, event: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
        await call_next()
        return await call_next()
