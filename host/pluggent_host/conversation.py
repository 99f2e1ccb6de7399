"""What a session holds between turns, and what a host lends to every turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from pathlib import Path
from time import time
from typing import Any

import attrs
from pluggent_hookspecs.decisions import Ask
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message, Role
from pluggent_hookspecs.models import ModelParameters
from pluggent_hookspecs.observations import Observation

from pluggent_host.calling import Caller
from pluggent_host.capabilities import Model
from pluggent_host.chains import Chains
from pluggent_host.memories import AskSomebody
from pluggent_host.operation import Journal
from pluggent_host.operations import Operations
from pluggent_host.outputs import OutputForm
from pluggent_host.pausing import Paused, Resolved, Standing, Waiting
from pluggent_host.settings import HostSettings, Limits
from pluggent_host.threads import Threads
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import SURE, UNSURE, Entry, Transcript, TurnBegan, TurnOver, close_call
from pluggent_host.verdicts import DOUBT
from pluggent_host.watchers import Watchers


@attrs.frozen(eq=False)
class Services:
    """What every turn of a host shares."""

    operations: Operations
    caller: Caller
    threads: Threads
    chains: Chains
    settings: HostSettings
    tell: Callable[[Observation], None]
    memory: Callable[[str, Journal, Scope, Iterator[int], AskSomebody], MemoryAccess]
    watchers: Watchers
    model: Callable[[str], Awaitable[Model]]


@attrs.frozen(eq=False)
class Agent:
    """Whom a session talks to, and with which tools."""

    model: Model
    system: Message | None
    tools: Toolset
    parameters: ModelParameters
    limits: Limits
    workspace: Path | None
    protected: tuple[str, ...] = ()
    form: OutputForm[Any] | None = None


class Conversation:
    """Messages and their transcript: what is in ``messages`` has been appended before."""

    def __init__(
        self,
        transcript: Transcript,
        messages: tuple[Message, ...],
        unsure: frozenset[str],
        waiting: Waiting | None = None,
        standing: frozenset[Standing] = frozenset(),
    ) -> None:
        self.transcript = transcript
        self.messages = messages
        self.unsure = set(unsure)
        self.waiting = waiting
        self.standing = set(standing)

    def append(self, *entries: Entry) -> None:
        """Make *entries* durable."""
        if entries:
            self.transcript.append(*entries)

    def add(self, *messages: Message) -> None:
        """Take *messages* into the conversation."""
        if messages:
            self.messages = (*self.messages, *messages)

    def doubts(self, call: ToolCallOperation, event: ToolCallEvent, running: Collection[str]) -> str:
        """Return why this very call must not simply run again, empty if nothing speaks against it."""
        if event.capability in running:
            return "an earlier call of it was given up but is still running"
        if not call.tool.repeatable and call.fingerprint(event) in self.unsure:
            return "the same call was interrupted before and may already have taken effect"
        return ""

    def settled(self, fingerprint: str, outcome: str) -> None:
        """A call that may not simply be repeated has ended with *outcome*, a ToolErrorKind or nothing."""
        if outcome in UNSURE:
            self.unsure.add(fingerprint)
        elif outcome in SURE:
            self.unsure.discard(fingerprint)

    def wait(self, paused: Paused, results: Iterable[Message]) -> None:
        """The turn waits for a person, with these *results* of the calls that have one."""
        said = next(message for message in reversed(self.messages) if message.role is Role.USER)
        if self.waiting is not None:
            said = self.waiting.said
        self.waiting = Waiting(paused, said, {message.tool_call_id or "": message for message in results})

    def resolve(self, answer: Resolved) -> None:
        """Keep what somebody has answered."""
        assert self.waiting is not None
        self.append(answer)
        self.waiting = attrs.evolve(self.waiting, resolved={**self.waiting.resolved, answer.digest: answer})
        if answer.agreed and answer.reach == "session":
            self.standing |= {
                Standing(each.capability, each.definition, frozenset(each.asks))
                for each in self.waiting.paused.pending
                if each.digest == answer.digest
            }

    def stands(self, event: ToolCallEvent, asks: Iterable[tuple[str, Ask]]) -> bool:
        """Whether a person has approved all of *asks* about this tool for the session."""
        wanted = {(plugin, ask.tell_user) for plugin, ask in asks if plugin != DOUBT}
        return len(wanted) == len(tuple(asks)) and any(
            standing.capability == event.capability
            and standing.definition == event.definition
            and wanted <= standing.asks
            for standing in self.standing
        )

    def withdraw(self, why: str) -> None:
        """Give up what waits: every open call has its one result, and the turn is over."""
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        turn_id = waiting.paused.turn_id
        calls = self.messages[-1].tool_calls
        closing = [close_call(turn_id, call) for call in calls if call.id not in waiting.results]
        known = {**waiting.results, **{entry.call_id: entry.message for entry in closing}}
        self.add(*(known[call.id] for call in calls))
        self.append(*closing, TurnOver(turn_id, why, usage=waiting.paused.usage))


def began(scope: Scope, services: Services) -> TurnBegan:
    """Return the first entry of a turn."""
    chains = services.chains.digest
    return TurnBegan(scope.turn_id, time(), scope.origin, chains, scope.dry_run, scope.metadata)
