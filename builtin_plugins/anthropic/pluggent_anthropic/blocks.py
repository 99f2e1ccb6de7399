"""A message of the contract as the bytes of its content blocks, made once for each message.

What has to be known to put messages together (which calls it makes, which one it answers)
is kept with the bytes, so that old messages are never read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    File,
    Image,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    VendorPart,
    thaw,
)
from pluggent_provider_http.content_blocks.ids import arguments_object, fitted
from pluggent_provider_http.content_blocks.order import arranged
from pluggent_provider_http.content_blocks.turns import BlockWire, Piece, turn_of
from pluggent_provider_http.left_out import thoughts_in
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import with_fields

from pluggent_anthropic.media import Object, media_block

WIRE = "anthropic"
"""The name of this wire format, in ``extra`` and in VendorPart."""

_MEMO = "pluggent_anthropic piece"
_MEMO_NOTE = "pluggent_anthropic note"
_MEMO_ORPHAN = "pluggent_anthropic orphan"
_THINKING = frozenset({"thinking", "redacted_thinking"})
_OURS = frozenset({"model", "blocks", "cache_control"})
_OWN_MESSAGE = frozenset({"role", "content"})
_OWN_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})
_OWN_CALL = frozenset({"type", "id", "name", "input"})

Shown: TypeAlias = Text | Image | Audio | File | Refusal | Reasoning | VendorPart
"""The parts that are blocks by themselves."""

encode = msgspec.json.Encoder().encode


class MessagesBlocks(BlockWire):
    """The Messages API as a wire of content blocks."""

    def piece(self, message: Message) -> Piece:
        """Return the piece of *message*."""
        return message.memo(_MEMO, _piece)

    def reply(self, message: Message, *, renamed: Mapping[int, str], without: frozenset[str], final: bool) -> Piece:
        """Return a reply as it goes back."""
        return _assistant_piece(message, renamed=renamed, without=without, final=final)

    def result(self, message: Message, call_id: str) -> Piece:
        """Return the result in *message* as the answer to *call_id*."""
        return _result_piece(message, call_id)

    def no_result(self, call_id: str, words: str) -> bytes:
        """Return a failed result that says *words*."""
        return encode({"type": "tool_result", "tool_use_id": call_id, "content": words, "is_error": True})

    def text(self, words: str) -> bytes:
        """Return the block that says *words*."""
        return encode(_text(words, {}))

    def note(self, message: Message) -> bytes:
        """Return a system message as a block of a user's turn."""
        return message.memo(_MEMO_NOTE, _note)

    def orphan(self, message: Message) -> bytes:
        """Return a result without a call as ordinary content."""
        return message.memo(_MEMO_ORPHAN, _orphan)


def _text(words: str, fields: Object) -> Object:
    return {"type": "text", "text": words, **fields}


def _wire_id(given: str) -> str:
    return fitted(given, 64)


def _wire_name(given: str) -> str:
    return fitted(given, 128)


def _piece(message: Message) -> Piece:
    if message.role is Role.ASSISTANT:
        return _assistant_piece(message)
    if message.role is Role.TOOL:
        return _result_piece(message, _wire_id(message.tool_call_id or ""))
    role: Literal["system", "user"] = "user" if message.role is Role.USER else "system"
    blocks = _marked(_with_points(message, role), message)
    fields = _fields_of(message, _OWN_MESSAGE)
    return Piece(role, turn_of(role, _joined(blocks), fields), marks=_marks(blocks), fields=fields)


def _result_piece(message: Message, call_id: str) -> Piece:
    """Return the result in *message* as the answer to the call that the request calls *call_id*."""
    if message.tool_call_id is None:
        raise UnsendableError("a message of role tool has no tool_call_id")
    points = [part for part in message.content if isinstance(part, CachePoint)]
    content = [block for part in _shown(message) for block in _said(part, "tool")]
    block: Object = {"type": "tool_result", "tool_use_id": call_id}
    if len(content) == 1 and set(content[0]) == {"type", "text"}:
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if message.is_error:
        block["is_error"] = True
    if points:
        block["cache_control"] = _control(points[-1])
    blocks = _marked([block | (_fields_of(message, _OWN_RESULT) or {})], message)
    marks = _marks([*blocks, *content])
    return Piece("tool", turn_of("user", _joined(blocks)), answers=_wire_id(message.tool_call_id), marks=marks)


def _assistant_piece(
    message: Message,
    *,
    renamed: Mapping[int, str] | None = None,
    without: frozenset[str] = frozenset(),
    final: bool = False,
) -> Piece:
    """Return a reply as it goes back.

    *renamed* are ids for calls whose own are taken, by their place; *without* names uses and
    results of the vendor's tools to leave out. A *final* one may not end in white space.
    """
    blocks = [block for block in _reply_blocks(message, renamed or {}) if not _is_of(block, without)]
    while blocks and blocks[-1]["type"] in _THINKING:
        blocks.pop()  # the API refuses a reply that ends in thinking
    if final and blocks and blocks[-1]["type"] == "text":
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    points = [part for part in message.content if isinstance(part, CachePoint)]
    if points and blocks:
        blocks[-1] = {**blocks[-1], "cache_control": _control(points[-1])}
    _marked(blocks, message)
    fields = _fields_of(message, _OWN_MESSAGE)
    opened = frozenset(block["id"] for block in blocks if _is_use(block))
    closed = frozenset(block["tool_use_id"] for block in blocks if _is_result(block))
    calls = tuple(block["id"] for block in blocks if block["type"] == "tool_use")
    thoughts = sum(block["type"] == "thinking" for block in blocks)
    return Piece(
        "assistant", turn_of("assistant", _joined(blocks), fields), calls, "", opened - closed, closed - opened,
        _marks(blocks), any(block["type"] in _THINKING for block in blocks), fields,
        thoughts < thoughts_in(message),
    )  # fmt: skip


def _is_use(block: Object) -> bool:
    kind = block["type"]
    return kind.endswith("tool_use") and kind != "tool_use" and isinstance(block.get("id"), str)


def _is_result(block: Object) -> bool:
    return block["type"].endswith("_tool_result") and isinstance(block.get("tool_use_id"), str)


def _is_of(block: Object, ids: frozenset[str]) -> bool:
    return bool(ids) and (
        (_is_use(block) and block["id"] in ids) or (_is_result(block) and block["tool_use_id"] in ids)
    )


def _reply_blocks(message: Message, renamed: Mapping[int, str]) -> list[Object]:
    extra = message.extra.get(WIRE)
    finished = extra is not None
    calls = [_call(call, renamed.get(place)) for place, call in enumerate(message.tool_calls)]
    layout = extra.get("blocks") if isinstance(extra, Mapping) else None
    if layout is not None:
        parts = [(part, list(_replied(part, finished=finished))) for part in _shown(message)]
        found = arranged(parts, calls, layout, _text)
        if found is not None:
            return found
    return [*(block for part in _shown(message) for block in _replied(part, finished=finished)), *calls]


def _shown(message: Message) -> tuple[Shown, ...]:
    """Return the parts of *message* that are blocks."""
    return tuple(part for part in message.content if not isinstance(part, CachePoint))


def _with_points(message: Message, role: Literal["user", "system"]) -> list[Object]:
    """Return the blocks of *message*, those before a CachePoint marked."""
    blocks: list[Object] = []
    for part in message.content:
        if not isinstance(part, CachePoint):
            blocks += _said(part, role)
        elif blocks:
            blocks[-1] = {**blocks[-1], "cache_control": _control(part)}
        else:
            raise UnsendableError("CachePoint: nothing stands before it in its message")
    return blocks


def _control(point: CachePoint) -> Object:
    if point.ttl not in (None, "5m", "1h"):
        raise UnsendableError(f"CachePoint: the Messages API keeps beginnings for 5m or 1h, not {point.ttl!r}")
    return {"type": "ephemeral"} if point.ttl is None else {"type": "ephemeral", "ttl": point.ttl}


def _replied(part: Shown, *, finished: bool) -> Iterator[Object]:
    """Yield a part of a reply as it goes back; *finished* says that it is a whole one of this API."""
    match part:
        case Text(text) | Refusal(text):
            if text.strip():
                yield {"type": "text", "text": text}
        case Reasoning(text, signature):
            if finished and signature:
                yield {"type": "thinking", "thinking": text, "signature": signature}
        case VendorPart(vendor, value):
            if finished and vendor == WIRE:
                yield _vendor(value)
        case Audio() if part.transcript and part.transcript.strip():
            yield {"type": "text", "text": part.transcript}
        case Image() | File() | Audio():
            # A reply takes back no media; a history that holds some, from another vendor, stays usable.
            yield {"type": "text", "text": f"({type(part).__name__.lower()} not shown)"}


def _said(part: Shown, role: Literal["user", "system", "tool"]) -> Iterator[Object]:
    match part:
        case Text(text) | Refusal(text):
            if text.strip():
                yield {"type": "text", "text": text}
        case VendorPart(vendor, value):
            if vendor == WIRE:
                yield _vendor(value)
        case Reasoning():
            pass  # in this API only models think
        case Image() | Audio() | File():
            if role == "system":
                raise UnsendableError(f"a system message holds text only, not {type(part).__name__}")
            yield media_block(part)


def _vendor(value: Mapping[str, Any]) -> Object:
    block = cast("Object", thaw(value))
    if not isinstance(block.get("type"), str):
        raise UnsendableError("a VendorPart of 'anthropic' is a content block, and a content block has a type")
    return block


def _call(call: ToolCall, renamed: str | None) -> Object:
    block: Object = {
        "type": "tool_use",
        "id": renamed or _wire_id(call.id),
        "name": _wire_name(call.name),
        "input": msgspec.Raw(arguments_object(call.arguments)),
    }
    return with_fields(WIRE, block, call.extra.get(WIRE), _OWN_CALL, "extra of a tool call")


def _extra_of(message: Message) -> Mapping[str, Any]:
    extra = message.extra.get(WIRE)
    if extra is None:
        return {}
    if not isinstance(extra, Mapping):
        raise UnsendableError(f"extra of a message of role {message.role}: 'anthropic' is a table of fields")
    return cast("Mapping[str, Any]", extra)


def _fields_of(message: Message, own: frozenset[str]) -> Object | None:
    """Return the vendor's fields of *message* that are not for this provider; None if there are none."""
    fields = {name: value for name, value in _extra_of(message).items() if name not in _OURS}
    return with_fields(WIRE, {}, fields, own, f"extra of a message of role {message.role}") if fields else None


def _marked(blocks: list[Object], message: Message) -> list[Object]:
    mark = _extra_of(message).get("cache_control")
    if mark is not None and blocks:
        blocks[-1] = {**blocks[-1], "cache_control": thaw(mark)}
    return blocks


def _marks(blocks: list[Object]) -> int:
    return sum("cache_control" in block for block in blocks)


def _joined(blocks: list[Object]) -> bytes:
    return encode(blocks)[1:-1]


def _note(message: Message) -> bytes:
    if _fields_of(message, _OWN_MESSAGE):
        raise UnsendableError("extra of a system message: its fields can go only where the model takes it as a turn")
    blocks = [block for part in _shown(message) for block in _said(part, "system")]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return encode({"type": "text", "text": "<system>\n{}\n</system>".format("\n".join(texts))}) if texts else b""


def _orphan(message: Message) -> bytes:
    label = f"Result of an earlier call of {message.name or 'a tool'}{' (failed)' if message.is_error else ''}:"
    blocks = [block for part in _shown(message) for block in _said(part, "tool")]
    return _joined([{"type": "text", "text": label}, *blocks])
