"""What became of each tool call of a turn, gathered from its events. Shows nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
from pluggent_hookspecs import thaw
from pluggent_hookspecs.messages import Message, Text, ToolCall
from pluggent_hookspecs.observations import DecisionMade, Observation, ToolFinished, ToolStarted
from pluggent_hookspecs.tools import ToolOutput


@attrs.define
class Call:
    """One call. ``arguments`` are what will run as soon as that is known, None if they are no object."""

    id: str
    name: str = ""
    capability: str = ""
    arguments: Mapping[str, Any] | None = None
    typed: str = ""
    place: int = 0
    """Which of several calls of one reply this is, from 1; 0 if it is the only one."""
    nested: bool = False
    decisions: list[DecisionMade] = attrs.field(factory=list[DecisionMade])
    output: ToolOutput | None = None
    withheld: bool = False
    """Whether nothing of the output may be seen."""
    ran: bool = False
    elapsed_s: float = 0.0

    @property
    def verdict(self) -> str:
        """The last verdict; empty where no policy was asked, because the call could not be read."""
        return self.decisions[-1].verdict if self.decisions else ""

    def document(self) -> dict[str, Any]:
        """Return the call as JSON has it."""
        last = self.decisions[-1] if self.decisions else None
        changes = [change for one in self.decisions for change in one.changes]
        return {
            "id": self.id,
            "tool": self.name,
            "capability": self.capability,
            "arguments": self.typed if self.arguments is None else self.arguments,
            "verdict": self.verdict,
            "by": last.by if last else "",
            "reason": last.reason if last else "",
            "votes": [
                {"plugin": vote.plugin, "verdict": vote.verdict, "reason": vote.reason}
                for one in self.decisions[:1]
                for vote in one.votes
            ],
            "changes": [{"by": change.plugin, "what": list(change.paths)} for change in changes],
            "ran": self.ran,
            "failed": self.output.is_error if self.output else None,
            "withheld": self.withheld,
            "result": text_of(self.output) if self.output and not self.withheld else None,
            "data": thaw(self.output.data) if self.output else None,
            "elapsed_s": round(self.elapsed_s, 6),
        }


class Calls:
    """The calls of one turn in the order in which they turned up.

    *asked_for* finds a call, by its id, as the model or the person asked for it, with its place.
    """

    def __init__(self, asked_for: Callable[[str], tuple[int, ToolCall] | None]) -> None:
        self._asked_for = asked_for
        self._by_id: dict[str, Call] = {}
        self.all: list[Call] = []

    def read(self, event: Observation) -> Call | None:
        """Take *event* down and return the call that it is about, None if it is about none."""
        match event:
            case DecisionMade(operation="tool_call"):
                call = self._call(event.call_id, event.capability.rpartition("/")[2], event.scope.parent_id)
                call.capability = event.capability
                call.decisions.append(event)
                call.arguments = _object(event.arguments_json) or call.arguments
                return call
            case ToolStarted():
                call = self._call(event.call_id, event.name, event.scope.parent_id)
                call.name, call.capability = event.name, event.capability
                call.arguments = _object(event.arguments_json)
                return call
            case ToolFinished():
                call = self._call(event.call_id, event.name, event.scope.parent_id)
                call.name, call.capability = event.name, event.capability
                call.output, call.withheld = event.output, event.withheld
                call.ran, call.elapsed_s = event.ran, event.elapsed_s
                return call
            case _:
                return None

    def _call(self, id: str, name: str, parent: str) -> Call:
        call = self._by_id.get(id)
        if call is None or call.output is not None:  # some models number their calls anew in every reply
            found = self._asked_for(id)
            call = Call(id, name, nested=bool(parent))
            if found is not None:
                call.place, typed = found
                call.name, call.typed, call.arguments = typed.name, typed.arguments, _object(typed.arguments)
            self._by_id[id] = call
            self.all.append(call)
        return call


def last_asked(history: Sequence[Message], id: str) -> tuple[int, ToolCall] | None:
    """Return the last call of that id in *history*, and which of several in its message it is (0: the only one)."""
    for message in reversed(history):
        for place, call in enumerate(message.tool_calls, 1):
            if call.id == id:
                return place if len(message.tool_calls) > 1 else 0, call
    return None


def text_of(output: ToolOutput) -> str:
    """Return what the model reads of *output*; parts that are no text by what they are."""
    if isinstance(output.for_model, str):
        return output.for_model
    parts = output.for_model
    return "".join(part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in parts)


def _object(text: str | bytes) -> Mapping[str, Any] | None:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
