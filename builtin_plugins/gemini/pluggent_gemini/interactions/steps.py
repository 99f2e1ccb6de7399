"""The steps of one reply become deltas of the contract, whole or in pieces.

Both ways run through ``Steps``, so a streamed reply is the same as one that came whole. Steps are shown one after
another; where a server works on several at once, the later ones wait. A step or a piece of an unknown kind is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    Delta,
    Json,
    ModelRequest,
    Part,
    PartDelta,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    VendorPart,
)
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.payload import MalformedError, as_fields, as_list, as_object, as_text

from pluggent_gemini.interactions.content import shown_content
from pluggent_gemini.interactions.layout import CALL, PART, WIRE, Entry, described
from pluggent_gemini.words import Words

Object: TypeAlias = dict[str, Any]

MOST_STEPS = 4096
"""No reply has as many; a server that sends them is broken."""
_ECHO = "user_input"
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_CALL = frozenset({"type", "id", "name", "arguments"})


@attrs.define
class _Step:
    """A step that has begun: its head, pieces that wait for their turn, and whether it has ended."""

    head: Object
    waiting: list[Object] = attrs.field(factory=list["Object"])
    ended: bool = False
    entry: Object = attrs.field(factory=dict[str, Any])
    call: int = -1
    pieces: list[str] = attrs.field(factory=list[str])

    @property
    def kind(self) -> str:
        """Its type."""
        return str(self.head["type"])


class Steps:
    """The steps of one reply. Every method raises MalformedError for what does not add up."""

    def __init__(self, request: ModelRequest) -> None:
        self._ids = CallIds(request)
        self._steps: dict[int, _Step] = {}
        self._queue: list[_Step] = []
        self._entries: list[Entry] = []
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._signatures: list[str] = []
        self._others: list[Part] = []
        self._calls: list[ToolCall] = []

    @property
    def calls(self) -> bool:
        """Whether there is a call of our tools."""
        return bool(self._calls)

    @property
    def empty(self) -> bool:
        """Whether nothing has come at all."""
        return not self._steps

    def live(self, place: int) -> tuple[list[str], int] | None:
        """Return where the next plain piece of the step at *place* goes, and its call; None if ``more`` has to decide.

        The call is -1 for a text.
        """
        step = self._steps.get(place)
        if step is None or not self._queue or self._queue[0] is not step:
            return None
        if step.call >= 0:
            return step.pieces, step.call
        content = step.entry.get("content")
        return (self._texts, -1) if content and _is_plain_text(content[-1]) else None

    def grow(self, place: int, length: int) -> None:
        """Count *length* more characters of the text that is being said at *place*."""
        self._steps[place].entry["content"][-1]["text"] += length

    def begin(self, place: int, head: object) -> list[Delta]:
        """Take the start of the step at *place*; a second start of one changes nothing."""
        fields = dict(as_object(head, "a step"))
        if not as_text(fields.get("type")):
            raise MalformedError("a step has no type")
        if place in self._steps:
            return []
        if len(self._steps) >= MOST_STEPS:
            raise MalformedError(f"it has more than {MOST_STEPS:,} steps")
        step = self._steps[place] = _Step(fields)
        self._queue.append(step)
        return list(self._begun(step)) if self._queue[0] is step else []

    def more(self, place: int, piece: object) -> list[Delta]:
        """Take one more piece of the step at *place*."""
        step = self._steps.get(place)
        if step is None or step.ended:
            raise MalformedError(f"a piece of step {place} came before its start or behind its end")
        fields = dict(as_object(piece, "a piece of a step"))
        if self._queue[0] is step:
            return list(self._piece(step, fields))
        step.waiting.append(fields)
        return []

    def end(self, place: int) -> list[Delta]:
        """Take the end of the step at *place*; a second end of it changes nothing."""
        step = self._steps.get(place)
        if step is None:
            raise MalformedError(f"step {place} ends before its start")
        step.ended = True
        return list(self._shown())

    def whole(self, steps: object) -> list[Delta]:
        """Take all steps of a reply, or those of them that have not come."""
        out: list[Delta] = []
        for place, step in enumerate(as_list(steps or [], "steps")):
            if place not in self._steps:
                out += [*self.begin(place, step), *self.end(place)]
        return out

    def finish(self) -> list[Delta]:
        """End every step."""
        for step in self._queue:
            step.ended = True
        return list(self._shown())

    def message_extra(self, model: str, server: str) -> dict[str, Json]:
        """Return what has to stay with the message so that its steps can go back as they came."""
        words = Words(
            "".join(self._texts),
            "".join(self._thoughts),
            tuple(self._signatures),
            tuple(self._others),
            tuple(self._calls),
        )
        own = described(self._entries, words, model=model, server=server)
        return {WIRE: own} if own else {}

    # ---- one after another ---------------------------------------------------------------

    def _shown(self) -> Iterator[Delta]:
        while self._queue and self._queue[0].ended:
            yield from self._ended(self._queue.pop(0))
            if self._queue:
                yield from self._begun(self._queue[0])
                for piece in self._queue[0].waiting:
                    yield from self._piece(self._queue[0], piece)

    def _begun(self, step: _Step) -> Iterator[Delta]:
        match step.kind:
            case "thought":
                step.entry = {**_without(step.head, "summary", "signature"), "summary": []}
                for content in as_list(step.head.get("summary") or [], "a summary"):
                    yield from self._thought(step, as_object(content, "a summary"))
            case "model_output":
                step.entry = {**_without(step.head, "content"), "content": []}
                for content in as_list(step.head.get("content") or [], "a content"):
                    yield from self._content(step, dict(as_object(content, "a content")), joins=False)
            case "function_call":
                yield self._called(step)
            case _:
                pass

    def _piece(self, step: _Step, piece: Object) -> Iterator[Delta]:
        kind = as_text(piece.get("type"))
        match step.kind:
            case "thought" if kind == "thought_summary":
                yield from self._thought(step, as_fields(piece.get("content")))
            case "function_call" if kind == "arguments_delta":
                text = _text_of(piece, "arguments")
                step.pieces.append(text)
                yield ToolCallDelta(step.call, arguments=text)
            case "model_output" if kind == "text_annotation_delta":
                self._annotate(step, as_list(piece.get("annotations") or [], "annotations"))
            case "model_output":
                yield from self._content(step, piece, joins=True)
            case _:
                # A signature, or the fields of a step of the vendor's own tools.
                step.head = _merged(step.head, piece)

    def _ended(self, step: _Step) -> Iterator[Delta]:
        match step.kind:
            case "thought":
                yield from self._thought_ended(step)
            case "model_output":
                # Nothing said, and nothing about it: no step to send back.
                if step.entry["content"] or set(step.entry) != {"type", "content"}:
                    self._entries.append(step.entry)
            case "function_call":
                yield from self._call_ended(step)
            case kind if kind != _ECHO:
                yield self._other(step.head)
                self._entries.append(PART)
            case _:
                pass

    # ---- kinds of steps ------------------------------------------------------------------

    def _thought(self, step: _Step, content: Mapping[str, Any]) -> Iterator[Delta]:
        summary: list[Any] = step.entry["summary"]
        if content.get("type") != "text":
            summary += [dict(content)] if content else []
            return
        text = _text_of(content, "text")
        self._thoughts.append(text)
        if _is_plain_text(content) and summary and _is_plain_text(summary[-1]):
            summary[-1]["text"] += len(text)
        else:
            summary.append({**content, "text": len(text)})
        if text:
            yield ReasoningDelta(text)

    def _thought_ended(self, step: _Step) -> Iterator[Delta]:
        signature = step.head.get("signature")
        if signature and not isinstance(signature, str):
            raise MalformedError("the signature of a thought is not a text")
        more = _without(step.head, "summary", "signature")
        entry = {**step.entry, **more, **({"signed": True} if signature else {})}
        if not entry["summary"]:
            del entry["summary"]
        self._entries.append(entry)
        if signature:
            self._signatures.append(signature)
            yield ReasoningDelta("", signature)

    def _content(self, step: _Step, content: Object, *, joins: bool) -> Iterator[Delta]:
        contents: list[Any] = step.entry["content"]
        if content.get("type") != "text":
            contents.append(PART)
            yield self._other(content)
            return
        text = _text_of(content, "text")
        if joins and _is_plain_text(content) and contents and contents[-1] != PART:
            contents[-1]["text"] += len(text)
        elif text or not _is_plain_text(content):
            contents.append({**content, "text": len(text)})
        self._texts.append(text)
        if text:
            yield TextDelta(text)

    def _annotate(self, step: _Step, annotations: list[Any]) -> None:
        contents: list[Any] = step.entry["content"]
        if not contents or contents[-1] == PART:
            contents.append({"type": "text", "text": 0})
        last = cast("Object", contents[-1])
        last["annotations"] = [*last.get("annotations", ()), *annotations]

    def _called(self, step: _Step) -> Delta:
        name = as_text(step.head.get("name"))
        if not name:
            raise MalformedError("a function_call names no function")
        step.call = len(self._calls)
        self._calls.append(ToolCall(self._ids.unique(step.head.get("id")), name))
        return ToolCallDelta(step.call, self._calls[-1].id, name)

    def _call_ended(self, step: _Step) -> Iterator[Delta]:
        arguments, given = "".join(step.pieces), step.head.get("arguments")
        rest = "" if arguments else _written(given)
        own = {name: value for name, value in step.head.items() if name not in _CALL and value not in _NOTHING}
        extra: dict[str, Json] = {WIRE: own} if own else {}
        if rest or extra:
            yield ToolCallDelta(step.call, arguments=rest, extra=extra)
        call = self._calls[step.call]
        self._calls[step.call] = attrs.evolve(call, arguments=arguments or rest or "{}", extra=extra)
        self._entries.append(CALL)

    def _other(self, fields: Object) -> Delta:
        self._others.append(shown_content(fields) or VendorPart(WIRE, fields, _hosted(fields)))
        return PartDelta(self._others[-1])


def _hosted(step: Object) -> str:
    """Return which tool of the vendor has made *step*; empty if none has."""
    kind = as_text(step.get("type"))
    return next((kind.removesuffix(end) for end in ("_call", "_result") if kind.endswith(end)), "")


def _is_plain_text(content: Any) -> bool:
    return isinstance(content, dict) and set(cast("Object", content)) == {"type", "text"}


def _without(fields: Mapping[str, Any], *names: str) -> Object:
    return {name: value for name, value in fields.items() if name not in names and value not in _NOTHING}


def _text_of(fields: Mapping[str, Any], name: str) -> str:
    text = fields.get(name)
    if text is not None and not isinstance(text, str):
        raise MalformedError(f"'{name}' is not a text")
    return text or ""


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def _merged(head: Object, piece: Object) -> Object:
    """Return a step with what a piece says of it: lists grow, what is empty changes nothing."""
    made = dict(head)
    for name, value in piece.items():
        if name == "type" or value in _NOTHING:
            continue
        had = made.get(name)
        grows = isinstance(had, list) and isinstance(value, list)
        made[name] = [*cast("list[object]", had), *cast("list[object]", value)] if grows else value
    return made
