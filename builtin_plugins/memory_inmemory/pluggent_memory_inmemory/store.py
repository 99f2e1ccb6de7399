"""The store: items by namespace and key, gone with the process."""

from __future__ import annotations

import base64
import binascii
import heapq
import json
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

import attrs
from pluggent_hookspecs import (
    MemoryHit,
    MemoryItem,
    MemoryPage,
    MemoryQuery,
    MemoryStoreError,
    MemoryStoreErrorKind,
)

from pluggent_memory_inmemory.checks import check_identity, check_items, check_limit, check_query, refuse
from pluggent_memory_inmemory.ranking import Ranking
from pluggent_memory_inmemory.settings import InMemorySettings


@attrs.define(eq=False)
class _Row:
    """An item as stored; ``created`` and ``updated`` number the saves, which no clock can disturb."""

    item: MemoryItem
    created: int
    updated: int
    gone: bool = False


@attrs.define(eq=False)
class _Space:
    """One namespace."""

    rows: dict[str, _Row] = attrs.field(factory=dict[str, _Row])
    ranking: Ranking = attrs.field(factory=Ranking)


class InMemoryStore:
    """A MemoryStore in this process's memory; see the contract for what each call promises.

    Every call works in one go, without waiting: saves are atomic, and a cancelled one has
    stored nothing or all. To be used from one event loop. ``clock`` gives seconds since the
    epoch; should it go back, time stands still here until it has caught up.

    Lists are stable by the order of saves: an item saved again while a list by ``updated`` is
    paged moves to the new end of that list, all others keep their places.

    Search is BM25 over words and, where words have no spaces, pairs of characters (Chinese,
    Japanese, Korean). A query without any word, such as an emoji, finds texts that hold it.
    """

    def __init__(
        self,
        settings: InMemorySettings = InMemorySettings(),  # noqa: B008 (frozen)
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._now = 0.0
        self._saves = 0
        self._count = 0
        self._closed = False
        self._spaces: dict[str, _Space] = {}
        self._expiring: Heap[_Row] = Heap()
        self._evictable: Heap[_Row] = Heap()

    @property
    def name(self) -> str:
        """``inmemory``."""
        return "inmemory"

    async def save(self, items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
        """Store all of *items* or none; of two with one identity the later one stays."""
        self._tick()
        batch = tuple(items)
        check_items(batch)
        self._check_room(batch)
        saved = [self._put(item) for item in batch]
        self._make_room(saved)
        return tuple(row.item for row in saved)

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, None if there is none or its time is over."""
        self._tick()
        check_identity(namespace, key)
        row = self._rows(namespace).get(key)
        return row.item if row else None

    async def delete(self, namespace: str, key: str) -> bool:
        """Forget the item; return whether there was one."""
        self._tick()
        check_identity(namespace, key)
        row = self._rows(namespace).get(key)
        if row:
            self._drop(row)
        return row is not None

    async def list(self, query: MemoryQuery) -> MemoryPage:
        """Return one page of a namespace."""
        self._tick()
        check_query(query)
        start = position_in(query)
        found = [row for row in self._rows(query.namespace).values() if _listed(row, query, start)]
        choose = heapq.nlargest if query.descending else heapq.nsmallest
        rows = choose(query.limit + 1, found, key=lambda row: _position(row, query))
        page = rows[: query.limit]
        more = len(rows) > query.limit
        cursor = cursor_after(_position(page[-1], query), query) if more else None
        return MemoryPage(tuple(row.item for row in page), cursor)

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        """Return the items that match *text* best, best first."""
        self._tick()
        refuse([] if namespace else ["the namespace is empty"])
        check_limit(limit)
        space = self._spaces.get(namespace)
        found = space.ranking.best(text, limit) if space else []
        return tuple(MemoryHit(self._spaces[namespace].rows[key].item, score) for key, score in found)

    async def aclose(self) -> None:
        """Forget everything; later calls raise MemoryStoreError ``closed``."""
        self._closed = True
        self._spaces.clear()
        self._expiring = Heap()
        self._evictable = Heap()

    def _tick(self) -> None:
        """Take the time, and forget what is over; every call begins so."""
        if self._closed:
            raise MemoryStoreError(MemoryStoreErrorKind.CLOSED, "the store 'inmemory' is closed")
        self._now = max(self._now, self._clock())
        while (first := self._expiring.first()) and first[0][0] <= self._now:
            self._drop(first[1])

    def _rows(self, namespace: str) -> dict[str, _Row]:
        space = self._spaces.get(namespace)
        return space.rows if space else {}

    def _put(self, item: MemoryItem) -> _Row:
        self._saves += 1
        old = self._rows(item.namespace).get(item.key)
        created_s = old.item.created_s if old else self._now
        stored = attrs.evolve(item, created_s=created_s, updated_s=self._now)
        row = _Row(stored, old.created if old else self._saves, self._saves)
        if old:
            self._drop(old)
        space = self._spaces.setdefault(item.namespace, _Space())
        space.rows[item.key] = row
        space.ranking.put(item.key, item.text)
        self._count += 1
        self._watch(row)
        return row

    def _watch(self, row: _Row) -> None:
        ttl_s = self._settings.default_ttl_s if row.item.ttl_s is None else row.item.ttl_s
        if ttl_s is not None:
            self._expiring.add((self._now + ttl_s, 0.0), row)
        if self._settings.max_items is not None:
            worth = row.item.value if self._settings.policy == "value" else 0.0
            self._evictable.add((worth, row.updated), row)

    def _drop(self, row: _Row) -> None:
        row.gone = True
        self._count -= 1
        space = self._spaces[row.item.namespace]
        del space.rows[row.item.key]
        space.ranking.drop(row.item.key)
        if not space.rows:
            del self._spaces[row.item.namespace]

    def _check_room(self, batch: Sequence[MemoryItem]) -> None:
        most = self._settings.max_items
        wanted = len({(item.namespace, item.key) for item in batch})
        if most is not None and wanted > most:
            refuse([f"{wanted} items at once are more than the store holds (max_items = {most})"])

    def _make_room(self, saved: Sequence[_Row]) -> None:
        """Evict until all fit; never what has just been saved, for that was promised to be stored."""
        most = self._settings.max_items
        new = {id(row) for row in saved}
        spared: list[tuple[Rank, _Row]] = []
        while most is not None and self._count > most and (taken := self._evictable.take()):
            if id(taken[1]) in new:
                spared.append(taken)
            else:
                self._drop(taken[1])
        for rank, row in spared:
            self._evictable.add(rank, row)


def _position(row: _Row, query: MemoryQuery) -> Position:
    match query.order:
        case "key":
            return (0, row.item.key)
        case "created":
            return (row.created, "")
        case "updated":
            return (row.updated, "")


def _listed(row: _Row, query: MemoryQuery, start: Position | None) -> bool:
    if not row.item.key.startswith(query.prefix):
        return False
    if query.since_s is not None and row.item.updated_s <= query.since_s:
        return False
    if start is None:
        return True
    position = _position(row, query)
    return position < start if query.descending else position > start


# ---- cursors ----------------------------------------------------------------------------


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


# ---- eviction ---------------------------------------------------------------------------


Rank: TypeAlias = tuple[float, float]


class Entry(Protocol):
    """An entry of a heap; ``gone`` says that it is skipped."""

    gone: bool


E = TypeVar("E", bound=Entry)
_SLACK = 64


class Heap(Generic[E]):
    """Entries by rank. Those that are gone are skipped, and cleared out now and then."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, E]] = []
        self._added = 0
        self._limit = _SLACK

    def add(self, rank: Rank, entry: E) -> None:
        """Put *entry* where its *rank* belongs; of equal ranks the first added goes first."""
        self._added += 1
        heapq.heappush(self._heap, (rank, self._added, entry))
        if len(self._heap) > self._limit:
            self._heap = [each for each in self._heap if not each[2].gone]
            heapq.heapify(self._heap)
            self._limit = _SLACK + 2 * len(self._heap)

    def first(self) -> tuple[Rank, E] | None:
        """Return the entry of the lowest rank, and its rank; None if there is none."""
        while self._heap and self._heap[0][2].gone:
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][2]) if self._heap else None

    def take(self) -> tuple[Rank, E] | None:
        """Return what ``first`` returns, and take it out."""
        first = self.first()
        if first is not None:
            heapq.heappop(self._heap)
        return first
