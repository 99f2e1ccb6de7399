"""The small values that one turn is made of. Each has one subject; none of them knows the turn."""

from __future__ import annotations

import attrs
from pluggent_hookspecs.events import Scope

from pluggent_host.operations.pipeline import Operations
from pluggent_host.turns.consent import Consent
from pluggent_host.turns.meter import Meter
from pluggent_host.turns.record import Agent, Conversation, Services, TurnRecord
from pluggent_host.turns.streaming import Deltas, OutputGate


@attrs.frozen(eq=False, repr=False)
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
