"""A conversation as input items: each message encoded once, calls next to their results. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import assert_never, cast

import attrs
import msgspec
from pluggent_hookspecs import (
    HOSTED_APPROVED,
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
from pluggent_provider_http.left_out import thinking_note, thoughts_in
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.call_pairs import NO_RESULT, are_answered
from pluggent_openai.chat.content import Shown, custom_input, has_point, mark, unmarked_note
from pluggent_openai.dialects import Dialect
from pluggent_openai.responses.layout import (
    APPROVAL,
    BEFORE,
    COMPACTION,
    OWN,
    VENDOR,
    WORDED,
    Object,
    restored,
    thoughts_of,
)  # fmt: skip

_encode = msgspec.json.Encoder().encode
_MOST_ID_CHARS = 64
_INSTRUCTIONS = (Role.SYSTEM, Role.DEVELOPER)
_RESULT = b'{"type":"function_call_output"'
_APPROVAL = b"an answer to the vendor"
_LEFT_OUT = b"nothing"
_ANSWER = "mcp_approval_response"
_RESULTS: Mapping[str, bytes] = {
    "function_call": _RESULT,
    "custom_tool_call": b'{"type":"custom_tool_call_output"',
    APPROVAL: _APPROVAL,
}
"""How the result of each kind of call begins."""


class _Piece(bytes):
    """A message as input items, joined by commas, of which there is more to say; of others the bytes are all.

    ``calls`` are the ids of its calls, each with the start of the item that its result will be, ``answers`` the
    id of the call whose result it is itself. ``dropped`` says that its thinking was left out, ``unmarked`` that a
    cache point was, ``left`` that items were that the vendor alone understands.
    """

    calls: tuple[tuple[str, bytes], ...] = ()
    answers: str = ""
    dropped = False
    unmarked = False
    left = False
    ran: tuple[str, ...] = ()
    """The approvals on which the vendor has made calls."""
    sums: str | None = None
    """What identifies the messages that its compaction stands for; None if it has none."""
    unsummed = b""
    """The same items without the compaction."""


class _Calls(_Piece):
    """A reply that ends in calls of functions with these ``ids``, and of which there is nothing else to say."""

    ids: tuple[str, ...] = ()


class _Result(_Piece):
    """The result of a call; ``checked`` as ``are_answered`` has it."""

    checked: list[bytes] | None = None


_ORDINARY = frozenset({bytes, _Calls, _Result})


_LEFT = "changed since, cut off, of another server, not encrypted, or replay_thinking = false"
_UNKNOWN = "whether this call was made is not known, so it is not made again"


@attrs.frozen
class Said:
    """Messages as input items, and of how many what was left out; ``summed`` stand in a compaction."""

    items: bytes
    dropped: int = 0
    unmarked: int = 0
    left: int = 0
    summed: int = 0
    stale: bool = False
    """Whether a compaction was left out, because it stands for other messages."""

    def notes(self) -> tuple[str, ...]:
        """Return what a person is told of it."""
        found: list[str] = []
        found += thinking_note(self.dropped, _LEFT)
        if self.left:
            found.append(f"items of the vendor in {_replies(self.left)} were left out: {_LEFT}")
        if self.stale:
            found.append("a compaction was left out, for what was said before it has changed since")
        if self.summed:
            found.append(f"{self.summed} earlier messages were not sent again: a compaction stands for them")
        return (*found, *unmarked_note(self.unmarked)) if found or self.unmarked else ()


def _replies(count: int) -> str:
    return "one earlier reply" if count == 1 else f"{count} earlier replies"


class Conversation:
    """Writes conversations for one server, which is told by *server*; without *thinking* none goes back."""

    def __init__(self, dialect: Dialect, server: str, *, thinking: bool) -> None:
        self._dialect = dialect
        self._server = server
        self._thinking = thinking
        depends_on = (server, thinking, dialect.developer, dialect.custom_tools, dialect.cache)
        self._key = f"pluggent_openai responses message {depends_on}"

    def encode(self, messages: Sequence[Message]) -> Said:
        """Return *messages* as input. Raises UnsendableError."""
        pieces = self._pieces(messages)
        distinct = set(map(type, pieces))
        if len(distinct) == 1 and bytes in distinct:
            return Said(b",".join(pieces))
        if distinct <= _ORDINARY and are_answered(pieces, _Calls, _Result):
            return Said(b",".join(pieces))
        place = max((at for at, piece in enumerate(pieces) if _sums(piece) is not None), default=-1)
        return _arranged(messages, pieces, _special(pieces)) if place < 0 else self._summed(messages, pieces, place)

    def before(self, messages: Sequence[Message]) -> str:
        """Return what identifies *messages*, instructions left out: a compaction of them stands for no others."""
        return _digest(messages, self._pieces(messages))

    def _pieces(self, messages: Sequence[Message]) -> list[bytes]:
        return Message.memos(messages, self._key, self._piece)

    def _summed(self, messages: Sequence[Message], pieces: list[bytes], place: int) -> Said:
        """Return the messages from the compaction at *place* on, and instructions, if it stands for the others."""
        if _sums(pieces[place]) == _digest(messages[:place], pieces[:place]):
            kept = [at for at, message in enumerate(messages) if at >= place or message.role in _INSTRUCTIONS]
            messages, pieces = [messages[at] for at in kept], [pieces[at] for at in kept]
            said = _arranged(messages, pieces, _special(pieces))
            return attrs.evolve(said, summed=place - kept.index(place))
        bare = [_without_sum(piece) for piece in pieces]
        return attrs.evolve(_arranged(messages, bare, _special(bare)), stale=True)

    def _piece(self, message: Message) -> bytes:
        if len(message.content) == 1 and type(message.content[0]) is Text:  # nearly all of a long history
            return self._made(message)
        if not has_point(message) or (self._dialect.cache and message.role is not Role.ASSISTANT):
            return self._made(message)
        # A reply has no place for it; it goes back as it came.
        rest = tuple(part for part in message.content if not isinstance(part, CachePoint))
        made = self._made(attrs.evolve(message, content=rest))
        piece = made if isinstance(made, _Piece) else _Piece(made)
        piece.unmarked = True
        return piece

    def _made(self, message: Message) -> bytes:
        own = _own(message.extra, f"a message of role {message.role}") if message.extra else message.extra
        match message.role:
            case Role.ASSISTANT:
                return (None if own else self._spoken(message)) or self._reply(message, own)
            case Role.TOOL:
                if message.tool_call_id is None:
                    raise UnsendableError("a message of role tool has no tool_call_id")
                id = _sent_id(message.tool_call_id)
                item = {"type": "function_call_output", "call_id": id, "output": _content(message)}
                piece = _Result(_encode(_joined(item, own, "a message of role tool")))
                piece.answers = id
                return piece
            case role:
                said = Role.SYSTEM if role is Role.DEVELOPER and not self._dialect.developer else role
                item = {"role": said.value, "content": _content(message)}
                made = _encode(_joined(item, own, f"a message of role {role}") if own else item)
                if type(item["content"]) is str and item["content"]:
                    return made
                items = [_encode(each) for part in message.content if (each := _own_item(part)) is not None]
                if items and not item["content"]:
                    return b",".join(items)
                return b",".join((made, *items)) if items else made

    def _spoken(self, message: Message) -> bytes | None:
        """Return a reply that has texts and calls of functions alone; None for any other."""
        content, calls = message.content, message.tool_calls
        if set(map(type, content)) - {Text} or any(call.hosted or call.extra for call in calls):
            return None
        texts = cast("tuple[Text, ...]", content)
        items: list[Object] = [{"role": "assistant", "content": each.text} for each in texts if each.text]
        if not calls:
            return _encode(items)[1:-1]
        piece = _Calls(_encode([*items, *[self._call(call) for call in calls]])[1:-1])
        piece.ids = tuple([_sent_id(call.id) for call in calls])
        piece.calls = tuple([(id, _RESULT) for id in piece.ids])
        return piece

    def _reply(self, message: Message, own: Mapping[str, Json]) -> bytes:
        thoughts = thoughts_of(own)
        mine = "items" not in own or own.get("server") == self._server
        thinking = self._thinking and own.get("server") == self._server
        # The vendor refuses most of its own items without the thinking that led to them.
        vendors = mine and (thinking or not thoughts)
        asks = any(call.hosted for call in message.tool_calls)
        sent = [self._call(call) for call in message.tool_calls]
        items = restored(message, own, sent, thinking=thinking, vendor=vendors) if vendors or not asks else None
        sealed = items is not None
        if items is None:
            said = (_said(part, vendors=vendors and not thoughts) for part in message.content)
            items = [*(item for item in said if item is not None), *(item for item in sent if item["type"] != APPROVAL)]
        more = {name: plain(value, name) for name, value in own.items() if name not in OWN}
        if more and items:
            items[-1] = {**items[-1], **more}
        return self._told(message, own, items, sent, sealed=sealed)

    def _told(
        self, message: Message, own: Mapping[str, Json], items: list[Object], sent: list[Object], *, sealed: bool
    ) -> bytes:
        """Return *items*, which are what is sent of a reply, and whatever there is more to say of them."""
        encoded = _encode(items)[1:-1]
        kinds = {item.get("type") for item in items}
        thinks = bool(thoughts_of(own)) or thoughts_in(message) > 0
        dropped = thinks and "reasoning" not in kinds
        parts = sum(isinstance(part, VendorPart) and part.vendor == VENDOR for part in message.content)
        left = parts > sum(item.get("type") not in WORDED and "type" in item for item in items)
        if not (sent or dropped or left or not encoded or COMPACTION in kinds or "mcp_call" in kinds):
            return encoded
        piece = _Piece(encoded)
        piece.dropped, piece.left = dropped, left
        piece.calls = tuple(
            (_sent_id(call.id), _RESULTS[item["type"]] if sealed or not call.hosted else _LEFT_OUT)
            for call, item in zip(message.tool_calls, sent, strict=True)
        )
        ran = [item.get("approval_request_id") for item in items if item.get("type") == "mcp_call"]
        piece.ran = tuple(id for id in ran if isinstance(id, str))
        if COMPACTION in kinds:
            piece.sums = str(own.get(BEFORE) or "")
            piece.unsummed = _encode([item for item in items if item.get("type") != COMPACTION])[1:-1]
        ordinary = not (dropped or left or piece.ran or COMPACTION in kinds) and encoded
        if not ordinary or not piece.calls or any(start is not _RESULT for _, start in piece.calls):
            return piece
        calls = _Calls(encoded)
        calls.calls, calls.ids = piece.calls, tuple([id for id, _ in piece.calls])
        return calls

    def _call(self, call: ToolCall) -> Object:
        if not call.extra and not call.hosted:
            id = _sent_id(call.id)
            return {"type": "function_call", "call_id": id, "name": call.name, "arguments": call.arguments}
        own = dict(_own(call.extra, f"call {call.id}"))
        kind = own.pop("type", "function")
        if call.hosted:
            item = {"type": APPROVAL, "id": call.id, "name": call.name, "arguments": call.arguments}
            return _joined(item, own, f"call {call.id}")
        called: Object = {"call_id": _sent_id(call.id), "name": call.name}
        if kind == "custom" and self._dialect.custom_tools:
            item = {"type": "custom_tool_call", **called, "input": custom_input(call.arguments)}
        else:
            item = {"type": "function_call", **called, "arguments": call.arguments}
        return _joined(item, own, f"call {call.id}")


def _sums(piece: bytes) -> str | None:
    return piece.sums if isinstance(piece, _Piece) else None


def _special(pieces: Sequence[bytes]) -> list[_Piece]:
    return [piece for piece in pieces if isinstance(piece, _Piece)]


def _without_sum(piece: bytes) -> bytes:
    if not isinstance(piece, _Piece) or piece.sums is None:
        return piece
    bare = _Piece(piece.unsummed)
    vars(bare).update(vars(piece))
    return bare


def _digest(messages: Sequence[Message], pieces: Sequence[bytes]) -> str:
    said = hashlib.sha256()
    for message, piece in zip(messages, pieces, strict=True):
        if message.role not in _INSTRUCTIONS:
            said.update(b"%d:%b" % (len(piece), piece))
    return said.hexdigest()


def _arranged(messages: Sequence[Message], pieces: Sequence[bytes], special: Sequence[_Piece]) -> Said:
    """Put each result behind its call, and one where there is none: the vendor refuses a call without."""
    answers = _Answers(messages, special)
    items: list[bytes] = []
    waiting: dict[str, bytes] = {}
    for place, piece in enumerate(pieces):
        if type(piece) is bytes:
            items.append(piece)
            continue
        assert isinstance(piece, _Piece)
        if id := piece.answers:
            start = waiting.pop(id, None)
            if start is _RESULT:
                items.append(piece)
            elif start is not _LEFT_OUT:
                items.append(answers.result(place, piece, start))
            continue
        if piece.calls:
            items += answers.missing(waiting) if waiting else ()
            waiting = dict(piece.calls)
        if piece:
            items.append(piece)
    return Said(
        b",".join([*items, *answers.missing(waiting)]),
        sum([piece.dropped for piece in special]),
        sum([piece.unmarked for piece in special]),
        sum([piece.left for piece in special]),
    )


class _Answers:
    """The results of calls that do not stand as they were made: of custom tools, of the vendor's, and missing ones."""

    def __init__(self, messages: Sequence[Message], special: Sequence[_Piece]) -> None:
        self._messages = messages
        self._special = special

    def result(self, place: int, piece: _Piece, start: bytes | None) -> bytes:
        """Return the result of a call, which begins with *start*; None: what was said, for there is no such call."""
        message = self._messages[place]
        if start is None:
            said = f"Returned by a tool call ({message.name or piece.answers}) that is not in this conversation:"
            label: Object = {"type": "input_text", "text": said}
            return _encode({"role": "user", "content": [label, *_parts(message)]})
        if start is _APPROVAL:
            return self._approval(place, message)
        return start + piece.removeprefix(_RESULT)

    def missing(self, waiting: Mapping[str, bytes]) -> list[bytes]:
        """Return results for the calls *waiting*, which have none."""
        return [_no_result(id, start) for id, start in waiting.items() if start is not _LEFT_OUT]

    def _approval(self, place: int, message: Message) -> bytes:
        """Answer for a call that the vendor makes: yes only where it is asked for now, or has been made."""
        id = str(message.tool_call_id)
        said = next((part.text for part in message.content if isinstance(part, Text)), "")
        approved = said == HOSTED_APPROVED and not message.is_error
        if approved and (self._is_last(place) or any(id in piece.ran for piece in self._special)):
            return _encode({"type": _ANSWER, "approval_request_id": id, "approve": True})
        reason = _UNKNOWN if approved else message.text or NO_RESULT
        return _encode({"type": _ANSWER, "approval_request_id": id, "approve": False, "reason": reason})

    def _is_last(self, place: int) -> bool:
        return all(message.role is Role.TOOL for message in self._messages[place:])


def _no_result(id: str, start: bytes) -> bytes:
    if start is _APPROVAL:
        answer = {"type": _ANSWER, "approval_request_id": id, "approve": False, "reason": NO_RESULT}
        return _encode(answer)
    return b"%b,%b" % (start, _encode({"call_id": id, "output": NO_RESULT})[1:])


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


def _sent_id(id: str) -> str:
    """Return *id* in a length that the vendor takes: the same one for the call and its result."""
    if len(id) <= _MOST_ID_CHARS:
        return id
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


# ---- parts ---------------------------------------------------------------------------------


def _said(part: Part, *, vendors: bool) -> Object | None:
    """Return a part of a reply that is not known to be of this server; None for thinking, which is its writer's own.

    Without *vendors* what the vendor alone understands is left out, as a compaction always is.
    """
    match part:
        case Text(text) | Refusal(text):
            return {"role": "assistant", "content": text} if text else None
        case Audio() if part.transcript:
            return {"role": "assistant", "content": part.transcript}
        case Image() | Audio() | File():
            # A reply takes back no media; a history that holds some, from another vendor, stays usable.
            return {"role": "assistant", "content": f"({type(part).__name__.lower()} not shown)"}
        case VendorPart(vendor, value):
            kept = vendors and vendor == VENDOR and value.get("type") != COMPACTION
            return cast("Object", plain(value, "a VendorPart")) if kept else None
        case Reasoning() | CachePoint():
            return None
        case _:
            assert_never(part)


def _own_item(part: Part) -> Object | None:
    """Return what of a message is an item of its own and no part of one, such as a ``configuration_update``."""
    if not isinstance(part, VendorPart) or part.vendor != VENDOR or str(part.value.get("type")).startswith("input_"):
        return None
    return cast("Object", plain(part.value, "a VendorPart"))


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
            sent = vendor == VENDOR and _own_item(part) is None
            return cast("Object", plain(value, "a VendorPart")) if sent else None
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
