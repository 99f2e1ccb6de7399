"""Converts tool results to resources and prompts of MCP, listed in pages.

The data of a result is served only if its text has the same words: what a result hook removes from
one of them is removed. Bytes are in the parts only, in the order of the data. A result whose text,
parts and data do not match is not served.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import attrs
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    BlobResourceContents,
    Completion,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import Audio, File, Image, Part, Refusal, Text, ToolOutput, thaw
from pydantic import BaseModel, ValidationError

from pluggent_mcp.serving.calls import BUSY, Calls
from pluggent_mcp.serving.exchanges import Context
from pluggent_mcp.serving.selection import Source

NOT_FOUND = -32_002
"""Of a resource, before 2026-07-28."""
MOST_ENTRIES = 2_000
"""Of one source, in a list."""
MOST_VALUES = 100
"""Of a completion, as MCP has it."""
DIFFERS = (
    "what {} returned is not served: text and data of the result do not say the same. A policy on results changed"
    " one of them, or the host cut it (limits.per_tool: result_bytes)"
)

_UNSAID = frozenset({"mimeType", "type", "role"})
"""Fields that need not occur in the text."""

M = TypeVar("M", bound=BaseModel)
Entry = Mapping[str, Any]


class _DiffersError(Exception):
    """Text, parts and data do not fit together."""


@attrs.frozen
class _VisibleText:
    """The visible content of a result: its text, and its bytes in order."""

    text: str
    media: Iterator[Image | Audio | File]

    def contains(self, value: Any) -> bool:
        """Return whether the text contains every string in *value*, plain or in JSON."""
        if isinstance(value, str):
            words = value.strip()
            return words in self.text or json.dumps(words, ensure_ascii=False)[1:-1] in self.text
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return all(self.contains(one) for name, one in items if name not in _UNSAID)
        return all(map(self.contains, _several(value) or ()))

    def bytes(self) -> Image | Audio | File:
        """Return the next part that is bytes."""
        part = next(self.media, None)
        if part is None or part.data is None:
            raise _DiffersError
        return part

    def end(self) -> None:
        """Raise if there are more bytes than the data names: a hook may have added them."""
        if next(self.media, None) is not None:
            raise _DiffersError


def entries(output: ToolOutput) -> tuple[list[Entry], int]:
    """Return the entries of a list, and how many are not served. Raises MCPError if it is not a list."""
    data = thaw(output.data)
    found: object = data.get("entries") if isinstance(data, dict) else None
    listed = _several(found)
    if listed is None:
        raise MCPError(INTERNAL_ERROR, DIFFERS.format("a list"))
    shown = _shown(output)
    kept = [cast("Entry", one) for one in listed[:MOST_ENTRIES] if isinstance(one, dict) and shown.contains(one)]
    return kept, len(listed) - len(kept)


def resources(listed: Sequence[Entry]) -> list[Resource]:
    """Return the resources among *listed*."""
    return _made(Resource, ({**_named(one, "uri"), "size": one.get("size")} for one in listed if "uri" in one))


def templates(listed: Sequence[Entry]) -> list[ResourceTemplate]:
    """Return the templates among *listed*."""
    found = (one for one in listed if "template" in one)
    return _made(ResourceTemplate, ({**_named(one, "template"), "uriTemplate": one["template"]} for one in found))


def prompts(listed: Sequence[Entry]) -> list[Prompt]:
    """Return the prompts among *listed*."""
    return _made(Prompt, map(_prompt, listed))


def contents(output: ToolOutput, name: str, uri: str) -> list[TextResourceContents | BlobResourceContents]:
    """Return the contents that the tool *name* read at *uri*. Raises MCPError where they are not clear."""
    return _all(name, output, _shown(output, uri), ("contents", _content))


def messages(output: ToolOutput, name: str) -> list[PromptMessage]:
    """Return the messages of the prompt that the tool *name* returned. Raises MCPError as above."""
    return _all(name, output, _shown(output), ("messages", _message))


def completion(output: ToolOutput, name: str) -> Completion:
    """Return the values that the tool *name* found, without those that its text does not have. Raises MCPError."""
    data = thaw(output.data)
    found = _several(data.get("values")) if isinstance(data, dict) else None
    if found is None:
        raise MCPError(INTERNAL_ERROR, DIFFERS.format(f"'{name}'"))
    shown = _shown(output)
    values = [value for value in found if isinstance(value, str) and shown.contains(value)]
    more = len(values) > MOST_VALUES or (isinstance(data, dict) and data.get("more") is True)
    return Completion(values=values[:MOST_VALUES], has_more=more)


def failure(output: ToolOutput, protocol: str, uri: str = "") -> MCPError:
    """Return the error for a failed call; for a resource, with its *uri*."""
    data = thaw(output.data)
    code = data.get("code") if isinstance(data, dict) else None
    if code not in (INVALID_PARAMS, NOT_FOUND):
        return MCPError(INTERNAL_ERROR, _text(output))
    return not_found(_text(output), protocol, uri) if uri else MCPError(INVALID_PARAMS, _text(output))


def not_found(text: str, protocol: str, uri: str) -> MCPError:
    """Return that there is no such resource, as *protocol* has it."""
    return MCPError(INVALID_PARAMS if protocol in MODERN_PROTOCOL_VERSIONS else NOT_FOUND, text, {"uri": uri})


# ---- inside ------------------------------------------------------------------------------


def _all(
    name: str, output: ToolOutput, shown: _VisibleText, sort: tuple[str, Callable[[Any, _VisibleText], M]]
) -> list[M]:
    """Return what the second of *sort* makes of each thing under the first in the data: of all, or raise."""
    key, make = sort
    try:
        found = [make(one, shown) for one in cast("Any", thaw(output.data))[key]]
        shown.end()
    except (_DiffersError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise MCPError(INTERNAL_ERROR, DIFFERS.format(f"'{name}'")) from error
    return found


def _content(value: Any, shown: _VisibleText) -> Any:
    if not shown.contains(value):
        raise _DiffersError
    facts = {"uri": value["uri"], "mimeType": value.get("mimeType")}
    if "text" in value:
        return TextResourceContents.model_validate({**facts, "text": value["text"]})
    part = shown.bytes()
    kind = facts["mimeType"] if isinstance(part, Audio) else part.media_type
    return BlobResourceContents.model_validate({**facts, "mimeType": kind, "blob": part.data})


def _message(value: Any, shown: _VisibleText) -> PromptMessage:
    content = value["content"]
    if not shown.contains(content):
        raise _DiffersError
    match content["type"]:
        case "image" | "audio":
            part = shown.bytes()
            kind = part.media_type if isinstance(part, Image) else content["mimeType"]
            content = {"type": content["type"], "mimeType": kind, "data": part.data}
        case "resource":
            content = {"type": "resource", "resource": _content(content["resource"], shown)}
        case _:
            content = _only(content, "type", "text", "uri", "name", "title", "description", "mimeType", "size")
    return PromptMessage.model_validate({"role": value["role"], "content": content})


def _named(entry: Entry, key: str) -> dict[str, Any]:
    facts = _only(entry, "uri", "title", "description")
    return {**facts, "name": entry.get("name") or entry[key], "mimeType": entry.get("type")}


def _prompt(entry: Entry) -> dict[str, Any]:
    given = (cast("Entry", one) for one in _several(entry.get("arguments")) or () if isinstance(one, dict))
    arguments = [_only(one, "name", "title", "description", "required") for one in given]
    return {**_only(entry, "name", "title", "description"), "arguments": arguments or None}


def _several(value: object) -> Sequence[object] | None:
    """Return a list as one, None for anything else."""
    return cast("Sequence[object]", value) if isinstance(value, list) else None


def _only(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: facts[name] for name in names if name in facts}


def _made(model: type[M], facts: Iterator[dict[str, Any]]) -> list[M]:
    made: list[M] = []
    for each in facts:
        try:
            made.append(model.model_validate({name: fact for name, fact in each.items() if fact is not None}))
        except ValidationError:
            continue  # an invalid entry is left out
    return made


def _shown(output: ToolOutput, known: str = "") -> _VisibleText:
    """Return the visible content of *output*, with *known* as part of its text."""
    parts: tuple[Part, ...] = (Text(output.for_model),) if isinstance(output.for_model, str) else output.for_model
    media = [part for part in parts if isinstance(part, Image | Audio | File)]
    names = [part.filename for part in media if isinstance(part, File) and part.filename]
    return _VisibleText("\n".join((_text(output), *names, known)), iter(media))


def _text(output: ToolOutput) -> str:
    if isinstance(output.for_model, str):
        return output.for_model
    return "\n".join(part.text for part in output.for_model if isinstance(part, Text | Refusal))


PAGE = 100
"""Entries in one page."""

Sources = Callable[[], Awaitable[Sequence[Source]]]
T = TypeVar("T")
_LOG = logging.getLogger("pluggent.mcp.serve")


async def listed(calls: Calls, context: Context, sources: Sequence[Source]) -> list[tuple[Source, list[Entry]]]:
    """Return what each source lists, without those that fail. Raises MCPError if all fail."""
    found: list[tuple[Source, list[Entry]]] = []
    failures: list[MCPError] = []
    for source in sources:
        try:
            found.append((source, await _listed_by(calls, context, source)))
        except MCPError as error:
            if error.code == BUSY:
                raise
            failures.append(error)
            _LOG.info("'%s' is not served: %s", source.lists, error)
    if failures and not found:
        raise failures[0]
    return found


async def _listed_by(calls: Calls, context: Context, source: Source) -> list[Entry]:
    output = await calls.run(context, source.lists, {})
    if output.is_error:
        raise failure(output, context.protocol_version)
    kept, missing = entries(output)
    if missing:
        _LOG.warning(
            "%d entries of '%s' are not served: its text does not have them. A policy on results took them out, or"
            " the host cut them off (limits.per_tool: result_bytes)", missing, source.lists,
        )  # fmt: skip
    return kept


def page(found: Sequence[T], params: PaginatedRequestParams | None) -> tuple[list[T], str | None]:
    """Return one page of *found*, and what to ask for the next one with. Raises MCPError for another cursor."""
    cursor = (params and params.cursor) or "0"
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < len(str(PAGE)) + 6):
        raise MCPError(INVALID_PARAMS, "that cursor is none of this server's")
    end = int(cursor) + PAGE
    return list(found[int(cursor) : end]), str(end) if end < len(found) else None
