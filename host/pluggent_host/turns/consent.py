"""Asks of one turn: the only place that turns an ask into a decision. Nothing else in a turn looks at one.

In this order: what a person has refused in this turn stays refused; an answer that was stored, or an approval
that stands, counts if it covers all that is asked now; a turn asks only so often; an approver is asked, the
clocks stopped; without an answer the request waits where it may, and is denied where it may not.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Generic, TypeVar

import attrs
from pluggent_contract_values.as_json import from_json, to_json
from pluggent_hookspecs import Value
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import InputEvent, ModelRequestEvent, ToolCallEvent
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelRequest
from pluggent_transcript.patterns import may_approve
from pluggent_transcript.pending import Agreed, Kind, Paused, Pending, Resolved, Run, Waiting
from pluggent_transcript.standing import asked_by, limits

from pluggent_host.common.names import HOST
from pluggent_host.operations.model_call import ModelCallOperation
from pluggent_host.operations.operation import (
    Asked,
    Asks,
    Decided,
    Denied,
    Operation,
    Ready,
    Settled,
    Unanswered,
    unanswered,
)
from pluggent_host.operations.pipeline import Operations
from pluggent_host.turns.meter import Meter
from pluggent_host.turns.record import Conversation

E = TypeVar("E")
R = TypeVar("R")

REFUSED: Final = "a person has already refused exactly this {}"
TOO_OFTEN: Final = "this turn has asked a person too often"
_CALLED = {"tool_call": "call", "model_call": "model call"}
_AT_ONCE: Final = nullcontext()


@attrs.frozen(repr=False)
class Waits(Value, Generic[E, R]):
    """A person has to agree first and is to be asked later: the turn pauses."""

    asked: Asked[E, R]


@attrs.define(eq=False, repr=False)
class Consent:
    """What persons have agreed to and refused in one turn. ``may_wait``: an ask without an answer pauses the turn."""

    _operations: Operations
    _conversation: Conversation
    _meter: Meter
    may_wait: bool
    refused: set[str] = attrs.field(factory=set[str])
    agreed: Agreed | None = None
    _waiting: Waiting | None = None

    def restore(self, waiting: Waiting, principal: str) -> None:
        """Continue the turn that is *waiting*, for *principal*."""
        self._waiting = waiting
        self.refused |= set(waiting.paused.refused)
        same = all(each.principal == principal for each in waiting.paused.pending)
        self.agreed = waiting.paused.terms.agreed if same else None

    # ---- settling ------------------------------------------------------------------------

    async def settle(self, decided: Decided[E, R]) -> Settled[E, R] | Waits[E, R]:
        """Return *decided* settled: a person is asked where one has to agree. The result may be Waits."""
        settled = await self.settle_now(decided)
        waits = isinstance(settled, Unanswered) and self.may_wait and not settled.operation.scope.dry_run
        return Waits(decided) if waits and isinstance(decided, Asked) else settled

    async def settle_now(
        self, decided: Decided[E, R], clocks: AbstractContextManager[None] = _AT_ONCE
    ) -> Settled[E, R]:
        """Return *decided* settled at once; *clocks* are stopped while a person is asked."""
        if isinstance(decided, Denied):
            return decided
        operation, event = decided.operation, decided.event
        if (refused := self.refusal(operation, event)) is not None:
            return refused
        if not isinstance(decided, Asked):
            return decided
        if self._stored(operation, event) is not None:  # an answer to what a person saw, which must still be so
            await operation.look(event)
        settled = await self._given(decided)
        if settled is None and not self._meter.may_ask():
            return Denied(operation, event, HOST, Deny(TOO_OFTEN))
        if settled is None:
            with clocks:
                settled = await self._ask(decided)
        if isinstance(settled, Denied):
            self.refused.add(operation.fingerprint(event))
        return settled or unanswered(decided)

    async def _ask(self, asked: Asked[E, R]) -> Settled[E, R] | None:
        """Ask the approvers; None if none of them answers."""
        await asked.operation.look(asked.event)
        with self._meter.person():
            settled = await self._operations.ask(asked)
        self._conversation.approved(settled, asked, self._operations.identities(asked.asks))
        if isinstance(settled, Ready) and settled.approval is not None:
            self._agree(asked, settled.approval.by)
            asked.operation.approved_state = asked.operation.state
        return settled

    # ---- answers from before -------------------------------------------------------------

    def refusal(self, operation: Operation[E, R], event: E) -> Denied[E, R] | None:
        """Return the denial of what a person has refused in this turn, else None."""
        if not self.refused or operation.fingerprint(event) not in self.refused:
            return None
        return Denied(operation, event, HOST, Deny(REFUSED.format(_CALLED.get(operation.name, "request"))))

    async def stored_refusal(self, operation: Operation[E, R], event: E) -> Denied[E, R] | None:
        """Return the denial of what was refused while the turn waited, else None; policies are not asked again."""
        given = self._stored(operation, event)
        return None if given is None or given.agreed else await self.refuse(operation, event, given)

    async def refuse(self, operation: Operation[E, R], event: E, given: Resolved) -> Denied[E, R]:
        """Return the denial that *given* means, an answer from while the turn waited; it is final for this turn."""
        self.refused.add(operation.fingerprint(event))
        return await self._operations.refused(operation, event, given.by, given.reason)

    async def _given(self, asked: Asked[E, R]) -> Settled[E, R] | None:
        """Return the decision for an answer from before that covers every current ask, else None."""
        return await self._answered(asked) or self._agreed_before(asked) or self._stands(asked)

    async def _answered(self, asked: Asked[E, R]) -> Settled[E, R] | None:
        operation, event = asked.operation, asked.event
        given = self._stored(operation, event)
        if given is None or self._waiting is None:
            return None
        if not given.agreed:
            return await self.refuse(operation, event, given)
        request = (_digest(event), operation.scope.principal, operation.state)
        pending = self._waiting.paused.pending
        known = {ask for each in pending if (each.digest, each.principal, each.state) == request for ask in each.asked}
        if not self._covered(asked, known, given.by):
            return None
        if not isinstance(event, ToolCallEvent):  # a batch counts its own
            self._meter.asks += 1
        self._agree(asked, given.by)
        operation.approved_state = operation.state
        return self._operations.approved(asked, given.by, given.reason)

    def _agreed_before(self, asked: Asked[E, R]) -> Settled[E, R] | None:
        agreed = self.agreed
        if agreed is None or agreed.digest != _digest(asked.event):
            return None
        if not self._covered(asked, frozenset(agreed.asked), agreed.by):
            return None
        return self._operations.approved(asked, agreed.by, "approved when the turn began")

    def _stands(self, asked: Asked[E, R]) -> Settled[E, R] | None:
        if not isinstance(asked.event, ToolCallEvent):
            return None
        stands = self._conversation.stands(asked.event, asked.asks, self._operations.identities(asked.asks))
        if stands is None:
            return None
        return self._operations.approved(asked, stands.by, f"approved before, {stands.how}")

    def _stored(self, operation: Operation[Any, Any], event: object) -> Resolved | None:
        return None if self._waiting is None else self._waiting.resolved.get(_digest(event))

    def _covered(self, asked: Asked[Any, Any], known: AbstractSet[tuple[str, str, str]], by: str) -> bool:
        """Say whether *by*, who has agreed to what is *known*, may have agreed to all that is *asked* now."""
        same = asked_by(asked.asks, self._operations.identities(asked.asks)) <= known
        return same and may_approve(limits(asked.asks), by)

    def _agree(self, asked: Asked[Any, Any], by: str) -> None:
        """Remember that a person has agreed to what is said: that is decided about again after each pause."""
        if isinstance(asked.event, InputEvent):
            identities = self._operations.identities(asked.asks)
            self.agreed = Agreed(asked.event.digest, tuple(sorted(asked_by(asked.asks, identities))), by)


def _digest(event: Any) -> str:
    return str(event.digest)


@attrs.frozen(repr=False)
class Hold(Value):
    """A request to the model that waits; ``before``, ``warning`` and ``run`` as in Paused, ``why`` for its reply."""

    pending: Pending
    before: str
    warning: str
    run: Run | None = None
    why: str = ""


def pending_of(asked: Asked[Any, Any], identities: tuple[str, ...], id: str = "") -> Pending | None:
    """Return *asked*, which waits under *id* (default: that of its operation); None if it cannot be kept exactly."""
    return pending_request(asked.operation, asked.event, asked.asks, identities, id)


def pending_request(
    operation: Operation[Any, Any], event: InputEvent | ModelRequestEvent, asks: Asks, identities: tuple[str, ...],
    id: str = "",
) -> Pending | None:  # fmt: skip
    """Return the request of *event*, about which *asks* are open, as it is kept; None if it cannot be kept exactly."""
    kind: Kind = "input" if isinstance(event, InputEvent) else "model_call"
    name = "input" if isinstance(event, InputEvent) else event.request.model
    try:
        kept = to_json(event.message if isinstance(event, InputEvent) else event.request)
        again = operation.freeze(_with(event, kept))
    except ValueError:
        return None
    if again.digest != event.digest:
        return None
    return Pending(
        id or operation.id, name, operation.capability, "", kept, event.digest,
        tuple((plugin, ask.tell_user) for plugin, ask in asks), operation.rendered(event),
        event.scope.workspace, event.scope.principal, "once", limits(asks), identities, kind,
    )  # fmt: skip


def _with(event: InputEvent | ModelRequestEvent, kept: bytes) -> InputEvent | ModelRequestEvent:
    if isinstance(event, InputEvent):
        return attrs.evolve(event, message=from_json(kept, Message))
    return attrs.evolve(event, request=from_json(kept, ModelRequest))


def frozen_again(operation: ModelCallOperation, paused: Paused) -> ModelRequestEvent | None:
    """Return the request that waits, as it was frozen; None if what *operation* would begin with is another by now."""
    pending = next((each for each in paused.pending if each.kind == "model_call"), None)
    if pending is None or operation.freeze(operation.event).digest != paused.before:
        return None
    offered = operation.offered
    try:
        request = from_json(pending.arguments_json, ModelRequest)
        event = operation.freeze(operation.changed(operation.event, request, ""))
    except ValueError:
        event = None
    if event is None or event.digest != pending.digest:
        operation.offered = offered
        return None
    return event


def submitted_again(operation: ModelCallOperation, paused: Paused) -> ModelRequestEvent | None:
    """Return the request that was submitted and is to be attached to, whatever would be sent now; None if unreadable.

    Tools that are gone or have changed since are not offered any more: a call of one is one of an unknown tool.
    """
    pending = next((each for each in paused.pending if each.kind == "model_call"), None)
    if pending is None:
        return None
    try:
        request = from_json(pending.arguments_json, ModelRequest)
    except ValueError:
        return None
    offered = operation.offered
    operation.offered = offered.narrowed(
        spec.name for spec in request.tools if spec.name in offered and spec == offered[spec.name].spec
    )
    return operation.freeze(attrs.evolve(operation.event, request=request))
