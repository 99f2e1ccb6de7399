"""What a memory store promises. Namespaces are a column, not a prefix: ``a`` never sees ``a:b``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze_object
from pluggent_hookspecs._value import Value

__all__ = ["MemoryAccess", "MemoryHit", "MemoryItem", "MemoryPage", "MemoryQuery", "MemoryStore"]


@attrs.frozen(repr=False)
class MemoryItem(Value):
    """One thing remembered. ``(namespace, key)`` is its identity.

    ``created_s`` and ``updated_s`` are seconds since the epoch, set by the store on saving
    (0 = not saved yet); what an item says of them is ignored. Saving again keeps ``created_s``, unless
    the item's time was over. ``ttl_s`` is seconds to live from the last save, None for ever.
    ``value`` is how much it is worth keeping, used by eviction by recall value.
    """

    namespace: str
    key: str
    text: str
    data: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    ttl_s: float | None = None
    value: float = 0.0
    created_s: float = 0.0
    updated_s: float = 0.0


@attrs.frozen(repr=False)
class MemoryQuery(Value):
    """Which items to list: all of one namespace whose key begins with ``prefix``, taken literally.

    ``since_s`` keeps items updated strictly later. ``order``: keys by the numbers of their characters
    (Unicode code points); ``created`` and ``updated`` as they were saved, also within one instant and
    within one ``save``. ``limit`` is 1 or more. ``cursor`` is what the last page gave.
    """

    namespace: str
    prefix: str = ""
    since_s: float | None = None
    order: Literal["key", "created", "updated"] = "key"
    descending: bool = False
    limit: int = 100
    cursor: str | None = None


@attrs.frozen(repr=False)
class MemoryPage(Value):
    """Some items in order; ``cursor`` leads to the next page, None ends the list (also after a full page)."""

    items: tuple[MemoryItem, ...]
    cursor: str | None = None


@attrs.frozen(repr=False)
class MemoryHit(Value):
    """One item that a search found; a higher ``score`` is a better match (0 < score ≤ 1)."""

    item: MemoryItem
    score: float


class MemoryAccess(Protocol):
    """The calls of a store, whether made on it directly (by the host) or through policies."""

    async def save(self, items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
        """Insert or replace all *items*, or none of them; return them as stored, in the order given.

        Of two items with one identity the later one counts. Nothing to save is no error.
        """
        ...

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, None if there is none or its time is over."""
        ...

    async def delete(self, namespace: str, key: str) -> bool:
        """Forget the item; return whether there was one whose time was not over."""
        ...

    async def list(self, query: MemoryQuery) -> MemoryPage:
        """Return one page. Items saved or deleted between two pages neither repeat nor hide others.

        Raises MemoryStoreError ``invalid`` for a cursor that no list has given, and for a limit below 1.
        """
        ...

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        """Return the items that match *text* best, best first; empty for empty text.

        *text* is words, without any syntax: case and punctuation do not matter, one word that the item's
        latest text has is enough, and more of them match better. In scripts without spaces, such as
        Chinese, two characters in a row are a word. Raises MemoryStoreError ``invalid`` for a limit below 1.
        """
        ...


@runtime_checkable
class MemoryStore(MemoryAccess, Protocol):
    """A backend. All calls raise MemoryStoreError and nothing else on purpose.

    Calls may overlap; a cancelled ``save`` has stored all of its items or none. Empty
    namespaces and keys are refused (``invalid``) by every call; all others are kept apart character
    by character (case, spaces and the forms of accents count). Texts and data come back as they were
    saved, also those of some megabytes. An item whose time is over is gone at once, for every call.
    """

    @property
    def name(self) -> str:
        """The short name, usually that of the entry point."""
        ...

    async def aclose(self) -> None:
        """Release everything; later calls raise MemoryStoreError ``closed``. Safe twice."""
        ...
