"""The events of one reply as deltas, and the response that they make. Pure."""

from __future__ import annotations

import msgspec
from pluggent_hookspecs import ModelRequest, TextDelta
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_list, as_object, decode, decode_whole
from pluggent_provider_http.server_errors import Faults

from pluggent_bedrock.reply import Blocks, Ending


class _Piece(msgspec.Struct):
    text: str


class _Delta(msgspec.Struct):
    contentBlockIndex: int  # noqa: N815 (the vendor's name)
    delta: _Piece


class _Event(msgspec.Struct):
    """What nearly every event of a stream looks like: a piece of text."""

    contentBlockDelta: _Delta  # noqa: N815 (the vendor's name)


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
        """Read one event. Raises MalformedError, or the ProviderError that it holds."""
        try:
            event = _decode_event(payload).contentBlockDelta
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._take_any(as_object(decode(payload), "an event"), batch)
            return
        if self._blocks.more_text(event.contentBlockIndex, event.delta.text):
            batch.grow(TextDelta, event.delta.text)

    @property
    def complete(self) -> bool:
        """Whether the server has said why the reply ends."""
        return self.done or self._ending.reason is not None

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._begun and self._blocks.empty and not self.complete:
            raise self._faults.protocol("answered with an empty stream")
        if not self.complete:
            raise self._faults.broken("broke off: no messageStop came")
        batch.add_all(self._blocks.end())
        batch.add(self._ending.finished(self._blocks))

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read an answer that came at once. Raises as ``take`` and ``finish``."""
        answer = as_object(decode_whole(body), "the answer")
        _raise_error(answer, self._faults)
        message = as_object(as_object(answer.get("output"), "output").get("message"), "output.message")
        self._ending.take({name: value for name, value in answer.items() if name != "output"})
        batch.add_all(self._blocks.whole(as_list(message.get("content"), "content")))
        if self._ending.reason is None:
            raise MalformedError("it has no stopReason")
        self.done = True
        self.finish(batch)

    def _take_any(self, event: Object, batch: Batch) -> None:
        _raise_error(event, self._faults)
        for name, value in event.items():
            match name:
                case "messageStart":
                    self._begun = True
                case "contentBlockStart":
                    said = as_object(value, name)
                    batch.add_all(self._blocks.start(_index(said), said.get("start")))
                case "contentBlockDelta":
                    said = as_object(value, name)
                    batch.add_all(self._blocks.more(_index(said), said.get("delta")))
                case "contentBlockStop":
                    batch.add_all(self._blocks.stop(_index(as_object(value, name))))
                case "messageStop":
                    self._ending.take(as_object(value, name))
                case "metadata":
                    self._ending.take(as_object(value, name))
                    self.done = self._ending.reason is not None
                case _:
                    pass  # what did not exist when this was written


def _raise_error(answer: Object, faults: Faults) -> None:
    if answer.get("error") or answer.get("__type"):
        raise faults.from_payload(answer)


def _index(event: Object) -> int:
    index = as_count(event.get("contentBlockIndex"))
    if index is None:
        raise MalformedError("an event of a content block has no contentBlockIndex")
    return index
