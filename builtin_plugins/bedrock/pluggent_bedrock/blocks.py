"""A message of the contract as the bytes of Converse's content blocks, made once for each message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    File,
    Image,
    Message,
    Part,
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

from pluggent_bedrock.media import Object, media_block
from pluggent_bedrock.model_traits import Model

WIRE = "bedrock"
"""The name of this wire format, in ``extra`` and in VendorPart."""

_MEMO = "pluggent_bedrock piece"
_MEMO_UNMARKED = "pluggent_bedrock piece without cache points"
_MEMO_NOTE = "pluggent_bedrock note"
_MEMO_ORPHAN = "pluggent_bedrock orphan"
_OURS = frozenset({"blocks"})
_OWN_MESSAGE = frozenset({"role", "content"})
_OWN_RESULT = frozenset({"toolUseId", "content", "status"})
_OWN_CALL = frozenset({"toolUseId", "name", "input"})
_EMPTY = "(no output)"
_TTLS = (None, "5m", "1h")

encode = msgspec.json.Encoder().encode


@attrs.frozen
class ConversePiece(Piece):
    """A message as it goes into a request.

    ``documents`` are their names, which are unique in a request. ``unmarked``: a cache point was left out.
    """

    documents: tuple[str, ...] = ()
    unmarked: bool = False


class ConverseBlocks(BlockWire):
    """Converse as a wire of content blocks, for one request: no two of its documents have one name.

    ``unmarked`` counts the messages whose cache points *model* does not take.
    """

    def __init__(self, model: Model) -> None:
        self.unmarked = 0
        self._points = model.cache != "none"
        self._results_alone = model.results_alone
        self._names: set[str] = set()
        self._numbers: dict[int, int] = {}

    def piece(self, message: Message) -> ConversePiece:
        """Return the piece of *message*."""
        piece = message.memo(_MEMO, _piece) if self._points else message.memo(_MEMO_UNMARKED, _unmarked_piece)
        self.unmarked += piece.unmarked
        if not piece.documents:
            return piece
        number = 1
        while not self._names.isdisjoint(piece.documents):
            number += 1
            piece = _piece(message, number, points=self._points)
        self._names.update(piece.documents)
        self._numbers[id(message)] = number
        return piece

    def keeps_apart(self, said: Sequence[Piece]) -> bool:
        """Say whether the model refuses what a user *said* in the turn of results."""
        if self._results_alone == "documents":
            return any(isinstance(piece, ConversePiece) and piece.documents for piece in said)
        return self._results_alone == "all"

    def reply(self, message: Message, *, renamed: Mapping[int, str], without: frozenset[str], final: bool) -> Piece:
        """Return a reply as it goes back."""
        return _assistant_piece(message, renamed=renamed, without=without, final=final, points=self._points)

    def result(self, message: Message, call_id: str) -> Piece:
        """Return the result in *message* as the answer to *call_id*."""
        return _result_piece(message, call_id, self._numbers.get(id(message), 1), points=self._points)

    def no_result(self, call_id: str, words: str) -> bytes:
        """Return a failed result that says *words*."""
        return encode({"toolResult": {"toolUseId": call_id, "content": [{"text": words}], "status": "error"}})

    def text(self, words: str) -> bytes:
        """Return the block that says *words*."""
        return encode({"text": words})

    def note(self, message: Message) -> bytes:
        """Return a system message as a block of a user's turn."""
        return message.memo(_MEMO_NOTE, _note)

    def orphan(self, message: Message) -> bytes:
        """Return a result without a call as ordinary content."""
        number = self._numbers.get(id(message), 1)
        return message.memo(_MEMO_ORPHAN, _orphan) if number == 1 else _orphan(message, number)


def _unmarked_piece(message: Message) -> ConversePiece:
    return _piece(message, points=False)


def _piece(message: Message, number: int = 1, *, points: bool = True) -> ConversePiece:
    if message.role is Role.ASSISTANT:
        return _assistant_piece(message, points=points)
    if message.role is Role.TOOL:
        return _result_piece(message, _wire_id(message.tool_call_id or ""), number, points=points)
    role: Literal["system", "user"] = "user" if message.role is Role.USER else "system"
    blocks = _blocks(message, role, points=points)
    documents = _documents(blocks, number)
    if documents and not any("text" in block for block in blocks):
        blocks.append({"text": f"(attached: {', '.join(documents)})"})  # Bedrock wants a text beside a document
    fields = _fields_of(message, _OWN_MESSAGE)
    return ConversePiece(
        role, turn_of(role, _joined(blocks), fields), marks=_marks(blocks), fields=fields, documents=documents,
        unmarked=not points and _has_point(message),
    )  # fmt: skip


def _blocks(message: Message, role: Literal["user", "system", "tool"], *, points: bool) -> list[Object]:
    """Return the blocks of *message*. Raises UnsendableError."""
    blocks: list[Object] = []
    for part in message.content:
        if not isinstance(part, CachePoint):
            blocks += _said(part, role)
        elif points:
            if not blocks:
                raise UnsendableError("CachePoint: nothing stands before it in its message")
            blocks.append(_point(part))
    return blocks


def _point(point: CachePoint) -> Object:
    if point.ttl not in _TTLS:
        raise UnsendableError(f"CachePoint: Bedrock keeps beginnings for 5m or 1h, not {point.ttl!r}")
    return {"cachePoint": {"type": "default", **({} if point.ttl is None else {"ttl": point.ttl})}}


def _has_point(message: Message) -> bool:
    return any(type(part) is CachePoint for part in message.content)


def _result_piece(message: Message, call_id: str, number: int = 1, *, points: bool = True) -> ConversePiece:
    """Return the result in *message* as the answer to the call that the request calls *call_id*."""
    if message.tool_call_id is None:
        raise UnsendableError("a message of role tool has no tool_call_id")
    content = _blocks(message, "tool", points=points)
    documents = _documents(content, number)
    marks = [block for block in content if "cachePoint" in block]
    result: Object = {
        "toolUseId": call_id,
        "content": [block for block in content if "cachePoint" not in block] or [{"text": _EMPTY}],
    }
    if message.is_error:
        result["status"] = "error"
    block = {"toolResult": result | (_fields_of(message, _OWN_RESULT) or {})}
    answers = _wire_id(message.tool_call_id)
    turn = turn_of("user", _joined([block, *marks]))  # a cache point stands behind a result, never in it
    unmarked = not points and _has_point(message)
    return ConversePiece("tool", turn, answers=answers, marks=len(marks), documents=documents, unmarked=unmarked)


def _assistant_piece(
    message: Message,
    *,
    renamed: Mapping[int, str] | None = None,
    without: frozenset[str] = frozenset(),
    final: bool = False,
    points: bool = True,
) -> ConversePiece:
    blocks = [block for block in _reply_blocks(message, renamed or {}) if not _is_of(block, without)]
    while blocks and "reasoningContent" in blocks[-1]:
        blocks.pop()  # a reply that ends in thinking is refused
    if final and blocks and "text" in blocks[-1]:
        blocks[-1] = {"text": blocks[-1]["text"].rstrip()}
    wished = [part for part in message.content if isinstance(part, CachePoint)]
    if wished and points and blocks:
        blocks.append(_point(wished[-1]))  # a reply is kept as a whole
    fields = _fields_of(message, _OWN_MESSAGE)
    opened = frozenset(block["toolUse"]["toolUseId"] for block in blocks if _is_use(block))
    closed = frozenset(block["toolResult"]["toolUseId"] for block in blocks if _is_result(block))
    calls = tuple(block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block and not _is_use(block))
    thoughts = sum("reasoningText" in block.get("reasoningContent", ()) for block in blocks)
    return ConversePiece(
        "assistant", turn_of("assistant", _joined(blocks), fields), calls, "", opened - closed, closed - opened,
        _marks(blocks), any("reasoningContent" in block for block in blocks), fields,
        thoughts < thoughts_in(message), unmarked=bool(wished) and not points,
    )  # fmt: skip


def _is_use(block: Object) -> bool:
    """Whether *block* asks a tool that runs at the vendor."""
    use = _inner(block, "toolUse")
    return use.get("type") == "server_tool_use" and isinstance(use.get("toolUseId"), str)


def _is_result(block: Object) -> bool:
    return isinstance(_inner(block, "toolResult").get("toolUseId"), str)


def _inner(block: Object, name: str) -> Object:
    value = block.get(name)
    return cast("Object", value) if isinstance(value, dict) else {}


def _is_of(block: Object, ids: frozenset[str]) -> bool:
    return bool(ids) and (
        (_is_use(block) and block["toolUse"]["toolUseId"] in ids)
        or (_is_result(block) and block["toolResult"]["toolUseId"] in ids)
    )


def _reply_blocks(message: Message, renamed: Mapping[int, str]) -> list[Object]:
    extra = message.extra.get(WIRE)
    finished = extra is not None
    calls = [_call(call, renamed.get(place)) for place, call in enumerate(message.tool_calls)]
    layout = extra.get("blocks") if isinstance(extra, Mapping) else None
    shown = [part for part in message.content if not isinstance(part, CachePoint)]
    parts = [(part, list(_replied(part, finished=finished))) for part in shown]
    if layout is not None and (found := arranged(parts, calls, layout, _text)) is not None:
        return found
    return [*(block for _, blocks in parts for block in blocks), *calls]


def _text(words: str, fields: Object) -> Object:
    """Return the block of a text, which is another one where it has citations."""
    if not fields:
        return {"text": words}
    return {"citationsContent": {"content": [{"text": words}], **fields}}


def _replied(part: Part, *, finished: bool) -> Iterator[Object]:
    """Yield a part of a reply as it goes back; *finished* says that it is a whole one of this API."""
    match part:
        case Text(text) | Refusal(text):
            if text.strip():
                yield {"text": text}
        case Reasoning(text, signature):
            if finished and signature:
                yield {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
        case VendorPart(vendor, value):
            if finished and vendor == WIRE:
                yield _vendor(value)
        case CachePoint():
            pass  # it stands behind the whole reply
        case Audio() if part.transcript and part.transcript.strip():
            yield {"text": part.transcript}
        case Image() | File() | Audio():
            # A reply takes back no media; a history that holds some, from another vendor, stays usable.
            yield {"text": f"({type(part).__name__.lower()} not shown)"}


def _said(part: Part, role: Literal["user", "system", "tool"]) -> Iterator[Object]:
    match part:
        case Text(text) | Refusal(text):
            if text.strip():
                yield {"text": text}
        case VendorPart(vendor, value):
            if vendor == WIRE:
                yield _vendor(value)
        case Reasoning() | CachePoint():
            pass  # in this API only models think, and where a point goes is not said here
        case Image() | Audio() | File():
            yield _media(part, role)


def _media(part: Image | Audio | File, role: Literal["user", "system", "tool"]) -> Object:
    if role == "system":
        raise UnsendableError(f"a system message holds text only, not {type(part).__name__}")
    if isinstance(part, Audio) and (part.transcript or role == "tool"):
        if not part.transcript:
            raise UnsendableError("a result holds no Audio without a transcript")
        return {"text": part.transcript}
    return media_block(part)


def _vendor(value: Mapping[str, Any]) -> Object:
    block = cast("Object", thaw(value))
    if len(block) != 1:
        raise UnsendableError("a VendorPart of 'bedrock' is a content block, an object with one member")
    return block


def _documents(blocks: list[Object], number: int) -> tuple[str, ...]:
    """Return the names of documents. Those that occur twice get a *number*, from it on."""
    documents = [block["document"] for block in blocks if isinstance(block.get("document"), dict)]
    names: list[str] = []
    for document in documents:
        given, again = str(document.get("name")), number
        while (name := given if again == 1 else f"{given} ({again})") in names:
            again += 1
        document["name"] = name
        names.append(name)
    return tuple(names)


def _call(call: ToolCall, renamed: str | None) -> Object:
    use: Object = {
        "toolUseId": renamed or _wire_id(call.id),
        "name": fitted(call.name, 64),
        "input": msgspec.Raw(arguments_object(call.arguments)),
    }
    return {"toolUse": with_fields(WIRE, use, call.extra.get(WIRE), _OWN_CALL, "extra of a tool call")}


def _wire_id(given: str) -> str:
    return fitted(given, 64, also=".:")


def _fields_of(message: Message, own: frozenset[str]) -> Object | None:
    """Return the vendor's fields of *message* that are not for this provider; None if there are none."""
    where = f"extra of a message of role {message.role}"
    fields = with_fields(WIRE, {}, message.extra.get(WIRE), own, where)
    return {name: value for name, value in fields.items() if name not in _OURS} or None


def _marks(blocks: list[Object]) -> int:
    return sum("cachePoint" in block for block in blocks)


def _joined(blocks: list[Object]) -> bytes:
    return encode(blocks)[1:-1]


def _note(message: Message) -> bytes:
    if _fields_of(message, _OWN_MESSAGE):
        raise UnsendableError("extra of a system message: its fields can go only where the model takes it as a turn")
    texts = [block["text"] for part in message.content for block in _said(part, "system") if "text" in block]
    return encode({"text": "<system>\n{}\n</system>".format("\n".join(texts))}) if texts else b""


def _orphan(message: Message, number: int = 1) -> bytes:
    label = f"Result of an earlier call of {message.name or 'a tool'}{' (failed)' if message.is_error else ''}:"
    blocks = [block for part in message.content for block in _said(part, "tool")]
    _documents(blocks, number)
    return _joined([{"text": label}, *blocks])
