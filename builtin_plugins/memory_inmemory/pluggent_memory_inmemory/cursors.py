"""Cursors of lists: where the last page ended, and which list that was. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TypeAlias

from pluggent_hookspecs import MemoryQuery, MemoryStoreError, MemoryStoreErrorKind

Position: TypeAlias = tuple[int, str]


def cursor_after(position: Position, query: MemoryQuery) -> str:
    """Return a cursor for what follows *position* in the list that *query* asks for."""
    return base64.urlsafe_b64encode(json.dumps([*position, _list_of(query)]).encode()).decode()


def position_in(query: MemoryQuery) -> Position | None:
    """Return where the page begins, None at the start.

    Raises MemoryStoreError ``invalid`` if the cursor is none, or of another list.
    """
    if query.cursor is None:
        return None
    try:
        number, key, list_of = json.loads(base64.urlsafe_b64decode(query.cursor.encode()))
        position = (int(number), str(key))
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise MemoryStoreError(MemoryStoreErrorKind.INVALID, "this is not a cursor of this store") from error
    if list_of != _list_of(query):
        raise MemoryStoreError(
            MemoryStoreErrorKind.INVALID, "the cursor belongs to another list: only limit may change between pages"
        )
    return position


def _list_of(query: MemoryQuery) -> list[object]:
    return [query.namespace, query.prefix, query.since_s, query.order, query.descending]
