"""The events of a streamed answer as deltas, and the response that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec
from pluggent_hookspecs import (
    Delta,
    Finished,
    Json,
    ModelRequest,
    PartDelta,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    ReplyMeta,
    Text,
    TextDelta,
    Usage,
    UsageDelta,
    deltas,
)
from pluggent_provider_http.delta_batch import Batch
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_object, as_text, decode
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.chat.call_assembly import CallAssembly
from pluggent_openai.chat.content import VENDOR
from pluggent_openai.chat.failed_calls import failed_call
from pluggent_openai.chat.fragments import Grown, Sound
from pluggent_openai.chat.reply import (
    ANSWER,
    CHOICE,
    MESSAGE,
    NAMELESS,
    audio_format,
    call_entries,
    failed_note,
    finish_reason,
    names_calls,
    read_audio,
    read_content,
    read_images,
    read_reply,
    read_usage,
    said_reason,
    says_error,
    some,
    split_fields,
    thinking_of,
    unknown,
    unknown_reason,
)
from pluggent_openai.chat.think_tags import ThinkTags
from pluggent_openai.dialects import Dialect


class _Function(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    arguments: str
    name: str | None = None


class _CallPiece(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """More arguments of a call that has begun."""

    index: int
    function: _Function
    id: str | None = None


class _Piece(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The delta of a piece that holds nothing but more text, thinking or arguments: all other fields are null."""

    role: Any = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallPiece] | None = None
    refusal: None = None
    function_call: None = None
    audio: None = None
    annotations: None = None
    reasoning_details: None = None


class _Choice(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    delta: _Piece
    index: Literal[0] = 0
    finish_reason: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    token_ids: None = None
    logprobs: None = None
    error: None = None


class _Chunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What nearly every piece of a stream looks like; what does not fit is read with more care.

    The fields that are not looked at say the same in every piece of a stream.
    """

    choices: tuple[_Choice]
    usage: None = None
    error: None = None
    id: Any = None
    object: Any = None
    created: Any = None
    model: Any = None
    provider: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None
    obfuscation: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class Chunks:
    """The events of one stream: what they add up to, and whether they came to their end."""

    def __init__(self, request: ModelRequest, dialect: Dialect, faults: Faults, notes: tuple[str, ...] = ()) -> None:
        self.done = False
        self._request = request
        self._dialect = dialect
        self._faults = faults
        self._notes = notes
        self._calls = CallAssembly(request, dialect)
        self._seen = self._content = self._nameless = False
        self._reason = ""
        self._usage = Usage()
        self._counters: dict[str, Json] = {}
        self._model = self._id = self._tier = ""
        self._said = Grown()  # of the answer and the first choice
        self._logprobs = Grown()
        self._message = Grown()
        self._sound = Sound()
        self._others: dict[int, Grown] = {}
        self._tags = ThinkTags() if dialect.think_tags else None

    def take(self, payload: bytes, batch: Batch) -> None:
        """Read one event's data. Raises MalformedError, or the ProviderError that it holds."""
        if self._seen and self._take_plain(payload, batch):
            return
        word = payload.strip()
        if word in (b"", b"[DONE]"):
            self.done = self.done or bool(word)
        else:
            self._take_any(as_object(decode(payload), "an event"), batch)

    def _take_plain(self, payload: bytes, batch: Batch) -> bool:
        """Take a piece of text, of thinking or of one call's arguments; False if it has to be read in full."""
        try:
            chunk = _decode_chunk(payload)
        except (ValueError, RecursionError):  # no JSON of this shape, or no UTF-8
            return False
        piece = chunk.choices[0].delta
        text, thought = piece.content, piece.reasoning_content or piece.reasoning
        if text and not thought and not piece.tool_calls:
            if self._tags is None:
                batch.grow(TextDelta, text)
            else:
                self._part(text, self._tags, batch)
            self._content = True
            return True
        if self._tags is not None and (thought or piece.tool_calls):
            return False
        if piece.tool_calls:
            call = piece.tool_calls[0]
            if thought or text or len(piece.tool_calls) > 1 or call.id or call.function.name:
                return False
            delta = self._calls.more(call.index, call.function.arguments)
            if delta is not None:
                batch.add(delta)
            return delta is not None
        if thought and not text:
            batch.grow(ReasoningDelta, thought)
            self._content = True
            return True
        return text == "" and not thought

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply is at its end."""
        return self.done or bool(self._reason)

    def finish(self, batch: Batch) -> None:
        """Add the end of the reply. Raises ProviderError if there is none."""
        if not self._seen:
            raise self._faults.protocol("answered with an empty stream")
        if not self.complete:
            raise self._faults.broken("broke off: neither a finish_reason nor [DONE] came")
        if not self._reason and not self._content:
            raise self._faults.protocol("ended its stream without any content or finish_reason")
        if self._nameless and not self._content:
            raise MalformedError(NAMELESS)
        self._end_tags(batch)
        batch.add_all(self._calls.finish())
        reason = finish_reason(self._reason, calls=self._calls.any)
        extra = self._said.whole() | unknown_reason(self._reason, reason)
        own, rest = split_fields(self._message.whole(), self._dialect)
        if self._sound:
            format_ = audio_format(self._request, "pcm16")
            for part in read_audio(self._sound.whole(), format_, own, extra):
                batch.add(PartDelta(part))
        others = [self._others[index].whole() for index in sorted(self._others)]
        extra |= some(
            logprobs=self._logprobs.whole(), usage=self._counters, choices=others,
            message=rest, tool_calls=self._calls.said(),
        )  # fmt: skip
        message_extra: dict[str, Json] = {VENDOR: own} if own else {}
        meta = ReplyMeta(service_tier=self._tier, notes=self._notes)
        batch.add(Finished(reason, self._usage, self._model, self._id, extra, message_extra, meta))

    def take_whole(self, body: bytes, batch: Batch) -> None:
        """Read a reply that came at once. Raises ProviderError."""
        batch.add_all(deltas(read_reply(body, self._request, self._dialect, self._faults, self._notes)))

    def _take_any(self, chunk: Object, batch: Batch) -> None:
        if says_error(chunk):
            self._take_failure(chunk, batch)
            return
        self._id = self._id or as_text(chunk.get("id"))
        self._model = self._model or as_text(chunk.get("model"))
        self._tier = as_text(chunk.get("service_tier")) or self._tier
        self._said.replace(unknown(chunk, ANSWER))
        if chunk.get("usage"):
            self._usage, self._counters = read_usage(chunk["usage"], self._dialect)
            batch.add(UsageDelta(self._usage))
        choices = chunk.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise MalformedError("choices is not a list")
        self._seen = self._seen or choices is not None
        for entry in cast("list[object]", choices or []):
            choice = as_object(entry, "a choice")
            if choice.get("index") in (0, None):
                self._take_choice(choice, batch)
            else:
                self._take_other(choice)

    def _take_failure(self, chunk: Object, batch: Batch) -> None:
        """Take the call that the server refused in place of handing it on. Raises the error that *chunk* is else."""
        failed = failed_call(chunk)
        if failed is None or self._calls.any:
            raise self._faults.from_payload(chunk)
        self._end_tags(batch)
        batch.add_all(self._calls.take([{"function": {"name": failed.name, "arguments": failed.arguments}}]))
        self._notes = (*self._notes, failed_note(failed, self._faults))
        self._reason, self._seen, self._content, self.done = "tool_calls", True, True, True

    def _parted(self, found: list[Delta], batch: Batch) -> list[Delta]:
        """Take the texts at the beginning of *found*; return the rest. What the server has parted itself ends it."""
        for place, delta in enumerate(found):
            if self._tags is None or not isinstance(delta, TextDelta):
                self._end_tags(batch)
                return found[place:]
            self._content = True
            self._part(delta.text, self._tags, batch)
        return []

    def _part(self, text: str, tags: ThinkTags, batch: Batch) -> None:
        """Part *text* at the tags of thinking, as long as there may be some."""
        tags.feed(text, batch)
        if tags.decided:
            tags.end(batch)
            self._tags = None

    def _end_tags(self, batch: Batch) -> None:
        if self._tags is not None:
            self._tags.end(batch)
            self._tags = None

    def _take_choice(self, choice: Object, batch: Batch) -> None:
        if says_error(choice):
            raise self._faults.from_payload(choice)
        if choice.get("delta") is not None:
            self._take_delta(as_object(choice["delta"], "a delta"), batch)
        elif choice.get("message") is not None and not self._content:
            # The whole message in one event, where others send deltas.
            self._take_delta(as_object(choice["message"], "a message"), batch)
        self._reason = said_reason(choice.get("finish_reason")) or self._reason
        if said := unknown(choice, CHOICE):
            logprobs: object = said.pop("logprobs", None)
            if isinstance(logprobs, dict):
                self._logprobs.add(cast("Object", logprobs))
            self._said.replace(said)

    def _take_other(self, choice: Object) -> None:
        """Assemble a choice after the first (``n``)."""
        index = as_count(choice.get("index"))
        if index is None:
            raise MalformedError("the index of a choice is not a number")
        other = self._others.setdefault(index, Grown())
        said = dict(choice)
        if (delta := said.pop("delta", None)) is not None:
            said["message"] = as_object(delta, "a delta")
        other.replace({"index": index} | some(finish_reason=said.pop("finish_reason", None)))
        other.add(said)

    def _take_delta(self, delta: Object, batch: Batch) -> None:
        found = list(_content_deltas(delta))
        if self._tags is not None and found:
            found = self._parted(found, batch)
        if calls := call_entries(delta):
            found += self._calls.take(calls)
        self._nameless = self._nameless or (not calls and names_calls(delta))
        sound: object = delta.get("audio")
        if isinstance(sound, dict):
            self._sound.add(cast("Object", sound))
        self._content = self._content or bool(found) or bool(calls) or bool(self._sound)
        batch.add_all(found)
        if more := unknown(delta, MESSAGE):
            self._message.add(more)


def _content_deltas(delta: Object) -> Iterator[Delta]:
    if thought := thinking_of(delta):
        yield ReasoningDelta(thought)
    for part in (*read_content(delta.get("content")), *read_images(delta.get("images"))):
        match part:
            case Text(text):
                yield TextDelta(text)
            case Reasoning(text, signature):
                yield ReasoningDelta(text, signature)
            case Refusal(text):
                yield RefusalDelta(text)
            case _:
                yield PartDelta(part)
    if refusal := as_text(delta.get("refusal")):
        yield RefusalDelta(refusal)
