"""The small values that one turn is made of. Each has one subject; none of them knows the turn."""

from __future__ import annotations

import attrs
from pluggent_hookspecs.events import Scope

from pluggent_host.approvals.pending import Waiting
from pluggent_host.operations.pipeline import Operations
from pluggent_host.operations.services import Services
from pluggent_host.turns.consent import Consent
from pluggent_host.turns.meter import Meter
from pluggent_host.turns.record import Agent, Conversation, TurnRecord
from pluggent_host.turns.result import Feed
from pluggent_host.turns.streaming import Deltas, OutputGate, follow


@attrs.frozen(eq=False)
class TurnParts:
    """What one turn is made of; whatever runs in it takes what it needs from here."""

    services: Services
    operations: Operations
    conversation: Conversation
    agent: Agent
    scope: Scope
    record: TurnRecord
    meter: Meter
    consent: Consent
    deltas: Deltas | None
    gate: OutputGate

    def may_serve(self, capability: str) -> bool:
        """Say whether the operator lets this tool be ``silent`` or ``handled``."""
        return capability in self.services.settings.grants.handled


def turn_parts(
    services: Services, conversation: Conversation, agent: Agent, scope: Scope, feed: Feed | None = None,
    *, waiting: Waiting | None = None, direct: bool = False,
) -> TurnParts:  # fmt: skip
    """Return the parts of a new turn, or of the one that is *waiting*; *direct*: of one call without a model."""
    operations, settings = services.operations, services.settings
    record = TurnRecord(services, conversation, feed, joins=not direct)
    meter = Meter(agent.limits)
    if waiting is not None:
        paused = waiting.paused
        meter.restore(paused.elapsed_s, paused.usage, paused.asks, paused.counted)
    # The caller of a direct call is there to be asked at once, or nobody is.
    may_wait = settings.on_ask == "pause" and not direct
    consent = Consent(
        operations, conversation, meter, may_wait=may_wait, waiting=waiting, principal=scope.principal
    )  # fmt: skip
    deltas = follow(record, scope, feed, services.chains, services.caller, settings.stream)
    gate = OutputGate(record, scope, operations, services.chains, deltas, consent, direct)
    return TurnParts(services, operations, conversation, agent, scope, record, meter, consent, deltas, gate)
