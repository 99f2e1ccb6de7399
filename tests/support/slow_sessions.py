"""A store of sessions that answers later, as one on another machine does; its leases can be taken away."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from pluggent_hookspecs import Json
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.sessions import (
    ApprovalRecord,
    ApprovalRecords,
    Line,
    SessionLog,
    SessionPage,
    SessionQuery,
)
from pluggent_testing.sessions import MemorySessions, answered, lines_of


async def travel() -> None:
    """Let everything else run for a while, as a network does."""
    for _ in range(5):
        await asyncio.sleep(0)


class SlowSessions:
    """``batches`` are how many lines travelled together, in order."""

    name = "slow"

    def __init__(self) -> None:
        self.kept = MemorySessions()
        self.batches: list[int] = []

    def kinds(self, id: str) -> list[str]:
        """Return the kinds of the lines that have arrived."""
        try:
            return [line.kind for line in self.kept.read(id)]
        except SessionError:
            return []

    async def open(self, session_id: str) -> SessionLog:
        await travel()
        return SlowLog(self, await answered(self.kept.open(session_id)))

    async def take_over(self, session_id: str) -> SessionLog:
        await travel()
        return SlowLog(self, self.kept.take_over(session_id))

    async def read(self, session_id: str) -> list[Line]:
        await travel()
        return self.kept.read(session_id)

    async def delete(self, session_id: str) -> None:
        await travel()
        self.kept.delete(session_id)

    async def list(self, query: SessionQuery) -> SessionPage:
        await travel()
        return self.kept.list(query)

    def approvals(self) -> ApprovalRecords:
        return SlowApprovals(self.kept.approvals())


class SlowLog:
    def __init__(self, store: SlowSessions, log: SessionLog) -> None:
        self._store = store
        self._log = log

    @property
    def place(self) -> str:
        return self._log.place

    @property
    def lease(self) -> int:
        return self._log.lease

    async def append(self, *lines: Line) -> None:
        await travel()
        await answered(self._log.append(*lines))
        self._store.batches.append(len(lines))

    async def sync(self) -> None:
        await travel()
        await answered(self._log.sync())

    async def read(self) -> AsyncIterator[Line]:
        for line in await lines_of(self._log.read()):
            await travel()
            yield line

    async def close(self) -> None:
        await travel()
        await answered(self._log.close())


class SlowApprovals:
    def __init__(self, records: ApprovalRecords) -> None:
        self._records = records

    async def put(self, kind: str, name: str, about: Mapping[str, Json]) -> None:
        await travel()
        await answered(self._records.put(kind, name, about))

    async def all(self) -> tuple[ApprovalRecord, ...]:
        await travel()
        return tuple(await answered(self._records.all()))

    async def drop(self, kind: str, name: str) -> bool:
        await travel()
        return await answered(self._records.drop(kind, name))
