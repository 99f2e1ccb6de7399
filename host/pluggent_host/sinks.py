"""Where records are kept besides the transcript: sinks, without which nothing goes on."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import attrs
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import (
    DecisionMade,
    HookFailed,
    ModelCalled,
    ModelRetried,
    Observation,
    PluginStateChanged,
    QuestionAnswered,
    SessionClosed,
    SessionOpened,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

from pluggent_host.calling import Caller
from pluggent_host.chains import Chain

RECORDED = (
    DecisionMade, HookFailed, ModelCalled, ModelRetried, PluginStateChanged, QuestionAnswered, SessionClosed,
    SessionOpened, ToolFinished, ToolStarted, TurnEnded, TurnStarted,
)  # fmt: skip
"""What sinks are told; a decision on its own way, before anything is executed."""


@attrs.frozen(eq=False)
class Sinks:
    """The sinks of one host. ``problems`` says which of them has lost something, and why."""

    chain: Chain
    optional: frozenset[str]
    caller: Caller
    hook_s: float
    failed: Callable[[HookFailed], None]
    problems: dict[str, str] = attrs.field(factory=dict[str, str])

    def tell(self, event: Observation) -> None:
        """Hand *event* on, unless it is a decision or of no interest to a record."""
        if self.chain and isinstance(event, RECORDED) and not isinstance(event, DecisionMade):
            self.write(event)

    def write(self, event: Observation) -> str:
        """Hand *event* to every sink; return why nothing may go on, empty if it may."""
        for impl in self.chain:
            answer = self.caller.call_now(impl, event, perf_counter() + self.hook_s)
            problem = answer.problem or ("" if answer.value is None else "returned something; a sink returns nothing")
            if problem:
                self.problems[impl.plugin] = problem
                scope = getattr(event, "scope", Scope())
                self.failed(HookFailed(scope, impl.plugin, "write_record", problem))
            else:
                self.problems.pop(impl.plugin, None)
        return "; ".join(f"'{plugin}' {why}" for plugin, why in self.problems.items() if plugin not in self.optional)
