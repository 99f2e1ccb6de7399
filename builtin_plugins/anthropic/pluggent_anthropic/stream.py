"""The bytes of an answer become batches of deltas, one for each read.

Pure: bytes in, deltas out, the end told by ``end``. What goes wrong after something good in
one read is kept in ``failure``, so that the good part can be handed on first.
"""

from __future__ import annotations

import msgspec
from pluggent_hookspecs import Delta, ModelRequest, ProviderError, UsageDelta
from pluggent_provider_http.batches import Batch
from pluggent_provider_http.events import MAX_EVENT_BYTES, EventFeed, EventTooLargeError
from pluggent_provider_http.faults import Faults
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_object, decode

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


class _Reply:
    """The events of one reply: what they add up to, and whether they came to their end."""

    def __init__(self, request: ModelRequest, faults: Faults) -> None:
        self.done = False
        self._faults = faults
        self._blocks = Blocks(request)
        self._ending = Ending()
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
        batch.add(self._blocks.end())
        batch.add(self._ending.refusal())
        batch.add((self._ending.finished(self._blocks),))

    def take_whole(self, answer: Object, batch: Batch) -> None:
        """Read an answer that came at once."""
        _raise_error(answer, self._faults)
        if answer.get("content") is None and answer.get("stop_reason") is None:
            raise MalformedError("it has neither content nor a stop_reason")
        self._begun = True
        self._ending.take(answer)
        batch.add(self._blocks.whole(answer.get("content") or []))
        if self._ending.reason is None:
            raise MalformedError("it has no stop_reason")

    def _take_text(self, payload: bytes, batch: Batch) -> bool:
        try:
            event = _decode_event(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if event.type != "content_block_delta" or event.delta.type != "text_delta":
            return False
        if not self._blocks.more_text(event.index, event.delta.text):
            return False
        batch.add_text(event.delta.text)
        return True

    def _take_any(self, event: Object, batch: Batch) -> None:
        _raise_error(event, self._faults)
        match event.get("type"):
            case "message_start":
                self._begun = True
                message = as_object(event.get("message"), "message_start.message")
                self._ending.take({name: value for name, value in message.items() if name != "stop_reason"})
                batch.add((UsageDelta(self._ending.usage()),))
                batch.add(self._blocks.whole(message.get("content") or []))
            case "content_block_start":
                self._begun = True
                batch.add(self._blocks.start(_index(event), event.get("content_block")))
            case "content_block_delta":
                batch.add(self._blocks.more(_index(event), event.get("delta")))
            case "content_block_stop":
                batch.add(self._blocks.stop(_index(event)))
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
            batch.add((UsageDelta(self._ending.usage()),))


def _raise_error(answer: Object, faults: Faults) -> None:
    if answer.get("type") == "error" or answer.get("error"):
        raise faults.from_payload(answer)


def _index(event: Object) -> int:
    index = as_count(event.get("index"))
    if index is None:
        raise MalformedError("an event of a content block has no index")
    return index


class StreamReader:
    """Reads the answer to a request, whether it is a stream or not.

    ``done`` says that the reply is complete, ``failure`` holds what went wrong.
    """

    def __init__(self, request: ModelRequest, faults: Faults, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.done = False
        self.failure: ProviderError | None = None
        self._faults = faults
        self._feed = EventFeed(max_event_bytes)
        self._reply = _Reply(request, faults)

    def feed(self, data: bytes) -> list[Delta]:
        """Return what one read brought. ``failure`` and ``done`` are set as it says."""
        if self.done:
            return []
        try:
            payloads = self._feed.feed(data)
        except EventTooLargeError:
            self.failure = self._faults.protocol(f"sent an event of more than {self._feed.max_event_bytes:,} bytes")
            return []
        return self._read(payloads, last=False) if payloads else []

    def end(self) -> list[Delta]:
        """Return what was left when the server closed the stream, Finished at its end."""
        if self.done:
            return []
        whole = self._feed.whole
        if whole is None:
            return self._read(self._feed.end(), last=True)
        return self._read_whole(whole)

    def _read(self, payloads: list[bytes], *, last: bool) -> list[Delta]:
        batch = Batch()
        cut = False
        payload = b""
        try:
            for payload in payloads:
                self._reply.take(payload, batch)
                if self._reply.done:
                    break
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            cut = last
            if not cut:
                shown = self._faults.shown(payload)
                self.failure = self._faults.protocol(f"sent an event that is no piece of a reply: {error}: {shown}")
        if (self._reply.done or last) and self.failure is None:
            self._finish(batch, cut=cut)
        return batch.done()

    def _finish(self, batch: Batch, *, cut: bool) -> None:
        try:
            if cut and not self._reply.complete:
                raise self._faults.broken("broke off inside an event")
            self._reply.finish(batch)
            self.done = True
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            self.failure = self._faults.protocol(f"sent a reply that cannot be used: {error}")

    def _read_whole(self, data: bytes) -> list[Delta]:
        batch = Batch()
        try:
            if not data.strip():
                raise self._faults.protocol("answered with nothing")
            self._reply.take_whole(as_object(decode(data), "the answer"), batch)
            self._reply.finish(batch)
            self.done = True
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            problem = f"answered with what is no reply: {error}: {self._faults.shown(data)}"
            self.failure = self._faults.protocol(problem)
        return batch.done() if self.done else []
