"""The content and the tool calls of a message, as a chat completions message has them."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never, cast

import msgspec
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    File,
    Image,
    Json,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    VendorPart,
)
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_provider_http.vendor_fields import plain

from pluggent_openai.dialects import TAGS, Dialect

Object: TypeAlias = dict[str, Any]

VENDOR = "openai"
"""The name of this wire format: the key of what only it understands."""
SIGNED = "openai:"
"""Begins the signatures of thinking that servers of this wire gave; those of other vendors mean nothing to them."""
NEVER_SENT = frozenset({"annotations"})
"""Fields of a reply's message that are kept with it and that no request has."""
SENT_BACK = frozenset({"audio", "extra_content", "reasoning_details"})
"""Fields of replies that mean nothing to another server than the one that takes them back."""


Shown: TypeAlias = Text | Image | Audio | File | Refusal | Reasoning | VendorPart
"""The parts that are something by themselves."""


def own_fields(extra: Mapping[str, Json], dialect: Dialect) -> Mapping[str, Json]:
    """Return of *extra* what goes to a server of *dialect*: this wire's fields, without another server's."""
    own = extra.get(VENDOR)
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise UnsendableError(f"extra[{VENDOR!r}]: expected an object, got {type(own).__name__}")
    return {
        name: value
        for name, value in own.items()
        if name not in NEVER_SENT and (name not in SENT_BACK or dialect.takes_back(name))
    }


def sent_content(message: Message, dialect: Dialect) -> str | list[Object] | None:
    """Return the content of a message that is not the result of a tool. Raises UnsendableError."""
    if len(message.content) == 1 and type(message.content[0]) is Text:
        return message.content[0].text
    spoken = bool(message.extra) and message.role is Role.ASSISTANT and "audio" in own_fields(message.extra, dialect)
    sent = [part for part in message.content if not (spoken and isinstance(part, Audio))]
    parts: list[Object] = []
    for part in sent:
        if isinstance(part, CachePoint):
            mark(parts, part, known=dialect.cache)
        elif (each := _part(part, message.role, dialect)) is not None:
            parts.append(each)
    if not parts:
        return None if message.tool_calls or spoken else ""
    if (len(parts) == 1 or dialect.reasoning == TAGS) and all(part.keys() == {"type", "text"} for part in parts):
        return "".join([str(part["text"]) for part in parts])
    return parts


def mark(parts: list[Object], point: CachePoint, *, known: bool) -> None:
    """Let the last of *parts* end what the vendor keeps, if such marks are *known* to it. Raises UnsendableError."""
    if not known:
        return
    if not parts:
        raise UnsendableError("CachePoint: nothing stands before it in its message")
    how = {"mode": "explicit"} if point.ttl is None else {"mode": "explicit", "ttl": point.ttl}
    parts[-1] = {**parts[-1], "prompt_cache_breakpoint": how}


def has_point(message: Message) -> bool:
    """Whether a CachePoint is among the parts of *message*."""
    return any(type(part) is CachePoint for part in message.content)


def unmarked_note(count: int) -> tuple[str, ...]:
    """Return what a reply says of *count* messages whose cache points were left out."""
    if not count:
        return ()
    where = "a message was" if count == 1 else f"{count} messages was"
    return (f"a cache point of {where} left out: this server is not known to keep what ends there",)


def sent_thinking(message: Message, dialect: Dialect) -> Object:
    """Return the field in which the server wants earlier thinking back, if it wants it there."""
    field = dialect.reasoning
    if field in ("", "content", TAGS):
        return {}
    if dialect.takes_back("reasoning_details") and "reasoning_details" in own_fields(message.extra, dialect):
        return {}  # they say the same, unabridged
    thought = "".join(part.text for part in message.content if isinstance(part, Reasoning))
    return {field: thought} if thought or (dialect.reasoning_required and message.tool_calls) else {}


def sent_media(message: Message, dialect: Dialect) -> tuple[str, list[Object]]:
    """Return a tool's result as its text, which is all that its message takes, and the rest."""
    words: list[str] = []
    media: list[Object] = []
    for part in message.content:
        match part:
            case Text(text) | Refusal(text):
                words.append(text)
            case Image() | Audio() | File():
                media.append(_media(part, dialect))
            case VendorPart(vendor, value):
                media += [plain(value, "a VendorPart")] if vendor == VENDOR else []
            case Reasoning() | CachePoint():
                pass
            case _:
                assert_never(part)
    return "\n".join(words), media


def _part(part: Shown, role: Role, dialect: Dialect) -> Object | None:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Refusal(text):
            return {"type": "refusal", "refusal": text} if dialect.refusals else {"type": "text", "text": text}
        case Reasoning():
            return _thought(part, dialect) if role is Role.ASSISTANT else None
        case VendorPart(vendor, value):
            return plain(value, "a VendorPart") if vendor == VENDOR else None
        case Image() | Audio() | File():
            return _media_of(part, role, dialect)
        case _:
            assert_never(part)


def _thought(part: Reasoning, dialect: Dialect) -> Object | None:
    match dialect.reasoning:
        case "content":
            return _thinking(part)
        case "tags" if part.text:
            return {"type": "text", "text": f"<think>{part.text}</think>\n"}
        case _:
            return None


def _thinking(part: Reasoning) -> Object:
    # Mistral: https://docs.mistral.ai/capabilities/reasoning/
    thought: Object = {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}
    if part.signature is not None and part.signature.startswith(SIGNED):
        thought["signature"] = part.signature.removeprefix(SIGNED)
    return thought


def _media_of(part: Image | Audio | File, role: Role, dialect: Dialect) -> Object:
    if role is Role.USER:
        return _media(part, dialect)
    if role is Role.ASSISTANT:
        # Chat completions takes back no media from the assistant; a history that holds some
        # (from another provider, say) stays usable.
        spoken = part.transcript if isinstance(part, Audio) else None
        return {"type": "text", "text": spoken or f"({type(part).__name__.lower()} not shown)"}
    raise UnsendableError(f"a message of role {role} cannot hold {type(part).__name__}, only a user's message can")


def _media(part: Image | Audio | File, dialect: Dialect) -> Object:
    if isinstance(part, Audio):
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": part.format}}
    if isinstance(part, File):
        return {"type": "file", "file": _file(part, dialect)}
    image = {"url": _image_url(part)}
    if part.detail is not None:
        image["detail"] = part.detail
    return {"type": "image_url", "image_url": image}


def _image_url(part: Image) -> str:
    if part.url is not None:
        return part.url
    if part.data is None and part.file_id is not None:
        raise UnsendableError(
            "Image: chat completions takes no file_id; give url or data, or what this server takes as a "
            f"VendorPart({VENDOR!r}, {{...}})"
        )
    return _data_url(part.media_type, part.data, part)


def _file(part: File, dialect: Dialect) -> Object:
    if part.file_id is not None:
        return {"file_id": part.file_id}
    named = {} if part.filename is None else {"filename": part.filename}
    if part.data is None and part.url is not None:
        if not dialect.file_url:
            raise UnsendableError(
                "File: this server is not known to fetch files by url; give data or file_id, or set "
                "compat = { file_url = true } for this server if it does"
            )
        return {**named, "file_data": part.url}
    return {**named, "file_data": _data_url(part.media_type, part.data, part)}


def _data_url(media_type: str, data: str | None, part: Image | File) -> str:
    if data is None:
        raise UnsendableError(f"{type(part).__name__} has neither data nor a reference to it")
    return f"data:{media_type};base64,{data}"


_ID_CHARS = string.digits + string.ascii_letters


def sent_call(call: ToolCall, dialect: Dialect) -> dict[str, Any]:
    """Return *call* as a server of *dialect* takes it back. Raises UnsendableError."""
    function = {"name": call.name, "arguments": call.arguments}
    if not call.extra:
        return {"id": sent_id(call.id, dialect), "type": "function", "function": function}
    own = dict(own_fields(call.extra, dialect))
    kind = own.pop("type", "function")
    out: dict[str, Any] = {"id": sent_id(call.id, dialect), "type": kind}
    if kind == "custom" and dialect.custom_tools:
        out["custom"] = {"name": call.name, "input": custom_input(call.arguments)}
    else:
        out["type"] = "function" if kind == "custom" else kind
        out["function"] = function
    for name, value in own.items():
        where = f"extra[{VENDOR!r}] of call {call.id}"
        if name in out:
            raise UnsendableError(f"{where}: '{name}' is already set; leave it out")
        out[name] = plain(value, f"{where}: {name}")
    return out


def sent_id(call_id: str, dialect: Dialect) -> str:
    """Return *call_id* in the length that the server wants: the same one for the call and its result."""
    length = dialect.call_id_chars
    if not length or (len(call_id) == length and call_id.isascii() and call_id.isalnum()):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()
    return "".join(_ID_CHARS[byte % len(_ID_CHARS)] for byte in digest * (length // len(digest) + 1))[:length]


def custom_arguments(text: str) -> str:
    """Return the arguments of a custom tool's call: its free text, as an object.

    >>> custom_arguments("say hi")
    '{"input":"say hi"}'
    """
    return msgspec.json.encode({"input": text}).decode()


def custom_input(arguments: str) -> str:
    """Return the free text in the arguments of a custom tool's call; whatever else they are, as it is."""
    try:
        decoded: object = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):  # no JSON, or no UTF-8
        return arguments
    given = cast("Mapping[str, object]", decoded).get("input") if isinstance(decoded, Mapping) else None
    return given if isinstance(given, str) else arguments


def call_extra(fields: Mapping[str, Any], dialect: Dialect) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
    """Return what else a server said of a call: what it takes back, as ToolCall.extra, and the rest."""
    known = ("index", "id", "type", "function", "custom")
    more = {name: value for name, value in fields.items() if name not in known and value not in (None, {}, [])}
    back: dict[str, Json] = {name: value for name, value in more.items() if dialect.takes_back(name)}
    kind = fields.get("type")
    if isinstance(kind, str) and kind not in ("", "function"):
        back["type"] = kind
    rest = {name: value for name, value in more.items() if name not in back}
    return ({VENDOR: back} if back else {}), rest
