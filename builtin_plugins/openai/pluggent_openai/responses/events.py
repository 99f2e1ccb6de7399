"""The events of a streamed answer as deltas (ReplyEvents), and a whole answer read the same way. Pure.

What an event about an item says, if its type is not read, is in the whole item that follows, so it is passed over.
One that belongs to no item, such as a piece of sound, is kept in ``extra["events"]`` of the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
from pluggent_hookspecs import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_object, as_text, decode, decode_whole
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.responses.ending import UNFINISHED, check_end, finished, response_of, usage_of
from pluggent_openai.responses.items import NOTHING_KNOWN, Items, Known

_PIECES = {
    "response.output_text.delta": ("message", "text", "content_index"),
    "response.refusal.delta": ("message", "refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content", "content_index"),
    "response.function_call_arguments.delta": ("function_call", "arguments", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "input", ""),
}
"""Events that bring a piece: of which item, of which of its fields, and what says which of several."""
_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}


class _Piece(msgspec.Struct, gc=False):
    """What nearly every event of a stream looks like: a piece of a text; what does not fit is read with more care."""

    type: str
    output_index: int
    delta: str
    content_index: int = 0
    summary_index: int = 0
    sequence_number: int = -1
    logprobs: tuple[()] | None = None


def _index_of(piece: _Piece) -> int:
    return piece.summary_index or piece.content_index  # a piece has one of them


@attrs.define
class _Before:
    """The last piece: of which event, item and text, where the next belongs, and what the reader is given of it."""

    event: str
    place: int
    index: int
    pieces: list[str]
    kind: type[TextDelta | ReasoningDelta] | None


_SHOWN: Mapping[str, type[TextDelta | ReasoningDelta] | None] = {
    "text": TextDelta,
    "summary": ReasoningDelta,
    "content": ReasoningDelta,
    "arguments": None,
}
"""What pieces of a text are to the reader; None is a call's arguments. Those of other texts are read in full."""
_decode_piece = msgspec.json.Decoder(_Piece).decode


_MOST_APART = 4096
_MOST_APART_BYTES = 16_777_216
_SAYS_NOTHING = frozenset({"type", "sequence_number", "obfuscation"})


class _Apart:
    """Events of unknown types that belong to no item: as many as there is room for."""

    def __init__(self) -> None:
        self.events: list[Object] = []
        self._bytes = self._dropped = 0

    def add(self, event: Object, size: int) -> None:
        """Keep *event*, which came as *size* bytes, if it says anything."""
        said = {name: value for name, value in event.items() if name == "type" or name not in _SAYS_NOTHING}
        if len(said) == 1:
            return
        if len(self.events) >= _MOST_APART or self._bytes + size > _MOST_APART_BYTES:
            self._dropped += 1
            return
        self._bytes += size
        self.events.append(said)

    def notes(self) -> tuple[str, ...]:
        """Return what a person is told of events that were not kept."""
        if not self._dropped:
            return ()
        return (f"{self._dropped:,} events that belong to no item were left out: there were more than are kept",)


class Events:
    """The events of one reply: what they add up to, and whether they came to their end.

    ``notes`` are for the meta of the reply; *server* is who answers; *known* is what is known of it.
    """

    def __init__(
        self,
        request: ModelRequest,
        server: str,
        faults: Faults,
        notes: tuple[str, ...] = (),
        known: Known = NOTHING_KNOWN,
    ) -> None:
        self.done = False
        self.ended = False
        """Whether the server has said how the reply ended: well, cut off, failed or cancelled."""
        self._items = Items(request, server, known)
        self._faults = faults
        self._notes = notes
        self._response: Object = {}
        self._number = -1
        self._counted = self._gap = self._seen = False
        self._last = b""
        self._chances: list[Any] = []
        self._before: _Before | None = None
        self._apart = _Apart()

    @property
    def number(self) -> int:
        """The number of the last event, -1 before the first that has one."""
        return self._number

    @property
    def waits(self) -> bool:
        """Whether the server has not begun to make the reply."""
        return self._number < 0 or as_text(self._response.get("status")) == UNFINISHED[0]

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply is at its end."""
        return self.done

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one event's data. Raises MalformedError, or the ProviderError that it holds."""
        if self._take_plain(payload, batch):
            return
        if payload.strip() in (b"", b"[DONE]"):
            return
        event = as_object(decode(payload), "an event")
        if self._repeats(event, payload):
            return
        self._take_any(event, len(payload), batch)

    def _take_plain(self, payload: bytes, batch: Batch) -> bool:
        """Take a piece that is sure to follow the last one; False if it has to be read in full."""
        before = self._before
        if before is None:
            return False
        try:
            piece = _decode_piece(payload)
        except (ValueError, RecursionError):  # no JSON of this shape, or no UTF-8
            return False
        number = piece.sequence_number
        if number != self._number + 1 and number != -1:
            return False
        if piece.type != before.event or piece.output_index != before.place or _index_of(piece) != before.index:
            return False
        before.pieces.append(piece.delta)
        if before.kind is None:
            batch.add(ToolCallDelta(self._items.live_call, arguments=piece.delta))
        else:
            batch.grow(before.kind, piece.delta)
        self._number, self._last = number, payload
        return True

    def _repeats(self, event: Object, payload: bytes) -> bool:
        """Whether *event* is the last one again, in a stream that numbers its events; take note of its number."""
        number = as_count(event.get("sequence_number"))
        if number is None:
            return False
        if self._counted and number == self._number and payload == self._last:
            return True
        if self._number >= 0:
            self._counted = self._counted or number == self._number + 1
            self._gap = self._gap or (self._counted and number > self._number + 1)
        self._number, self._last = number, payload
        return False

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._seen:
            raise self._faults.protocol("answered with an empty stream")
        if not self.done:
            raise self._faults.broken("broke off: its last event, such as response.completed, did not come")
        self._finish(self._response, batch)
        if self._gap and self._items.unproven:
            raise self._faults.broken("is not whole: numbers of its events are missing, and so is the whole text")

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read a reply that came at once. Raises ProviderError and MalformedError."""
        answer = as_object(decode_whole(body), "the answer")
        self.ended = as_text(answer.get("status")) not in UNFINISHED
        check_end(answer, self._faults)
        if not isinstance(answer.get("output"), list):
            raise MalformedError("it has no output")
        self._finish(answer, batch)

    def _finish(self, answer: Object, batch: Batch) -> None:
        batch.add_all(self._items.finish(answer.get("output")))
        self._items.logprobs = self._items.logprobs or self._chances
        notes = (*self._notes, *self._apart.notes())
        batch.add(finished(answer, self._items, notes, self._apart.events))

    def _take_any(self, event: Object, size: int, batch: Batch) -> None:
        kind = as_text(event.get("type"))
        if kind == "error" or event.get("error"):
            raise self._faults.from_payload(event)
        if not kind:
            raise MalformedError("an event has no type")
        self._seen, self._before = True, None
        if kind in _PIECES:
            self._take_piece(event, *_PIECES[kind], batch)
        elif kind in ("response.created", "response.queued", "response.in_progress"):
            self._response = response_of(event)
        elif kind == "response.output_item.added":
            batch.add_all(self._items.begin(_place(event), event.get("item")))
        elif kind == "response.output_item.done":
            batch.add_all(self._items.end(_place(event), event.get("item")))
        elif kind in _ENDS:
            self._take_end({**self._response, **response_of(event)}, _ENDS[kind], batch)
        elif "output_index" not in event:
            self._apart.add(event, size)

    def _take_piece(self, event: Object, kind: str, field: str, index: str, batch: Batch) -> None:
        number = as_count(event.get(index)) or 0 if index else 0
        text = event.get("delta")
        if not isinstance(text, str):
            raise MalformedError("the piece of an item is not a text")
        if isinstance(chances := event.get("logprobs"), list):
            self._chances += chances
        place, slot = _place(event), (field, number)
        batch.add_all(self._items.more(place, kind, slot, text))
        pieces = self._items.pieces_at(place, slot)
        if pieces is not None and field in _SHOWN:
            self._before = _Before(str(event["type"]), place, number, pieces, _SHOWN[field])

    def _take_end(self, answer: Object, status: str, batch: Batch) -> None:
        self.ended = True
        said = as_text(answer.get("status"))
        self._response = {**answer, "status": status if said in ("", *UNFINISHED) else said}
        usage = usage_of(answer)
        if usage != Usage():
            batch.add(UsageDelta(usage))
        check_end(self._response, self._faults)
        self.done = True


def _place(event: Object) -> int:
    place = as_count(event.get("output_index"))
    if place is None or place < 0:
        raise MalformedError("an event does not say which item it belongs to")
    return place


def read_reply(
    data: bytes,
    request: ModelRequest,
    server: str,
    faults: Faults,
    notes: tuple[str, ...] = (),
    known: Known = NOTHING_KNOWN,
) -> ModelResponse:
    """Return the reply in *data*. Raises ProviderError: the error it holds, or ``protocol``."""
    batch, reply = Batch(), Reply()
    try:
        Events(request, server, faults, notes, known).take_whole(data, batch)
    except MalformedError as error:
        shown = faults.shown(data) or "(empty)"
        raise faults.protocol(f"answered with what is not a response: {error}: {shown}") from error
    except RecursionError as error:
        raise faults.protocol("answered with JSON that is nested too deeply") from error
    reply.add(batch.done())
    return reply.response()
