"""The events of one interaction as deltas (ReplyEvents), and a whole answer read the same way. Pure.

An event of an unknown type is kept in the extra of the reply.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pluggent_hookspecs import ModelRequest, TextDelta, ToolCallDelta, Usage, UsageDelta
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import (
    MalformedError,
    Object,
    as_count,
    as_fields,
    as_object,
    as_text,
    decode,
    decode_whole,
)
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.surrogates import replaced

from pluggent_gemini.interactions.ending import Ending, check_end
from pluggent_gemini.interactions.steps import Steps

_STATUS = ("interaction.created", "interaction.status_update", "interaction.in_progress", "interaction.queued")
_ENDED = "interaction.completed"
_PIECES = {"text": "text", "arguments_delta": "arguments"}
_MOST_KEPT = 64
"""Of unknown events; a server that sends more of them is heard no further."""


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: str
    text: str = ""
    arguments: str = ""


class _Piece(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What nearly every event of a stream looks like: a piece of a text or of arguments."""

    index: int
    delta: _Delta
    event_type: str
    event_id: str | None = None


class _Call(msgspec.Struct):
    type: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"")


class _Calls(msgspec.Struct):
    """Where the arguments of calls are, as they were written."""

    steps: list[_Call]


_decode_piece = msgspec.json.Decoder(_Piece).decode
_decode_calls = msgspec.json.Decoder(_Calls).decode


class Events:
    """The events of one reply: what they add up to, and whether they came to their end.

    *server* is who answers; *notes* are for the meta of the reply.
    """

    def __init__(self, request: ModelRequest, server: str, faults: Faults, notes: tuple[str, ...] = ()) -> None:
        self.done = False
        self._model = request.model
        self._server = server
        self._faults = faults
        self._steps = Steps(request)
        self._ending = Ending(notes)
        self._seen = False
        self._live: tuple[int, str, list[str], int] | None = None
        """The step whose pieces come, of which type they are, where they go, and its call, -1 for a text."""

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply is at its end."""
        return self.done

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one event's data. Raises MalformedError, or the ProviderError that it holds."""
        if (self._live is not None and self._take_plain(payload, batch)) or payload.strip() in (b"", b"[DONE]"):
            return
        self._live = None
        self._take_any(as_object(decode(payload), "an event"), batch)

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._seen:
            raise self._faults.protocol("answered with an empty stream")
        if not self.done:
            raise self._faults.broken("broke off: its last event, interaction.completed, did not come")
        self._finish(batch)

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read a reply that came at once. Raises ProviderError and MalformedError."""
        body = replaced(body)
        answer = _as_written(as_object(decode_whole(body), "the answer"), body)
        if "status" not in answer and not answer.get("error"):
            raise MalformedError("it has no status")
        self._take_end(answer, batch)
        if self._steps.empty and self._ending.usage() == Usage():
            raise MalformedError("it has no steps")
        self._finish(batch)

    def _take_plain(self, payload: bytes, batch: Batch) -> bool:
        """Take a piece that is sure to follow the last one; False if it has to be read in full."""
        assert self._live is not None
        place, kind, pieces, call = self._live
        try:
            piece = _decode_piece(payload)
        except (ValueError, RecursionError):  # no JSON of this shape, or no UTF-8
            return False
        delta = piece.delta
        if piece.index != place or delta.type != kind or piece.event_type != "step.delta":
            return False
        if call >= 0:
            pieces.append(delta.arguments)
            batch.add(ToolCallDelta(call, arguments=delta.arguments))
        else:
            pieces.append(delta.text)
            self._steps.grow(place, len(delta.text))
            batch.grow(TextDelta, delta.text)
        return True

    def _take_any(self, event: Object, batch: Batch) -> None:
        kind = as_text(event.get("event_type"))
        if kind == "error" or event.get("error"):
            raise self._faults.from_payload({"error": event.get("error") or "no reason was given"})
        if not kind:
            raise MalformedError("an event has no event_type")
        self._seen = True
        if kind == "step.start":
            batch.add_all(self._steps.begin(_place(event), event.get("step")))
        elif kind == "step.delta":
            self._take_piece(event, batch)
        elif kind == "step.stop":
            batch.add_all(self._steps.end(_place(event)))
        elif kind in _STATUS:
            self._ending.take({**event, **as_fields(event.get("interaction"))})
        elif kind == _ENDED:
            self._take_end(as_object(event.get("interaction"), "the interaction"), batch)
        else:
            self._ending.keep(event, _MOST_KEPT)
        self._count(event, batch)

    def _take_piece(self, event: Object, batch: Batch) -> None:
        place, delta = _place(event), as_object(event.get("delta"), "a delta")
        batch.add_all(self._steps.more(place, delta))
        kind = as_text(delta.get("type"))
        if kind in _PIECES and (live := self._steps.live(place)) is not None and (live[1] >= 0) == (kind != "text"):
            self._live = (place, kind, *live)

    def _count(self, event: Object, batch: Batch) -> None:
        """Take the token counts that any event may have."""
        counted = as_fields(event.get("metadata")).get("total_usage")
        if isinstance(counted, dict):
            self._ending.take({"usage": counted})
            batch.add(UsageDelta(self._ending.usage()))

    def _take_end(self, answer: Object, batch: Batch) -> None:
        self._seen = True
        self._ending.take(answer)
        if (usage := self._ending.usage()) != Usage():
            batch.add(UsageDelta(usage))
        check_end(answer, self._faults)
        batch.add_all(self._steps.whole(answer.get("steps")))
        self.done = True

    def _finish(self, batch: Batch) -> None:
        batch.add_all(self._steps.finish())
        extra = self._steps.message_extra(self._model, self._server)
        batch.add(self._ending.finished(extra, calls=self._steps.calls))


def _place(event: Any) -> int:
    place = as_count(event.get("index"))
    if place is None or place < 0:
        raise MalformedError("an event does not say which step it belongs to")
    return place


def _as_written(answer: Object, body: bytes) -> Object:
    """Return *answer*, decoded from *body*, with the arguments of its calls as they are written there."""
    try:
        found = _decode_calls(body).steps
    except (ValueError, RecursionError):  # no list of steps
        return answer
    steps = [
        {**step, "arguments": bytes(written.arguments).decode()} if _is_call(written) else step
        for step, written in zip(answer["steps"], found, strict=True)
    ]
    return {**answer, "steps": steps}


def _is_call(step: _Call) -> bool:
    return step.type == "function_call" and bool(bytes(step.arguments).strip(b" null"))
