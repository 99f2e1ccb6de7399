"""The settings of a host, with their defaults, as frozen values. Reads no file.

Named tuples of the standard library: `pluggent plugins` and `--version` read settings too and import no
third-party package.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pluggent_plugin_loader.settings import NOTHING, Selection
from pluggent_transcript.limits import Limits

OnAsk = Literal["console", "pause", "deny"]


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
