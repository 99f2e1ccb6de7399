"""Estimates tokens before a vendor has counted them: of a request, and of a reply that broke off.

Rough on purpose. A token is taken for 4 bytes of UTF-8: a rough mean of English text (OpenAI's help pages), and
about right for scripts in which a character is a token. Pictures, sound and documents are counted by what large
vendors say of theirs, on the high side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import assert_never

import attrs
from pluggent_hookspecs import Json, thaw
from pluggent_hookspecs.messages import (
    Audio,
    CachePoint,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from pluggent_hookspecs.models import ModelRequest, Reply
from pluggent_hookspecs.tools import ToolSpec

BYTES_A_TOKEN = 4
IMAGE_TOKENS = 1_600
"""A picture that need not be scaled down has at most about so many (Anthropic's guide to vision)."""
LOW_IMAGE_TOKENS = 85
"""A picture at detail ``low`` has always so many (OpenAI's guide to vision)."""
AUDIO_BYTES_A_TOKEN = 1_600
"""10 tokens a second (OpenAI's guide to audio) of MP3 at 128 kbit/s."""
FILE_BYTES_A_TOKEN = 20
"""A page of a PDF has up to 3,000 tokens (Anthropic's guide to PDFs), and seldom less than 60 KB with its pictures."""
ELSEWHERE_TOKENS = 3_000
"""For a document or sound that is not in the request but lies at the vendor or an address: one page."""

_MEMO = object()


def input_tokens(request: ModelRequest) -> int:
    """Return how many tokens *request* may have: its messages, calls and tools, and the form of the answer.

    Each message and each tool is counted once for all requests that it is in.
    """
    schema = request.parameters.output_schema
    weight: int = sum(Message.memos(request.messages, _MEMO, _of_message))
    weight += sum(spec.memo(_MEMO, _of_tool) for spec in request.tools)
    return (weight + (_of_json(schema) if schema else 0)) // BYTES_A_TOKEN


def used_so_far(request: ModelRequest, reply: Reply) -> Usage:
    """Return what a call whose *reply* broke off may have used: what the vendor reported, and what came after that."""
    reported = reply.usage
    counted = 0 if reported.output is None else _of_message(reply.reported())
    output = (_of_message(reply.so_far()) - counted) // BYTES_A_TOKEN
    if reported.input is not None and reported.output is not None and output <= 0:
        return reported
    given = input_tokens(request) if reported.input is None else reported.input
    return attrs.evolve(reported, input=given, output=(reported.output or 0) + max(0, output), estimated=True)


# What follows counts bytes, and takes a token for BYTES_A_TOKEN of them.


def _of_message(message: Message) -> int:
    content, calls = message.content, message.tool_calls
    if not calls and len(content) == 1 and isinstance(content[0], Text):
        return _of_text(content[0].text)
    return sum(map(_of_part, content)) + sum(map(_of_call, calls))


def _of_call(call: ToolCall) -> int:
    return _of_text(call.name) + _of_text(call.arguments)


def _of_tool(spec: ToolSpec) -> int:
    return _of_text(spec.name) + _of_text(spec.description) + _of_json(spec.parameters)


def _of_json(value: Mapping[str, Json]) -> int:
    return _of_text(json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":")))


def _of_part(part: Part) -> int:
    match part:
        case Text(text) | Refusal(text):
            return _of_text(text)
        case Reasoning(text, signature):
            return _of_text(text) + len(signature or "")
        case Image(detail=detail):
            return (LOW_IMAGE_TOKENS if detail == "low" else IMAGE_TOKENS) * BYTES_A_TOKEN
        case Audio(data):
            return _decoded(data) // AUDIO_BYTES_A_TOKEN * BYTES_A_TOKEN
        case File(data=data, media_type=kind):
            if data is None:
                return ELSEWHERE_TOKENS * BYTES_A_TOKEN
            size = _decoded(data)
            return size if kind.startswith("text/") else size // FILE_BYTES_A_TOKEN * BYTES_A_TOKEN
        case VendorPart(value=value):
            return len(repr(value))  # whatever a vendor has put there
        case CachePoint():
            return 0
        case _:
            assert_never(part)


def _of_text(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _decoded(base64: str) -> int:
    return len(base64) * 3 // 4
