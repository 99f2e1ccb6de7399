"""Where the entries of a session go: into memory, or into the log of a store (see pluggent_hookspecs.sessions)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, TypeVar

from pluggent_hookspecs.errors import SessionError, SessionLeaseLost
from pluggent_hookspecs.sessions import Line, SessionLog

from pluggent_transcript.codec import SEALED, Encoder, decode, encode
from pluggent_transcript.entries import Entry

T = TypeVar("T")

log = logging.getLogger("pluggent.transcript")


class MemoryTranscript:
    """A transcript that lasts as long as the session."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def append(self, *entries: Entry) -> None:
        self._entries += entries

    def flush(self) -> None:
        pass

    async def sync(self, run: Callable[[Callable[[], T]], Awaitable[T]]) -> None:
        pass

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    async def aclose(self) -> None:
        pass


class StoredTranscript:
    """A transcript in a log that a store keeps.

    What is appended to a log that answers later is queued: the lines that come up meanwhile travel
    together, in order. ``flush`` waits for them, and comes before anything with an effect. After a
    failure nothing is written any more, so that nothing runs that is not on record.
    """

    def __init__(self, log: SessionLog, session_id: str) -> None:
        self._log = log
        self._id = session_id
        self._encoder = Encoder()
        self._queue: list[Line] = []
        self._sending: asyncio.Future[None] | None = None
        self._failed: SessionError | None = None
        self._kept: list[Entry] | None = None
        """Every entry, of a log that cannot be read at once."""
        self._at_once = True

    async def load(self) -> None:
        """Read a log that answers later; one that answers at once is read where it is needed."""
        found = self._log.read()
        if isinstance(found, AsyncIterable):
            self._at_once = False
            self._kept = decode([line async for line in found], self._log.place)

    def append(self, *entries: Entry) -> None:
        if self._failed is not None:
            raise self._failed
        if len(entries) == 1 and type(entry := entries[0]) not in SEALED:  # most are, in the way of every call
            lines: tuple[Line, ...] = (Line(type(entry).__name__, self._encoder.of(entry)),)
        else:
            lines = tuple([encode(entry, self._encoder) for entry in entries])
        if self._kept is not None:
            self._kept += entries
        if self._sending is not None or self._queue:
            self._queue += lines
            return
        try:
            answer = self._log.append(*lines)
        except SessionLeaseLost as error:
            self._failed = error
            raise
        if answer is not None:
            self._sending = asyncio.ensure_future(answer)

    def flush(self) -> Awaitable[None] | None:
        """Return what to wait for until everything appended outlives this process; None if it does."""
        if self._failed is not None:
            raise self._failed
        return None if self._sending is None and not self._queue else self._flush()

    async def _flush(self) -> None:
        while self._sending is not None or self._queue:
            if self._sending is None:
                lines, self._queue = self._queue, []
                self._sending = asyncio.ensure_future(_later(self._log.append(*lines)))
            sending = self._sending
            await asyncio.wait([sending])  # who waits may be cancelled, what is being written is not
            error = asyncio.CancelledError() if sending.cancelled() else sending.exception()
            if error is not None:
                self._failed = self._failed or self._failure(error)
                raise self._failed
            if self._sending is sending:
                self._sending = None

    def _failure(self, error: BaseException) -> SessionError:
        if isinstance(error, SessionError):
            return error
        why = str(error) or type(error).__name__
        failure = SessionError(f"session '{self._id}' cannot be written: {self._log.place}: {why}")
        failure.__cause__ = error
        return failure

    async def sync(self, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        """Force everything appended to what survives a loss of power; *run* runs what blocks in a thread."""
        if (sent := self.flush()) is not None:
            await sent
        try:
            answer = self._log.sync() if not self._at_once else await run(self._log.sync)
            if answer is not None:
                await answer
        except SessionLeaseLost as error:
            self._failed = error
            raise

    def entries(self) -> tuple[Entry, ...]:
        if self._kept is not None:
            return tuple(self._kept)
        found = self._log.read()
        assert not isinstance(found, AsyncIterable)
        return tuple(decode(found, self._log.place))

    async def aclose(self) -> None:
        try:
            if self._failed is None and (sent := self.flush()) is not None:
                await sent
        except SessionError as error:
            log.error("%s", error)  # noqa: TRY400 (it is told)
        finally:
            closed = self._log.close()
            if closed is not None:
                await closed


async def _later(answer: Awaitable[None] | None) -> None:
    if answer is not None:
        await answer
