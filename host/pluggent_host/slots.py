"""One call of a batch on its way to its one result, and how calls stand beside each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fnmatch import fnmatchcase

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ToolCallEvent
from pluggent_hookspecs.messages import Message, Text, ToolCall
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
    stops: bool = False
    """Whether what stands behind it begins only once it has succeeded."""
    output: ToolOutput | None = None
    message: Message | None = None
    outcome: Outcome | None = None
    """How it ended, where that is known from before a pause."""

    @property
    def open(self) -> bool:
        """Whether it has no result yet, and does not wait for one either."""
        return self.message is None and self.pending is None

    @property
    def stopped(self) -> bool:
        """Whether it has failed, so that what stands behind it is not run."""
        return self.stops and self.message is not None and self.message.is_error

    @property
    def in_place(self) -> bool:
        """Whether nothing behind it may begin before it has its result."""
        return self.stops or self.operation.tool.spec.exclusive


def segments(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Cut a batch behind the calls that stop it, and around the exclusive ones, each a segment of its own."""
    segments: list[list[Slot]] = [[]]
    for slot in slots:
        if slot.operation.tool.spec.exclusive:
            segments += [[slot], []]
        else:
            segments[-1].append(slot)
            if slot.stops:
                segments.append([])
    return [segment for segment in segments if segment]


def stops(tool: BoundTool, named: Sequence[str]) -> bool:
    """Whether *tool* stops the calls behind it: by its own word, or because the operator has *named* it."""
    if tool.spec.stops_batch or not named:
        return tool.spec.stops_batch
    return any(fnmatchcase(tool.capability, name) or fnmatchcase(tool.spec.name, name) for name in named)


def with_shown(output: ToolOutput, shown: Message | None) -> ToolOutput:
    """Return *output* with nothing for the person but what was *shown*."""
    parts = () if shown is None else shown.content
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return attrs.evolve(
        output, for_user=text or None, media=tuple(part for part in parts if not isinstance(part, Text))
    )


def notable(slot: Slot, *, served: bool) -> Outcome | None:
    """Return how *slot* has ended, if its message does not say all of it. See ``outcome_of``."""
    output = slot.output or ToolOutput()
    if not (slot.denied or slot.ends_turn or output.handled or output.pause_for_input):
        return None
    outcome = outcome_of(slot, served=served)
    told = outcome.denied or outcome.ends_turn or outcome.handled or outcome.waits
    return outcome if told else None


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
