"""What a turn that waits for a person leaves behind, and how it is answered. Values only.

A paused turn is durable: the process may end, and another one goes on from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from pluggent_hookspecs import EMPTY, Json, Usage, freeze_object
from pluggent_hookspecs.decisions import Approval, Reach
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters

from pluggent_host.approvals.standing import Standing, capped, may_approve
from pluggent_host.settings import Limits, ToolLimits
from pluggent_host.tools.results import Outcome

Kind = Literal["tool_call", "input", "model_call"]


@attrs.frozen
class Pending:
    """One request that waits for an approval: a tool call, what somebody says, or what the model is to be asked.

    ``call_id`` is the id of the call, or of the operation that is none. ``arguments_json`` is exactly
    what will run: arguments, message or model request. ``digest`` names the request, ``asks`` are
    (plugin, its words), none for a call that only waits for one before it; ``rendered`` is the
    request for a person to read. ``reach`` is the most that an approval is good for, ``approvers``
    are those to whom asks are limited. ``workspace`` is the folder that the tool would work in,
    ``principal`` who asks for it, ``identities`` stand for the version and settings of each plugin
    that asks.
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

    @property
    def asked(self) -> frozenset[tuple[str, str, str]]:
        """Each ask with who asks: plugin, words, identity."""
        return frozenset((*ask, identity) for ask, identity in zip(self.asks, self.identities, strict=True))

    @property
    def why(self) -> str:
        """Who asks, and why."""
        return "; ".join(f"{plugin}: {words}" for plugin, words in self.asks)


@attrs.frozen
class Agreed:
    """To what a person has agreed when a turn began: ``asked`` is plugin, words, identity; ``by`` who agreed."""

    digest: str
    asked: tuple[tuple[str, str, str], ...]
    by: str


@attrs.frozen
class Terms:
    """What a turn was begun with, and goes on with: ``limits`` as JSON, ``output`` the schema that was asked for."""

    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])
    parameters: ModelParameters = attrs.field(factory=ModelParameters)
    limits: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    output: Mapping[str, Json] | None = None
    agreed: Agreed | None = None

    def with_limits(self, own: Limits) -> Limits:
        """Return *own*, with what the turn was limited to in its place."""
        given: dict[str, Any] = dict(self.limits)
        per_tool = {name: ToolLimits(**limits) for name, limits in given.pop("per_tool", {}).items()}
        return own._replace(**given, per_tool=per_tool) if self.limits else own


def plain_limits(limits: Limits) -> Mapping[str, Json]:
    """Return *limits* as JSON."""
    per_tool: dict[str, Json] = {name: each._asdict() for name, each in limits.per_tool.items()}
    return {**limits._asdict(), "per_tool": per_tool}


@attrs.frozen
class Paused:
    """A turn waits: of one reply's calls ``pending`` ones need an approval, all others have their result.

    ``progress`` is how far the turn is (step.State without its limits), ``outcomes`` what came of
    the other calls, ``elapsed_s`` and ``usage`` what has gone so far, ``asks`` how often a person was
    asked before. Of a request to the model ``before`` is the digest that it had before policies
    changed it, and ``warning`` what the host told the model with it. One more with the same ``at_s``
    is the same pause, which waits for more.

    ``void`` says why it does not count; never written, a transcript on disk says so of what it reads.
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

    @property
    def stage(self) -> Kind:
        """Where the turn stands: before it began, before the model is asked, or at the calls of its reply."""
        kinds = {each.kind for each in self.pending}
        return "tool_call" if "tool_call" in kinds or not kinds else "model_call" if "model_call" in kinds else "input"


@attrs.frozen
class Resolved:
    """Somebody has answered a pending request of the pause that began ``asked_at_s``: ``by`` whom, and why."""

    turn_id: str
    digest: str
    agreed: bool
    by: str
    at_s: float
    asked_at_s: float
    reach: Reach = "once"
    reason: str = ""


@attrs.frozen
class Resumed:
    """A paused turn goes on."""

    turn_id: str
    at_s: float


@attrs.frozen
class Waiting:
    """A paused turn as its session holds it: results so far and answers by call id and digest."""

    paused: Paused
    said: Message
    results: Mapping[str, Message] = attrs.field(factory=dict[str, Message])
    resolved: Mapping[str, Resolved] = attrs.field(factory=dict[str, Resolved])
    told: Mapping[str, Outcome] = attrs.field(factory=dict[str, Outcome])

    @property
    def open(self) -> tuple[Pending, ...]:
        """The requests that have neither a result nor an answer, and need one."""
        return tuple(
            pending
            for pending in self.paused.pending
            if pending.asks
            and pending.digest not in self.resolved
            and not (pending.kind == "tool_call" and pending.call_id in self.results)
        )


def approval_of(call_id: str, answer: object) -> Approval:
    """Return *answer* to the call *call_id*. Raises TypeError for what is none."""
    if isinstance(answer, bool):
        return Approval(answer)
    if isinstance(answer, Approval):
        return answer
    raise TypeError(f"answers[{call_id!r}]: expected True, False or an Approval, got {type(answer).__name__}")


def refusal(pending: Pending, approval: Approval, who: str) -> str:
    """Return why *who* cannot approve *pending*; empty if nothing speaks against it."""
    if not approval.agreed or may_approve(pending.approvers, who):
        return ""
    allowed = "; and by ".join(" or ".join(names) for names in pending.approvers)
    what = "call" if pending.kind == "tool_call" else "request"
    return f"the {what} {pending.call_id} can be approved only by {allowed}, not by {who}"


def answered(
    paused: Paused, pending: Pending, approval: Approval, by: str, at_s: float
) -> tuple[Resolved, Standing | None]:
    """Return what is recorded of an answer to *pending*, and what it is good for beyond that call, if for anything."""
    given = capped(approval, pending.reach)
    resolved = Resolved(
        paused.turn_id, pending.digest, given.agreed, by, at_s, paused.at_s, given.reach, given.reason
    )  # fmt: skip
    if not given.agreed or given.reach == "once":
        return resolved, None
    standing = Standing(
        pending.capability, pending.definition, pending.asks, pending.identities, given.where, pending.workspace,
        pending.principal, paused.turn_id, by, at_s, given.reach,
    )  # fmt: skip
    return resolved, standing
