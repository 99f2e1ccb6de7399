"""What the cases of the memory suite are told with: stories, a clock, awkward names, short questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeAlias

import attrs
import pytest
from pluggent_hookspecs import MemoryItem, MemoryQuery, MemoryStore, MemoryStoreError, MemoryStoreErrorKind

Story: TypeAlias = Callable[[MemoryStore], Coroutine[Any, Any, None]]
Tell: TypeAlias = Callable[[Story], None]

AWKWARD = ("天气", "a:b", "a/b", "a%b", "a_b", "a*b", "a'b", 'a"b', "a\\b", " a ", "A", "ä", "a\u0308", "🎉", "a\nb")
"""Names that a store has to keep apart and give back as they are."""


@attrs.define
class Clock:
    """A clock that goes when it is told to; called, it gives seconds since the epoch."""

    now_s: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.now_s += seconds


def items(namespace: str, keys: Iterable[str]) -> list[MemoryItem]:
    """Return an item for each of *keys*."""
    return [MemoryItem(namespace, key, f"text of {key}") for key in keys]


def text_of(item: MemoryItem | None) -> str | None:
    """Return the text of *item*, None for none."""
    return item.text if item else None


async def keys_of(store: MemoryStore, query: MemoryQuery) -> list[str]:
    """Return the keys of all pages."""
    keys: list[str] = []
    while True:
        page = await store.list(query)
        keys += [item.key for item in page.items]
        if page.cursor is None:
            return keys
        query = attrs.evolve(query, cursor=page.cursor)


async def found_by(store: MemoryStore, text: str) -> list[str]:
    """Return the keys that a search in ``n`` finds, best first."""
    return [hit.item.key for hit in await store.search("n", text)]


async def refused(call: Awaitable[object]) -> MemoryStoreErrorKind:
    """Return why *call* failed; the test fails if it did not."""
    with pytest.raises(MemoryStoreError) as caught:
        await call
    return caught.value.kind
