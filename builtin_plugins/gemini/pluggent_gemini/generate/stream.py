"""The events of one reply as deltas, and the response that they make. Pure."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from pluggent_hookspecs import ModelRequest, ReasoningDelta, TextDelta, Usage, UsageDelta
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, decode, decode_whole
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.surrogates import replaced

from pluggent_gemini.generate.ending import Ending, blocked
from pluggent_gemini.generate.reply import Parts

_NOTHING = Usage()
MOST_ANSWERS = 64
"""Into how many answers one reply may be cut; the vendor's window holds far fewer."""


class _TextPart(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    text: str


class _TextContent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    parts: tuple[_TextPart]
    role: str = ""


class _TextCandidate(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: _TextContent
    index: int = 0


class _TextEvent(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """What nearly every event of a stream looks like: a piece of text, and the counts so far.

    The names of the model and the reply are those of the first event, which is read whole.
    """

    candidates: tuple[_TextCandidate]
    usage_metadata: msgspec.Raw
    model_version: msgspec.Raw
    response_id: msgspec.Raw


class _Call(msgspec.Struct):
    args: msgspec.Raw = msgspec.Raw(b"")


class _CallPart(msgspec.Struct, rename="camel"):
    function_call: _Call | None = None


class _CallContent(msgspec.Struct):
    parts: list[_CallPart] = msgspec.field(default_factory=list[_CallPart])


class _CallCandidate(msgspec.Struct):
    content: _CallContent | None = None


class _CallEvent(msgspec.Struct):
    """Where the arguments of calls are, as they were written."""

    candidates: list[_CallCandidate] = msgspec.field(default_factory=list[_CallCandidate])


_decode_text = msgspec.json.Decoder(_TextEvent).decode
_decode_calls = msgspec.json.Decoder(_CallEvent).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Events:
    """The events of one reply (ReplyEvents): what they add up to, and whether they came to their end.

    *server* is who answers; *notes* are for the meta of the reply, *paid* is what was used up for it before. A long
    reply may come in several answers: after one of them ``continuation`` is what the next has to be asked with.
    """

    def __init__(
        self, request: ModelRequest, server: str, faults: Faults, notes: tuple[str, ...] = (), paid: Usage = _NOTHING
    ) -> None:
        self.done = False
        self.answers = 1
        self._model = request.model
        self._server = server
        self.faults = faults
        self._parts = Parts(request)
        self._ending = Ending(notes, paid)
        self._begun = False

    @property
    def complete(self) -> bool:
        """Whether the server has said why the reply ends."""
        return self._ending.reason is not None

    @property
    def continuation(self) -> str:
        """What the next answer of the reply is asked with; empty at the end of the reply."""
        return self._ending.continuation

    def begin_again(self) -> None:
        """Go on with the next answer of the same reply. Raises ProviderError if there were too many."""
        self.answers += 1
        if self.answers > MOST_ANSWERS:
            raise self.faults.protocol(f"cut one reply into more than {MOST_ANSWERS} answers")
        self.done = self._begun = False
        self._ending.begin_again()

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one event's data. Raises MalformedError, or the ProviderError that it holds."""
        if not (self._begun and self._take_text(payload, batch)) and payload.strip() not in (b"", b"[DONE]"):
            self._take_any(as_object(decode(payload), "an event"), payload, batch)

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._begun:
            raise self.faults.protocol("answered with an empty stream")
        if not self.complete:
            raise self.faults.broken("broke off: no finishReason came")
        if self.continuation:
            batch.add(UsageDelta(self._ending.usage()))
            return
        extra = self._parts.message_extra(self._model, self._server)
        batch.add(self._ending.finished(extra, calls=self._parts.calls))

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read an answer that came at once, or a stream as one list. Raises as ``take`` and ``finish``."""
        body = replaced(body)
        answer: Any = decode_whole(body)
        whole = not isinstance(answer, list)
        for event in [answer] if whole else cast("list[object]", answer):
            self._take_any(as_object(event, "an event"), body if whole else b"", batch)
        if not self._begun or (self._ending.reason is None and self._parts.empty):
            raise MalformedError("it has neither content nor a finishReason")
        if self._ending.reason is None:
            self._ending.reason = "FINISH_REASON_UNSPECIFIED"
        self.finish(batch)

    def _take_text(self, payload: bytes, batch: Batch) -> bool:
        try:
            event = _decode_text(payload)
        except _UNREADABLE:
            return False
        text = event.candidates[0].content.parts[0].text
        if text:
            self._parts.more_text(text)
            batch.grow(TextDelta, text)
        self._ending.latest = event.usage_metadata
        return True

    def _take_any(self, event: Object, payload: bytes, batch: Batch) -> None:
        if event.get("error"):
            raise self.faults.from_payload(event)
        if (error := blocked(event, self.faults)) is not None:
            raise error
        if not event.keys() & {"candidates", "usageMetadata", "promptFeedback", "responseId"}:
            raise MalformedError("it has none of the fields of an answer")
        candidate = _first(event.get("candidates"))
        self._begun = self._begun or bool(candidate)
        self._ending.take(event, candidate)
        content = as_object(candidate.get("content") or {}, "a content")
        parts: Any = content.get("parts") or []
        for delta in self._parts.take(parts, _written(parts, payload)):
            if type(delta) is TextDelta or (type(delta) is ReasoningDelta and delta.signature is None):
                batch.grow(type(delta), delta.text)
            else:
                batch.add(delta)
        self.done = self.complete
        if event.get("usageMetadata") and not self.done:
            batch.add(UsageDelta(self._ending.usage()))


def _first(candidates: object) -> Object:
    """Return the candidate: a reply is one."""
    found = as_list(candidates or [], "candidates")
    return as_object(found[0], "a candidate") if found else {}


def _written(parts: Any, payload: bytes) -> list[bytes | None]:
    """Return for each part the arguments of its call as they are written in *payload*, None where that is not known."""
    if not payload or not isinstance(parts, list) or not any(_is_call(part) for part in cast("list[object]", parts)):
        return []
    try:
        (candidate, *_) = _decode_calls(payload).candidates
    except (*_UNREADABLE, ValueError):
        return []
    found = candidate.content.parts if candidate.content is not None else []
    return [None if part.function_call is None else bytes(part.function_call.args) or None for part in found]


def _is_call(part: object) -> bool:
    return isinstance(part, dict) and "functionCall" in part
