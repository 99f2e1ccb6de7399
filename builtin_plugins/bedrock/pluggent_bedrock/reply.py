"""The content blocks of a reply, whole or in pieces, become deltas of the contract.

Both ways run through ``Blocks``, so a streamed reply is the same as one that came whole.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    Delta,
    Finished,
    FinishReason,
    Image,
    Json,
    ModelRequest,
    PartDelta,
    ReasoningDelta,
    ReplyMeta,
    TextDelta,
    ToolCallDelta,
    Usage,
    VendorPart,
)
from pluggent_provider_http.call_ids import CallIds
from pluggent_provider_http.content_blocks.order import Entry, needed
from pluggent_provider_http.payload import MalformedError, Object, as_list, as_object, as_text
from pluggent_provider_http.token_counts import as_tokens, plausible

from pluggent_bedrock.blocks import WIRE

_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "pause_turn": FinishReason.PAUSED,
}
_ANSWER = frozenset({"stopReason", "usage", "p"})  # p is padding
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
# The sum of the others, and other names of the cache's counts.
_SAID_TWICE = frozenset({"totalTokens", "cacheReadInputTokenCount", "cacheWriteInputTokenCount"})
_CALL = frozenset({"toolUseId", "name", "input"})
_FORMATS = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}


@attrs.define
class _Block:
    """One block under way: what it began with, and what came since."""

    kind: Literal["text", "thinking", "sealed", "call", "vendor"]
    name: str = ""
    fields: dict[str, Any] = attrs.field(factory=dict[str, Any])
    call: int = 0
    length: int = 0
    signature: str = ""
    pieces: list[str] = attrs.field(factory=list[str])
    cited: list[Any] = attrs.field(factory=list[Any])


class Blocks:
    """The blocks of one reply. Every method returns deltas; it raises MalformedError for malformed blocks.

    Blocks of text and of thinking begin with their first piece, all others are announced.
    """

    def __init__(self, request: ModelRequest) -> None:
        self._open: dict[int, _Block] = {}
        self._layout: list[Entry] = []
        self._calls = 0
        self._ids = CallIds(request)
        self._keeps = False

    # ---- a reply that came at once ----------------------------------------------------------

    def whole(self, content: list[Any]) -> Iterator[Delta]:
        """Yield all of a content that came at once."""
        for index, given in enumerate(content):
            block = as_object(given, "a content block")
            yield from self._whole(index, block)
            yield from self.stop(index)

    def _whole(self, index: int, block: Object) -> list[Delta]:
        if len(block) != 1:
            raise MalformedError("a content block has other than one member")
        ((name, value),) = block.items()
        if name == "text" and isinstance(value, str):
            return self._said(self._opened(index, "text"), value)
        fields = as_object(value, name)
        match name:
            case "citationsContent":
                return self._cited(index, fields)
            case "reasoningContent":
                return self._whole_thought(index, fields)
            case "toolUse" if fields.get("type") != "server_tool_use":
                return self._begun_call(index, fields)
            case _:
                self._opened(index, "vendor", name).fields |= fields
                return []

    def _cited(self, index: int, said: Object) -> list[Delta]:
        block = self._opened(index, "text")
        block.cited += as_list(said.get("citations") or [], "citations")
        pieces = [as_object(piece, "a text") for piece in as_list(said.get("content") or [], "citationsContent")]
        return self._said(block, "".join(as_text(piece.get("text")) for piece in pieces))

    def _whole_thought(self, index: int, thought: Object) -> list[Delta]:
        if "redactedContent" in thought:
            return self._thought(index, thought)
        return self._thought(index, as_object(thought.get("reasoningText"), "reasoningText"))

    # ---- a reply in pieces --------------------------------------------------------------------

    def start(self, index: int, given: object) -> list[Delta]:
        """Begin block *index*, which is announced: a call, a result, a picture."""
        start = as_object(given, "a content block")
        if index in self._open:
            raise MalformedError(f"content block {index} begins twice")
        if len(start) != 1:
            raise MalformedError("the start of a content block has other than one member")
        ((name, value),) = start.items()
        fields = as_object(value, name)
        if name == "toolUse" and fields.get("type") != "server_tool_use":
            return self._begun_call(index, fields)
        self._opened(index, "vendor", name).fields |= fields
        return []

    def more_text(self, index: int, text: str) -> bool:
        """Take a piece of text of block *index*; False if it is empty."""
        block = self._open.get(index)
        if block is None:
            block = self._opened(index, "text")
        elif block.kind != "text":
            raise MalformedError(f"a piece of text came for content block {index}, which is of another kind")
        block.length += len(text)
        return bool(text)

    def more(self, index: int, given: object) -> list[Delta]:
        """Take a piece of block *index*."""
        delta = as_object(given, "a delta")
        for name, value in delta.items():
            match name, value:
                case "text", str():
                    return [TextDelta(value)] if self.more_text(index, value) else []
                case "citation", dict():
                    self._of_kind(index, "text").cited.append(value)
                    return []
                case "reasoningContent", dict():
                    return self._thought(index, cast("Object", value))
                case "toolUse", dict():
                    return self._argued(index, as_text(cast("Object", value).get("input")))
                case _:
                    self._grown(index, name, value)
        return []

    def stop(self, index: int) -> list[Delta]:
        """End block *index*; one that is not open has ended already."""
        block = self._open.pop(index, None)
        if block is None:
            return []
        match block.kind:
            case "text":
                self._place_text(block)
            case "thinking":
                if block.signature:
                    self._keep("part")
                    return [ReasoningDelta("", block.signature)]
                if block.length:
                    self._layout.append("part")
            case "sealed":
                return self._vendor("reasoningContent", {"redactedContent": _joined_blobs(block.pieces)})
            case "call":
                self._layout.append("call")
            case "vendor":
                return self._finished(block)
        return []

    @property
    def calls(self) -> bool:
        """Whether there is a call."""
        return self._calls > 0

    @property
    def empty(self) -> bool:
        """Whether nothing has come at all."""
        return not (self._open or self._layout)

    def end(self) -> list[Delta]:
        """End whatever is open."""
        return [delta for index in list(self._open) for delta in self.stop(index)]

    def message_extra(self) -> dict[str, Json]:
        """Return what has to stay with the message so that its thinking and its blocks can go back."""
        if needed(self._layout):
            return {WIRE: {"blocks": cast("Json", self._layout)}}
        return {WIRE: {}} if self._keeps else {}

    # ---- one block ----------------------------------------------------------------------------

    def _opened(
        self, index: int, kind: Literal["text", "thinking", "sealed", "call", "vendor"], name: str = ""
    ) -> _Block:
        block = self._open[index] = _Block(kind, name)
        return block

    def _of_kind(self, index: int, kind: Literal["text", "thinking", "sealed", "call"]) -> _Block:
        block = self._open.get(index)
        if block is None and kind != "call":
            return self._opened(index, kind)
        if block is None or block.kind != kind:
            raise MalformedError(f"a piece of {kind} came for content block {index}, which is none")
        return block

    def _said(self, block: _Block, text: str) -> list[Delta]:
        block.length += len(text)
        return [TextDelta(text)] if text else []

    def _thought(self, index: int, piece: Object) -> list[Delta]:
        sealed = piece.get("redactedContent")
        if isinstance(sealed, str):
            self._of_kind(index, "sealed").pieces.append(sealed)
            return []
        block = self._of_kind(index, "thinking")
        block.signature += as_text(piece.get("signature"))
        text = as_text(piece.get("text"))
        block.length += len(text)
        return [ReasoningDelta(text)] if text else []

    def _begun_call(self, index: int, use: Object) -> list[Delta]:
        name = as_text(use.get("name"))
        if not name:
            raise MalformedError("a tool call names no tool")
        block = self._opened(index, "call")
        block.call = self._calls
        self._calls += 1
        extra = {key: value for key, value in use.items() if key not in _CALL and value not in (None, "tool_use")}
        given = self._ids.unique(use.get("toolUseId"))
        arguments = msgspec.json.encode(use["input"]).decode() if use.get("input") is not None else ""
        return [ToolCallDelta(block.call, given, name, arguments, {WIRE: extra} if extra else {})]

    def _argued(self, index: int, text: str) -> list[Delta]:
        block = self._open.get(index)
        if block is not None and block.kind == "vendor":
            block.pieces.append(text)
            return []
        call = self._of_kind(index, "call").call
        return [ToolCallDelta(call, arguments=text)] if text else []

    def _grown(self, index: int, name: str, value: object) -> None:
        """Add a piece of a block that only the vendor knows: lists grow, all else is replaced."""
        block = self._open.get(index)
        if block is None:
            block = self._opened(index, "vendor", name)
        if block.kind != "vendor":
            return  # a kind of piece that did not exist when this was written
        if isinstance(value, list):
            block.fields["content"] = [*block.fields.get("content", ()), *value]
        elif isinstance(value, dict):
            block.fields |= cast("dict[str, Any]", value)

    def _finished(self, block: _Block) -> list[Delta]:
        text = "".join(block.pieces)
        if text:
            try:
                block.fields["input"] = msgspec.json.decode(text.encode("utf-8", "replace"))
            except (msgspec.DecodeError, RecursionError) as error:
                raise MalformedError(f"the input of a {block.fields.get('name')} is not JSON: {error}") from error
        if block.name == "image" and (image := _image(block.fields)) is not None:
            self._layout.append("part")
            return [PartDelta(image)]
        return self._vendor(block.name, block.fields)

    def _vendor(self, name: str, fields: dict[str, Any]) -> list[Delta]:
        self._keep("part")
        hosted = as_text(fields.get("name")) if fields.get("type") == "server_tool_use" else ""
        return [PartDelta(VendorPart(WIRE, {name: fields}, hosted))]

    def _keep(self, entry: str) -> None:
        self._keeps = True
        self._layout.append(entry)

    def _place_text(self, block: _Block) -> None:
        if block.cited and block.length:
            self._layout.append({"text": block.length, "citations": block.cited})
        elif block.length:
            self._layout.append(block.length)


def _joined_blobs(pieces: list[str]) -> str:
    """Return the base64 of what *pieces* of base64 make together."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"redactedContent is not base64: {error}") from error


def _image(fields: Object) -> Image | None:
    source, form = fields.get("source"), _FORMATS.get(as_text(fields.get("format")))
    data = cast("Object", source).get("bytes") if isinstance(source, Mapping) else None
    return Image(data=data, media_type=form) if form and isinstance(data, str) and data else None


class Ending:
    """The end of a reply: why it ended, tokens, what else was said; read from any number of pieces."""

    def __init__(self, notes: tuple[str, ...] = ()) -> None:
        self.reason: object = None
        self._notes = notes
        self._usage: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}

    def take(self, fields: Object) -> None:
        """Take fields of the answer, or of an event at its end."""
        self.reason = fields.get("stopReason") or self.reason
        self._extra |= {name: value for name, value in fields.items() if name not in _ANSWER and value is not None}
        usage = fields.get("usage")
        if isinstance(usage, Mapping):
            counted = cast("Object", usage)
            self._usage |= {name: value for name, value in counted.items() if value is not None}

    def finished(self, blocks: Blocks) -> Finished:
        """Return the end of the reply that *blocks* make."""
        extra = dict(self._extra)
        usage, wrong = self._counted()
        said = {name: value for name, value in self._usage.items() if self._is_more(name, value)}
        if said or wrong:
            extra["usage"] = said | ({"impossible": wrong} if wrong else {})
        reason = self._meant(calls=blocks.calls)
        if reason is FinishReason.OTHER and self.reason is not None:
            extra["stopReason"] = str(self.reason)
        meta = ReplyMeta(service_tier=self._tier(extra), notes=self._notes)
        return Finished(reason, usage, self._model(extra), "", extra, blocks.message_extra(), meta)

    def _counted(self) -> tuple[Usage, dict[str, int]]:
        """Return the counts in the contract's terms, whose input holds what the cache gave and took."""
        plain, output, read, wrote = (as_tokens(self._usage.get(name)) for name in _COUNTS)
        whole = None if plain is None else plain + (read or 0) + (wrote or 0)
        return plausible(Usage(input=whole, output=output, cached=read, cache_write=wrote))

    @staticmethod
    def _is_more(name: str, value: object) -> bool:
        if name in _COUNTS:
            return as_tokens(value) is None
        return name not in _SAID_TWICE and value not in ({}, [])

    @staticmethod
    def _tier(extra: dict[str, Any]) -> str:
        tier = extra.get("serviceTier")
        if not isinstance(tier, Mapping) or not (named := as_text(cast("Object", tier).get("type"))):
            return ""
        del extra["serviceTier"]
        return named

    @staticmethod
    def _model(extra: Object) -> str:
        """Return the model that a prompt router chose; Bedrock says nothing else of it."""
        found: object = extra
        for name in ("trace", "promptRouter", "invokedModelId"):
            found = cast("Object", found).get(name) if isinstance(found, dict) else None
        return as_text(found)

    def _meant(self, *, calls: bool) -> FinishReason:
        reason = _REASONS.get(str(self.reason), FinishReason.OTHER)
        if calls and reason is FinishReason.STOP:
            return FinishReason.TOOL_CALLS  # some models end every reply alike
        return FinishReason.OTHER if reason is FinishReason.TOOL_CALLS and not calls else reason
