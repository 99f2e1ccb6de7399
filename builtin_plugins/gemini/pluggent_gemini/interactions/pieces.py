"""A message of the contract as the bytes of its steps, made once for each message.

What has to be known to put messages together (which calls it makes, which one it answers) is kept with the bytes,
so that old messages are never read again.
"""

from __future__ import annotations

import base64
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

from pluggent_gemini.generate.parts import arguments_object, wire_name
from pluggent_gemini.interactions.content import media_content
from pluggent_gemini.interactions.layout import OWN, WIRE, Object, is_intact, restored, signs
from pluggent_gemini.model_traits import Model
from pluggent_gemini.words import Words

encode = msgspec.json.Encoder().encode

_UNSIGNED: Object = {
    "type": "thought",
    "signature": base64.b64encode(b"skip_thought_signature_validator").decode(),
}
"""What stands before calls that the model has not made: the words with which generateContent lets its check pass."""

Speaker: TypeAlias = Literal["user", "model", "system", "tool"]


@attrs.frozen
class Piece:
    """A message as steps, joined by commas; of a system message the text.

    ``calls`` are ids and names of calls that results have to follow, ``answers`` is the id that a result is for;
    ``beside`` is a step behind all results. ``dropped`` says that thinking was left out, ``unmarked`` that a cache
    point was.
    """

    speaker: Speaker
    steps: bytes
    calls: tuple[tuple[str, str], ...] = ()
    answers: str = ""
    beside: bytes = b""
    dropped: bool = False
    unmarked: bool = False


class Pieces:
    """Makes the pieces of messages for one model at one server, which is identified by *server*."""

    def __init__(self, name: str, model: Model, server: str) -> None:
        self._name = name
        self._model = model
        self._server = server
        self._key = f"pluggent_gemini interactions {(name, server, model.signs, model.media_results)}"

    def of(self, messages: Sequence[Message]) -> list[Piece]:
        """Return the pieces of *messages*. Raises UnsendableError."""
        key, make = self._key, self._piece
        return [message.memo(key, make) for message in messages]

    def result(self, message: Message, name: str) -> Piece:
        """Return the result in *message* of a call of the tool *name*."""
        if message.tool_call_id is None:
            raise UnsendableError("a message of role tool has no tool_call_id")
        said = [part for part in message.content if not isinstance(part, Image | Audio | File)]
        media = [media_content(p, self._server) for p in message.content if isinstance(p, Image | Audio | File)]
        text = "".join(part.text for part in said if isinstance(part, Text | Refusal))
        inside = [each for each in media if self._model.media_results and each["type"] == "image"]
        step: Object = {
            "type": "function_result",
            "call_id": message.tool_call_id,
            "name": wire_name(message.name or name),
            "result": [*([{"type": "text", "text": text}] if text else []), *inside] if inside else text,
        }
        if message.is_error:
            step["is_error"] = True
        own = [_vendor(part) for part in said if isinstance(part, VendorPart) and part.vendor == WIRE]
        beside = [*(each for each in media if each not in inside), *own]
        return Piece(
            "tool",
            encode(_joined(step, _fields_of(message), "a message of role tool")),
            answers=message.tool_call_id,
            beside=user_input(beside) if beside else b"",
            unmarked=_has_point(message),
        )

    def shown(self, part: Image | Audio | File) -> Object:
        """Return *part* as a content."""
        return media_content(part, self._server)

    def _piece(self, message: Message) -> Piece:
        match message.role:
            case Role.ASSISTANT:
                return self._reply(message)
            case Role.TOOL:
                return self.result(message, "")
            case Role.USER:
                content = [said for part in message.content for said in self._said(part)]
                fields = _fields_of(message)
                steps = encode(_joined({"type": "user_input", "content": content}, fields, "a user's message"))
                return Piece("user", steps if content or fields else b"", unmarked=_has_point(message))
            case _:
                return Piece("system", _instruction(message).encode(), unmarked=_has_point(message))

    def _said(self, part: Part) -> Iterator[Object]:
        match part:
            case Text(text) | Refusal(text):
                if text:
                    yield {"type": "text", "text": text}
            case VendorPart(vendor):
                if vendor == WIRE:
                    yield _vendor(part)
            case Reasoning() | CachePoint():
                pass  # only models think; and the vendor has no points
            case Image() | Audio() | File():
                yield media_content(part, self._server)

    # ---- replies --------------------------------------------------------------------------

    def _reply(self, message: Message) -> Piece:
        own = _own(message.extra, "a message of role assistant")
        steps = self._as_it_came(message, own)
        dropped = steps is None and (signs(own) or thoughts_in(message) > 0)
        if steps is None:
            steps = self._anew(message)
        if fields := _fields_of(message):
            steps = _with_fields(steps, fields)
        calls = tuple((call.id, wire_name(call.name)) for call in message.tool_calls)
        return Piece("model", encode(steps)[1:-1], calls, dropped=dropped, unmarked=_has_point(message))

    def _as_it_came(self, message: Message, own: Mapping[str, Json]) -> list[Object] | None:
        """Return the steps of a reply of this model as they came; None if it is another's, or was changed since."""
        if not is_intact(message, own, model=self._name, server=self._server):
            return None
        calls = [_call(call) for call in message.tool_calls]
        others = [_other(part) for part in Words.of(message).others]
        try:
            return restored(message, own, calls, others)
        except (LookupError, TypeError, ValueError, AttributeError):  # another program has written it
            return None

    def _anew(self, message: Message) -> list[Object]:
        """Return the steps of a reply that is not known to be this model's own: texts, media and calls."""
        content = [said for part in message.content for said in self._replied(part)]
        spoken: list[Object] = [{"type": "model_output", "content": content}] if content else []
        calls = [_call(call) for call in message.tool_calls]
        return [*spoken, *([dict(_UNSIGNED)] if calls and self._model.signs else []), *calls]

    def _replied(self, part: Part) -> Iterator[Object]:
        match part:
            case Text(text) | Refusal(text):
                if text:
                    yield {"type": "text", "text": text}
            case Audio(transcript=str(text)) if text:
                yield {"type": "text", "text": text}
            case Image(data=str()) | Audio():
                yield media_content(part, self._server)
            case Image() | File():
                # What another vendor has made, and where, is nothing that this one can read.
                yield {"type": "text", "text": f"({type(part).__name__.lower()} not shown)"}
            case Reasoning() | VendorPart() | CachePoint():
                pass


def user_input(content: Sequence[Object]) -> bytes:
    """Return what a user says as a step."""
    return encode({"type": "user_input", "content": content})


def _instruction(message: Message) -> str:
    if _fields_of(message):
        raise UnsendableError("extra of a system message: the system instruction is a text without fields of its own")
    for part in message.content:
        if not isinstance(part, Text | Refusal | CachePoint | Reasoning) and not _is_foreign(part):
            raise UnsendableError(f"a system message holds text only, not {type(part).__name__}")
    return "".join(part.text for part in message.content if isinstance(part, Text | Refusal))


def _is_foreign(part: Part) -> bool:
    return isinstance(part, VendorPart) and part.vendor != WIRE


def _has_point(message: Message) -> bool:
    return any(type(part) is CachePoint for part in message.content)


def _other(part: Part) -> Object:
    """Return a part of a reply as it came that is neither text nor thinking."""
    match part:
        case VendorPart():
            return _vendor(part)
        case Image() | Audio():
            return media_content(part, "")
        case _:
            raise TypeError(part)  # nothing that this vendor sends


def _call(call: ToolCall) -> Object:
    made = {
        "type": "function_call",
        "id": call.id,
        "name": wire_name(call.name),
        "arguments": msgspec.Raw(arguments_object(call.arguments)),
    }
    return _joined(made, thaw(_own(call.extra, f"call {call.id}")), f"call {call.id}")


def _vendor(part: VendorPart) -> Object:
    value = cast("Object", thaw(part.value))
    if not value:
        raise UnsendableError(f"a VendorPart of '{WIRE}' is a step or a content, and this one is empty")
    return value


def _with_fields(steps: list[Object], fields: Object) -> list[Object]:
    """Return *steps* with fields of the vendor's own in the last one that is no call."""
    place = next((at for at in range(len(steps) - 1, -1, -1) if steps[at]["type"] == "model_output"), None)
    if place is None:
        raise UnsendableError(f"extra[{WIRE!r}] of a reply that says nothing: there is no step for its fields")
    steps[place] = _joined(steps[place], fields, "a message of role assistant")
    return steps


def _own(extra: Mapping[str, Json], where: str) -> Mapping[str, Json]:
    own = extra.get(WIRE, {})
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{WIRE!r}] of {where}: expected an object, got {type(own).__name__}")
    return own


def _fields_of(message: Message) -> Object:
    """Return the vendor's fields of *message* that are not for this provider."""
    where = f"a message of role {message.role}"
    return {name: thaw(value) for name, value in _own(message.extra, where).items() if name not in OWN}


def _joined(step: Object, more: Any, where: str) -> Object:
    for name in more:
        if name in step:
            raise UnsendableError(f"extra[{WIRE!r}] of {where}: '{name}' is already set; leave it out")
    return {**step, **more}
