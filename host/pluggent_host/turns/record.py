"""What a session holds between turns, and the record that one turn makes of itself."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import time
from typing import Any

import attrs
from pluggent_function_tools.structured_output import OutputForm
from pluggent_hookspecs.decisions import Ask
from pluggent_hookspecs.embeddings import Embedder
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters
from pluggent_hookspecs.observations import DecisionMade, Observation
from pluggent_transcript.doubts import Doubts
from pluggent_transcript.entries import Decided as DecidedEntry, Entry, Said, Transcript, TurnBegan, TurnOver
from pluggent_transcript.limits import Limits
from pluggent_transcript.pending import Paused, Resolved, Terms, Waiting, plain_limits
from pluggent_transcript.rebuild import close_call
from pluggent_transcript.standing import Approvals, Standing, covering, standing_of

from pluggent_host.common.running import Threads
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.event_bus import EventStreams
from pluggent_host.hooks.order import Chains
from pluggent_host.operations.memory import Settle
from pluggent_host.operations.operation import Asked, Decided, Journal, Ready
from pluggent_host.operations.pipeline import Operations
from pluggent_host.operations.tool_call import ToolCallOperation
from pluggent_host.plugins.lookup import Model
from pluggent_host.settings import HostSettings
from pluggent_host.tools.selection import SessionTools
from pluggent_host.tools.toolset import Toolset
from pluggent_host.tools.workspace_guard import Protected

log = logging.getLogger("pluggent.approvals")


@attrs.frozen(eq=False, repr=False)
class Services:
    """What every turn of a host shares."""

    operations: Operations
    caller: Caller
    threads: Threads
    chains: Chains
    settings: HostSettings
    emit: Callable[[Observation], None]
    memory: Callable[[str, Journal, Scope, Iterator[int], Settle], MemoryAccess]
    watchers: EventStreams
    model: Callable[[str], Awaitable[Model]]
    embedder: Callable[[str], Awaitable[tuple[str, Embedder, str]]]


@attrs.frozen(eq=False, repr=False)
class Agent:
    """Whom a session talks to, and with which tools."""

    model: Model
    system: Message | None
    offer: SessionTools
    parameters: ModelParameters
    limits: Limits
    workspace: Path | None
    protected: Protected = attrs.field(factory=Protected)
    form: OutputForm[Any] | None = None

    @property
    def tools(self) -> Toolset:
        """The tools as they were when they were looked up last."""
        return self.offer.current

    def terms(self, scope: Scope) -> Terms:
        """Return what a turn of this agent in *scope* is resumed with after a pause."""
        schema = None if self.form is None else self.form.schema
        return Terms(scope.metadata, self.parameters, plain_limits(self.limits), schema)


@attrs.define(eq=False, repr=False)
class Conversation:
    """Messages and their transcript: what is in ``messages`` has been appended before.

    ``waiting_form`` is the form of the reply of the turn that waits, if this process began that turn. ``void`` says
    why what waited when the session was opened does not count; it is empty once something else is said.
    """

    transcript: Transcript
    messages: tuple[Message, ...]
    doubtful: Doubts
    waiting: Waiting | None = None
    standing: tuple[Standing, ...] = ()
    approvals: Approvals | None = None
    void: str = ""
    waiting_form: OutputForm[Any] | None = attrs.field(default=None, init=False)
    _opening: tuple[TurnBegan, ...] = attrs.field(default=(), init=False)
    """The first entry of a turn of which nothing else is known yet; it is written with the next entry."""
    flush: Callable[[], Awaitable[None] | None] = attrs.field(init=False)
    """Returns what to wait for until everything kept outlives this process; None if it does."""

    def __attrs_post_init__(self) -> None:
        self.flush = self.transcript.flush if self.approvals is None else self._flush_both
        if self.void:
            log.warning("a turn that waited for an approval has ended: %s", self.void)

    def begin(self, scope: Scope, services: Services) -> None:
        """Begin the turn of *scope*. Its number is used up with its next entry: idempotency keys are made of it."""
        chains = services.chains.digest
        self._opening = (TurnBegan(scope.turn_id, time(), scope.origin, chains, scope.dry_run, scope.metadata),)

    def append(self, *entries: Entry) -> None:
        """Make *entries* durable."""
        if entries:
            self.transcript.append(*self._opening, *entries)
            self._opening = ()
            for entry in entries:
                self.doubtful.follow(entry)

    def _flush_both(self) -> Awaitable[None] | None:
        assert self.approvals is not None
        kept, written = self.approvals.flush(), self.transcript.flush()
        return written if kept is None else _both(kept, written)

    def say(self, said: Said) -> None:
        """Make *said* durable and take its message into the conversation."""
        self.append(said)
        self.messages = (*self.messages, said.message)

    def add(self, *messages: Message) -> None:
        """Take *messages* into the conversation."""
        if messages:
            self.messages = (*self.messages, *messages)

    def doubts(self, threads: Threads, call: ToolCallOperation, event: ToolCallEvent) -> str:
        """Return why this very call must not simply run again, empty if nothing speaks against it."""
        if event.capability in threads.abandoned:
            return "an earlier call of it was given up but is still running"
        if not call.tool.repeatable and call.fingerprint(event) in self.doubtful.calls:
            return "the same call was interrupted before and may already have taken effect"
        return ""

    def wait(self, paused: Paused, said: Message, results: Iterable[Message], form: OutputForm[Any] | None) -> None:
        """The turn that *said* began waits for a person, with these *results* of the calls that have one."""
        self.waiting = Waiting(paused, said, {message.tool_call_id or "": message for message in results})
        self.waiting_form = form

    def resolve(self, answer: Resolved) -> None:
        """Keep *answer*."""
        assert self.waiting is not None
        self.append(answer)
        self.waiting = attrs.evolve(self.waiting, resolved={**self.waiting.resolved, answer.digest: answer})

    def approved(self, decided: Decided[Any, Any] | None, asked: Asked[Any, Any], identities: tuple[str, ...]) -> None:
        """Keep the approval that has just been given to *asked*, if it is good for more than this request."""
        if isinstance(decided, Ready) and decided.approval is not None and isinstance(asked.event, ToolCallEvent):
            answer = decided.approval
            standing = standing_of(answer.by, answer.approval, asked.event, asked.asks, identities)
            if standing is not None:
                self.stand(standing)

    def stand(self, standing: Standing) -> None:
        """Let an approval hold for this session, or wherever its like is asked about."""
        if standing.reach == "always" and self.approvals is not None:
            self.approvals.keep(standing)
        self.append(standing)
        self.standing = (*self.standing, standing)

    def stands(
        self, event: ToolCallEvent, asks: Sequence[tuple[str, Ask]], identities: Sequence[str]
    ) -> Standing | None:
        """Return what a person has approved before that covers all of *asks* about *event*.

        What would cover them but for the tool's definition, which has changed since, is told.
        """
        held = (*self.standing, *(() if self.approvals is None else self.approvals.all()))
        found = covering(held, event, asks, identities)
        renewed = () if found else [attrs.evolve(each, definition=event.definition) for each in held]
        if renewed and covering(renewed, event, asks, identities) is not None:
            log.warning("'%s' has changed since it was approved; it is asked about anew", event.capability)
        return found

    def withdraw(self, why: str) -> None:
        """Give up what waits: every open call has its one result, and the turn is over."""
        waiting, self.void = self.waiting, ""
        if waiting is not None:
            self.close_waiting()
            self.append(TurnOver(waiting.paused.turn_id, why, usage=waiting.paused.usage))

    def close_waiting(self) -> None:
        """Give every call that waits its one result; the turn itself may go on."""
        waiting, self.waiting = self.waiting, None
        if waiting is None or waiting.paused.stage != "tool_call":
            return
        calls = self.messages[-1].tool_calls
        turn_id = waiting.paused.turn_id
        closing = [
            close_call(turn_id, call, self.doubtful.interrupted(call.id))
            for call in calls
            if call.id not in waiting.results
        ]
        known = {**waiting.results, **{entry.call_id: entry.message for entry in closing}}
        self.add(*(known[call.id] for call in calls))
        self.append(*closing)


async def _both(first: Awaitable[None], second: Awaitable[None] | None) -> None:
    await first
    if second is not None:
        await second


@attrs.frozen(eq=False, repr=False)
class TurnRecord:
    """Where one turn leaves its traces: the transcript, the conversation, observers and the stream. A Journal.

    With ``joins=False`` no message of the turn joins the conversation.
    """

    _services: Services
    _conversation: Conversation
    emit: Callable[[Observation], None]
    flush: Callable[[], Awaitable[None] | None]
    _joins: bool

    def record(self, decision: DecisionMade) -> None:
        self._conversation.append(DecidedEntry(decision))

    def append(self, *entries: Entry) -> None:
        self._conversation.append(*entries)

    def add(self, *messages: Message) -> None:
        """Take *messages* into the conversation."""
        if self._joins:
            self._conversation.add(*messages)

    async def commit(self) -> None:
        """Make what was appended as durable as the operator wants effects to be."""
        if self._services.settings.fsync != "off":
            await self._conversation.transcript.sync(self._services.threads.run)
