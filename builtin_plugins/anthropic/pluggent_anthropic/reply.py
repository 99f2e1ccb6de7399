"""The content blocks of a reply, whole or in pieces, become deltas of the contract.

Both ways run through ``Blocks``, so a streamed reply is the same as one that came whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    Delta,
    Finished,
    FinishReason,
    Json,
    ModelRequest,
    PartDelta,
    ReasoningDelta,
    RefusalDelta,
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

from pluggent_anthropic.blocks import WIRE

_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
    "pause_turn": FinishReason.PAUSED,
    "compaction": FinishReason.PAUSED,
}
_ANSWER = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage"})
_USAGE = frozenset(
    {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens_details"}
)
_CALL = frozenset({"type", "id", "name", "input"})


@attrs.define
class _Block:
    """One block under way: what it began with, and what came since."""

    kind: Literal["text", "thinking", "call", "vendor"]
    fields: dict[str, Any]
    call: int = 0
    length: int = 0
    signature: str = ""
    pieces: list[str] = attrs.field(factory=list[str])
    cited: list[Any] = attrs.field(factory=list[Any])


class Blocks:
    """The blocks of one reply. Every method returns deltas; it raises MalformedError for malformed blocks."""

    def __init__(self, request: ModelRequest) -> None:
        self._open: dict[int, _Block] = {}
        self._layout: list[Entry] = []
        self._calls = 0
        self._ids = CallIds(request)
        self._keeps = False

    def whole(self, content: object) -> Iterator[Delta]:
        """Yield all of a content that came at once."""
        for index, block in enumerate(as_list(content, "content")):
            yield from self.start(index, block)
            yield from self.stop(index)

    def start(self, index: int, given: object) -> list[Delta]:
        """Begin block *index*."""
        fields = dict(as_object(given, "a content block"))
        if index in self._open:
            raise MalformedError(f"content block {index} begins twice")
        match fields.get("type"):
            case "text":
                block = _Block("text", fields)
            case "thinking":
                block = _Block("thinking", fields, signature=as_text(fields.get("signature")))
            case "tool_use":
                block = _Block("call", fields, call=self._calls)
            case str():
                block = _Block("vendor", fields)
            case _:
                raise MalformedError("a content block has no type")
        self._open[index] = block
        return self._started(block)

    def _started(self, block: _Block) -> list[Delta]:
        match block.kind:
            case "text":
                return self._said(block, as_text(block.fields.get("text")))
            case "thinking":
                return self._thought(block, as_text(block.fields.get("thinking")))
            case "call":
                return [self._call(block)]
            case "vendor":
                return []

    def more(self, index: int, given: object) -> list[Delta]:
        """Take a piece of block *index*."""
        delta = as_object(given, "a delta")
        block = self._open.get(index)
        if block is None:
            raise MalformedError(f"a piece of content block {index} came, which is not open")
        match block.kind, delta.get("type"):
            case "text", "text_delta":
                return self._said(block, as_text(delta.get("text")))
            case "text", "citations_delta":
                block.cited.append(delta.get("citation"))
            case "thinking", "thinking_delta":
                return self._thought(block, as_text(delta.get("thinking")))
            case "thinking", "signature_delta":
                block.signature = as_text(delta.get("signature"))
            case "call", "input_json_delta":
                return self._argued(block, as_text(delta.get("partial_json")))
            case "vendor", "input_json_delta":
                block.pieces.append(as_text(delta.get("partial_json")))
            case "vendor", _:
                _grow(block.fields, delta)
            case _:
                pass  # a kind of piece that did not exist when this was written
        return []

    def more_text(self, index: int, text: str) -> bool:
        """Take a piece of text of block *index*, if that is what the block consists of."""
        block = self._open.get(index)
        if block is None or block.kind != "text":
            return False
        block.length += len(text)
        return True

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
            case "call":
                self._layout.append("call")
                if not block.pieces and block.fields.get("input"):
                    return self._argued(block, msgspec.json.encode(block.fields["input"]).decode())
            case "vendor":
                self._keep("part")
                whole = _finished(block)
                return [PartDelta(VendorPart(WIRE, whole, _hosted(whole)))]
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
        """End whatever is open: some servers leave out the last stop."""
        return [delta for index in list(self._open) for delta in self.stop(index)]

    def message_extra(self, model: str) -> dict[str, Json]:
        """Return what has to stay with the message so that its thinking and its blocks can go back."""
        if needed(self._layout):
            return {WIRE: {"model": model, "blocks": cast("Json", self._layout)}}
        return {WIRE: {"model": model}} if self._keeps else {}

    def _keep(self, entry: str) -> None:
        self._keeps = True
        self._layout.append(entry)

    def _place_text(self, block: _Block) -> None:
        if block.cited:
            block.fields["citations"] = [*(block.fields.get("citations") or ()), *block.cited]
        fields = {name: value for name, value in block.fields.items() if name not in ("type", "text") and value}
        if fields and block.length:
            self._layout.append({"text": block.length, **fields})
        elif block.length:
            self._layout.append(block.length)

    def _said(self, block: _Block, text: str) -> list[Delta]:
        block.length += len(text)
        return [TextDelta(text)] if text else []

    def _thought(self, block: _Block, text: str) -> list[Delta]:
        block.length += len(text)
        return [ReasoningDelta(text)] if text else []

    def _argued(self, block: _Block, text: str) -> list[Delta]:
        if not text:
            return []
        block.pieces.append(text)
        return [ToolCallDelta(block.call, arguments=text)]

    def _call(self, block: _Block) -> ToolCallDelta:
        name = as_text(block.fields.get("name"))
        if not name:
            raise MalformedError("a tool call names no tool")
        self._calls += 1
        extra = {key: value for key, value in block.fields.items() if key not in _CALL and value is not None}
        given = self._ids.unique(block.fields.get("id"))
        return ToolCallDelta(block.call, given, name, extra={WIRE: extra} if extra else {})


def _grow(fields: dict[str, Any], delta: Object) -> None:
    """Add the piece of a block that only the vendor knows: texts and lists grow, all else is replaced."""
    for name, more in delta.items():
        had = fields.get(name)
        if name == "type":
            continue
        if isinstance(had, str) and isinstance(more, str):
            fields[name] = had + more
        elif isinstance(had, list) and isinstance(more, list):
            fields[name] = had + more  # pyright: ignore[reportUnknownVariableType] (whatever JSON they hold)
        else:
            fields[name] = more


def _finished(block: _Block) -> dict[str, Any]:
    text = "".join(block.pieces)
    if not text:
        return block.fields
    try:
        return {**block.fields, "input": msgspec.json.decode(text.encode("utf-8", "replace"))}
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedError(f"the input of a {block.fields['type']} is not JSON: {error}") from error


class Ending:
    """The end of a reply: names, finish reason, tokens; read from any number of pieces."""

    def __init__(self, notes: tuple[str, ...] = ()) -> None:
        self.model = self.id = ""
        self.reason: object = None
        self._notes = notes
        self._usage: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}

    def take(self, fields: Object) -> None:
        """Take fields of the answer, or of a change of it."""
        self.model = as_text(fields.get("model")) or self.model
        self.id = as_text(fields.get("id")) or self.id
        self.reason = fields.get("stop_reason") or self.reason
        self._extra |= {name: value for name, value in fields.items() if name not in _ANSWER and value is not None}
        self.count(fields.get("usage"))

    def count(self, usage: object) -> None:
        """Take token counts, which replace earlier ones."""
        if isinstance(usage, Mapping):
            counted = cast("Object", usage)
            self._usage |= {name: value for name, value in counted.items() if value is not None}

    def usage(self) -> Usage:
        """Return the counts in the contract's terms, whose input holds what the cache gave and took."""
        return self._counted()[0]

    def _counted(self) -> tuple[Usage, dict[str, int]]:
        counts = {name: as_tokens(self._usage.get(name)) for name in _USAGE}
        plain, read, wrote = (counts[f"{name}input_tokens"] for name in ("", "cache_read_", "cache_creation_"))
        details = self._usage.get("output_tokens_details")
        thought = cast("Object", details).get("thinking_tokens") if isinstance(details, Mapping) else None
        return plausible(
            Usage(
                input=None if plain is None else plain + (read or 0) + (wrote or 0),
                output=counts["output_tokens"],
                cached=read,
                reasoning=as_tokens(thought),
                cache_write=wrote,
            )
        )

    def refusal(self) -> list[Delta]:
        """Return the words of a refusal, if the reply is one and has words."""
        details = self._extra.get("stop_details")
        words = as_text(cast("Object", details).get("explanation")) if isinstance(details, Mapping) else ""
        return [RefusalDelta(words)] if words and self.reason == "refusal" else []

    def finished(self, blocks: Blocks) -> Finished:
        """Return the end of the reply that *blocks* make."""
        extra = dict(self._extra)
        usage, wrong = self._counted()
        said = {name: value for name, value in self._usage.items() if name not in _USAGE or _is_no_count(value)}
        said.pop("service_tier", None)
        if said or wrong:
            extra["usage"] = said | ({"impossible": wrong} if wrong else {})
        reason = self._meant(calls=blocks.calls)
        if reason is FinishReason.OTHER and self.reason is not None:
            extra["stop_reason"] = str(self.reason)
        meta = ReplyMeta(service_tier=as_text(self._usage.get("service_tier")), notes=self._notes)
        return Finished(reason, usage, self.model, self.id, extra, blocks.message_extra(self.model), meta)

    def _meant(self, *, calls: bool) -> FinishReason:
        reason = _REASONS.get(str(self.reason), FinishReason.OTHER)
        if calls and (reason is FinishReason.STOP or self.reason is None):
            return FinishReason.TOOL_CALLS  # other servers end every reply alike
        return FinishReason.OTHER if reason is FinishReason.TOOL_CALLS and not calls else reason


def _is_no_count(value: object) -> bool:
    return not isinstance(value, Mapping) and as_tokens(value) is None


def _hosted(block: Object) -> str:
    """Return which tool of the vendor has made *block*; empty if none has."""
    kind = as_text(block.get("type"))
    if kind in ("server_tool_use", "mcp_tool_use"):
        return as_text(block.get("name"))
    return kind.removesuffix("_tool_result") if kind.endswith("_tool_result") else ""
