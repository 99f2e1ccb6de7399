"""Tools that ask something of the host, and policies about it."""

from collections.abc import Awaitable, Callable
from typing import Any

from pluggent_hookspecs import ToolContext, tool
from pluggent_testing.fakes import call
from policy_stage import Danger, Stage, stage


def using(use: Callable[[ToolContext], Awaitable[object]], **more: Any) -> tuple[Any, list[Any]]:
    """Return a tool ``user`` that calls *use*, and the list in which what came of it is kept."""
    outcome: list[Any] = []

    @tool(name="user", effects=(), **more)
    async def user(context: ToolContext) -> str:
        """Use the context."""
        try:
            outcome.append(await use(context))
        except Exception as error:  # noqa: BLE001 (what came of it is what the test looks at)
            outcome.append(error)
        return "used"

    return user, outcome


async def run(
    use: Callable[[ToolContext], Awaitable[object]], danger: Danger, *replies: Any, timeout_s: float | None = None,
    **options: Any,
) -> tuple[list[Any], Stage]:  # fmt: skip
    user, outcome = using(use, timeout_s=timeout_s)
    async with stage(call("user"), *replies, tools=[*danger.tools(), user], **options) as on:
        await on.session.say("go")
    return outcome, on
