"""What attempts to get round a policy are made with: forms, orders, ways, and plugins."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pluggent_hookspecs import Allow, hookimpl
from policy_stage import WAYS

both_forms = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
both_orders = pytest.mark.parametrize("turned", [False, True], ids=["policy-first", "policy-last"])
every_way = pytest.mark.parametrize("way", WAYS)


def policy(answer: Callable[[], object], *, is_async: bool = False) -> object:
    """Return a policy that decides about ``danger`` by calling *answer*."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: Any) -> object:
            return answer() if event.tool.name == "danger" else None

    class AsyncPolicy:
        @hookimpl
        async def decide_tool_call(self, event: Any) -> object:
            await asyncio.sleep(0)
            return answer() if event.tool.name == "danger" else None

    return AsyncPolicy() if is_async else Policy()


class Friendly:
    """Another plugin that has no objection and passes everything on."""

    @hookimpl
    def decide_tool_call(self, event: Any) -> object:
        return Allow("fine with me")

    @hookimpl
    async def around_tool_call(self, event: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
        return await call_next()


class OddError(BaseException):
    pass
