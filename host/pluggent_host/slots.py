"""One call of a batch on its way to its one result, and how calls stand beside each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ToolCallEvent
from pluggent_hookspecs.messages import Message, ToolCall
from pluggent_hookspecs.tools import ToolOutput, ToolSpec

from pluggent_host.arguments import Checker
from pluggent_host.decided import Decided
from pluggent_host.pausing import Pending
from pluggent_host.step import Outcome
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolset import BoundTool, by_effect


@attrs.define
class Slot:
    """One call on its way to its one result."""

    call: ToolCall
    operation: ToolCallOperation
    decided: Decided[ToolCallEvent, ToolOutput] | None = None
    dispatched: bool = False
    begun: bool = False
    effects_seen: int = 0
    """How many calls of the batch had taken effect when this one was decided."""
    asked: bool = False
    unanswered: str = ""
    pending: Pending | None = None
    note: str = ""
    denied: bool = False
    ends_turn: bool = False
    output: ToolOutput | None = None
    message: Message | None = None
    outcome: Outcome | None = None
    """How it ended, where that is known from before a pause."""


def segments(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Cut a batch at its exclusive calls, each of which is a segment of its own."""
    segments: list[list[Slot]] = [[]]
    for slot in slots:
        if slot.operation.tool.spec.exclusive:
            segments += [[slot], []]
        else:
            segments[-1].append(slot)
    return [segment for segment in segments if segment]


def outcome_of(slot: Slot, *, served: bool) -> Outcome:
    """Return how *slot* ended; ``served``: its tool may serve the person directly."""
    if slot.outcome is not None:
        return slot.outcome
    output = slot.output or ToolOutput()
    seen = hashlib.sha256(repr(output.for_model).encode("utf-8", "surrogatepass")).hexdigest()
    return Outcome(slot.call.id, seen, slot.denied, slot.ends_turn, output.handled and served, output.pause_for_input)


def unknown_tool(name: str) -> BoundTool:
    """Return a stand-in for a tool that does not exist, so that its failure takes the usual way."""
    spec = ToolSpec(name)
    return BoundTool(f"unknown:tool/{name}", "", spec, _Nothing(spec), "", None, by_effect(None), Checker({}))


class _Nothing:
    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def call(self, arguments: object, context: object) -> ToolOutput:
        raise errors.ToolError(f"there is no tool {self.spec.name!r}", kind=ToolErrorKind.UNKNOWN)
