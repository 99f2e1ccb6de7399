"""A message of the contract as the bytes of its parts, made once for each message.

What has to be known to put messages together (which calls it makes, which one it answers)
is kept with the bytes, so that old messages are never read again.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

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
    thaw,
)
from pluggent_provider_http.left_out import thoughts_in
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.generate.layout import OWN, SIGNATURE, WIRE, Object, is_intact, restored, signs
from pluggent_gemini.media import media_part
from pluggent_gemini.model_traits import Model
from pluggent_gemini.words import Words

encode = msgspec.json.Encoder().encode

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_BAD_LETTER = re.compile(r"[^a-zA-Z0-9_.:-]")
_LONGEST_NAME = 128
_UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
"""What the vendor takes in place of a signature on a call that its model has not made."""

Speaker: TypeAlias = Literal["user", "model", "system", "tool"]


@attrs.frozen
class Piece:
    """A message as it goes into a request.

    ``parts`` are joined by commas; ``content`` is the message as a content of its own, empty if it has to be put
    together with others. ``calls`` are ids and names of calls that results have to follow, ``answers`` is
    the id that a result is for; ``beside`` are parts of a result that stand behind all results. ``fields`` are the
    vendor's own, of the content. ``dropped`` says that thinking or signatures were left out, ``unmarked`` that a
    cache point was.
    """

    speaker: Speaker
    parts: bytes
    calls: tuple[tuple[str, str], ...] = ()
    answers: str = ""
    beside: bytes = b""
    fields: Mapping[str, Any] | None = None
    dropped: bool = False
    unmarked: bool = False
    content: bytes = attrs.field(init=False, default=b"")

    def __attrs_post_init__(self) -> None:
        # Nearly all messages are: joined once, and not with each request.
        if self.parts and self.speaker != "system" and not self.beside:
            role = b"model" if self.speaker == "model" else b"user"
            object.__setattr__(self, "content", content_of(role, self.parts, self))


def content_of(role: bytes, parts: bytes, *run: Piece) -> bytes:
    """Return *parts*, joined by commas, as a content with the fields of the pieces in *run*."""
    fields: dict[str, Any] = {}
    for piece in run:
        fields |= (piece.fields or {}) if piece.speaker != "tool" else {}
    more = b",%b" % encode(fields)[1:-1] if fields else b""
    return b'{"role":"%b","parts":[%b]%b}' % (role, parts, more)


def fits(name: str) -> bool:
    """Say whether the API takes *name* for a tool."""
    return _NAME.fullmatch(name) is not None


def wire_name(given: str) -> str:
    """Return the name of a tool as the API accepts it in an earlier call.

    >>> wire_name("weather"), wire_name("9 lives")
    ('weather', '_9_lives')
    """
    if fits(given):
        return given
    name = _BAD_LETTER.sub("_", given)
    return (name if name[:1].isalpha() else f"_{name}")[:_LONGEST_NAME]


class Pieces:
    """Makes the pieces of messages for one model at one server, which is identified by *server*."""

    def __init__(self, name: str, model: Model, server: str) -> None:
        self._name = name
        self._model = model
        self._server = server
        traits = (name, server, model.signs, model.media_results)
        self._key = f"pluggent_gemini piece {traits}"

    def of(self, messages: Sequence[Message]) -> list[Piece]:
        """Return the pieces of *messages*. Raises UnsendableError."""
        key, make = self._key, self._piece
        return Message.memos(messages, key, make)

    def result(self, message: Message, name: str) -> Piece:
        """Return the result in *message* of a call of the tool *name*."""
        if message.tool_call_id is None:
            raise UnsendableError("a message of role tool has no tool_call_id")
        said = [part for part in message.content if not isinstance(part, Image | Audio | File)]
        media = [media_part(part, self._server) for part in message.content if isinstance(part, Image | Audio | File)]
        text = "".join(part.text for part in said if isinstance(part, Text | Refusal))
        inside = [part for part in media if self._model.media_results and "inlineData" in part]
        result: Object = {
            "id": message.tool_call_id,
            "name": wire_name(message.name or name),
            "response": {"error" if message.is_error else "output": text},
        }
        if inside:
            result["parts"] = inside
        result = _joined(result, _fields_of(message) or {}, "a message of role tool")
        own = [_vendor(part) for part in said if isinstance(part, VendorPart) and part.vendor == WIRE]
        beside = [*(part for part in media if part not in inside), *own]
        return Piece(
            "tool",
            encode({"functionResponse": result}),
            answers=message.tool_call_id,
            beside=encode(beside)[1:-1],
            unmarked=_has_point(message),
        )

    def _piece(self, message: Message) -> Piece:
        match message.role:
            case Role.ASSISTANT:
                return self._reply(message)
            case Role.TOOL:
                return self.result(message, "")
            case role:
                speaker: Speaker = "user" if role is Role.USER else "system"
                parts = [said for part in message.content for said in self._said(part, speaker)]
                unmarked = _has_point(message)
                return Piece(speaker, encode(parts)[1:-1], fields=_fields_of(message), unmarked=unmarked)

    def _said(self, part: Part, speaker: Speaker) -> Iterator[Object]:
        match part:
            case Text(text) | Refusal(text):
                if text:
                    yield {"text": text}
            case VendorPart(vendor):
                if vendor == WIRE:
                    yield _vendor(part)
            case Reasoning() | CachePoint():
                pass  # only models think; and the vendor has no points
            case Image() | Audio() | File():
                if speaker == "system":
                    raise UnsendableError(f"a system message holds text only, not {type(part).__name__}")
                yield media_part(part, self._server)

    # ---- replies --------------------------------------------------------------------------

    def _reply(self, message: Message) -> Piece:
        own = _own(message.extra, "a message of role assistant")
        parts = self._as_it_came(message, own)
        dropped = parts is None and (signs(message, own) or thoughts_in(message) > 0)
        if parts is None:
            parts = [*(said for part in message.content for said in self._replied(part)), *self._calls(message)]
        calls = tuple((call.id, wire_name(call.name)) for call in message.tool_calls)
        fields, unmarked = _fields_of(message), _has_point(message)
        return Piece("model", encode(parts)[1:-1], calls, fields=fields, dropped=dropped, unmarked=unmarked)

    def _as_it_came(self, message: Message, own: Mapping[str, Json]) -> list[Object] | None:
        """Return the parts of a reply of this model as they came; None if it is another's, or was changed since."""
        if not is_intact(message, own, model=self._name, server=self._server):
            return None
        calls = [_call(call) for call in message.tool_calls]
        others = [_other(part) for part in Words.of(message).others]
        try:
            return restored(message, own, calls, others)
        except (LookupError, TypeError, ValueError, AttributeError):  # another program has written it
            return None

    def _calls(self, message: Message) -> list[Object]:
        """Return calls whose signatures do not count here; the first says so to a model that would refuse it."""
        calls = [_call(call) for call in message.tool_calls]
        for call in calls:
            call.pop(SIGNATURE, None)
        if calls and self._model.signs:
            calls[0][SIGNATURE] = _UNSIGNED
        return calls

    def _replied(self, part: Part) -> Iterator[Object]:
        """Yield a part of a reply that is not known to be this model's own."""
        match part:
            case Text(text) | Refusal(text):
                if text:
                    yield {"text": text}
            case Audio(transcript=str(text)) if text:
                yield {"text": text}
            case Image(data=str()) | Audio():
                yield media_part(part, self._server)
            case Image() | File():
                # What another vendor has made, and where, is nothing that this one can read.
                yield {"text": f"({type(part).__name__.lower()} not shown)"}
            case Reasoning() | VendorPart() | CachePoint():
                pass


def _has_point(message: Message) -> bool:
    return any(type(part) is CachePoint for part in message.content)


def _other(part: Part) -> Object:
    """Return a part of a reply as it came that is neither text nor thinking."""
    match part:
        case VendorPart():
            return _vendor(part)
        case Image() | Audio():
            return media_part(part, "")
        case _:
            raise TypeError(part)  # nothing that this vendor sends


def _call(call: ToolCall) -> Object:
    own = cast("Object", thaw(_own(call.extra, f"call {call.id}")))
    inside = own.pop("functionCall", {})
    made = {"id": call.id, "name": wire_name(call.name), "args": msgspec.Raw(arguments_object(call.arguments))}
    if not isinstance(inside, dict):
        raise UnsendableError(f"extra[{WIRE!r}] of call {call.id}: functionCall is an object")
    made = _joined(made, cast("Object", inside), f"call {call.id}")
    return _joined({"functionCall": made}, own, f"call {call.id}")


def arguments_object(arguments: str) -> bytes:
    """Return arguments as the object that the API wants, in the model's own bytes wherever they are one."""
    data = arguments.encode("utf-8", "replace").strip() or b"{}"
    try:
        if isinstance(msgspec.json.decode(data), dict):
            return data
    except (msgspec.DecodeError, RecursionError):
        pass
    # Invalid arguments of the model: the result reports that, and the model sees what it wrote.
    return encode({"_invalid": arguments.encode("utf-8", "replace").decode()})


def _vendor(part: VendorPart) -> Object:
    value = cast("Object", thaw(part.value))
    if not value:
        raise UnsendableError("a VendorPart of 'gemini' is a part of a content, and this one is empty")
    return value


def _own(extra: Mapping[str, Json], where: str) -> Mapping[str, Json]:
    own = extra.get(WIRE, {})
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{WIRE!r}] of {where}: expected an object, got {type(own).__name__}")
    return own


def _fields_of(message: Message) -> Object | None:
    """Return the vendor's fields of *message* that are not for this provider; None if there are none."""
    where = f"a message of role {message.role}"
    fields = {name: thaw(value) for name, value in _own(message.extra, where).items() if name not in OWN}
    for name in ("role", "parts"):
        if name in fields:
            raise UnsendableError(f"extra[{WIRE!r}] of {where}: '{name}' is already set; leave it out")
    return fields or None


def _joined(item: Object, more: Mapping[str, Any], where: str) -> Object:
    for name in more:
        if name in item:
            raise UnsendableError(f"extra[{WIRE!r}] of {where}: '{name}' is already set; leave it out")
    return {**item, **more}
