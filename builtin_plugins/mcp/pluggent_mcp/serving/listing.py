"""Lists of several sources as one, and in pages: what resources and prompts have in common."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams

from pluggent_mcp.serving.calls import BUSY, Calls
from pluggent_mcp.serving.exchanges import Context
from pluggent_mcp.serving.read import Entry, entries, failure
from pluggent_mcp.serving.selection import Source

PAGE = 100
"""Entries in one page."""

Sources = Callable[[], Awaitable[Sequence[Source]]]
T = TypeVar("T")
_LOG = logging.getLogger("pluggent.mcp.serve")


async def listed(calls: Calls, context: Context, sources: Sequence[Source]) -> list[tuple[Source, list[Entry]]]:
    """Return what each source lists, without those that fail. Raises MCPError if there is no other."""
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
