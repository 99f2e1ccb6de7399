"""How often each tool has been called in one turn, and what else is limited for it alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs
from pluggent_hookspecs.errors import ConfigError

from pluggent_host.nearest import nearest
from pluggent_host.settings import Limits, ToolLimits
from pluggent_host.toolset import BoundTool, Toolset


@attrs.frozen
class Taken:
    """One call, counted. ``refusal`` says why it must not run; ``note`` what the model reads beside its result."""

    refusal: str = ""
    note: str = ""


class Quota:
    """The limits of single tools in one turn, calls below other tools included."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls: Counter[str] = Counter()

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
        # The system's file may know it by one name, and whoever would like more by the other.
        least = (min((each for each in given if each is not None), default=None) for given in zip(*both, strict=True))
        return ToolLimits(*cast("Any", least))


_NONE = ToolLimits()


def check_names(names: Iterable[str], tools: Toolset, setting: str = "limits.per_tool") -> None:
    """Raise ConfigError for a short name that no tool of a session has: a limit must not miss in silence."""
    capabilities = {tool.capability for tool in tools.values()}
    known = [*tools, *capabilities]
    missed = [name for name in names if ":tool/" not in name and name not in tools]
    if missed:
        problems = [f"'{name}' is no tool of this session{nearest(name, known)}" for name in missed]
        raise ConfigError(setting, problems)
