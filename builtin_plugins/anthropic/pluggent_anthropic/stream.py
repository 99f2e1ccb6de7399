"""The events of one reply as deltas, and the response that they make. Pure."""

from __future__ import annotations

import msgspec
from pluggent_hookspecs import ModelRequest, TextDelta, UsageDelta
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_object, decode, decode_whole
from pluggent_provider_http.server_errors import Faults

from pluggent_anthropic.reply import Blocks, Ending


class _Piece(msgspec.Struct):
    type: str
    text: str


class _Event(msgspec.Struct):
    """What nearly every event of a stream looks like: a piece of text."""

    type: str
    index: int
    delta: _Piece


_decode_event = msgspec.json.Decoder(_Event).decode


class Events:
    """The events of one reply (ReplyEvents): what they add up to, and whether they came to their end.

    *notes* say what of the conversation was left out of the request.
    """

    def __init__(self, request: ModelRequest, faults: Faults, notes: tuple[str, ...] = ()) -> None:
        self.done = False
        self._faults = faults
        self._blocks = Blocks(request)
        self._ending = Ending(notes)
        self._begun = False

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one event's data. Raises MalformedError, or the ProviderError that it holds."""
        if not self._take_text(payload, batch) and payload.strip() not in (b"", b"[DONE]"):
            self._take_any(as_object(decode(payload), "an event"), batch)

    @property
    def complete(self) -> bool:
        """Whether the server has said why the reply ends."""
        return self.done or self._ending.reason is not None

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._begun:
            raise self._faults.protocol("answered with an empty stream")
        if not self.complete:
            raise self._faults.broken("broke off: neither a stop_reason nor message_stop came")
        if self._ending.reason is None and self._blocks.empty:
            raise self._faults.protocol("ended its stream without any content or stop_reason")
        batch.add_all(self._blocks.end())
        batch.add_all(self._ending.refusal())
        batch.add(self._ending.finished(self._blocks))

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read an answer that came at once. Raises as ``take`` and ``finish``."""
        answer = as_object(decode_whole(body), "the answer")
        _raise_error(answer, self._faults)
        if answer.get("content") is None and answer.get("stop_reason") is None:
            raise MalformedError("it has neither content nor a stop_reason")
        self._begun = True
        self._ending.take(answer)
        batch.add_all(self._blocks.whole(answer.get("content") or []))
        if self._ending.reason is None and self._blocks.empty:
            raise MalformedError("it has no stop_reason")
        self.done = True
        self.finish(batch)

    def _take_text(self, payload: bytes, batch: Batch) -> bool:
        try:
            event = _decode_event(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if event.type != "content_block_delta" or event.delta.type != "text_delta":
            return False
        if not self._blocks.more_text(event.index, event.delta.text):
            return False
        batch.grow(TextDelta, event.delta.text)
        return True

    def _take_any(self, event: Object, batch: Batch) -> None:
        _raise_error(event, self._faults)
        match event.get("type"):
            case "message_start":
                self._begun = True
                message = as_object(event.get("message"), "message_start.message")
                self._ending.take({name: value for name, value in message.items() if name != "stop_reason"})
                batch.add(UsageDelta(self._ending.usage()))
                batch.add_all(self._blocks.whole(message.get("content") or []))
            case "content_block_start":
                self._begun = True
                batch.add_all(self._blocks.start(_index(event), event.get("content_block")))
            case "content_block_delta":
                batch.add_all(self._blocks.more(_index(event), event.get("delta")))
            case "content_block_stop":
                batch.add_all(self._blocks.stop(_index(event)))
            case "message_delta":
                self._begun = True
                self._take_change(event, batch)
            case "message_stop":
                self.done = True
            case _:
                pass  # ping, and what did not exist when this was written

    def _take_change(self, event: Object, batch: Batch) -> None:
        more = {name: value for name, value in event.items() if name not in ("type", "delta")}
        self._ending.take(more)
        self._ending.take(as_object(event.get("delta") or {}, "message_delta.delta"))
        if event.get("usage"):
            batch.add(UsageDelta(self._ending.usage()))


def _raise_error(answer: Object, faults: Faults) -> None:
    if answer.get("type") == "error" or answer.get("error"):
        raise faults.from_payload(answer)


def _index(event: Object) -> int:
    index = as_count(event.get("index"))
    if index is None:
        raise MalformedError("an event of a content block has no index")
    return index
