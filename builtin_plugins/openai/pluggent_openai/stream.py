"""The bytes of a streamed answer become batches of deltas, one for each read.

Pure: bytes in, deltas out, the end told by ``end``. What goes wrong after something good in
one read is kept in ``failure``, so that the good part can be handed on first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec
from pluggent_hookspecs import (
    Audio,
    Delta,
    Finished,
    Json,
    ModelRequest,
    PartDelta,
    ProviderError,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
    Usage,
    UsageDelta,
    deltas,
)

from pluggent_openai.errors import Faults
from pluggent_openai.reply import (
    MalformedError,
    Object,
    as_object,
    as_text,
    decode,
    finish_reason,
    frozen,
    read_content,
    read_reply,
    read_usage,
    says_error,
    unknown_fields,
    unknown_reason,
)
from pluggent_openai.sse import EventSplitter, EventTooLargeError
from pluggent_openai.toolcalls import CallAssembly

MAX_EVENT_BYTES = 16_777_216
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


class _Piece(msgspec.Struct):
    """The delta of a piece that holds nothing but more text: all other fields are None."""

    content: str | None = None
    tool_calls: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    function_call: Any = None
    audio: Any = None


class _Choice(msgspec.Struct):
    delta: _Piece
    index: int = 0
    finish_reason: Any = None
    error: Any = None


class _Chunk(msgspec.Struct):
    """What nearly every piece of a stream looks like; what does not fit is read with more care."""

    choices: list[_Choice]
    usage: Any = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


def _text_only(payload: bytes) -> str | None:
    """Return the text of a piece that holds nothing else, None if it has to be read in full."""
    try:
        chunk = _decode_chunk(payload)
    except (msgspec.DecodeError, RecursionError):
        return None
    if len(chunk.choices) != 1 or chunk.usage is not None or chunk.error is not None:
        return None
    choice = chunk.choices[0]
    if choice.index != 0 or choice.finish_reason is not None or choice.error is not None:
        return None
    piece = choice.delta
    if piece.tool_calls or piece.refusal or piece.reasoning_content or piece.reasoning:
        return None
    return piece.content if piece.function_call is None and piece.audio is None else None


class _Batch:
    """Deltas of one read, in order; neighbouring pieces of text become one."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._text: list[str] = []

    def add_text(self, text: str) -> None:
        if text:
            self._text.append(text)

    def add(self, more: Iterable[Delta]) -> None:
        for delta in more:
            if isinstance(delta, TextDelta):
                self.add_text(delta.text)
            else:
                self._flush()
                self._deltas.append(delta)

    def done(self) -> list[Delta]:
        self._flush()
        return self._deltas

    def _flush(self) -> None:
        if self._text:
            self._deltas.append(TextDelta("".join(self._text)))
            self._text = []


class _Chunks:
    """The events of one stream: what they add up to, and whether they came to their end."""

    def __init__(self, request: ModelRequest, faults: Faults) -> None:
        self.done = False
        self._faults = faults
        self._calls = CallAssembly(request)
        self._seen = self._content = False
        self._reason: object = None
        self._usage = Usage()
        self._model = self._id = ""
        self._extra: dict[str, Json] = {}

    def take(self, payload: bytes, batch: _Batch) -> None:
        """Read one event's data. Raises MalformedError, or the ProviderError that it holds."""
        if payload.strip() in (b"", b"[DONE]"):
            self.done = self.done or bool(payload.strip())
            return
        text = _text_only(payload) if self._seen else None
        if text is None:
            self._take_any(as_object(decode(payload), "an event"), batch)
        else:
            self._content = self._content or bool(text)
            batch.add_text(text)

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply is at its end."""
        return self.done or self._reason is not None

    def finish(self) -> Finished:
        """Return the end of the reply. Raises ProviderError if there is none."""
        if not self._seen:
            raise self._faults.protocol("answered with an empty stream")
        if not self.complete:
            raise self._faults.broken("broke off: neither a finish_reason nor [DONE] came")
        if self._reason is None and not self._content:
            raise self._faults.protocol("ended its stream without any content or finish_reason")
        self._calls.finish()
        reason = finish_reason(self._reason, calls=self._calls.any)
        extra = frozen(self._extra | unknown_reason(self._reason))
        return Finished(reason, self._usage, self._model, self._id, extra)

    def _take_any(self, chunk: Object, batch: _Batch) -> None:
        if says_error(chunk):
            raise self._faults.from_payload(chunk)
        self._id = self._id or as_text(chunk.get("id"))
        self._model = self._model or as_text(chunk.get("model"))
        self._extra |= unknown_fields(chunk)
        if chunk.get("usage"):
            self._usage = read_usage(chunk["usage"])
            batch.add((UsageDelta(self._usage),))
        choices = chunk.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise MalformedError("choices is no list")
        self._seen = self._seen or choices is not None
        for entry in cast("list[object]", choices or []):
            choice = as_object(entry, "a choice")
            if choice.get("index") in (0, None):
                self._take_choice(choice, batch)

    def _take_choice(self, choice: Object, batch: _Batch) -> None:
        if says_error(choice):
            raise self._faults.from_payload(choice)
        if choice.get("delta") is not None:
            self._take_delta(as_object(choice["delta"], "a delta"), batch)
        elif choice.get("message") is not None and not self._content:
            # The whole message in one event, where others send deltas.
            self._take_delta(as_object(choice["message"], "a message"), batch)
        if choice.get("finish_reason") is not None:
            self._reason = choice["finish_reason"]

    def _take_delta(self, delta: Object, batch: _Batch) -> None:
        found = list(_content_deltas(delta))
        if calls := _call_pieces(delta):
            found += self._calls.take(calls)
        self._content = self._content or bool(found) or bool(calls)
        batch.add(found)


def _call_pieces(delta: Object) -> object:
    old = delta.get("function_call")  # before tool_calls there was one call without index and id
    return delta.get("tool_calls") or ([{"index": 0, "function": old}] if old else None)


def _content_deltas(delta: Object) -> Iterator[Delta]:
    if thought := as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")):
        yield ReasoningDelta(thought)
    for part in read_content(delta.get("content")):
        match part:
            case Text(text):
                yield TextDelta(text)
            case Reasoning(text):
                yield ReasoningDelta(text)
            case Refusal(text):
                yield RefusalDelta(text)
            case _:
                yield PartDelta(part)
    if refusal := as_text(delta.get("refusal")):
        yield RefusalDelta(refusal)
    if isinstance(audio := delta.get("audio"), dict):
        sound = cast("Object", audio)
        yield PartDelta(Audio(as_text(sound.get("data")), "pcm16", as_text(sound.get("transcript")) or None))


class StreamReader:
    """Reads the answer to a request for a stream, also where it is no stream.

    A server that answers with one JSON object has answered whole; HTML is an error.
    ``done`` says that the reply is complete, ``failure`` holds what went wrong.
    """

    def __init__(self, request: ModelRequest, faults: Faults, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.done = False
        self.failure: ProviderError | None = None
        self._request = request
        self._faults = faults
        self._max = max_event_bytes
        self._head = bytearray()
        self._events: EventSplitter | None = None
        self._whole = False
        self._chunks = _Chunks(request, faults)

    def feed(self, data: bytes) -> list[Delta]:
        """Return what one read brought. ``failure`` and ``done`` are set as it says."""
        if self._events is None:
            data = self._sniffed(data)
        if self._events is None or self.done or not data:
            return []
        try:
            payloads = self._events.feed(data)
        except EventTooLargeError:
            self.failure = self._faults.protocol(f"sent an event of more than {self._max:,} bytes")
            return []
        return self._read(payloads, last=False)

    def end(self) -> list[Delta]:
        """Return what was left when the server closed the stream, Finished at its end."""
        if self.done:
            return []
        if self._whole:
            return self._read_whole()
        if self._events is None:
            self.failure = self._faults.protocol("answered with an empty stream")
            return []
        return self._read(self._events.close(), last=True)

    def _read(self, payloads: list[bytes], *, last: bool) -> list[Delta]:
        batch = _Batch()
        cut = False
        payload = b""
        try:
            for payload in payloads:
                self._chunks.take(payload, batch)
                if self._chunks.done:
                    break
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            cut = last
            if not cut:
                shown = self._faults.shown(payload)
                self.failure = self._faults.protocol(f"sent an event that is no chunk of a reply: {error}: {shown}")
        if (self._chunks.done or last) and self.failure is None:
            self._finish(batch, cut=cut)
        return batch.done()

    def _finish(self, batch: _Batch, *, cut: bool) -> None:
        try:
            if cut and not self._chunks.complete:
                raise self._faults.broken("broke off inside an event")
            batch.add((self._chunks.finish(),))
            self.done = True
        except ProviderError as error:
            self.failure = error
        except (MalformedError, RecursionError) as error:
            self.failure = self._faults.protocol(f"sent a reply that cannot be used: {error}")

    def _sniffed(self, data: bytes) -> bytes:
        """Decide by the first byte what this is; return what the events begin with."""
        head = self._head
        head += data
        start = bytes(head[:1024]).removeprefix(_BOM).lstrip(_BLANK)
        if self._whole or start[:1] in (b"{", b"[", b"<"):
            self._whole = True
            return b""
        if not start or _BOM.startswith(start):
            return b""
        self._events = EventSplitter(self._max)
        return bytes(head)

    def _read_whole(self) -> list[Delta]:
        try:
            response = read_reply(bytes(self._head).removeprefix(_BOM), self._request, self._faults)
        except ProviderError as error:
            self.failure = error
            return []
        self.done = True
        return list(deltas(response))
