"""What a message holds, as the content of a chat completions message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never

from pluggent_hookspecs import (
    Audio,
    File,
    Image,
    Json,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    VendorPart,
)

from pluggent_openai.compat import Dialect
from pluggent_openai.fields import UnsendableError, plain

Object: TypeAlias = dict[str, Any]

VENDOR = "openai"
"""The name of this wire format: the key of what only it understands."""
SIGNED = "openai:"
"""Begins the signatures of thinking that servers of this wire gave; those of other vendors mean nothing to them."""
NEVER_SENT = frozenset({"annotations"})
"""Fields of a reply's message that are kept with it and that no request has."""
SENT_BACK = frozenset({"audio", "extra_content", "reasoning_details"})
"""Fields of replies that mean nothing to another server than the one that takes them back."""


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
    """Return the content of a message that is no tool's result. Raises UnsendableError for what it cannot be."""
    if len(message.content) == 1 and type(message.content[0]) is Text:
        return message.content[0].text
    spoken = bool(message.extra) and message.role is Role.ASSISTANT and "audio" in own_fields(message.extra, dialect)
    sent = [part for part in message.content if not (spoken and isinstance(part, Audio))]
    parts = [each for part in sent if (each := _part(part, message.role, dialect)) is not None]
    if not parts:
        return None if message.tool_calls or spoken else ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


def sent_thinking(message: Message, dialect: Dialect) -> Object:
    """Return the field in which the server wants earlier thinking back, if it wants it there."""
    field = dialect.reasoning
    if not field or field == "content":
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
            case Reasoning():
                pass
            case _:
                assert_never(part)
    return "\n".join(words), media


def _part(part: Part, role: Role, dialect: Dialect) -> Object | None:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Refusal(text):
            return {"type": "refusal", "refusal": text} if dialect.refusals else {"type": "text", "text": text}
        case Reasoning():
            return _thinking(part) if role is Role.ASSISTANT and dialect.reasoning == "content" else None
        case VendorPart(vendor, value):
            return plain(value, "a VendorPart") if vendor == VENDOR else None
        case Image() | Audio() | File():
            return _media_of(part, role, dialect)
        case _:
            assert_never(part)


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
