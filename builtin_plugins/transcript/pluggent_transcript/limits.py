"""The limits of a turn, as frozen values: what a session records of them, and what an application may change.

Named tuples of the standard library, because every start reads settings.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypedDict, cast

from pluggent_plugin_loader.suggestions import did_you_mean


class ToolLimits(NamedTuple):
    """Limits of one tool: calls in a turn, seconds of a call, bytes of a result; None is the host's."""

    calls: int | None = None
    """Calls in one turn; one above it is refused, and the turn continues."""
    timeout_s: float | None = None
    """Seconds that one call may take."""
    result_bytes: int | None = None
    """Bytes of one result; what is longer is cut, with a note."""


NO_TOOL_LIMITS: Mapping[str, ToolLimits] = MappingProxyType({})


class Limits(NamedTuple):
    """The limits of a turn. Times are seconds, sizes bytes; None is no limit.

    Near a limit the model is told to finish. ``repairs`` is how often a reply of the wrong form is sent back.
    ``per_tool`` goes by capability id, or by the name that the model sees; a call above it is refused, and the
    turn continues.
    """

    model_calls: int = 50
    """Calls of the model in one turn."""
    tool_rounds: int = 10
    """Replies with tool calls in one turn."""
    tool_timeout_s: float = 60.0
    """Seconds that one tool call may take."""
    result_bytes: int = 65_536
    """Bytes of one tool result; what is longer is cut, with a note."""
    wall_s: float | None = None
    """Seconds that a turn may take; the time in which a person thinks does not count."""
    tokens: int | None = None
    """Tokens of a turn, input and output together."""
    cost_usd: float | None = None
    """US dollars of a turn, where the provider knows its prices."""
    repeats: int = 3
    """The same round of calls this often in a row ends the turn."""
    asks: int = 5
    """Calls in one turn that a person may be asked about; one more ends it."""
    denials: int = 10
    """Calls in one turn that may be denied; one more ends it."""
    delegation_depth: int = 8
    """How deep agents may delegate to agents."""
    repairs: int = 1
    """How often a reply of the wrong form is sent back to the model."""
    per_tool: Mapping[str, ToolLimits] = NO_TOOL_LIMITS
    """Limits of single tools: name = { calls = 3, timeout_s = 10, result_bytes = 4096 }."""


class LimitChanges(TypedDict, total=False):
    """Some of the Limits; the others stay as they are.

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
"""A Limits is all of them, its defaults included; a mapping has those that differ."""


def limited(own: Limits, given: GivenLimits | None) -> Limits:
    """Return *own* with the *given* limits in place: a Limits replaces all of them.

    >>> limited(Limits(cost_usd=1.0, tool_rounds=3), {"tool_rounds": 10}).cost_usd
    1.0
    """
    if given is None or isinstance(given, Limits):
        return given or own
    per_tool = {**own.per_tool, **given.get("per_tool", {})}
    changed: dict[str, Any] = {**given, "per_tool": per_tool}
    return own._replace(**changed)


def check_limits(limits: object) -> None:
    """Raise TypeError for anything but valid Limits or some of them."""
    if limits is None:
        return
    if not isinstance(limits, Limits | Mapping):
        raise TypeError(f"limits: expected Limits(…) or a mapping of those that differ, got {type(limits).__name__}")
    given = limits._asdict() if isinstance(limits, Limits) else dict(cast("Mapping[str, Any]", limits))
    for name, value in given.items():
        if name == "per_tool":
            _check_per_tool(value)
        elif name not in Limits._fields:
            raise TypeError(f"limits: there is no limit {name!r}{did_you_mean(str(name), Limits._fields)}")
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
