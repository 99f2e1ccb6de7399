"""One attempt after the other at executing what was decided: reserved before, settled after, never stale."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import attrs
from pluggent_hookspecs import errors

from pluggent_host.calling import being_cancelled
from pluggent_host.ledgers import Ledgers, RefusedError
from pluggent_host.onion import Attempts
from pluggent_host.operation import Attempt, Operation

E = TypeVar("E")
R = TypeVar("R")


@attrs.define(eq=False)
class Attempting(Generic[E, R]):
    """Makes attempts at one operation; every call of it is one more.

    ``confirm`` decides again where a decision has grown old; ``unpaid`` makes the error, and
    the record, of what a ledger refused.
    """

    operation: Operation[E, R]
    event: E
    attempts: Attempts
    ledgers: Ledgers | None
    confirm: Callable[[], Awaitable[None]]
    unpaid: Callable[[RefusedError], errors.Denied]
    _made: int = attrs.field(default=0, init=False)

    async def __call__(self) -> R:
        """Make the next attempt."""
        self._made += 1
        attempt, failure = self.attempts.begin(self.operation, self._made), ""
        try:
            return await self._attempt(attempt)
        except Exception as error:
            failure = str(error)
            raise
        finally:
            self.attempts.end(failure)

    async def _attempt(self, attempt: Attempt) -> R:
        if attempt.number > 1:
            await self.confirm()
        if being_cancelled():
            # A layer swallowed the cancellation: that is no consent.
            raise asyncio.CancelledError
        operation, ledgers = self.operation, self.ledgers
        cost = None if ledgers is None else operation.cost(self.event, attempt.number)
        if ledgers is None or cost is None:
            return await operation.execute(self.event, attempt)
        try:
            return await ledgers.around(cost, lambda: operation.execute(self.event, attempt))
        except RefusedError as refused:
            cost.payer.refused(refused.deny)
            raise self.unpaid(refused) from refused
