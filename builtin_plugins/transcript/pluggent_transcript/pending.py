"""The values of a turn that waits for a person, and of the answer to it.

A paused turn is durable: the process may end, and another one continues it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

import attrs
from pluggent_hookspecs import EMPTY, Json, Usage, Value, freeze_object
from pluggent_hookspecs.background import Ticket
from pluggent_hookspecs.decisions import Approval, Reach
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters

from pluggent_transcript.limits import Limits, ToolLimits
from pluggent_transcript.patterns import may_approve
from pluggent_transcript.standing import NO_PARTS, Standing, capped, pairs, parts_without

Kind = Literal["tool_call", "input", "model_call"]
log = logging.getLogger("pluggent.transcript")


@attrs.frozen(repr=False)
class Outcome(Value):
    """How one call ended, for the next step of the turn. ``signature`` names the result."""

    call_id: str
    signature: str
    denied: bool = False
    ends_turn: bool = False
    handled: bool = False
    waits: bool = False


@attrs.frozen(repr=False)
class Pending(Value):
    """One request that waits for an approval: a tool call, a user message, or a request to the model.

    ``call_id`` is the id of the call, else of the operation. ``arguments_json`` is exactly what will run:
    arguments, message or model request. ``digest`` names the request, ``asks`` are (plugin, its words), none
    for a call that only waits for an earlier one; ``rendered`` is the request for a person to read. ``reach``
    is the widest reach of an approval, ``approvers`` limit who may give it. ``workspace`` is the folder of the
    tool, ``principal`` the one who asks, ``identities`` stand for version and settings of each asking plugin.
    ``parts`` are those of its arguments (see ToolCallEvent), ``state`` is that of the preview in ``rendered``.
    """

    call_id: str
    name: str
    capability: str
    definition: str
    arguments_json: bytes
    digest: str
    asks: tuple[tuple[str, str], ...]
    rendered: str
    workspace: str = ""
    principal: str = ""
    reach: Reach = "always"
    approvers: tuple[tuple[str, ...], ...] = ()
    identities: tuple[str, ...] = ()
    kind: Kind = "tool_call"
    parts: Mapping[str, tuple[str, ...]] = NO_PARTS
    state: str = ""

    @property
    def asked(self) -> frozenset[tuple[str, str, str]]:
        """Each ask as plugin, words, identity."""
        return frozenset(pairs(self.asks, self.identities))

    @property
    def why(self) -> str:
        """The asks, in words."""
        return "; ".join(f"{plugin}: {words}" for plugin, words in self.asks)


@attrs.frozen(repr=False)
class Agreed(Value):
    """An approval given when the turn began: ``asked`` is plugin, words, identity; ``by`` the approver."""

    digest: str
    asked: tuple[tuple[str, str, str], ...]
    by: str


@attrs.frozen(repr=False)
class Terms(Value):
    """The options with which a turn was begun: ``limits`` as JSON, ``output`` the schema of the answer.

    ``unkept`` are the names of headers in ``parameters`` whose values were left out when this was stored.
    """

    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])
    parameters: ModelParameters = attrs.field(factory=ModelParameters)
    limits: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    output: Mapping[str, Json] | None = None
    agreed: Agreed | None = None
    unkept: tuple[str, ...] = ()

    def stored(self) -> Terms:
        """Return what is written of these: without values of headers, which may be secret."""
        names = tuple(self.parameters.headers)
        return attrs.evolve(self, parameters=attrs.evolve(self.parameters, headers={}), unkept=names) if names else self

    def parameters_beside(self, own: ModelParameters) -> ModelParameters:
        """Return the parameters, with the headers that were not kept as *own*, those of the session, have them."""
        if not self.unkept:
            return self.parameters
        given = {name: own.headers[name] for name in self.unkept if name in own.headers}
        if lost := [name for name in self.unkept if name not in given]:
            log.warning(
                "the turn that waited goes on without the headers %s: their values were not kept while it waited. "
                "Open the session with parameters that have them",
                ", ".join(lost),
            )
        return attrs.evolve(self.parameters, headers=given)

    def with_limits(self, own: Limits) -> Limits:
        """Return *own* with the limits of the turn in their place."""
        given: dict[str, Any] = dict(self.limits)
        per_tool = {name: ToolLimits(**limits) for name, limits in given.pop("per_tool", {}).items()}
        return own._replace(**given, per_tool=per_tool) if self.limits else own


def plain_limits(limits: Limits) -> Mapping[str, Json]:
    """Return *limits* as JSON."""
    per_tool: dict[str, Json] = {name: each._asdict() for name, each in limits.per_tool.items()}
    return {**limits._asdict(), "per_tool": per_tool}


@attrs.frozen(repr=False)
class Run(Value):
    """The background run that a turn waits for. ``key`` names it in ledgers, ``content`` is the digest of the request.

    Without a ``ticket`` it was about to be submitted: whether the vendor has it is not known.
    """

    key: str
    content: str
    ticket: Ticket | None = None


@attrs.frozen(repr=False)
class Paused(Value):
    """A turn waits: of the calls of one reply ``pending`` ones need an approval, all others have their result.

    ``progress`` is step.State without its limits, ``outcomes`` are those of the other calls, ``elapsed_s`` and
    ``usage`` the amounts so far, ``asks`` the number of questions to a person. Of a request to the model
    ``before`` is the digest before policies changed it, ``warning`` the host's text in it. A later one with the
    same ``at_s`` replaces it. ``void`` says why a stored pause does not count; it is never written. ``run`` is the
    background run of that request: while this process waits for it, too, so that another one finds it.
    """

    turn_id: str
    at_s: float
    round: int
    pending: tuple[Pending, ...]
    progress: Mapping[str, Json] = attrs.field(converter=freeze_object)
    outcomes: tuple[Outcome, ...] = ()
    usage: Usage = attrs.field(factory=Usage)
    elapsed_s: float = 0.0
    refused: tuple[str, ...] = ()
    counted: Mapping[str, int] = attrs.field(factory=dict[str, int])
    so_far: str = ""
    terms: Terms = attrs.field(factory=Terms)
    before: str = ""
    warning: str = ""
    asks: int = 0
    void: str = ""
    run: Run | None = None

    @property
    def stage(self) -> Kind:
        """Where the turn waits: at its input, before a model call, or at the calls of a reply."""
        kinds = {each.kind for each in self.pending}
        return "tool_call" if "tool_call" in kinds or not kinds else "model_call" if "model_call" in kinds else "input"


@attrs.frozen(repr=False)
class Resolved(Value):
    """The answer to a pending request of the pause that began ``asked_at_s``."""

    turn_id: str
    digest: str
    agreed: bool
    by: str
    at_s: float
    asked_at_s: float
    reach: Reach = "once"
    reason: str = ""


@attrs.frozen(repr=False)
class Resumed(Value):
    """A paused turn continues."""

    turn_id: str
    at_s: float


@attrs.frozen(repr=False)
class Waiting(Value):
    """A paused turn as its session holds it: results so far and answers, by call id and digest."""

    paused: Paused
    said: Message
    results: Mapping[str, Message] = attrs.field(factory=dict[str, Message])
    resolved: Mapping[str, Resolved] = attrs.field(factory=dict[str, Resolved])
    told: Mapping[str, Outcome] = attrs.field(factory=dict[str, Outcome])

    @property
    def open(self) -> tuple[Pending, ...]:
        """The requests without a result or an answer that need one."""
        return tuple(
            pending
            for pending in self.paused.pending
            if pending.asks
            and pending.digest not in self.resolved
            and not (pending.kind == "tool_call" and pending.call_id in self.results)
        )


def approval_of(call_id: str, answer: object) -> Approval:
    """Return *answer* to the call *call_id* as an Approval. Raises TypeError for any other type."""
    if isinstance(answer, bool):
        return Approval(answer)
    if isinstance(answer, Approval):
        return answer
    raise TypeError(f"answers[{call_id!r}]: expected True, False or an Approval, got {type(answer).__name__}")


def refusal(pending: Pending, approval: Approval, who: str) -> str:
    """Return why *who* cannot approve *pending*; empty if *who* can."""
    if not approval.agreed or may_approve(pending.approvers, who):
        return ""
    allowed = "; and by ".join(" or ".join(names) for names in pending.approvers)
    what = "call" if pending.kind == "tool_call" else "request"
    return f"the {what} {pending.call_id} can be approved only by {allowed}, not by {who}"


def answered(
    paused: Paused, pending: Pending, approval: Approval, by: str, at_s: float
) -> tuple[Resolved, Standing | None]:
    """Return the record of an answer to *pending*, and its approval of later calls, if it is one."""
    given = capped(approval, pending.reach)
    about = (paused.turn_id, pending.digest, given.agreed)
    resolved = Resolved(*about, by, at_s, paused.at_s, given.reach, given.reason)
    if not given.agreed or given.reach == "once":
        return resolved, None
    standing = Standing(
        pending.capability, pending.definition, pending.asks, pending.identities, given.where, pending.workspace,
        pending.principal, paused.turn_id, by, at_s, given.reach, parts_without(given.where, pending.parts),
    )  # fmt: skip
    return resolved, standing
