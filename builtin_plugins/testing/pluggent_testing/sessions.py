"""What every store of sessions has to do, as tests to be inherited, and a store in memory.

    class TestMyStore(SessionStoreConformance):
        def make_store(self, folder):
            return MyStore(folder / "sessions.db")

The tests need pytest and no plugin of it: each runs in an event loop of its own.
"""

# ruff: noqa: PLR2004 (these are tests: expected numbers)

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from pathlib import Path
from time import time
from typing import TypeVar, cast

import attrs
import pytest
from pluggent_hookspecs import Json
from pluggent_hookspecs.errors import SessionError, SessionLeaseLost
from pluggent_hookspecs.markers import MaybeAsync
from pluggent_hookspecs.sessions import (
    ApprovalRecord,
    Line,
    Lines,
    ListedSession,
    SessionLog,
    SessionPage,
    SessionQuery,
    SessionStore,
)

__all__ = ["MemorySessions", "SessionStoreConformance", "answered", "lines_of"]

T = TypeVar("T")


async def answered(answer: MaybeAsync[T]) -> T:
    """Return what a store answers, now or later."""
    return await cast("Awaitable[T]", answer) if inspect.isawaitable(answer) else answer


async def lines_of(lines: Lines) -> list[Line]:
    """Return *lines*, whichever way they come."""
    return [line async for line in lines] if isinstance(lines, AsyncIterable) else list(lines)


# ---- a store in memory -------------------------------------------------------------------


@attrs.define(eq=False)
class _Kept:
    lines: list[Line] = attrs.field(factory=list[Line])
    lease: int = 0
    is_held: bool = False
    modified_s: float = attrs.field(factory=time)


class MemorySessions:
    """A store that lasts as long as the object; several hosts may share it. Answers at once.

    ``take_over`` opens a session that another writer has, as a store on another machine lets a new
    owner do when the old one seems to be gone.
    """

    name = "memory"

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._approvals = _Approvals()

    def open(self, session_id: str) -> SessionLog:
        """Return the log of a session, under its lease."""
        if not session_id or len(session_id) > 100 or not set(session_id) <= _ID or session_id[0] in "._-":
            raise SessionError(f"{session_id!r} is not an id of a session")
        if self._sessions.setdefault(session_id, _Kept()).is_held:
            raise SessionError(f"session '{session_id}' is in use by another writer")
        return self.take_over(session_id)

    def take_over(self, session_id: str) -> SessionLog:
        """Return the log of a session; who had its lease has lost it."""
        kept = self._sessions[session_id]
        kept.lease, kept.is_held = kept.lease + 1, True
        return _Log(kept, session_id, kept.lease)

    def read(self, session_id: str) -> list[Line]:
        """Return the lines of a session."""
        return list(self._found(session_id).lines)

    def delete(self, session_id: str) -> None:
        """Remove a session."""
        if self._found(session_id).is_held:
            raise SessionError(f"session '{session_id}' is in use by another writer, so it is not deleted")
        del self._sessions[session_id]

    def list(self, query: SessionQuery) -> SessionPage:
        """Return one page."""
        ids = sorted(self._sessions, key=lambda each: (-self._sessions[each].modified_s, each))
        ids = [id for id in ids if id.startswith(query.prefix)]
        start = ids.index(query.cursor) + 1 if query.cursor in ids else 0
        page = ids[start : start + query.limit]
        more = start + query.limit < len(ids)
        return SessionPage(tuple(self._listed(id) for id in page), page[-1] if more else None, len(ids))

    def approvals(self) -> _Approvals:
        """Return what holds in every session."""
        return self._approvals

    def _found(self, id: str) -> _Kept:
        if id not in self._sessions:
            raise SessionError(f"there is no session '{id}'")
        return self._sessions[id]

    def _listed(self, id: str) -> ListedSession:
        kept = self._sessions[id]
        waits = False
        for line in kept.lines:
            waits = line.kind == "Paused" or (waits and line.kind not in ("TurnBegan", "TurnOver", "Undone"))
        return ListedSession(id, kept.modified_s, waits=waits, in_use=kept.is_held)


_ID = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class _Log:
    def __init__(self, kept: _Kept, id: str, lease: int) -> None:
        self._kept = kept
        self._id = id
        self._closed = False
        self.lease = lease
        self.place = f"memory:{id}"

    def append(self, *lines: Line) -> None:
        self.sync()
        self._kept.lines += [line._replace(genuine=line.sealed) for line in lines]
        self._kept.modified_s = time()

    def sync(self) -> None:
        if self._closed:
            raise SessionError(f"session '{self._id}' is closed")
        if self._kept.lease != self.lease:
            raise SessionLeaseLost(self._id, self.lease)

    def read(self) -> list[Line]:
        return list(self._kept.lines)

    def close(self) -> None:
        self._closed = True
        self._kept.is_held = self._kept.is_held and self._kept.lease != self.lease


class _Approvals:
    def __init__(self) -> None:
        self._records: dict[tuple[str, str], ApprovalRecord] = {}

    def put(self, kind: str, name: str, about: Mapping[str, Json]) -> None:
        self._records[kind, name] = ApprovalRecord(kind, name, about)

    def all(self) -> tuple[ApprovalRecord, ...]:
        return tuple(self._records.values())

    def drop(self, kind: str, name: str) -> bool:
        return self._records.pop((kind, name), None) is not None


# ---- the suite ---------------------------------------------------------------------------

BEGAN = Line("SessionBegan", b'{"t":"SessionBegan","session_id":"s","principal":"ann"}\n')
TURN = Line("TurnBegan", b'{"t":"TurnBegan","turn_id":"t1","at_s":1.5}\n')
PAUSED = Line("Paused", b'{"t":"Paused","turn_id":"t1","pending":[{"seal":"no"}],"at_s":0.1}\n', sealed=True)
OVER = Line("TurnOver", b'{"t":"TurnOver","turn_id":"t1"}\n')
AWKWARD = (
    Line("Said", '{"t":"Said","text":"\\u0000 \U0001f600 \\" \ud800"}\n'.encode("utf-8", "surrogatepass")),
    Line("Said", b'{"t":"Said","text":"' + b"x" * 1_000_000 + b'"}\n'),
    Line("Standing", b'{"t":"Standing","where":{"seal":"a"},"n":NaN,"at_s":1e-07}\n', sealed=True),
)

Story = Callable[[SessionStore], Awaitable[None]]


def read_back(line: Line) -> Line:
    """Return *line* as it is to be read."""
    return line._replace(genuine=line.sealed)


class SessionStoreConformance:
    """The promises of ``pluggent_hookspecs.SessionStore``. Inherit, and say how a store is made.

    A store whose leases can be taken away says how in ``take_over``; what needs that is else skipped.
    """

    def make_store(self, folder: Path) -> SessionStore | Awaitable[SessionStore]:
        """Return a new, empty store. *folder* is this test's own."""
        raise TypeError(f"{type(self).__name__} does not say how a store is made: write make_store(self, folder)")

    def take_over(self, store: SessionStore, session_id: str) -> MaybeAsync[SessionLog] | None:
        """Open a session that a writer has, so that this one loses its lease; None if that cannot be."""
        return None

    @pytest.fixture
    def told(self, tmp_path: Path) -> Callable[[Story], None]:
        """Return what runs a story with a new store."""

        async def tell(story: Story) -> None:
            store = await answered(self.make_store(tmp_path))
            await asyncio.wait_for(story(store), 60)

        return lambda story: asyncio.run(tell(story))

    def test_it_is_a_store(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            assert isinstance(store, SessionStore)
            assert isinstance(store.name, str)
            log = await answered(store.open("s"))
            assert isinstance(log, SessionLog)
            assert log.place
            await answered(log.close())

        told(story)

    def test_lines_are_read_as_they_were_appended(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            log = await answered(store.open("s"))
            assert await lines_of(log.read()) == []
            await answered(log.append(BEGAN))
            await answered(log.append(TURN, *AWKWARD, PAUSED))
            await answered(log.sync())
            expected = [read_back(line) for line in (BEGAN, TURN, *AWKWARD, PAUSED)]
            assert await lines_of(log.read()) == expected
            await answered(log.close())

            log = await answered(store.open("s"))
            assert await lines_of(log.read()) == expected
            await answered(log.append(OVER))
            assert await lines_of(log.read()) == [*expected, OVER]
            await answered(log.close())

        told(story)

    def test_a_line_that_was_not_sealed_is_not_genuine(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            log = await answered(store.open("s"))
            await answered(log.append(PAUSED, PAUSED._replace(sealed=False)))
            await answered(log.close())
            assert [line.genuine for line in await lines_of(await answered(store.read("s")))] == [True, False]

        told(story)

    def test_a_session_has_one_writer_at_a_time_with_a_number_that_grows(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            first = await answered(store.open("s"))
            await answered(first.append(BEGAN))
            with pytest.raises(SessionError):
                await answered(store.open("s"))
            other = await answered(store.open("other"))
            await answered(other.close())
            await answered(first.close())
            await answered(first.close())
            second = await answered(store.open("s"))
            assert second.lease > first.lease
            await answered(second.append(TURN))
            with pytest.raises(SessionError):
                await answered(first.append(OVER))
            assert await lines_of(second.read()) == [BEGAN, TURN]
            await answered(second.close())

        told(story)

    def test_a_writer_that_lost_its_lease_writes_nothing(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            first = await answered(store.open("s"))
            await answered(first.append(BEGAN))
            taken = self.take_over(store, "s")
            if taken is None:
                await answered(first.close())
                pytest.skip("this store takes no lease away")
            second = await answered(taken)
            assert second.lease > first.lease
            with pytest.raises(SessionLeaseLost):
                await answered(first.append(TURN))
            with pytest.raises(SessionLeaseLost):
                await answered(first.sync())
            await answered(first.close())
            await answered(second.append(OVER))
            assert await lines_of(second.read()) == [BEGAN, OVER]
            await answered(second.close())

        told(story)

    def test_reading_needs_no_lease_and_disturbs_no_writer(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            log = await answered(store.open("s"))
            await answered(log.append(BEGAN))
            assert await lines_of(await answered(store.read("s"))) == [BEGAN]
            await answered(log.append(TURN))
            assert await lines_of(await answered(store.read("s"))) == [BEGAN, TURN]
            await answered(log.close())
            with pytest.raises(SessionError):
                await lines_of(await answered(store.read("none")))

        told(story)

    def test_a_session_is_deleted_when_it_has_no_writer(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            log = await answered(store.open("s"))
            await answered(log.append(BEGAN))
            with pytest.raises(SessionError):
                await answered(store.delete("s"))
            await answered(log.close())
            await answered(store.delete("s"))
            with pytest.raises(SessionError):
                await answered(store.delete("s"))
            assert (await answered(store.list(SessionQuery()))).sessions == ()

        told(story)

    def test_sessions_are_listed_in_pages(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            for id in ("a1", "a2", "a3", "b1"):
                log = await answered(store.open(id))
                await answered(log.append(BEGAN, TURN, *((PAUSED,) if id == "a2" else (PAUSED, OVER))))
                await answered(log.close())
            found: list[ListedSession] = []
            cursor: str | None = None
            for _ in range(2):
                page = await answered(store.list(SessionQuery(prefix="a", limit=2, cursor=cursor)))
                found += page.sessions
                cursor = page.cursor
            assert cursor is None
            assert {each.id: each.waits for each in found} == {"a1": False, "a2": True, "a3": False}
            assert len(found) == 3
            assert [each.modified_s for each in found] == sorted((each.modified_s for each in found), reverse=True)
            page = await answered(store.list(SessionQuery(prefix="a", limit=2)))
            brief = await answered(store.list(SessionQuery(prefix="a", limit=2, brief=True)))
            assert [(each.id, each.modified_s) for each in brief.sessions] == [
                (each.id, each.modified_s) for each in page.sessions
            ]
            assert {page.total, brief.total} <= {3, None}

        told(story)

    def test_a_list_says_which_session_is_in_use(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            log = await answered(store.open("s"))
            await answered(log.append(BEGAN))
            for brief in (False, True):
                (listed,) = (await answered(store.list(SessionQuery(brief=brief)))).sessions
                assert listed.in_use
            await answered(log.close())
            (listed,) = (await answered(store.list(SessionQuery()))).sessions
            assert not listed.in_use

        told(story)

    def test_an_id_is_a_name_and_nothing_else(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            for id in ("s", "S.1_x-y", "0" * 100):
                await answered((await answered(store.open(id))).close())
            for id in ("", "../s", "a/b", "-s", ".s", "a\n", "a" * 101):
                with pytest.raises(SessionError):
                    await answered(store.open(id))

        told(story)

    def test_approvals_are_kept_replaced_and_forgotten(self, told: Callable[[Story], None]) -> None:
        async def story(store: SessionStore) -> None:
            records = store.approvals()
            assert list(await answered(records.all())) == []
            await answered(records.put("approval", "a", {"by": "ann", "where": {"to": "bob"}}))
            await answered(records.put("approval", "b", {"by": "ann"}))
            await answered(records.put("approval", "b", {"by": "cat", "at_s": 0.5}))
            found = {each.name: each for each in await answered(store.approvals().all())}
            assert found["a"] == ApprovalRecord("approval", "a", {"by": "ann", "where": {"to": "bob"}})
            assert (found["b"].about, found["b"].genuine) == ({"by": "cat", "at_s": 0.5}, True)
            assert await answered(records.drop("approval", "a"))
            assert not await answered(records.drop("approval", "a"))
            assert [each.name for each in await answered(records.all())] == ["b"]

        told(story)
