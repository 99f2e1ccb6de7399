"""What one turn keeps, and what it lends to the operations in it: journal, clock, quota, people."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import Any, TypeVar

from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import InputEvent, Scope, ToolCallEvent
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.observations import DecisionMade, Observation, UserNotified
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.batch import TOO_OFTEN, BatchRun
from pluggent_host.clock import Deadline
from pluggent_host.conversation import Agent, Conversation, Services
from pluggent_host.decided import Asked, Decided, Denied, Ready
from pluggent_host.deltas import follow
from pluggent_host.feed import Feed
from pluggent_host.holding import Hold
from pluggent_host.nested import NestedCalls
from pluggent_host.pausing import Agreed
from pluggent_host.quota import Quota
from pluggent_host.showing import Showing, unasked
from pluggent_host.standing import asked_by
from pluggent_host.step import Spent
from pluggent_host.toolcalls import CallContext, ToolCallOperation
from pluggent_host.transcript import Decided as DecidedEntry, Entry
from pluggent_host.verdicts import HOST

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")


class Books:
    """The books of one turn; what happens in it is turn.py's."""

    def __init__(
        self, services: Services, conversation: Conversation, agent: Agent, scope: Scope, feed: Feed | None
    ) -> None:
        self.scope = scope
        self.operations = services.operations
        self.limits = agent.limits
        self.quota = Quota(agent.limits)
        self.caller = services.caller
        self.threads = services.threads
        self.protected = agent.protected
        self.runner = self
        self.refused: set[str] = set()
        self.effects = 0
        self._services = services
        self.conversation = conversation
        self._agent = agent
        self._feed = feed
        self._deltas = follow(self, scope, feed, services.chains, services.caller, services.settings.stream)
        self.offered = agent.tools
        self.said = Message.user("")
        self.ended = False
        self.reply: Message | None = None
        self.batch: BatchRun | None = None
        self.round = 0
        self._value: tuple[Any, ...] = ()
        self.so_far = ""
        self.usage = Usage()
        self.started = perf_counter()
        self._thinking_s = 0.0
        self.asks = 0
        self.held: Hold | None = None
        self.agreed: Agreed | None = None
        self.out = Showing(self, scope, self.operations, services.chains, self._deltas, self.put)
        self._nested = NestedCalls(self, agent, services)

    # ---- the journal ---------------------------------------------------------------------

    def record(self, decision: DecisionMade) -> None:
        self.conversation.append(DecidedEntry(decision))

    def tell(self, event: Observation) -> None:
        self._services.tell(event)
        if self._feed is not None:
            self._feed.put(event)

    def append(self, *entries: Entry) -> None:
        self.conversation.append(*entries)

    def add(self, *messages: Message) -> None:
        self.conversation.add(*messages)

    async def commit(self) -> None:
        if self._services.settings.fsync != "off":
            await self.threads.run(self.conversation.transcript.sync)

    # ---- what it has used ----------------------------------------------------------------

    def spent(self) -> Spent:
        return Spent(perf_counter() - self.started - self._thinking_s, self.usage)

    def spend(self, usage: Usage) -> None:
        self.usage += usage

    def left_s(self, most: float) -> float:
        """Seconds that one wait may take: *most*, capped by what is left of the turn."""
        if self.limits.wall_s is None:
            return most
        return max(0.001, min(most, self.limits.wall_s - self.spent().elapsed_s))

    # ---- people --------------------------------------------------------------------------

    async def put(self, asked: Asked[E, R]) -> Decided[E, R] | None:
        decided = await self.wait_for_person(self.operations.ask(asked))
        self.conversation.approved(decided, asked, self.operations.identities(asked.asks))
        return decided

    async def consent(self, asked: Asked[E, R]) -> Decided[E, R]:
        """Return what comes of *asked*, which is no tool call: that itself if it is to wait for a person."""
        decided = self.given(asked)
        if decided is None and not self.may_ask():
            return Denied(asked.operation, asked.event, HOST, Deny(TOO_OFTEN))
        decided = decided or await self.put(asked)
        if decided is None:
            return asked if self.pauses and not self.scope.dry_run else unasked(asked)
        if isinstance(decided, Ready) and decided.approval is not None:
            self.agree(asked, decided.approval.by)
        return decided

    def given(self, asked: Asked[E, R]) -> Decided[E, R] | None:
        """Return what was answered before to *asked*, which is no tool call; None if it was not."""
        return None

    def agree(self, asked: Asked[Any, Any], by: str) -> None:
        """Remember that a person has agreed to what is said: that is decided about again after each pause."""
        if isinstance(asked.event, InputEvent):
            identities = self.operations.identities(asked.asks)
            self.agreed = Agreed(asked.event.digest, tuple(sorted(asked_by(asked.asks, identities))), by)

    async def wait_for_person(self, answer: Awaitable[T]) -> T:
        started = perf_counter()
        self.asks += 1
        try:
            return await answer
        finally:
            self._thinking_s += perf_counter() - started

    @property
    def stops_batch(self) -> tuple[str, ...]:
        return self._services.settings.stops_batch

    @property
    def pauses(self) -> bool:
        return self._services.settings.on_ask == "pause"

    def answer(self, asked: Asked[ToolCallEvent, ToolOutput]) -> Decided[ToolCallEvent, ToolOutput] | None:
        stands = self.conversation.stands(asked.event, asked.asks, self.operations.identities(asked.asks))
        if stands is None:
            return None
        return self.operations.approved(asked, stands.by, f"approved before, {stands.how}")

    def may_ask(self) -> bool:
        return self.asks < self.limits.asks

    def may_serve(self, capability: str) -> bool:
        return capability in self._services.settings.grants.handled

    # ---- what running calls need ---------------------------------------------------------

    def context(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return self._nested.context(call, clock)

    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str:
        return self.conversation.doubts(call, event, self.threads.running())

    def settled(self, call: ToolCallOperation, event: ToolCallEvent, outcome: str) -> None:
        self.conversation.settled(call.fingerprint(event), outcome)

    async def show(self, message: Message, source: str) -> Message | None:
        out = await self.out.released(message, source)
        if out is not None:
            self.out.notes.append(out.text)
            self.tell(UserNotified(self.scope, out, source))
        return out
