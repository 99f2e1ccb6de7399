"""The sessions that a store keeps, for applications: list, read, delete. None of them is opened for that."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import TypeVar, cast

import attrs
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.markers import MaybeAsync
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.sessions import Line, Lines, SessionPage, SessionQuery, SessionStore

from pluggent_transcript.codec import decode_unsealed
from pluggent_transcript.entries import Entry
from pluggent_transcript.pending import Pending
from pluggent_transcript.rebuild import rebuild

T = TypeVar("T")
G = TypeVar("G")


@attrs.frozen(repr=False)
class StoredSession(Value):
    """One stored session as far as it has come: its conversation, and every entry of its record.

    ``pending`` are what its last turn waits with, if it has paused; only opening the session tells whether that
    pause still counts.
    """

    id: str
    messages: tuple[Message, ...]
    turns: int
    usage: Usage
    model: str
    system: str
    principal: str
    metadata: Mapping[str, str]
    pending: tuple[Pending, ...]
    entries: tuple[Entry, ...] = attrs.field(repr=False)


class StoredSessions:
    """The sessions in a host's store; none without one. Every call raises SessionError if the store cannot answer."""

    def __init__(self, store: SessionStore | None) -> None:
        self._store = store

    async def list(self, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> SessionPage:
        """Return *limit* sessions at most, newest first, whose id begins with *prefix*.

        ``page.cursor`` leads to the next page, None ends the list.
        """
        if self._store is None:
            return SessionPage(())
        return await _answer(self._store.list, SessionQuery(prefix, limit, cursor))

    async def read(self, id: str) -> StoredSession:
        """Return a session as it is now, without disturbing its writer. Raises SessionError if there is none."""
        lines: Lines = await _answer(self._need(id).read, id)
        found: Iterable[Line] = [line async for line in lines] if isinstance(lines, AsyncIterable) else lines
        return await asyncio.to_thread(_read, id, found)

    async def delete(self, id: str) -> None:
        """Remove a session. Raises SessionError if there is none, or it is open."""
        await _answer(self._need(id).delete, id)

    def _need(self, id: str) -> SessionStore:
        if self._store is None:
            raise SessionError(
                f"there is no session '{id}': this host keeps none; open it with state_dir= or sessions="
            )
        return self._store


async def _answer(ask: Callable[[G], MaybeAsync[T]], given: G) -> T:
    """Return what a store answers; what is no coroutine function may block, so it is called in a thread."""
    answer = ask(given) if inspect.iscoroutinefunction(ask) else await asyncio.to_thread(ask, given)
    return await cast("Awaitable[T]", answer) if inspect.isawaitable(answer) else answer


def _read(id: str, lines: Iterable[Line]) -> StoredSession:
    entries = tuple(decode_unsealed(lines, f"session '{id}'"))
    told = rebuild(entries)
    return StoredSession(
        id, told.messages, told.turns, told.usage, told.model, told.system, told.principal, told.metadata,
        () if told.waiting is None else told.waiting.open, entries,
    )  # fmt: skip
