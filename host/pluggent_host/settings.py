"""What can be set, with its defaults, as frozen values. Where they come from is config.py's.

Named tuples of the standard library on purpose: `pluggent plugins` and `--version` read
settings too and import no third-party package.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})

Mode = Literal["all", "allow", "safe"]
OnAsk = Literal["console", "pause", "deny"]


class ToolLimits(NamedTuple):
    """Limits of one tool: calls in a turn, seconds of a call, bytes of a result; None is the host's."""

    calls: int | None = None
    timeout_s: float | None = None
    result_bytes: int | None = None


NO_TOOL_LIMITS: Mapping[str, ToolLimits] = MappingProxyType({})


class Limits(NamedTuple):
    """What ends a turn. Times are seconds, sizes bytes; None is no limit.

    Shortly before the end the model is told to come to one. ``repairs`` is how often a reply
    that is not of the wanted form is sent back. ``per_tool`` goes by capability id, or by the
    name that the model sees; a call above its limit is refused, and the turn goes on.
    """

    model_calls: int = 50
    tool_rounds: int = 10
    tool_timeout_s: float = 60.0
    result_bytes: int = 65_536
    wall_s: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    repeats: int = 3
    asks: int = 5
    denials: int = 10
    delegation_depth: int = 8
    repairs: int = 1
    per_tool: Mapping[str, ToolLimits] = NO_TOOL_LIMITS


class Timeouts(NamedTuple):
    """Waits for plugins, in seconds."""

    provide_s: float = 2.0
    hook_s: float = 5.0
    observe_s: float = 0.5
    approver_s: float = 60.0
    open_s: float = 10.0
    close_s: float = 5.0
    source_s: float = 30.0
    model_s: float = 600.0


class Selection(NamedTuple):
    """Which installed plugins may run. Names are plugin ids, or ids with ``==version``."""

    mode: Mode = "all"
    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    any_version: bool = False


class Grants(NamedTuple):
    """What the operator lets plugins do beyond the ordinary; each a tuple of plugin ids.

    ``handled`` names tools (capability ids) that may serve the person directly. The host's own
    plugins for retries and redaction have the grants that they need unless told otherwise.
    """

    security: tuple[str, ...] = ("pluggent-redact",)
    may_allow: tuple[str, ...] = ()
    may_respond: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    retriers: tuple[str, ...] = ("pluggent-retry",)
    optional: tuple[str, ...] = ()
    handled: tuple[str, ...] = ()


class HostSettings(NamedTuple):
    """Everything a host is opened with, apart from objects given in code.

    ``on_ask`` is what becomes of an ask that nobody answers now. ``pause``: the turn waits, durably, where a
    tool call, what is said or a request to the model has to be approved, and goes on when somebody has
    answered. Else, and always for asks below a running tool, for asks to release a result (``decide_output``,
    ``decide_model_response``, ``decide_tool_result``) and in a dry run, it is denied.
    ``stops_batch`` names tools (capability ids, or the names that the model sees, with ``*``)
    behind which the other calls of a reply are not run unless the call of theirs succeeded; the
    tools that say so themselves need not be named. ``("*",)``: all tools.
    """

    model: str = ""
    system: str = ""
    strict: bool = False
    on_ask: OnAsk = "deny"
    stream: Literal["held", "provisional"] = "held"
    fsync: Literal["off", "effects"] = "effects"
    stops_batch: tuple[str, ...] = ()
    selection: Selection = Selection()
    grants: Grants = Grants()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    approvers: Mapping[str, str] = NOTHING
    required: Mapping[str, tuple[str, ...]] = NOTHING
    order: tuple[str, ...] = ()
    aliases: Mapping[str, str] = NOTHING
    effects: Mapping[str, tuple[str, ...]] = NOTHING
    plugins: Mapping[str, Mapping[str, Any]] = NOTHING
