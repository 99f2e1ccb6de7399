"""Converts tools and their results to MCP without loss."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from jsonschema_rs import Validator
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
from pluggent_function_tools.arguments import validator
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
    ToolSpec,
    thaw,
)

_ADDS = READ_ONLY | {Effect.MEMORY, Effect.MESSAGING}
_CLOSED = frozenset({Effect.FILESYSTEM_READ, Effect.FILESYSTEM_WRITE, Effect.MEMORY})


BROKEN_PROMISE = (
    "The call has run. Its structured result is not what its schema promises, or was taken out by a policy of this"
    " host, so it is not shown."
)
_VALIDATOR, _INPUT = object(), object()


def tool(offered: HostTool, protocol: str) -> Tool:
    """Return *offered* as clients that speak *protocol* see it."""
    spec = offered.spec
    return Tool(
        name=spec.name,
        description=spec.description or None,
        input_schema=input_schema(spec),
        output_schema=_output_schema(spec, protocol),
        annotations=hints(offered.effects, idempotent=spec.idempotent),
    )


def input_schema(spec: ToolSpec) -> dict[str, Any]:
    """Return the schema of a tool's arguments, as MCP wants it; always the same one for *spec*."""
    made: dict[str, Any] = spec.memo(_INPUT, _input_schema)
    return made


def _input_schema(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "object", **cast("dict[str, Any]", thaw(spec.parameters))}


def _output_schema(spec: ToolSpec, protocol: str) -> dict[str, Any] | None:
    """Return the declared schema of structured content; older clients know only objects."""
    schema = cast("dict[str, Any]", thaw(spec.result_schema))
    return schema if schema and (protocol in MODERN_PROTOCOL_VERSIONS or schema.get("type") == "object") else None


def hints(effects: frozenset[str] | None, *, idempotent: bool = False) -> ToolAnnotations | None:
    """Return *effects* as hints of MCP; None if they are unknown: clients then assume the worst.

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


def result(output: ToolOutput, protocol: str, spec: ToolSpec | None = None) -> CallToolResult:
    """Return *output* of the tool of *spec* as an answer in *protocol*. What is for a person alone is not in it.

    Before 2026-07-28 structured content has to be an object; other data is in the text alone. Data
    that is not (any more) what the tool's schema promises is an error, which says so: clients refuse it.

    >>> result(ToolOutput("22 degrees", data={"degrees": 22}), "2025-11-25").structured_content
    {'degrees': 22}
    """
    parts = (Text(output.for_model),) if isinstance(output.for_model, str) else output.for_model
    data: Any = thaw(output.data)
    fits = data is not None and (isinstance(data, dict) or protocol in MODERN_PROTOCOL_VERSIONS)
    structured = cast("object", data) if fits else None
    content = [block for part in parts for block in _blocks(part)]
    if spec is not None and not output.is_error and not _kept(spec, structured, protocol):
        return CallToolResult(content=[TextContent(text=BROKEN_PROMISE), *content], is_error=True)
    return CallToolResult(content=content, structured_content=structured, is_error=output.is_error)


def _kept(spec: ToolSpec, data: object, protocol: str) -> bool:
    """Return whether *data* is valid for the declared schema."""
    schema = _output_schema(spec, protocol)
    if schema is None:
        return True
    checks: Validator = spec.memo(_VALIDATOR, partial(_checks, schema))
    return data is not None and checks.is_valid(cast("Any", data))


def _checks(schema: dict[str, Any], _: ToolSpec) -> Validator:
    return validator(schema)


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
            # A vendor's own part, thinking, or what a vendor holds under an id: no other vendor can read it.
            yield TextContent(text=f"[{type(part).__name__}: not shown]")


def _link(url: str, part: Image | File) -> ContentBlock:
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        if data:
            return ImageContent(data=data, mime_type=kind or part.media_type)
    name = part.filename if isinstance(part, File) and part.filename else url.rpartition("/")[2]
    return ResourceLink(uri=url, name=name or url, mime_type=part.media_type)
