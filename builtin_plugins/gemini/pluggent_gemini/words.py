"""What a reply says, whatever its order, and the seal that shows whether it was changed since. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

import attrs
import msgspec
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    VendorPart,
    thaw,
)

_encode = msgspec.json.Encoder(order="sorted").encode


@attrs.frozen
class Words:
    """What a reply says, by kinds, neighbours joined."""

    texts: str
    thoughts: str
    signatures: tuple[str, ...]
    others: tuple[Part, ...]
    calls: tuple[ToolCall, ...]

    @classmethod
    def of(cls, message: Message) -> Words:
        """Return what *message* says."""
        content = message.content
        return cls(
            "".join([part.text for part in content if isinstance(part, Text)]),
            "".join([part.text for part in content if isinstance(part, Reasoning)]),
            tuple(part.signature for part in content if isinstance(part, Reasoning) and part.signature),
            tuple(part for part in content if not isinstance(part, Text | Reasoning | CachePoint)),
            message.tool_calls,
        )

    def seal(self, wire: str) -> str:
        """Return what identifies these words, with the fields that calls have for *wire*."""
        calls = [[call.id, call.name, call.arguments, _plain(call.extra.get(wire))] for call in self.calls]
        others = [_identity(part) for part in self.others]
        words = [self.texts, self.thoughts, self.signatures, others, calls]
        return hashlib.sha256(_encode(words)).hexdigest()[:32]


def _identity(part: Part) -> list[Any]:
    match part:
        case VendorPart(vendor, value):
            return [vendor, _plain(value)]
        case Image(data=data, media_type=kind) | Audio(data=data, format=kind):
            return [type(part).__name__, kind, data]
        case Refusal(text):
            return ["Refusal", text]
        case _:
            return [type(part).__name__]


def _plain(value: Any) -> Any:
    return None if value is None else thaw(value)
