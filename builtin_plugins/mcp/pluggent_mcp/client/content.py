"""Converts the results of a server to ToolOutput without loss; text stays the text of a tool.

The data of a resource or prompt keeps the structure of MCP, so that it can be served again:
roles, URIs, media types, and every text as it stands in the output too. Bytes are in its parts alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pluggent_hookspecs import Audio, File, Image, Part, Text, ToolOutput


def output(result: CallToolResult) -> ToolOutput:
    """Return *result* with all of its content; structured content is the output's ``data``.

    >>> output(CallToolResult(content=[TextContent(text="22 degrees")])).for_model
    '22 degrees'
    """
    parts = tuple(part for block in result.content for part in parts_of(block))
    data = result.structured_content
    if not parts and data is not None:
        parts = (Text(json.dumps(data, ensure_ascii=False, separators=(",", ":"))),)
    return ToolOutput(_shortest(parts), data=data, is_error=result.is_error)


def resource(result: ReadResourceResult) -> ToolOutput:
    """Return what was read of a resource."""
    parts = tuple(part for each in result.contents for part in _contents(each))
    return ToolOutput(_shortest(parts), data={"contents": [_made_of(each) for each in result.contents]})


def prompt(result: GetPromptResult) -> ToolOutput:
    """Return a prompt as untrusted text, each message under its role."""
    parts: list[Part] = []
    for message in result.messages:
        parts += [Text(f"[{message.role}]\n"), *parts_of(message.content)]
    data = [{"role": each.role, "content": _block(each.content)} for each in result.messages]
    return ToolOutput(_shortest(tuple(_joined(parts))), data={"messages": data})


def parts_of(block: ContentBlock) -> Iterator[Part]:
    """Return a block of content as parts."""
    match block:
        case TextContent():
            yield Text(block.text)
        case ImageContent():
            yield Image(data=block.data, media_type=block.mime_type)
        case AudioContent():
            yield Audio(block.data, block.mime_type.partition("/")[2].partition(";")[0] or "wav")
        case ResourceLink():
            yield Text(_link(block))
        case EmbeddedResource():
            yield from _contents(block.resource)


def _contents(contents: TextResourceContents | BlobResourceContents) -> Iterator[Part]:
    kind = contents.mime_type or "application/octet-stream"
    if isinstance(contents, TextResourceContents):
        yield Text(f"[{contents.uri}]\n{contents.text}")
    elif kind.startswith("image/"):
        yield Text(f"[{contents.uri}]")
        yield Image(data=contents.blob, media_type=kind)
    else:
        yield File(data=contents.blob, filename=str(contents.uri), media_type=kind)


def _link(link: ResourceLink) -> str:
    return "[resource] " + json.dumps(_linked(link), ensure_ascii=False)


def _linked(link: ResourceLink) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "uri": str(link.uri), "name": link.name, "title": link.title, "description": link.description,
        "mimeType": link.mime_type, "size": link.size,
    }  # fmt: skip
    return {key: fact for key, fact in facts.items() if fact}


def _block(block: ContentBlock) -> dict[str, Any]:
    """Return the structure of *block*, without its bytes."""
    match block:
        case TextContent():
            return {"type": block.type, "text": block.text}
        case ImageContent() | AudioContent():
            return {"type": block.type, "mimeType": block.mime_type}
        case ResourceLink():
            return {"type": block.type, **_linked(block)}
        case EmbeddedResource():
            return {"type": block.type, "resource": _made_of(block.resource)}


def _made_of(contents: TextResourceContents | BlobResourceContents) -> dict[str, Any]:
    kind = {"mimeType": contents.mime_type} if contents.mime_type else {}
    text = {"text": contents.text} if isinstance(contents, TextResourceContents) else {}
    return {"uri": str(contents.uri), **kind, **text}


def _shortest(parts: tuple[Part, ...]) -> str | tuple[Part, ...]:
    """Return a str if all parts are text."""
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, Text))
    return parts


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join texts that follow each other."""
    text = ""
    for part in parts:
        if isinstance(part, Text):
            text += part.text + ("" if part.text.endswith("\n") else "\n")
            continue
        if text:
            yield Text(text)
        text = ""
        yield part
    if text:
        yield Text(text.rstrip("\n"))
