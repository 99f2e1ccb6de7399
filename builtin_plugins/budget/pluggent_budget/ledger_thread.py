"""A thread that executes the operations of hooks on the ledger file.

Queued operations share one transaction. A reservation whose caller was cancelled is undone, and a
settlement is kept until it has been written.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias, TypeVar

import attrs

from pluggent_budget.accounts import Account, PeriodOver, Shortage, Standing
from pluggent_budget.amounts import Amount
from pluggent_budget.ledger_file import LedgerFile, LedgerMovedError
from pluggent_budget.messages import BEHIND_S, behind

log = logging.getLogger("pluggent.budget")

T = TypeVar("T")
MOST_AT_ONCE = 256
"""Operations in one transaction, so that no other process waits for long."""
LEAVE_S = 4.0
"""How long closing waits for the thread; the host gives a plugin 5 s."""

Work: TypeAlias = Callable[[LedgerFile], T]


class LedgerError(Exception):
    """The ledger could not be used; the text says why."""


@attrs.frozen(eq=False)
class _Job:
    """``future`` gets the result of ``work``; ``undo`` returns what reverts it if ``future`` is cancelled."""

    work: Work[Any]
    future: asyncio.Future[Any] | None = None
    undo: Callable[[Any], Work[None]] | None = None
    keep: bool = False
    """Whether it must be executed even if late."""

    @property
    def unwanted(self) -> bool:
        return not self.keep and self.future is not None and self.future.cancelled()


def _released(answer: int | Shortage | PeriodOver) -> Work[None]:
    """Return the operation that releases a reservation whose caller was cancelled: the call was not made."""
    if not isinstance(answer, int):
        return lambda _: None
    return lambda file: file.settle(answer, Amount())


class _Result(NamedTuple):
    job: _Job
    value: Any = None
    error: BaseException | None = None


class LedgerThread:
    """The ledger file behind a queue. Opened and closed once."""

    def __init__(self, open_file: Callable[[], LedgerFile]) -> None:
        self._open_file = open_file
        self._queue = SimpleQueue[_Job | None]()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._owed: list[_Job] = []

    async def open(self) -> None:
        """Start the thread and open the file. Raises ConfigError."""
        opened = asyncio.get_running_loop().create_future()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, args=(opened,), name="pluggent-budget", daemon=True)
        self._thread.start()
        try:
            await opened
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Execute the queue, close the file and end the thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._queue.put(None)
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAVE_S
        # No future of this loop's: it may be closed before the thread ends.
        while thread.is_alive() and loop.time() < until:  # noqa: ASYNC110 (see above)
            await asyncio.sleep(0.001)
        if thread.is_alive():
            log.warning("the ledger file was not closed within %g s", LEAVE_S)

    async def reserve(self, accounts: Sequence[Account], amount: Amount, run: str = "") -> int | Shortage | PeriodOver:
        """Hold *amount*, and return the number of the reservation or what there is too little of; see LedgerFile.

        A cancelled caller holds nothing. Raises LedgerError.
        """
        future = self._put(_Job(lambda file: file.reserve(accounts, amount, run), self._waiter(), _released))
        try:
            answer: int | Shortage | PeriodOver = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._post(_released(future.result()))  # it came at the same time as the cancellation
            raise
        return answer

    def settle(self, reservation: int, spent: Amount) -> asyncio.Future[None]:
        """Replace what was held by what was *spent*, even if the caller is cancelled."""
        return self._put(_Job(lambda file: file.settle(reservation, spent), self._waiter(), keep=True))

    async def standings(self, accounts: Sequence[Account]) -> list[Standing]:
        """Return how each of *accounts* stands. Raises LedgerError."""
        standings: list[Standing] = await self._put(_Job(lambda file: file.standings(accounts), self._waiter()))
        return standings

    def _post(self, work: Work[None]) -> None:
        self._queue.put(_Job(work, keep=True))

    def _waiter(self) -> asyncio.Future[Any]:
        if self._thread is None:
            raise LedgerError("the ledger is not open: the plugin is used outside the lifetime of its host")
        if self._pid != os.getpid():
            raise LedgerError("the ledger was opened before this process was forked off: open the host after the fork")
        return asyncio.get_running_loop().create_future()

    def _put(self, job: _Job) -> asyncio.Future[Any]:
        assert job.future is not None
        self._queue.put(job)
        return job.future

    # ---- in the thread -------------------------------------------------------------------

    def _work(self, opened: asyncio.Future[None]) -> None:
        job = _Job(lambda _: None, opened)
        try:
            ledger = self._open_file()
        except BaseException as error:  # noqa: BLE001 (it is raised in ``open``)
            self._deliver([_Result(job, error=error)])
            return
        if ledger.behind_s >= BEHIND_S:
            log.warning("%s", behind(ledger.behind_s, ledger.path))
        self._deliver([_Result(job)])
        try:
            goes_on = True
            while goes_on:
                jobs, goes_on = self._waiting()
                self._serve(ledger, jobs)
            self._serve(ledger, [])  # what is still owed, once more
        finally:
            ledger.close()

    def _waiting(self) -> tuple[list[_Job], bool]:
        """Return what is to be done next, and whether anything comes after it."""
        job = self._queue.get()
        jobs: list[_Job] = []
        while job is not None:
            jobs.append(job)
            if len(jobs) >= MOST_AT_ONCE:
                return jobs, True
            try:
                job = self._queue.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False

    def _serve(self, ledger: LedgerFile, new: Sequence[_Job]) -> None:
        jobs = [*self._owed, *(job for job in new if not job.unwanted)]
        if not jobs:
            return
        try:
            with ledger.transaction():
                values = [job.work(ledger) for job in jobs]
        except (sqlite3.Error, LedgerMovedError) as error:
            # Nothing was written: settlements come again with the next transaction.
            self._owed = [job for job in jobs if job.keep]
            self._refuse(new, f"the ledger {ledger.path} cannot be used now: {error}", error)
        except Exception as error:  # a defect here; what it was about will count as lost
            self._owed = []
            log.exception("a defect in the ledger")
            self._refuse(new, f"the ledger failed: {type(error).__name__}: {error}", error)
        else:
            self._owed = []
            self._deliver([_Result(job, value) for job, value in zip(jobs, values, strict=True)])

    def _refuse(self, jobs: Sequence[_Job], why: str, cause: Exception) -> None:
        told = LedgerError(why)
        told.__cause__ = cause
        self._deliver([_Result(job, error=told) for job in jobs])

    def _deliver(self, results: Sequence[_Result]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Result]] = {}
        for result in results:
            if result.job.future is not None:
                by_loop.setdefault(result.job.future.get_loop(), []).append(result)
        for loop, mine in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._settle, mine)
            except RuntimeError:  # the loop is closed
                for result in mine:
                    self._undo(result)

    def _settle(self, results: Sequence[_Result]) -> None:
        """Set the results; runs in the loop of the callers."""
        for result in results:
            future = result.job.future
            assert future is not None
            if future.done():  # cancelled, or told before that it failed
                self._undo(result)
            elif result.error is not None:
                future.set_exception(result.error)
            else:
                future.set_result(result.value)

    def _undo(self, result: _Result) -> None:
        if result.error is None and result.job.undo is not None:
            self._post(result.job.undo(result.value))
