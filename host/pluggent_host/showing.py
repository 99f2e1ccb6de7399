"""What a person is shown of a turn: nothing that has not passed the output policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import OutputEvent, Scope
from pluggent_hookspecs.messages import Message

from pluggent_host.chains import Chains
from pluggent_host.decided import Asked, Decided, Denied, Ready
from pluggent_host.deltas import Deltas
from pluggent_host.edges import OutputOperation
from pluggent_host.operation import Journal
from pluggent_host.operations import Operations

E = TypeVar("E")
R = TypeVar("R")

NOBODY = "a person has to approve this first, and nobody was there to ask"


@attrs.define(eq=False)
class Showing:
    """The way out of one turn. ``notes`` are what was shown beside the model's replies, denials included."""

    journal: Journal
    scope: Scope
    operations: Operations
    chains: Chains
    deltas: Deltas | None
    put: Callable[[Asked[Any, Any]], Awaitable[Any]]
    notes: list[str] = attrs.field(factory=list[str])
    _shown: int = 0

    @property
    def last_note(self) -> str:
        """What was noted last, empty if nothing was."""
        return self.notes[-1] if self.notes else ""

    async def released(self, message: Message, source: str) -> Message | None:
        """Return *message* as it may be shown, None if it may not."""
        if not self.chains["transform_output"] and not self.chains["decide_output"]:
            return message
        self._shown += 1
        operation = OutputOperation(self.journal, self.scope, message, source, f"{self.scope.turn_id}.out{self._shown}")
        try:
            decided = await self.operations.decide(operation)
        except errors.HookError:
            self.take_back("a policy failed")
            raise
        if isinstance(decided, Asked):
            decided = cast("Decided[OutputEvent, Message]", await self.put(decided) or unasked(decided))
        if isinstance(decided, Ready):
            return await self.operations.perform(decided)
        assert isinstance(decided, Denied)
        self.take_back("withheld by a policy")
        self.notes.append(decided.deny.tell_user)
        return None

    def take_back(self, why: str) -> None:
        """What was streamed of the reply so far is void."""
        if self.deltas is not None:
            self.deltas.discard(why)


def unasked(asked: Asked[E, R]) -> Denied[E, R]:
    """Return the denial that stands for an ask which nobody was there to answer."""
    return Denied(asked.operation, asked.event, "host", Deny(NOBODY, tell_user=f"{asked.verdict.reason}: {NOBODY}"))
