"""Limits as they are given in code: all of them, or those that differ. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypedDict, cast

from pluggent_host.nearest import nearest
from pluggent_host.settings import Limits, ToolLimits


class LimitChanges(TypedDict, total=False):
    """Those of the Limits that are to differ; the others stay as they are. See Limits for what they mean.

    ``per_tool`` names the tools whose limits differ, each with all of its own.
    """

    model_calls: int
    tool_rounds: int
    tool_timeout_s: float
    result_bytes: int
    wall_s: float | None
    tokens: int | None
    cost_usd: float | None
    repeats: int
    asks: int
    denials: int
    delegation_depth: int
    repairs: int
    per_tool: Mapping[str, ToolLimits]


GivenLimits: TypeAlias = Limits | LimitChanges
"""A Limits is all of them, its defaults included; a mapping is those that differ."""


def limited(own: Limits, given: GivenLimits | None) -> Limits:
    """Return *own* with what is *given* in its place.

    >>> own = Limits(cost_usd=1.0, tool_rounds=3)
    >>> limited(own, {"tool_rounds": 10}).cost_usd
    1.0
    >>> limited(own, Limits(tool_rounds=10)).cost_usd is None
    True
    """
    if given is None or isinstance(given, Limits):
        return given or own
    per_tool = {**own.per_tool, **given.get("per_tool", {})}
    changed: dict[str, Any] = {**given, "per_tool": per_tool}
    return own._replace(**changed)


def check_limits(limits: object) -> None:
    """Raise TypeError for what is neither Limits nor some of them, or holds what is no limit."""
    if limits is None:
        return
    if not isinstance(limits, Limits | Mapping):
        raise TypeError(f"limits: expected Limits(…) or a mapping of those that differ, got {type(limits).__name__}")
    given = limits._asdict() if isinstance(limits, Limits) else dict(cast("Mapping[str, Any]", limits))
    for name, value in given.items():
        if name not in Limits._fields:
            raise TypeError(f"limits: there is no limit {name!r}{nearest(str(name), Limits._fields)}")
        if name == "per_tool":
            _check_per_tool(value)
        elif not _is_limit(value) or (value is None and Limits._field_defaults[name] is not None):
            kind = "a number of at least 0" + (", or None" if Limits._field_defaults[name] is None else "")
            raise TypeError(f"limits.{name}: expected {kind}, got {value!r}")


def _check_per_tool(per_tool: object) -> None:
    if not isinstance(per_tool, Mapping):
        raise TypeError(f"limits.per_tool: expected a mapping of tool to ToolLimits(…), got {type(per_tool).__name__}")
    for tool, limits in cast("Mapping[object, object]", per_tool).items():
        if not isinstance(limits, ToolLimits) or not all(map(_is_limit, limits)):
            raise TypeError(f"limits.per_tool[{tool!r}]: expected ToolLimits(…) of numbers or None, got {limits!r}")


def _is_limit(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
