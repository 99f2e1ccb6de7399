"""Memory through policies: every call of a store is an operation."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import errors
from pluggent_hookspecs.errors import MemoryStoreError, MemoryStoreErrorKind
from pluggent_hookspecs.events import MemoryReadEvent, MemoryResultEvent, MemoryWriteEvent, Scope
from pluggent_hookspecs.memory import MemoryHit, MemoryItem, MemoryPage, MemoryQuery, MemoryStore
from pluggent_hookspecs.observations import Change

from pluggent_host.operations.operation import (
    Answered,
    Attempt,
    Decided,
    Denied,
    Hooks,
    Journal,
    Operation,
    Ready,
    Settled,
)
from pluggent_host.operations.pipeline import Operations

Settle = Callable[[Decided[Any, Any]], Awaitable[Settled[Any, Any]]]
"""Settles a decision: asks a person where one has to agree."""
OPERATION_S = 30.0
"""How long a store may take for one call."""


class _MemoryOperation(Operation[Any, Any]):
    """What reading and writing share: a digest over the request, no answers by hooks."""

    def __init__(
        self, journal: Journal, scope: Scope, id: str, capability: str, event: Any, run: Callable[[Any], Awaitable[Any]]
    ) -> None:
        super().__init__(journal, scope, id, capability, event)
        self._run = run

    def freeze(self, event: Any) -> Any:
        text = f"{self.scope.session_id}\n{self.id}\n{self.capability}\n{attrs.evolve(event, digest='')!r}"
        return attrs.evolve(event, digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())

    @property
    def limit_s(self) -> float:
        return OPERATION_S

    def response(self, value: object) -> Any:
        raise ValueError("memory is read or written, never answered in its place")

    async def execute(self, event: Any, attempt: Attempt) -> Any:
        try:
            async with asyncio.timeout(OPERATION_S):
                return await self._run(event)
        except TimeoutError as error:
            raise MemoryStoreError(
                MemoryStoreErrorKind.UNAVAILABLE, f"{self.capability} did not answer within {OPERATION_S:g} s"
            ) from error


class MemoryWriteOperation(_MemoryOperation):
    """Items saved, or keys forgotten."""

    name = "memory_write"
    hooks = Hooks("transform_memory_write", "decide_memory_write")

    def changed(self, event: MemoryWriteEvent, value: Any, plugin: str) -> MemoryWriteEvent:
        items = _items(value)
        before = {item.namespace for item in event.items}
        if items is None or not all(item.namespace in before for item in items):
            raise ValueError("returned something else than MemoryItems of the same namespace")
        return attrs.evolve(event, items=items)

    def diff(self, before: MemoryWriteEvent, after: MemoryWriteEvent) -> Change:
        return Change("", tuple(item.key for item in after.items if item not in before.items))

    async def execute(self, event: MemoryWriteEvent, attempt: Attempt) -> Any:
        if event.scope.dry_run:
            return False if event.delete else event.items
        return await super().execute(event, attempt)

    def rendered(self, event: MemoryWriteEvent) -> str:
        saved = [f"save {item.namespace}/{item.key}: {item.text}" for item in event.items]
        return "\n".join(escape_all(line) for line in [*saved, *(f"forget {ns}/{key}" for ns, key in event.delete)])


class MemoryReadOperation(_MemoryOperation):
    """One key, a list or a search. The result hooks see items; ``rebuild`` puts them back."""

    name = "memory_read"
    hooks = Hooks("", "decide_memory_read", "", "transform_memory_result")

    def result_event(self, event: MemoryReadEvent, result: tuple[MemoryItem, ...]) -> MemoryResultEvent:
        return MemoryResultEvent(event.scope, event.store, event.namespace, result)

    def changed_result(self, event: MemoryResultEvent, value: Any, plugin: str) -> MemoryResultEvent:
        items = _items(value)
        known = {(item.namespace, item.key) for item in event.items}
        if items is None or not all((item.namespace, item.key) in known for item in items):
            raise ValueError("returned something else than the items that were read, or changed ones of them")
        return attrs.evolve(event, items=items)

    def result(self, event: MemoryResultEvent) -> tuple[MemoryItem, ...]:
        return event.items

    def rendered(self, event: MemoryReadEvent) -> str:
        what = event.key if event.key is not None else event.text if event.text is not None else "a list"
        return escape_all(f"read memory {event.store}, namespace {event.namespace}: {what}")


def _items(value: object) -> tuple[MemoryItem, ...] | None:
    """Return *value* if it is a sequence of items and of nothing else."""
    given = tuple(cast("Sequence[object]", value)) if isinstance(value, Sequence) else (None,)
    items = tuple(item for item in given if isinstance(item, MemoryItem))
    return items if len(items) == len(given) else None


MOST_CURSORS = 1_024
"""How many cursors a host keeps, the newest ones."""


class Cursors:
    """The cursors that one host has given, each for one list of one principal.

    They are random, because a store's own may name a key that a policy hides.
    """

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


class Memory:
    """A memory store as tools and applications get it: MemoryAccess, each call under policy.

    Raises Denied where a policy says no, MemoryStoreError where the store fails.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[tuple[str, MemoryStore]]],
        operations: Operations,
        journal: Journal,
        scope: Scope,
        numbers: Iterator[int],
        settle: Settle,
        cursors: Cursors,
    ) -> None:
        self.__cursors = cursors
        self.__open = open_store
        self.__operations = operations
        self.__journal = journal
        self.__scope = scope
        self.__numbers = numbers
        self.__settle = settle

    async def save(self, items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
        """Insert or replace all *items*, or none; return them as stored."""
        capability, store = await self.__open()
        event = MemoryWriteEvent(self.__scope, capability, tuple(items))
        saved: tuple[MemoryItem, ...] = await self.__do(
            MemoryWriteOperation, capability, event, lambda frozen: store.save(frozen.items)
        )
        return saved

    async def delete(self, namespace: str, key: str) -> bool:
        """Forget one item; return whether there was one."""
        capability, store = await self.__open()
        event = MemoryWriteEvent(self.__scope, capability, (), ((namespace, key),))
        existed: bool = await self.__do(
            MemoryWriteOperation, capability, event, lambda frozen: store.delete(*frozen.delete[0])
        )
        return existed

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, None if there is none."""
        capability, store = await self.__open()
        event = MemoryReadEvent(self.__scope, capability, namespace, key=key)

        async def run(_: MemoryReadEvent) -> tuple[MemoryItem, ...]:
            item = await store.get(namespace, key)
            return () if item is None else (item,)

        items = await self.__do(MemoryReadOperation, capability, event, run)
        return items[0] if items else None

    async def list(self, query: MemoryQuery) -> MemoryPage:
        """Return one page. Its cursor is the host's own, and holds as long as the host is open."""
        capability, store = await self.__open()
        # Of this list alone: a cursor is not carried from one namespace or person to another.
        place = repr((capability, query.namespace, self.__scope.principal))
        if query.cursor is not None:
            query = attrs.evolve(query, cursor=self.__cursors.find(query.cursor, place))
        event = MemoryReadEvent(self.__scope, capability, query.namespace, query=query)
        cursor: str | None = None

        async def run(_: MemoryReadEvent) -> tuple[MemoryItem, ...]:
            nonlocal cursor
            page = await store.list(query)
            cursor = page.cursor
            return page.items

        items = await self.__do(MemoryReadOperation, capability, event, run)
        return MemoryPage(items, None if cursor is None else self.__cursors.give(cursor, place))

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        """Return the items that match *text* best, best first."""
        capability, store = await self.__open()
        event = MemoryReadEvent(self.__scope, capability, namespace, text=text, limit=limit)
        scores: dict[str, float] = {}

        async def run(_: MemoryReadEvent) -> tuple[MemoryItem, ...]:
            hits = await store.search(namespace, text, limit)
            scores.update((hit.item.key, hit.score) for hit in hits)
            return tuple(hit.item for hit in hits)

        items = await self.__do(MemoryReadOperation, capability, event, run)
        return tuple(MemoryHit(item, scores[item.key]) for item in items)

    async def __do(
        self, kind: type[_MemoryOperation], capability: str, event: Any, run: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        id = f"{self.__scope.parent_id or self.__scope.turn_id or 'memory'}.m{next(self.__numbers)}"
        operation = kind(self.__journal, self.__scope, id, capability, event, run)
        decided = await self.__settle(await self.__operations.decide(operation))
        match decided:
            case Denied(by=by, deny=deny):
                raise errors.Denied(by, deny.tell_user, decided.event.digest)
            case Ready() | Answered():
                return await self.__operations.perform(decided)
