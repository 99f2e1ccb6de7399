"""A store of sessions in a database, as an installed plugin provides it: it answers later, and in one loop alone."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import attrs
from pluggent_hookspecs import Json, PluginContext, hookimpl
from pluggent_hookspecs.errors import SessionError, SessionLeaseLost
from pluggent_hookspecs.sessions import ApprovalRecord, Line, ListedSession, SessionPage, SessionQuery

_TABLES = """
create table if not exists sessions (id text primary key, lease int, held int, modified_s real);
create table if not exists lines (session text, kind text, data blob, sealed int);
create table if not exists approvals (kind text, name text, about text, primary key (kind, name));
"""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TURNS = "('Paused', 'TurnBegan', 'TurnOver', 'Undone')"


@attrs.frozen
class DatabaseSettings:
    """``file``: where the database is. ``most`` sessions are on a page."""

    file: str
    most: int = 100


class Plugin:
    """The plugin; its connection is open as long as its lifetime lasts."""

    Settings = DatabaseSettings

    def __init__(self, settings: DatabaseSettings) -> None:
        self._sessions = DatabaseSessions(Path(settings.file), settings.most)

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        self._sessions.connect()
        try:
            yield
        finally:
            self._sessions.close()

    @hookimpl
    def provide_sessions(self, event: object) -> list["DatabaseSessions"]:
        return [self._sessions]


class DatabaseSessions:
    """The store ``database``, which can be asked between ``connect`` and ``close``."""

    name = "database"

    def __init__(self, file: Path, most: int = 100) -> None:
        self._file = file
        self._most = most
        self._connection: sqlite3.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def connect(self) -> None:
        self._connection = sqlite3.connect(self._file, isolation_level=None)
        self._connection.executescript(_TABLES)
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        assert self._connection is not None
        self._connection.close()
        self._connection = None

    async def do(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of *statement*."""
        assert self._connection is not None, "the plugin is not open"
        assert self._loop is asyncio.get_running_loop(), "the plugin was opened in another loop"
        await asyncio.sleep(0)
        return self._connection.execute(statement, values).fetchall()

    async def open(self, session_id: str) -> "DatabaseLog":
        if not _ID.fullmatch(session_id):
            raise SessionError(f"{session_id!r} is not an id of a session")
        if await self.do("select 1 from sessions where id = ? and held", session_id):
            raise SessionError(f"session '{session_id}' is in use by another writer")
        return await self.take_over(session_id)

    async def take_over(self, session_id: str) -> "DatabaseLog":
        await self.do("insert or ignore into sessions values (?, 0, 0, ?)", session_id, time())
        await self.do("update sessions set lease = lease + 1, held = 1 where id = ?", session_id)
        ((lease,),) = await self.do("select lease from sessions where id = ?", session_id)
        return DatabaseLog(self, session_id, lease)

    async def read(self, session_id: str) -> AsyncIterator[Line]:
        if not await self.do("select 1 from sessions where id = ?", session_id):
            raise SessionError(f"session '{session_id}' cannot be read: there is none in the database")
        return self.lines(session_id)

    async def lines(self, session_id: str) -> AsyncIterator[Line]:
        rows = await self.do("select kind, data, sealed from lines where session = ? order by rowid", session_id)
        for kind, data, sealed in rows:
            await asyncio.sleep(0)
            yield Line(kind, data, bool(sealed), bool(sealed))

    async def delete(self, session_id: str) -> None:
        rows = await self.do("select held from sessions where id = ?", session_id)
        if rows != [(0,)]:
            why = "is in use by another writer, so it is not deleted" if rows else "is not there"
            raise SessionError(f"session '{session_id}' {why}")
        await self.do("delete from lines where session = ?", session_id)
        await self.do("delete from sessions where id = ?", session_id)

    async def list(self, query: SessionQuery) -> SessionPage:
        rows = await self.do("select id, modified_s, held from sessions order by modified_s desc, id")
        named = [row for row in rows if row[0].startswith(query.prefix)]
        start = int(query.cursor or 0)
        page = [
            await self._listed(*row, brief=query.brief) for row in named[start : start + min(query.limit, self._most)]
        ]
        end = start + len(page)
        return SessionPage(tuple(page), str(end) if end < len(named) else None)

    async def _listed(self, id: str, modified_s: float, held: int, *, brief: bool) -> ListedSession:
        if brief:
            return ListedSession(id, modified_s, in_use=bool(held))
        last = f"select kind from lines where session = ? and kind in {_TURNS} order by rowid desc limit 1"  # noqa: S608
        return ListedSession(id, modified_s, waits=await self.do(last, id) == [("Paused",)], in_use=bool(held))

    def approvals(self) -> "DatabaseApprovals":
        return DatabaseApprovals(self)


class DatabaseLog:
    def __init__(self, store: DatabaseSessions, id: str, lease: int) -> None:
        self._store = store
        self._id = id
        self._closed = False
        self.lease = lease
        self.place = f"database:{id}"

    async def append(self, *lines: Line) -> None:
        await self.sync()
        for line in lines:
            await self._store.do("insert into lines values (?, ?, ?, ?)", self._id, line.kind, line.data, line.sealed)
        await self._store.do("update sessions set modified_s = ? where id = ?", time(), self._id)

    async def sync(self) -> None:
        if self._closed:
            raise SessionError(f"session '{self._id}' is closed")
        if await self._store.do("select lease from sessions where id = ?", self._id) != [(self.lease,)]:
            raise SessionLeaseLost(self._id, self.lease)

    def read(self) -> AsyncIterator[Line]:
        return self._store.lines(self._id)

    async def close(self) -> None:
        self._closed = True
        await self._store.do("update sessions set held = 0 where id = ? and lease = ?", self._id, self.lease)


class DatabaseApprovals:
    def __init__(self, store: DatabaseSessions) -> None:
        self._store = store

    async def put(self, kind: str, name: str, about: Mapping[str, Json]) -> None:
        await self._store.do("insert or replace into approvals values (?, ?, ?)", kind, name, json.dumps(about))

    async def all(self) -> tuple[ApprovalRecord, ...]:
        rows = await self._store.do("select kind, name, about from approvals")
        return tuple(ApprovalRecord(kind, name, json.loads(about)) for kind, name, about in rows)

    async def drop(self, kind: str, name: str) -> bool:
        found = await self._store.do("delete from approvals where kind = ? and name = ? returning 1", kind, name)
        return bool(found)
