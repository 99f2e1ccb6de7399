"""Lets plugins narrow the tools that a model is offered in one round."""

from __future__ import annotations

from time import perf_counter

from pluggent_hookspecs.errors import HookError
from pluggent_hookspecs.events import Scope, ToolSelectionEvent
from pluggent_hookspecs.observations import HookFailed

from pluggent_host.calling import Caller, said
from pluggent_host.chains import Chain
from pluggent_host.operation import Journal
from pluggent_host.toolset import Toolset


async def select_tools(
    chain: Chain, caller: Caller, hook_s: float, journal: Journal, scope: Scope, tools: Toolset
) -> Toolset:
    """Return what of *tools* is offered to the model now. Raises HookError."""
    deadline = perf_counter() + hook_s
    for impl in chain:
        event = ToolSelectionEvent(scope, tools.specs, {name: tool.capability for name, tool in tools.items()})
        answer = await caller.call(impl, event, deadline)
        problem = answer.problem
        if not problem and answer.value is not None:
            try:
                tools = tools.narrowed(tuple(answer.value))
            except Exception as error:  # noqa: BLE001 (an iterator of the plugin's may raise anything)
                problem = said(error)
        if problem:
            journal.tell(HookFailed(scope, impl.plugin, "select_tools", problem))
            raise HookError(impl.plugin, "select_tools", problem)
    return tools
