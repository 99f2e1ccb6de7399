"""A conversation and its lifetime: one turn at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from time import time
from typing import Any, Self, TypeVar, Unpack, overload

import attrs
from pluggent_hookspecs import Json, Value
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.observations import Observation, SessionClosed
from pluggent_hookspecs.tools import ToolOutput, ToolSpec
from pluggent_transcript.entries import Entry, ModelChosen, PutBack, Undone
from pluggent_transcript.pending import Pending, Waiting, answered, approval_of, refusal
from pluggent_transcript.rebuild import Exchange, last_exchange, rebuild, unsaid

from pluggent_host.common.running import to_its_end
from pluggent_host.hooks.event_bus import EventCallback, EventStream
from pluggent_host.tools.toolset import Toolset
from pluggent_host.turns.background import cancel_waiting
from pluggent_host.turns.loop import Turn, call_directly, turn_parts
from pluggent_host.turns.options import Content, How, TurnOptions, check, going_on, user_message
from pluggent_host.turns.record import Agent, Conversation, Services
from pluggent_host.turns.result import Feed, TurnResult, TurnStream
from pluggent_host.turns.resume import ResumedTurn

T = TypeVar("T")
K = TypeVar("K")


@attrs.frozen(repr=False)
class OfferedTool(Value):
    """A tool of a session, for listings."""

    name: str
    capability: str
    plugin: str
    spec: ToolSpec
    effects: frozenset[str] | None
    default: str


def offered(tools: Toolset) -> tuple[OfferedTool, ...]:
    """Return *tools* for listings."""
    return tuple(
        OfferedTool(name, tool.capability, tool.plugin, tool.spec, tool.effects, type(tool.default).__name__.lower())
        for name, tool in tools.items()
    )


@attrs.define(eq=False, repr=False, slots=False)
class Session:
    """One conversation with one model, under the policies of its host. Made by ``Host.session()``.

    ``say`` runs a turn and returns its result; ``stream`` runs one and yields its events. Each turn sees the
    history of the earlier ones.
    """

    _services: Services
    _conversation: Conversation
    _agent: Agent
    _scope: Scope
    _turns: int
    _usage: Usage
    _on_close: Callable[[Session], None]
    _task: asyncio.Task[Any] | None = attrs.field(default=None, init=False)
    _idle: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _listed: tuple[Toolset, tuple[OfferedTool, ...]] | None = attrs.field(default=None, init=False)

    @property
    def id(self) -> str:
        """The id; a stored session is opened again by it."""
        return self._scope.session_id

    @property
    def model(self) -> str:
        """The model, as ``provider/model``."""
        return f"{self._agent.model.provider.name}/{self._agent.model.name}"

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages so far, without the system prompt."""
        return self._conversation.messages

    @property
    def usage(self) -> Usage:
        """The usage so far, aborted calls included."""
        return self._usage

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The tools that the model may be offered."""
        current = self._agent.tools
        if self._listed is None or self._listed[0] is not current:
            self._listed = current, offered(current.offered)
        return self._listed[1]

    def records(self) -> tuple[Entry, ...]:
        """Return every entry of the transcript so far: messages, decisions, effects."""
        return self._conversation.transcript.entries()

    @overload
    async def say(self, content: Content, **options: Unpack[TurnOptions]) -> TurnResult[None]: ...
    @overload
    async def say(self, content: Content, *, output: type[T], **options: Unpack[TurnOptions]) -> TurnResult[T]: ...
    @overload
    async def say(self, content: Content, *, output: Any, **options: Unpack[TurnOptions]) -> TurnResult[Any]: ...
    async def say(self, content: Content, *, output: Any = None, **options: Unpack[TurnOptions]) -> TurnResult[Any]:
        """Run one turn and return its result.

        *content* is text, a part (see ``pluggent_host.image``), several of both, or a Message of role user. *output*
        is the form of the answer: a type (attrs class, dataclass, TypedDict, list, …) or a JSON Schema of an object.
        The answer is then ``result.output``, checked; an invalid one is sent back once (``Limits.repairs``). For the
        *options* see TurnOptions.

        A denial, a reached limit or an unanswered approval is a result (``result.why``). Raises ProviderError if the
        model cannot be asked, HookError if a required plugin fails, SessionError during another turn; the history
        stays valid.
        """
        return await self._turn(content, How(output, **options), None)

    @overload
    def stream(self, content: Content, **options: Unpack[TurnOptions]) -> TurnStream[None]: ...
    @overload
    def stream(self, content: Content, *, output: type[T], **options: Unpack[TurnOptions]) -> TurnStream[T]: ...
    @overload
    def stream(self, content: Content, *, output: Any, **options: Unpack[TurnOptions]) -> TurnStream[Any]: ...
    def stream(self, content: Content, *, output: Any = None, **options: Unpack[TurnOptions]) -> TurnStream[Any]:
        """Run one turn and watch it: an async context manager that is an async iterator of events.

        >>> async def watch(session):
        ...     async with session.stream("hello") as events:
        ...         async for event in events:
        ...             print(event)
        ...     return events.result
        """
        feed, how = Feed(), How(output, **options).by("stream")
        return TurnStream(feed, lambda: self._turn(content, how, feed))

    @overload
    def events(self) -> EventStream[Observation]: ...
    @overload
    def events(self, *kinds: type[K]) -> EventStream[K]: ...
    def events(self, *kinds: type[Any]) -> EventStream[Any]:
        """Subscribe to events of these *kinds* (default: all) in all turns of this session.

        >>> async def watch(session):
        ...     async with session.events(DecisionMade) as events:
        ...         async for event in events:
        ...             print(event.verdict)
        """
        if self._closed:
            raise SessionError(f"session '{self.id}' is closed")
        return self._services.watchers.stream(kinds, self._scope, lambda: self._closed)

    @contextlib.contextmanager
    def listening(self, call: Callable[[Any], object], *kinds: type[Any]) -> Generator[None]:
        """Call *call* with each event of these *kinds* in this session, at once, until the block is left.

        It runs where the event happens, on the event loop: it must not block. Cheaper than ``events`` for one call.
        """
        callback = EventCallback(call, kinds, self._scope)
        self._services.watchers.add(callback)
        try:
            yield
        finally:
            self._services.watchers.discard(callback)

    async def call_tool(
        self,
        name: str,
        arguments: str | Mapping[str, Json],
        *,
        origin: str = "api",
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> ToolOutput:
        """Call one tool, without a model, under all policies of a tool call.

        *arguments* is JSON text or a mapping. A denial is an output with ``is_error``. The output passes the policies
        on outputs, too, as no text of a model follows: if they deny it, it is an error. The conversation stays as it
        is; decisions and effects are recorded. Raises SessionError while a turn waits for a person.
        """
        if self._conversation.waiting is not None:
            raise SessionError(
                f"session '{self.id}' has a turn that waits for a person; resume it first, or say something"
            )
        how = How(origin=origin, metadata=metadata, dry_run=dry_run, caller="application")
        async with self._alone():
            scope = self._next_scope(how)
            used: list[Usage] = []
            try:
                return await call_directly(
                    self._services, self._conversation, self._agent, scope, name, arguments, used.append
                )
            finally:
                self._usage = sum(used, self._usage)

    @property
    def paused(self) -> bool:
        """Whether a turn waits to be resumed: for answers, or because its process ended."""
        return self._conversation.waiting is not None

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The requests of a paused turn that wait for an approval; empty if none does."""
        waiting = self._conversation.waiting
        return () if waiting is None else waiting.open

    async def resume(
        self, answers: Mapping[str, bool | Approval] | None = None, *, output: Any = None
    ) -> TurnResult[Any]:
        """Continue a paused turn with *answers* by ``Pending.call_id``, stored answers, and live approvers.

        Every policy decides again, on the stored bytes; an approval counts for exactly the asks that it was given to.
        Requests without an answer pause the turn again. Parameters, limits and metadata are those of the begun turn.
        *output* is the form of the answer; another process needs it for a type, else the value follows the schema.

        If the input needed the approval, the turn begins now. If it was a request to the model, that request is sent,
        or a new one is decided about if the model or the tools have changed. A refusal of either ends the turn
        (``Why.DENIED``). Raises SessionError if no turn waits, or for an answer to an unknown call.
        """
        return await self._resumed(answers, output, None)

    def stream_resume(
        self, answers: Mapping[str, bool | Approval] | None = None, *, output: Any = None
    ) -> TurnStream[Any]:
        """Continue a paused turn as ``resume`` does, and watch it as with ``stream``."""
        feed = Feed()
        return TurnStream(feed, lambda: self._resumed(answers, output, feed))

    async def _resumed(
        self, answers: Mapping[str, bool | Approval] | None, output: Any, feed: Feed | None
    ) -> TurnResult[Any]:
        async with self._alone():
            waiting = self._conversation.waiting
            if waiting is None:
                why = f" any more: {void}" if (void := self._conversation.void) else ""
                raise SessionError(f"session '{self.id}' has no turn that waits for a person{why}")
            self._answer(waiting, answers or {})
            waiting = self._conversation.waiting or waiting
            form = self._conversation.waiting_form
            agent, scope = going_on(self._agent, self._scope, waiting, form, output)
            parts = turn_parts(self._services, self._conversation, agent, scope, feed, waiting=waiting)
            turn = ResumedTurn(Turn(parts, waiting), waiting)
            try:
                return await turn.resume()
            finally:
                self._usage += turn.used_since(waiting.paused.usage)

    def _answer(self, waiting: Waiting, answers: Mapping[str, bool | Approval]) -> None:
        pending = {each.call_id: each for each in waiting.open}
        if unknown := [call_id for call_id in answers if call_id not in pending]:
            problem = f"no call waits under {', '.join(map(repr, unknown))}; these do: {', '.join(pending) or 'none'}"
            raise SessionError(f"session '{self.id}': {problem}")
        given = {call_id: approval_of(call_id, answer) for call_id, answer in answers.items()}
        problems = [refusal(pending[call_id], each, each.by or "application") for call_id, each in given.items()]
        if said := "; ".join(filter(None, problems)):
            raise SessionError(f"session '{self.id}': {said}")
        for call_id, approval in given.items():
            by = approval.by or "application"
            resolved, standing = answered(waiting.paused, pending[call_id], approval, by, time())
            self._conversation.resolve(resolved)
            if standing is not None:
                self._conversation.stand(standing)

    async def use(self, *, model: str) -> None:
        """Use *model* (``provider/model``) from the next turn on, also after the session is opened again.

        Raises ConfigError for an unknown model, SessionError during a turn.
        """
        check("model", model, str)
        found = await self._services.model(model)
        async with self._alone():
            self._conversation.append(ModelChosen(model))
            self._agent = attrs.evolve(self._agent, model=found)

    async def undo(self) -> Exchange | None:
        """Take back the last user message and everything after it; return it, None if there is none.

        Durable. Usage stays counted, effects of tools stay done: look at ``effects``, and see ``put_back``. Approvals
        for the session given in it end, those for always stay. A given history is never taken back. Raises
        SessionError during a turn.
        """
        async with self._alone():
            waiting = self._conversation.waiting
            await cancel_waiting(self._services, waiting)
            self._conversation.withdraw("withdrawn")
            transcript = self._conversation.transcript
            entries = await self._services.threads.run(transcript.entries)
            exchange = (None if waiting is None else unsaid(waiting)) or last_exchange(entries)
            if exchange is not None:
                undone = Undone(exchange.turn_id)
                self._conversation.append(undone)
                left = rebuild((*entries, undone))
                self._conversation.messages, self._conversation.standing = left.messages, left.standing
            return exchange

    async def put_back(self, exchange: Exchange | None) -> tuple[tuple[PutBack, ToolOutput], ...]:
        """Make the calls of ``exchange.put_backs``, each with its output: files are as they were, for example.

        *exchange* is what ``undo`` returned; None, nothing was taken back, puts back nothing.

        They are calls like those by hand: policies decide, a person is asked, and a file that has changed since
        is left alone by its tool. One that fails does not stop the others. Raises SessionError as ``call_tool``.
        """
        made: list[tuple[PutBack, ToolOutput]] = []
        for each in () if exchange is None else exchange.put_backs:
            tools = self._agent.tools.items()
            name = next((name for name, tool in tools if tool.capability == each.capability), None)
            if name is None:
                output = ToolOutput.error(f"Error: '{each.capability}' is not among the tools of this session.")
            else:
                output = await self.call_tool(name, each.arguments, origin="undo")
            made.append((each, output))
        return tuple(made)

    async def aclose(self) -> None:
        """End a running turn, close the session and its transcript. Safe twice."""
        if not self._closed:
            self._closed = True
            task = self._task
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await to_its_end(self._idle.wait())
            await self._conversation.transcript.aclose()
            self._services.emit(SessionClosed(self._scope))
            self._on_close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _turn(self, content: Content, how: How, feed: Feed | None) -> TurnResult[Any]:
        message = user_message(content)
        agent = how.agent(self._agent)
        async with self._alone():
            scope = self._next_scope(how)
            await cancel_waiting(self._services, self._conversation.waiting)
            self._conversation.withdraw("withdrawn")
            turn = Turn(turn_parts(self._services, self._conversation, agent, scope, feed))
            try:
                return await turn.run(message)
            finally:
                self._usage += turn.meter.usage

    def _next_scope(self, how: How) -> Scope:
        scope = how.scope(self._scope, f"t{self._turns + 1}")
        self._turns += 1
        return scope

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Keep the session to the caller. Raises SessionError if it is closed or in a turn."""
        if self._closed:
            raise SessionError(f"session '{self.id}' is closed")
        if self._task is not None:
            raise SessionError(f"session '{self.id}' is in the middle of a turn; wait for it, or open another session")
        self._task = asyncio.current_task()
        self._idle.clear()
        approvals = self._conversation.approvals
        try:
            if approvals is not None and (read := approvals.refresh()) is not None:
                await read
            yield
            if (written := self._conversation.flush()) is not None:
                await written
        except asyncio.CancelledError:
            if not self._closed or self._task is None:
                raise
            # The session cancelled the turn, not the caller.
            self._task.uncancel()
            raise SessionError(f"session '{self.id}' was closed in the middle of this turn") from None
        finally:
            self._task = None
            self._idle.set()
