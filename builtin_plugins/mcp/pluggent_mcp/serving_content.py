"""Makes what MCP knows of tools and their results: nothing is lost, and nothing is added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import (
    READ_ONLY,
    Audio,
    Effect,
    File,
    HostTool,
    Image,
    Part,
    Refusal,
    Text,
    ToolOutput,
    thaw,
)

_ADDS = READ_ONLY | {Effect.MEMORY, Effect.MESSAGING}
_CLOSED = frozenset({Effect.FILESYSTEM_READ, Effect.FILESYSTEM_WRITE, Effect.MEMORY})


def tool(offered: HostTool) -> Tool:
    """Return *offered* as clients see it."""
    spec = offered.spec
    schema = cast("dict[str, Any]", thaw(spec.parameters))
    return Tool(
        name=spec.name,
        description=spec.description or None,
        input_schema={"type": "object", **schema},
        annotations=hints(offered.effects, idempotent=spec.idempotent),
    )


def hints(effects: frozenset[str] | None, *, idempotent: bool = False) -> ToolAnnotations | None:
    """Return what *effects* say in MCP's words; None where nobody has said anything: clients then expect the worst.

    >>> hints(frozenset({"network_read"})).model_dump(exclude_none=True, by_alias=True)
    {'readOnlyHint': True, 'destructiveHint': False, 'idempotentHint': True, 'openWorldHint': True}
    """
    if effects is None:
        return None
    reads = effects <= READ_ONLY
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=not effects <= _ADDS,
        idempotent_hint=idempotent or reads,
        open_world_hint=not effects <= _CLOSED,
    )


def result(output: ToolOutput, protocol: str) -> CallToolResult:
    """Return *output* as an answer in *protocol*. What is for a person alone is not in it.

    Before 2026-07-28 structured content has to be an object; other data is in the text alone.

    >>> result(ToolOutput("22 degrees", data={"degrees": 22}), "2025-11-25").structured_content
    {'degrees': 22}
    """
    parts = (Text(output.for_model),) if isinstance(output.for_model, str) else output.for_model
    data: Any = thaw(output.data)
    fits = data is not None and (isinstance(data, dict) or protocol in MODERN_PROTOCOL_VERSIONS)
    return CallToolResult(
        content=[block for part in parts for block in _blocks(part)],
        structured_content=cast("object", data) if fits else None,
        is_error=output.is_error,
    )


def _blocks(part: Part) -> Iterator[ContentBlock]:
    match part:
        case Text(text=text) | Refusal(text=text):
            yield TextContent(text=text)
        case Image(data=str(data)):
            yield ImageContent(data=data, mime_type=part.media_type)
        case Audio():
            yield AudioContent(data=part.data, mime_type=f"audio/{part.format}")
        case File(data=str(data)):
            name = part.filename or "file"
            uri = name if "://" in name else f"attachment:///{quote(name)}"
            yield EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=part.media_type, blob=data))
        case Image(url=str(url)) | File(url=str(url)):
            yield _link(url, part)
        case _:
            # A vendor's own part, thinking, or what a vendor holds under an id: nobody else can read it.
            yield TextContent(text=f"[{type(part).__name__}: not shown]")


def _link(url: str, part: Image | File) -> ContentBlock:
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        if data:
            return ImageContent(data=data, mime_type=kind or part.media_type)
    name = part.filename if isinstance(part, File) and part.filename else url.rpartition("/")[2]
    return ResourceLink(uri=url, name=name or url, mime_type=part.media_type)
