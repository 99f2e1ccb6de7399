"""What one turn has used and may still use: time, tokens, questions to people, calls of each tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, cast

import attrs
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Usage
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_transcript.entries import Spending
from pluggent_transcript.limits import Limits, ToolLimits

from pluggent_host.operations.model_call import ModelCallOperation
from pluggent_host.tools.toolset import BoundTool, Toolset
from pluggent_host.turns.next_step import Spent
from pluggent_host.turns.record import TurnRecord


@attrs.define(eq=False, repr=False)
class Meter:
    """What one turn has used. ``effects`` counts the calls that may have changed something, nested ones included.

    ``asks`` counts the questions put to a person; while one is asked, the turn's clock is stopped.
    """

    limits: Limits
    quota: Quota
    usage: Usage = Usage()
    asks: int = 0
    effects: int = 0
    _started: float = attrs.field(factory=perf_counter)
    _thinking_s: float = 0.0

    def restore(self, elapsed_s: float, usage: Usage, asks: int, counted: Mapping[str, int]) -> None:
        """Go on from what the turn had used before it paused."""
        self._started -= elapsed_s
        self.usage, self.asks = usage, asks
        self.quota.restore(counted)

    def spent(self) -> Spent:
        return Spent(perf_counter() - self._started - self._thinking_s, self.usage)

    def left_s(self, most: float) -> float:
        """Seconds that one wait may take: *most*, capped by what is left of the turn."""
        if self.limits.wall_s is None:
            return most
        return max(0.001, min(most, self.limits.wall_s - self.spent().elapsed_s))

    def is_out_of_time(self) -> bool:
        return self.limits.wall_s is not None and self.spent().elapsed_s >= self.limits.wall_s

    def may_ask(self) -> bool:
        """Say whether this turn may put another question to a person."""
        return self.asks < self.limits.asks

    def book(self, call: ModelCallOperation, record: TurnRecord, elapsed_s: float, finish: str, error: str) -> None:
        """Count and record what *call*, and what was reissued for it, has used."""
        for each in call.calls(elapsed_s, finish, error):
            self.add(record, call.scope.turn_id, each.model, each.usage, each.error, call.run_key)
            record.emit(each.event(call.scope, call.event.round))

    def add(self, record: TurnRecord, turn_id: str, model: str, usage: Usage, error: str, run_key: str = "") -> None:
        """Count and record what was used of *model*; *run_key* is that of a run in the background."""
        self.usage += usage
        record.append(Spending(turn_id, model, usage, error, run_key))

    @contextmanager
    def person(self) -> Generator[None]:
        """Count a question to a person, and stop the turn's clock until it is answered."""
        started = perf_counter()
        self.asks += 1
        try:
            yield
        finally:
            self._thinking_s += perf_counter() - started


@attrs.frozen(repr=False)
class Taken(Value):
    """One call, counted. ``refusal`` says why it must not run; ``note`` is added to its result for the model."""

    refusal: str = ""
    note: str = ""


@attrs.define(eq=False, repr=False)
class Quota:
    """The limits of single tools in one turn, calls below other tools included."""

    _limits: Limits
    _calls: Counter[str] = attrs.field(factory=Counter[str])

    def take(self, tool: BoundTool) -> Taken:
        """Count one call of *tool*."""
        most = self._of(tool).calls
        if most is None:
            return Taken()
        name = tool.spec.name
        if self._calls[tool.capability] >= most:
            return Taken(f"Error: the calls of '{name}' that one turn allows ({most}) are used up. Go on without it.")
        self._calls[tool.capability] += 1
        if self._calls[tool.capability] < most:
            return Taken()
        return Taken(note=f"(That was the last call of '{name}' that this turn allows.)")

    def counted(self) -> dict[str, int]:
        """Return how many calls were counted, by capability id."""
        return dict(self._calls)

    def restore(self, counted: Mapping[str, int]) -> None:
        """Go on from what was counted before."""
        self._calls.update(counted)

    def give_back(self, tool: BoundTool) -> None:
        """A counted call was not run after all."""
        if self._calls[tool.capability]:
            self._calls[tool.capability] -= 1

    def timeout_s(self, tool: BoundTool) -> float:
        """Return the seconds that one call of *tool* may take."""
        own = self._of(tool).timeout_s
        return self._limits.tool_timeout_s if own is None else own

    def result_bytes(self, tool: BoundTool) -> int:
        """Return the bytes of a result of *tool* that the model gets."""
        own = self._of(tool).result_bytes
        return self._limits.result_bytes if own is None else own

    def _of(self, tool: BoundTool) -> ToolLimits:
        per_tool = self._limits.per_tool
        if not per_tool:
            return _NONE
        both = (per_tool.get(tool.capability, _NONE), per_tool.get(tool.spec.name, _NONE))
        # The system's file may name it one way, and a user who wants more the other way.
        least = (min((each for each in given if each is not None), default=None) for given in zip(*both, strict=True))
        return ToolLimits(*cast("Any", least))


_NONE = ToolLimits()


def check_names(names: Iterable[str], tools: Toolset, setting: str = "limits.per_tool") -> None:
    """Raise ConfigError for a short name that no tool of a session has: a limit must not miss in silence."""
    capabilities = {tool.capability for tool in tools.values()}
    known = [*tools, *capabilities]
    missed = [name for name in names if ":tool/" not in name and name not in tools]
    if missed:
        problems = [f"'{name}' is not a tool of this session{did_you_mean(name, known)}" for name in missed]
        raise ConfigError(setting, problems)
