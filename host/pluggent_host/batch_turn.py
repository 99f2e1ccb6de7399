"""What running tool calls needs of the turn they belong to; see batch.py, which does it."""

from __future__ import annotations

from typing import Protocol

from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.decided import Asked, Decided
from pluggent_host.operation import Journal
from pluggent_host.operations import Operations
from pluggent_host.quota import Quota
from pluggent_host.settings import Limits
from pluggent_host.toolcalls import Runner, ToolCallOperation
from pluggent_host.transcript import Entry


class BatchTurn(Journal, Protocol):
    """What a batch needs of the turn it belongs to."""

    @property
    def scope(self) -> Scope: ...
    @property
    def operations(self) -> Operations: ...
    @property
    def runner(self) -> Runner: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def quota(self) -> Quota: ...

    effects: int
    """How many calls that may change something have run in this turn, nested ones included."""

    @property
    def refused(self) -> set[str]:
        """Fingerprints that a person has refused in this turn."""
        ...

    def append(self, *entries: Entry) -> None: ...
    def add(self, *messages: Message) -> None:
        """Take *messages* into the conversation."""
        ...

    async def commit(self) -> None:
        """Make what was appended as durable as the operator wants effects to be."""
        ...

    async def show(self, message: Message, source: str) -> Message | None:
        """Put *message* before the person; return what the output policies let pass of it, None for nothing."""
        ...

    def may_serve(self, capability: str) -> bool:
        """Whether the operator lets this tool be ``silent`` or ``handled``."""
        ...

    def left_s(self, most: float) -> float:
        """Seconds that one call may take: *most*, capped by what is left of the turn."""
        ...

    def settled(self, call: ToolCallOperation, event: ToolCallEvent, outcome: str) -> None:
        """A call that may not be repeated has ended with *outcome*, a ToolErrorKind or nothing."""
        ...

    @property
    def stops_batch(self) -> tuple[str, ...]:
        """The tools, as the operator names them, behind whose failures nothing of a reply is run."""
        ...

    @property
    def pauses(self) -> bool:
        """Whether an ask that nobody answers now waits until somebody does."""
        ...

    def answer(self, asked: Asked[ToolCallEvent, ToolOutput]) -> Decided[ToolCallEvent, ToolOutput] | None:
        """Return what was answered before about *asked*; None if it was not, or not about all that is asked now."""
        ...

    def may_ask(self) -> bool:
        """Whether this turn may still put a question to a person."""
        ...

    async def put(self, asked: Asked[ToolCallEvent, ToolOutput]) -> Decided[ToolCallEvent, ToolOutput] | None:
        """Ask a person, the turn's clock stopped."""
        ...
