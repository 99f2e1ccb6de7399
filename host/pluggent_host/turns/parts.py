"""The small values that one turn is made of. Each has one subject; none of them knows the turn."""

from __future__ import annotations

import attrs
from pluggent_hookspecs.events import Scope

from pluggent_host.approvals.pending import Waiting
from pluggent_host.operations.pipeline import Operations
from pluggent_host.operations.services import Services
from pluggent_host.turns.consent import Consent
from pluggent_host.turns.meter import Meter, Quota
from pluggent_host.turns.record import Agent, Conversation, TurnRecord
from pluggent_host.turns.result import Feed
from pluggent_host.turns.streaming import Deltas, OutputGate


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
    serving: tuple[str, ...]
    """The capabilities of the tools that the operator lets be ``silent`` or ``handled``."""


def turn_parts(
    services: Services, conversation: Conversation, agent: Agent, scope: Scope, feed: Feed | None = None,
    *, waiting: Waiting | None = None, direct: bool = False,
) -> TurnParts:  # fmt: skip
    """Return the parts of a new turn, or of the one that is *waiting*; *direct*: of one call without a model."""
    operations, settings = services.operations, services.settings
    record = TurnRecord(
        services, conversation, services.tell if feed is None else feed.after(services.tell), not direct
    )
    meter = Meter(agent.limits, Quota(agent.limits))
    # The caller of a direct call is there to be asked at once, or the call is denied.
    consent = Consent(operations, conversation, meter, settings.on_ask == "pause" and not direct)
    if waiting is not None:
        paused = waiting.paused
        meter.restore(paused.elapsed_s, paused.usage, paused.asks, paused.counted)
        consent.restore(waiting, scope.principal)
    deltas = None if feed is None else Deltas(record, scope, feed, services, settings.stream == "provisional")
    gate = OutputGate(record, scope, operations, services.chains, deltas, consent, direct)
    return TurnParts(
        services, operations, conversation, agent, scope, record, meter, consent, deltas, gate,
        settings.grants.handled,
    )  # fmt: skip
