"""What every operation below a running tool call needs: where it stands, its id, and clocks that stop for people."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Generator, Iterator
from typing import Protocol, TypeVar

import attrs
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.calling import Caller
from pluggent_host.conversation import Agent, Services
from pluggent_host.decided import Asked, Decided
from pluggent_host.operation import Journal
from pluggent_host.quota import Quota
from pluggent_host.settings import Limits
from pluggent_host.threads import Threads
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.transcript import Entry

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")


class NestingTurn(Journal, Protocol):
    """The turn, as far as nested operations need it."""

    @property
    def scope(self) -> Scope: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def quota(self) -> Quota: ...
    @property
    def caller(self) -> Caller: ...
    @property
    def threads(self) -> Threads: ...

    effects: int

    @property
    def refused(self) -> set[str]: ...
    def may_ask(self) -> bool: ...
    def answer(self, asked: Asked[ToolCallEvent, ToolOutput]) -> Decided[ToolCallEvent, ToolOutput] | None: ...
    def append(self, *entries: Entry) -> None: ...
    async def commit(self) -> None: ...
    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str: ...
    def settled(self, call: ToolCallOperation, event: ToolCallEvent, outcome: str) -> None: ...
    def spend(self, usage: Usage) -> None: ...
    async def put(self, asked: Asked[E, R]) -> Decided[E, R] | None: ...
    async def wait_for_person(self, answer: Awaitable[T]) -> T:
        """Return *answer*; it counts as an ask, and the turn's time stands still."""
        ...


@attrs.frozen(eq=False)
class Nesting:
    """The calls of one turn that run below each other."""

    turn: NestingTurn
    agent: Agent
    services: Services
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    _outer: dict[str, ToolCallOperation] = attrs.field(factory=dict[str, ToolCallOperation])

    def scope(self, outer: ToolCallOperation) -> Scope:
        """Return where something below *outer* happens."""
        return attrs.evolve(self.turn.scope, origin="tool", parent_id=outer.id)

    def next_id(self, outer: ToolCallOperation) -> str:
        """Return an id for something below *outer*."""
        return f"{outer.id}.{next(self.numbers)}"

    @contextlib.contextmanager
    def entered(self, id: str, outer: ToolCallOperation) -> Generator[None]:
        """Know that the call *id* runs below *outer*."""
        self._outer[id] = outer
        try:
            yield
        finally:
            del self._outer[id]

    def above(self, call: ToolCallOperation) -> list[ToolCallOperation]:
        """Return the calls above *call*, the nearest first."""
        above: list[ToolCallOperation] = []
        outer = self._outer.get(call.id)
        while outer is not None:
            above.append(outer)
            outer = self._outer.get(outer.id)
        return above

    @contextlib.contextmanager
    def standing_still(self, outer: ToolCallOperation) -> Generator[None]:
        """Stop the clocks of *outer* and of every call above it."""
        clocks = [call.clock for call in (outer, *self.above(outer))]
        for clock in clocks:
            clock.stop()
        try:
            yield
        finally:
            for clock in clocks:
                clock.start()

    async def put(self, asked: Asked[E, R], outer: ToolCallOperation) -> Decided[E, R] | None:
        """Ask somebody who can answer now, the clocks of every call above standing still."""
        with self.standing_still(outer):
            return await self.turn.put(asked)
