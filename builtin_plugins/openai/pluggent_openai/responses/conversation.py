"""A conversation as input items: each message encoded once, calls next to their results. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import assert_never, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    File,
    Image,
    Json,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    VendorPart,
)
from pluggent_provider_http.left_out import thoughts_in
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.chat.content import Shown, custom_input, has_point, mark
from pluggent_openai.dialects import Dialect
from pluggent_openai.responses.layout import OWN, VENDOR, Object, restored, thoughts_of

_encode = msgspec.json.Encoder().encode
_MOST_ID_CHARS = 64
_NO_RESULT = "(no result was recorded)"
_RESULT = b'{"type":"function_call_output"'
_RESULTS: Mapping[str, bytes] = {
    "function_call": _RESULT,
    "custom_tool_call": b'{"type":"custom_tool_call_output"',
}
"""How the result of each kind of call begins."""


@attrs.frozen
class _Piece:
    """A message as input items, joined by commas.

    ``calls`` are the ids of its calls, each with the start of the item that its result will be, ``answers`` the
    id of the call whose result it is itself. ``dropped`` says that its thinking was left out, ``unmarked`` that a
    cache point was.
    """

    items: bytes
    calls: tuple[tuple[str, bytes], ...] = ()
    answers: str = ""
    dropped: bool = False
    unmarked: bool = False


class Conversation:
    """Writes conversations for one server, which is told by *server*; without *thinking* none goes back."""

    def __init__(self, dialect: Dialect, server: str, *, thinking: bool) -> None:
        self._dialect = dialect
        self._server = server
        self._thinking = thinking
        depends_on = (server, thinking, dialect.developer, dialect.custom_tools, dialect.cache)
        self._key = f"pluggent_openai responses message {depends_on}"

    def encode(self, messages: Sequence[Message]) -> tuple[bytes, int, int]:
        """Return *messages* as input, of how many the thinking was left out, and of how many a cache point.

        Raises UnsendableError.
        """
        key, make = self._key, self._piece
        pieces = [message.memo(key, make) for message in messages]
        items: list[bytes] = []
        waiting: dict[str, bytes] = {}
        dropped = unmarked = 0
        for place, piece in enumerate(pieces):
            unmarked += piece.unmarked
            if piece.answers:
                start = waiting.pop(piece.answers, None)
                items.append(piece.items if start is _RESULT else _result(messages[place], piece, start))
                continue
            if piece.calls:
                items += _missing(waiting) if waiting else ()
                waiting = dict(piece.calls)
            if piece.items:
                items.append(piece.items)
            dropped += piece.dropped
        return b",".join([*items, *_missing(waiting)]), dropped, unmarked

    def _piece(self, message: Message) -> _Piece:
        if not has_point(message) or (self._dialect.cache and message.role is not Role.ASSISTANT):
            return self._made(message)
        # A reply has no place for it; it goes back as it came.
        rest = tuple(part for part in message.content if not isinstance(part, CachePoint))
        return attrs.evolve(self._made(attrs.evolve(message, content=rest)), unmarked=True)

    def _made(self, message: Message) -> _Piece:
        own = _own(message.extra, f"a message of role {message.role}")
        match message.role:
            case Role.ASSISTANT:
                return self._reply(message, own)
            case Role.TOOL:
                if message.tool_call_id is None:
                    raise UnsendableError("a message of role tool has no tool_call_id")
                id = _sent_id(message.tool_call_id)
                item = {"type": "function_call_output", "call_id": id, "output": _content(message)}
                return _Piece(_encode(_joined(item, own, "a message of role tool")), answers=id)
            case role:
                said = Role.SYSTEM if role is Role.DEVELOPER and not self._dialect.developer else role
                item = {"role": said.value, "content": _content(message)}
                return _Piece(_encode(_joined(item, own, f"a message of role {role}")))

    def _reply(self, message: Message, own: Mapping[str, Json]) -> _Piece:
        sent = [self._call(call) for call in message.tool_calls]
        calls = tuple((item["call_id"], _RESULTS[item["type"]]) for item in sent)
        more = {name: plain(value, name) for name, value in own.items() if name not in OWN}
        thinking = self._thinking and own.get("server") == self._server
        items = restored(message, own, sent, thinking=thinking)
        if items is None:
            items = [*(item for part in message.content if (item := _said(part)) is not None), *sent]
        thinks = bool(thoughts_of(own)) or thoughts_in(message) > 0
        dropped = thinks and not any(item.get("type") == "reasoning" for item in items)
        if more and items:
            items[-1] = {**items[-1], **more}
        return _Piece(_encode(items)[1:-1], calls, dropped=dropped)

    def _call(self, call: ToolCall) -> Object:
        own = dict(_own(call.extra, f"call {call.id}"))
        kind = own.pop("type", "function")
        called: Object = {"call_id": _sent_id(call.id), "name": call.name}
        if kind == "custom" and self._dialect.custom_tools:
            item = {"type": "custom_tool_call", **called, "input": custom_input(call.arguments)}
        else:
            item = {"type": "function_call", **called, "arguments": call.arguments}
        return _joined(item, own, f"call {call.id}")


def _own(extra: Mapping[str, Json], where: str) -> Mapping[str, Json]:
    own = extra.get(VENDOR, {})
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{VENDOR!r}] of {where}: expected an object, got {type(own).__name__}")
    return own


def _joined(item: Object, own: Mapping[str, Json], where: str) -> Object:
    for name, value in own.items():
        if name in item:
            raise UnsendableError(f"extra[{VENDOR!r}] of {where}: '{name}' is already set; leave it out")
        item[name] = plain(value, f"extra[{VENDOR!r}] of {where}: {name}")
    return item


def _result(message: Message, piece: _Piece, start: bytes | None) -> bytes:
    """Return the result of a call, which begins with *start*; None: what was said, for there is no such call."""
    if start is None:
        said = f"Returned by a tool call ({message.name or piece.answers}) that is not in this conversation:"
        label: Object = {"type": "input_text", "text": said}
        return _encode({"role": "user", "content": [label, *_parts(message)]})
    return start + piece.items.removeprefix(_RESULT)


def _missing(waiting: Mapping[str, bytes]) -> list[bytes]:
    """Return results for calls that have none: the vendor refuses a call without."""
    return [b"%b,%b" % (start, _encode({"call_id": id, "output": _NO_RESULT})[1:]) for id, start in waiting.items()]


def _sent_id(id: str) -> str:
    """Return *id* in a length that the vendor takes: the same one for the call and its result."""
    if len(id) <= _MOST_ID_CHARS:
        return id
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


# ---- parts ---------------------------------------------------------------------------------


def _said(part: Part) -> Object | None:
    """Return a part of a reply that is not known to be of this server; None for thinking, which is its writer's own."""
    match part:
        case Text(text) | Refusal(text):
            return {"role": "assistant", "content": text} if text else None
        case Audio() if part.transcript:
            return {"role": "assistant", "content": part.transcript}
        case Image() | Audio() | File():
            # A reply takes back no media; a history that holds some, from another vendor, stays usable.
            return {"role": "assistant", "content": f"({type(part).__name__.lower()} not shown)"}
        case VendorPart(vendor, value):
            return cast("Object", plain(value, "a VendorPart")) if vendor == VENDOR else None
        case Reasoning() | CachePoint():
            return None
        case _:
            assert_never(part)


def _content(message: Message) -> str | list[Object]:
    """Return what is not the model's own: one text as it is, otherwise parts. Raises UnsendableError."""
    content = message.content
    if len(content) == 1 and type(content[0]) is Text:
        return content[0].text
    return _parts(message) or ""


def _parts(message: Message) -> list[Object]:
    items: list[Object] = []
    for part in message.content:
        if isinstance(part, CachePoint):
            mark(items, part, known=True)
        elif (item := _part(part, message.role)) is not None:
            items.append(item)
    return items


def _part(part: Shown, role: Role) -> Object | None:
    match part:
        case Text(text) | Refusal(text):
            return {"type": "input_text", "text": text}
        case VendorPart(vendor, value):
            return cast("Object", plain(value, "a VendorPart")) if vendor == VENDOR else None
        case Reasoning():
            return None
        case Image():
            return _checked(_image(part), role, part)
        case File():
            return _checked(_file(part), role, part)
        case Audio():
            hint = "set api = 'chat' for a model that takes it"
            raise UnsendableError(f"Audio: the Responses API takes no sound; {hint}")
        case _:
            assert_never(part)


def _checked(item: Object, role: Role, part: Part) -> Object:
    if role not in (Role.USER, Role.TOOL):
        raise UnsendableError(f"a message of role {role} cannot hold {type(part).__name__}, only a user's message can")
    return item


def _image(part: Image) -> Object:
    item: Object = {"type": "input_image", "detail": part.detail or "auto"}
    if part.file_id is not None:
        item["file_id"] = part.file_id
    else:
        item["image_url"] = part.url if part.url is not None else _data_url(part)
    return item


def _file(part: File) -> Object:
    item: Object = {"type": "input_file"}
    if part.file_id is not None:
        return {**item, "file_id": part.file_id}
    if part.filename is not None:
        item["filename"] = part.filename
    if part.data is None and part.url is not None:
        return {**item, "file_url": part.url}
    return {**item, "file_data": _data_url(part)}


def _data_url(part: Image | File) -> str:
    if part.data is None:
        raise UnsendableError(f"{type(part).__name__} has neither data nor a reference to it")
    return f"data:{part.media_type};base64,{part.data}"
