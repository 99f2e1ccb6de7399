"""The tools of a server: listed, validated, filtered by the settings, with their effects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

import attrs
from mcp.client.client import Client
from mcp_types import Tool, ToolAnnotations
from pluggent_function_tools.arguments import validator
from pluggent_hookspecs import EMPTY, Effect

from pluggent_mcp.client.status import ServerStatus
from pluggent_mcp.invisible import is_invisible
from pluggent_mcp.settings import Server

MOST_PAGES = 100
LONGEST_DESCRIPTION = 2_000
LONGEST_SCHEMA = 65_536
LONGEST_NAME = 256
LONGEST_SHOWN = 100
MOST_SHOWN = 5
"""Tools, and characters of their names, in a log."""
OTHER_WRITING = "x:mcp-write"
"""The effect of a tool that writes, is not destructive and stays in a closed world of unknown kind."""

NOTHING: Mapping[str, dict[str, Any]] = MappingProxyType({})

_KEPT = "\n\t\u200c\u200d\ufe0f"


class ListingError(Exception):
    """A server's list cannot be used."""


@attrs.frozen
class ListedTool:
    """A tool as its server defined it. ``digest`` is that of all of it, of title and schema of results too."""

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: ToolAnnotations | None
    digest: str
    result: Mapping[str, Any] = attrs.field(default=EMPTY, eq=False)
    """The schema of structured results, if declared; the host checks them."""


async def list_tools(
    client: Client, server: Server, status: ServerStatus, outputs: Mapping[str, dict[str, Any]] = NOTHING
) -> dict[str, ListedTool]:
    """Return the usable tools of *server* that the operator allows, by the server's names for them.

    *outputs* has the declared schemas of results. Invalid tools and tools with invalid schemas are
    left out and logged. Raises ListingError for a list that does not end.
    """
    found: dict[str, ListedTool] = {}
    for tool in await _listed(client, server):
        if tool.name in found:
            status.log.info("MCP server '%s': lists '%s' twice; the first stands", status.server, tool.name[:100])
        elif allowed(server, tool.name):
            offer = _checked(tool, status, outputs.get(tool.name))
            if offer is not None and _pinned(offer, server, status):
                found[tool.name] = offer
    return found


def allowed(server: Server, tool: str) -> bool:
    """Return whether the operator allows *tool*.

    >>> allowed(Server(command="x", allow=("read_*",), block=("*secret*",)), "read_secret")
    False
    """
    return _any(server.allow, tool) and not _any(server.block, tool)


def effects_of(server: Server, tool: str, hints: ToolAnnotations | None) -> tuple[str, ...] | None:
    """Return the effects of *tool*, None if no trusted source declares them.

    The setting of the operator comes first: an exact name before globs, of those the longest. Without
    it the hints of a trusted server count, with the defaults of MCP for missing ones.

    >>> effects_of(Server(command="x", effects={"read_*": ("filesystem_read",)}), "read_file", None)
    ('filesystem_read',)
    """
    if tool in server.effects:
        return server.effects[tool]
    fitting = [glob for glob in server.effects if fnmatchcase(tool, glob)]
    if fitting:
        return server.effects[max(fitting, key=lambda glob: (len(glob), glob))]
    return _hinted(hints) if server.trusted and hints is not None else None


def _hinted(hints: ToolAnnotations) -> tuple[str, ...] | None:
    given = (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint)
    if all(hint is None for hint in given):
        return None
    outside = hints.open_world_hint is not False
    if hints.read_only_hint:
        return (Effect.NETWORK_READ if outside else Effect.FILESYSTEM_READ,)
    changing = Effect.NETWORK_WRITE if outside else OTHER_WRITING
    return (changing,) if hints.destructive_hint is False else (Effect.DESTRUCTIVE, changing)


def shown(text: str, limit: int = LONGEST_DESCRIPTION) -> str:
    r"""Return *text* without invisible characters, cut to *limit* with its size.

    >>> shown("Reads a file.\u202e\U000e0041"), shown("Re\ufe01\U000e0101ads\u3164")
    ('Reads a file.', 'Reads')
    """
    seen = "".join(char for char in text[: limit * 2] if char in _KEPT or not is_invisible(char))
    return seen if len(text) <= limit else f"{seen[:limit]} [... cut: {len(text):,} characters]"


def changes(before: Mapping[str, ListedTool], after: Mapping[str, ListedTool]) -> str:
    """Return which tools changed and in what; empty if none did. New ones do not count.

    >>> old = ListedTool("add", "Adds.", {}, None, "d1")
    >>> changes({"add": old}, {"add": attrs.evolve(old, description="Adds all.", digest="d2")})
    "'add' (its description)"
    """
    changed = [
        f"'{shown(name, LONGEST_SHOWN)}' ({', '.join(_differences(old, after[name]))})"
        for name, old in before.items()
        if name in after and after[name] != old
    ]
    more = f" and {len(changed) - MOST_SHOWN} more" if len(changed) > MOST_SHOWN else ""
    return ", ".join(changed[:MOST_SHOWN]) + more


def _differences(before: ListedTool, after: ListedTool) -> list[str]:
    facts = (
        ("its description", before.description != after.description),
        ("its schema", before.schema != after.schema),
        ("the schema of its results", before.result != after.result),
        ("what it says of its effects", before.hints != after.hints),
    )
    return [fact for fact, differs in facts if differs] or ["its definition"]


async def _listed(client: Client, server: Server) -> list[Tool]:
    capabilities = client.server_capabilities
    if capabilities.tools is None:
        return []
    tools: list[Tool] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        tools += page.tools
        if len(tools) > server.max_tools:
            raise ListingError(f"it lists more than {server.max_tools} tools (max_tools)")
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in seen:
            raise ListingError("its list of tools goes in a circle")
        seen.add(cursor)
    raise ListingError(f"its list of tools has more than {MOST_PAGES} pages")


def _checked(tool: Tool, status: ServerStatus, output: dict[str, Any] | None) -> ListedTool | None:
    problem = _problem(tool)
    if problem:
        status.log.info("MCP server '%s': its tool %r is left out: %s", status.server, tool.name[:100], problem)
        return None
    hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations else None
    definition = [tool.name, tool.title, tool.description, tool.input_schema, output, hints]
    digest = hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
    words = tool.description or tool.title or ""
    return ListedTool(tool.name, words, tool.input_schema, tool.annotations, digest, _result(tool.name, output, status))


def _result(tool: str, schema: dict[str, Any] | None, status: ServerStatus) -> Mapping[str, Any]:
    problem = "" if schema is None else _no_schema(schema)
    if problem:
        status.log.info(
            "MCP server '%s': results of its tool %r are not checked: %s", status.server, tool[:100], problem
        )
    return EMPTY if schema is None or problem else schema


def _problem(tool: Tool) -> str:
    if not tool.name or len(tool.name) > LONGEST_NAME:
        return f"its name is not 1 to {LONGEST_NAME} characters long"
    return _no_schema(tool.input_schema)


def _no_schema(schema: dict[str, Any]) -> str:
    """Return why *schema* cannot be used; empty if it can."""
    if len(json.dumps(schema)) > LONGEST_SCHEMA:
        return f"its schema is longer than {LONGEST_SCHEMA:,} bytes"
    try:
        validator(schema)
    except ValueError as error:
        return f"its schema is none: {shown(str(error), 300)}"
    return ""


def _pinned(offer: ListedTool, server: Server, status: ServerStatus) -> bool:
    pin = server.pins.get(offer.name)
    if pin is None or offer.digest.startswith(pin):
        return True
    status.log.warning(
        "MCP server '%s': its tool '%s' is left out: its definition has changed since it was pinned. Look at it, and"
        " if it is well, pin %s", status.server, offer.name, offer.digest[:16],
    )  # fmt: skip
    return False


def _any(globs: tuple[str, ...], tool: str) -> bool:
    return any(fnmatchcase(tool, glob) for glob in globs)
