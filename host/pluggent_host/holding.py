"""A request that is no tool call waits for a person: what is kept of it, and how it is found again. Values only."""

from __future__ import annotations

from typing import Any

import attrs
from pluggent_hookspecs.events import InputEvent, ModelRequestEvent
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelRequest

from pluggent_host.codec import from_json, to_json
from pluggent_host.decided import Asked
from pluggent_host.modelcalls import ModelCallOperation
from pluggent_host.pausing import Kind, Paused, Pending
from pluggent_host.standing import limits


@attrs.frozen
class Hold:
    """A request to the model that waits; ``before`` and ``warning`` as in Paused."""

    pending: Pending
    before: str
    warning: str


def pending_of(asked: Asked[Any, Any], identities: tuple[str, ...], id: str = "") -> Pending | None:
    """Return *asked*, which waits under *id* (default: that of its operation); None if it cannot be kept exactly."""
    operation, event = asked.operation, asked.event
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
        id or operation.id, name, operation.capability(), "", kept, event.digest,
        tuple((plugin, ask.tell_user) for plugin, ask in asked.asks), operation.rendered(event),
        event.scope.workspace, event.scope.principal, "once", limits(asked.asks), identities, kind,
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
