"""Plugins, approvers, tables and a full disk: parts that the tests of policy share."""

import asyncio
import contextlib
import inspect
import resource
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from each_of import each_of
from pluggent_hookspecs import Allow, ApprovalEvent, hookimpl
from pluggent_host.settings import HostSettings
from policy_stage import WAYS

DANGER = "app:tools:tool/danger"
ASKS = HostSettings(effects={DANGER: ("shell",)})
both_forms = each_of("is_async", [False, True], ids=["sync", "async"])
both_orders = each_of("turned", [False, True], ids=["first", "last"])
every_way = each_of("way", WAYS)


def hooked(*, name: Any = "Policy", is_async: Any = False, marks: Any = None, **hooks: Any) -> Any:
    """Return a plugin whose *hooks* give the values, or what the functions return for the event (and ``call_next``).

    *marks* are those of its markers. With *is_async* the hooks are coroutine functions that wait once.
    """
    given: dict[str, Any] = marks or {}
    mark: Any = hookimpl(**given)
    return type(name, (), {hook: mark(_implementing(hook, answer, is_async)) for hook, answer in hooks.items()})()


def _implementing(hook: str, answer: Any, is_async: bool) -> Callable[..., object]:
    def plain(self: object, event: object) -> object:
        return answer(event) if inspect.isroutine(answer) else answer

    async def waiting(self: object, event: object) -> object:
        await asyncio.sleep(0)
        return plain(self, event)

    async def late(self: object, event: object) -> object:
        return await answer(event)

    async def around(self: object, event: object, call_next: object) -> object:
        return await answer(event, call_next)

    if hook.startswith("around"):
        chosen: Callable[..., object] = around
    else:
        chosen = late if inspect.iscoroutinefunction(answer) else waiting if is_async else plain
    chosen.__name__ = hook
    return chosen


def on_danger(answer: Callable[[], object], *, is_async: bool = False) -> Any:
    """Return a policy that decides about ``danger`` by calling *answer*."""

    def decide(event: Any) -> object:
        return answer() if event.tool.name == "danger" else None

    return hooked(is_async=is_async, decide_tool_call=decide)


def deciding(hook: str, *answers: object) -> object:
    """Return a plugin whose *hook* gives *answers* one after the other, the last one for ever."""
    waiting = list(answers)

    def decide(event: object) -> object:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return hooked(name="Decider", **{hook: decide})


def friendly() -> Any:
    """Return a plugin that has no objection and passes everything on."""

    async def passes(event: object, call_next: Callable[[], Awaitable[Any]]) -> Any:
        return await call_next()

    return hooked(name="Friendly", decide_tool_call=Allow("fine with me"), around_tool_call=passes)


def yes(event: ApprovalEvent) -> bool:
    return True


def agreeing(asked: list[Any], answer: object = True) -> Any:
    """Return an approver that notes the events in *asked* and gives *answer*."""

    def approve(event: ApprovalEvent) -> Any:
        asked.append(event)
        return answer

    return approve


async def twice(event: object, call_next: Callable[[], Awaitable[Any]]) -> Any:
    await call_next()
    return await call_next()


@contextlib.contextmanager
def full_disk() -> Generator[Callable[[int], None]]:
    """Yield what lets files of this process grow to a number of bytes and no further; lift the limit at the end."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
