"""Cursors of memory lists as callers get them: random, because a store's own may name a key that a policy hides."""

from __future__ import annotations

import secrets

from pluggent_hookspecs.errors import MemoryStoreError, MemoryStoreErrorKind

MOST_CURSORS = 1_024
"""How many cursors a host keeps, the newest ones."""


class Cursors:
    """The cursors that one host has given, each for one list of one principal."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, str]] = {}

    def give(self, cursor: str, place: str) -> str:
        """Return what stands for the store's *cursor* in the list *place*."""
        token = secrets.token_urlsafe(16)
        self._given[token] = (place, cursor)
        if len(self._given) > MOST_CURSORS:
            del self._given[next(iter(self._given))]
        return token

    def find(self, token: str, place: str) -> str:
        """Return the store's cursor. Raises MemoryStoreError ``invalid`` if *token* was not given for *place*."""
        found_place, cursor = self._given.get(token, ("", ""))
        if found_place != place:
            problem = (
                "this is not a cursor of this list; a host keeps the newest"
                f" {MOST_CURSORS:,} that it gave, as long as it is open"
            )
            raise MemoryStoreError(MemoryStoreErrorKind.INVALID, problem)
        return cursor
