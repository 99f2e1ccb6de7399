"""The settings of a host, with their defaults, as frozen values. Reads no file.

Named tuples of the standard library: `pluggent plugins` and `--version` read settings too and import no
third-party package.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, cast

from pluggent_plugin_loader.settings import NOTHING, Selection
from pluggent_plugin_loader.suggestions import did_you_mean

OnAsk = Literal["console", "pause", "deny"]


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


class Timeouts(NamedTuple):
    """Time limits for plugins, in seconds."""

    provide_s: float = 2.0
    """Seconds in which a plugin says what it provides."""
    hook_s: float = 5.0
    """Seconds of one hook; a policy that is late denies."""
    observe_s: float = 0.5
    """Seconds of one observer."""
    approver_s: float = 60.0
    """Seconds in which an approver that is a plugin or a client answers."""
    open_s: float = 10.0
    """Seconds in which a plugin opens."""
    close_s: float = 5.0
    """Seconds in which a plugin closes."""
    source_s: float = 30.0
    """Seconds in which a source of tools or a list of models answers."""
    model_s: float = 600.0
    """Seconds of one model call."""


class OfFirstParty(tuple[str, ...]):
    """A grant to the first-party plugins of that role, changed by each name here in turn; see ``granted``.

    It grants nothing until it is filled in, and is unequal to any tuple that stands for itself.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfFirstParty) and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        return super().__repr__() if self else "OF_FIRST_PARTY"


OF_FIRST_PARTY: tuple[str, ...] = OfFirstParty()
"""A grant that is not set."""


def granted(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Return the grant *old* with the names in *new* added, and without those after ``!``; none for an empty *new*.

    A removal that found nothing stays, to be reported as unknown.

    >>> granted(("a", "b"), ("c", "!a")), granted(("a",), ()), granted(OF_FIRST_PARTY, ("c",))
    (('b', 'c'), (), ('c',))
    """
    if not new:
        return ()
    if isinstance(old, OfFirstParty):
        return OfFirstParty((*old, *new))
    names = list(old)
    for name in new:
        if name.startswith("!") and name[1:] in names:
            names.remove(name[1:])
        elif name not in names:
            names.append(name)
    return tuple(names)


class Grants(NamedTuple):
    """What the operator lets plugins do beyond the ordinary; each a tuple of plugin ids, but for two.

    ``handled`` names tools (capability ids) that may serve the person directly, ``sessions`` principals that may open
    the stored sessions of others. ``security`` and ``retriers`` default to the plugins for redaction and retries of
    the distribution pluggent; they are empty if it is not installed. A tuple given in code stands for itself; a list
    in a file of settings adds to what it was before (see ``granted``).
    """

    security: tuple[str, ...] = OF_FIRST_PARTY
    """Plugins whose transforms run last, such as redaction."""
    may_allow: tuple[str, ...] = ()
    """Plugins whose Allow lifts a question that the defaults ask."""
    may_respond: tuple[str, ...] = ()
    """Plugins that may answer in place of a tool or a model."""
    approvers: tuple[str, ...] = ()
    """Plugins that may answer approvals."""
    retriers: tuple[str, ...] = OF_FIRST_PARTY
    """Plugins that may repeat a model call."""
    optional: tuple[str, ...] = ()
    """Plugins with hooks without which the host opens all the same."""
    handled: tuple[str, ...] = ()
    """Tools that may serve the person directly, past the model."""
    sessions: tuple[str, ...] = ()
    """Principals that may open the sessions of others."""

    @property
    def of_plugins(self) -> Mapping[str, tuple[str, ...]]:
        """The grants to plugins, by name."""
        return {name: names for name, names in self._asdict().items() if name != "sessions"}

    def filled_in(self, first_party: Mapping[str, str]) -> "Grants":
        """Return these with the plugins of each role in *first_party* for the grants that are not set, or add to it.

        >>> Grants(retriers=()).filled_in({"a-retry": "retriers", "a-mask": "security"})[:5]
        (('a-mask',), (), (), (), ())
        """
        roles: dict[str, tuple[str, ...]] = {}
        for name, names in self._asdict().items():
            if isinstance(names, OfFirstParty):
                of_role = tuple(id for id, role in first_party.items() if role == name)
                roles[name] = granted(of_role, names) if names else of_role
        return self._replace(**roles)


class HostSettings(NamedTuple):
    """All options of a host, apart from objects given in code.

    ``on_ask`` says what happens to an ask without a live approver. ``pause``: the turn waits, durably, if the ask
    is about a tool call, a user message or a request to the model, and continues once a person has answered. Else,
    and always for asks below a running tool, for asks to release a result (``decide_output``,
    ``decide_model_response``, ``decide_tool_result``) and in a dry run, it is denied.
    ``stops_batch`` names tools (capability ids, or names that the model sees, with ``*``): the later calls of a reply
    run only if their call succeeds. Tools that declare it need not be named. ``("*",)``: all tools.
    ``strict``: tools of the application that declare no effects ask, as those of plugins do. What a tool declares
    counts wherever it comes from; ``effects`` is the operator's word above it.
    ``sessions`` names the installed store of sessions, instead of files in the state folder.
    ``principal`` is who asks wherever a session or memory is opened without a principal, and not for a client that
    only claims to be somebody.
    """

    model: str = ""
    """The model that answers, as provider/model."""
    system: str = ""
    """The system prompt."""
    strict: bool = False
    """Tools of the application that declare no effects ask, as those of plugins do."""
    on_ask: OnAsk = "deny"
    """What an ask leads to: a question at the terminal, a pause, or a denial."""
    stream: Literal["held", "provisional"] = "held"
    """Whether text is held until output policies have decided, or shown as "provisional"."""
    fsync: Literal["off", "effects"] = "effects"
    """Whether an intended effect is on the disk before it happens."""
    stops_batch: tuple[str, ...] = ()
    """Tools after whose failure the later calls of a reply do not run; "*" for all."""
    sessions: str = ""
    """The installed store of sessions, in place of files in the state folder."""
    principal: str = ""
    """Who asks, where nothing else says so."""
    selection: Selection = Selection()
    grants: Grants = Grants()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    approvers: Mapping[str, str] = NOTHING
    """Approvers with a key of their own: name = "sha256:" and the digest of the key."""
    required: Mapping[str, tuple[str, ...]] = NOTHING
    """Plugins that have to run: name = [hooks that they have to have]."""
    order: tuple[str, ...] = ()
    """Plugins whose hooks run in this order."""
    aliases: Mapping[str, str] = NOTHING
    """Which plugin a name means where two offer it: "kind/name" = "plugin"."""
    effects: Mapping[str, tuple[str, ...]] = NOTHING
    """What tools do, in your word, which counts above their own: "plugin:tool/name" = [effects]."""
    plugins: Mapping[str, Mapping[str, Any]] = NOTHING
    """A table of settings for each plugin, see below."""


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
