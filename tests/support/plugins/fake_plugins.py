"""Plugins of one or two hooks, and a person who is asked: parts that tests of turns share."""

import inspect
from typing import Any

from pluggent_hookspecs import hookimpl


def plugin(name: str = "Policy", /, **hooks: Any) -> object:
    """Return a plugin called *name* with these hooks.

    Each is a function of what the hook is given, an exception that the hook raises, or the value that it returns.
    """
    return type(name, (), {hook: hookimpl(_method(hook, answer)) for hook, answer in hooks.items()})()


def about(tool: str, answer: object) -> object:
    """Return a policy that answers *answer* about the tool called *tool*."""

    def decide(event: Any) -> object:
        return answer if event.tool.name == tool else None

    return plugin(decide_tool_call=decide)


def _method(hook: str, answer: Any) -> Any:
    if hook.startswith("around"):

        async def around(self: object, event: Any, call_next: Any) -> Any:
            return await answer(event, call_next)

        return around
    if inspect.iscoroutinefunction(answer):

        async def later(self: object, event: Any) -> Any:
            return await answer(event)

        return later

    def now(self: object, event: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer(event) if inspect.isroutine(answer) else answer

    return now


class Person:
    """An approver that gives *answers* in turn, the last one again and again, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, event: Any) -> Any:
        self.asked.append(event)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
