"""A conversation and its lifetime: open, say, stream, close. One turn at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, get_args

import attrs
from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Observation, Scope, SessionClosed
from pluggent_hookspecs.messages import Message, Part, Role, Usage
from pluggent_hookspecs.models import ModelParameters
from pluggent_hookspecs.tools import ToolOutput, ToolSpec

from pluggent_host.conversation import Agent, Conversation, Services
from pluggent_host.direct import call_directly
from pluggent_host.feed import Feed
from pluggent_host.settings import Limits
from pluggent_host.transcript import Entry
from pluggent_host.turn import Turn, TurnResult

Content = str | Part | tuple[Part, ...] | Message


@attrs.frozen
class OfferedTool:
    """A tool of a session, as listings show it."""

    name: str
    capability: str
    plugin: str
    spec: ToolSpec
    effects: frozenset[str] | None
    default: str


class Session:
    """One conversation with one model, under the policies of its host.

    Made by ``Host.session()``. ``say`` runs a turn and returns its result; ``stream`` runs
    one and lets you watch. History is what the session holds: later turns see earlier ones.
    """

    def __init__(
        self,
        services: Services,
        conversation: Conversation,
        agent: Agent,
        scope: Scope,
        turns: int,
        usage: Usage,
        on_close: Callable[[Session], None],
    ) -> None:
        self._services = services
        self._conversation = conversation
        self._agent = agent
        self._scope = scope
        self._turns = turns
        self._usage = usage
        self._on_close = on_close
        self._task: asyncio.Task[Any] | None = None
        self._idle = asyncio.Event()
        self._closed = False

    @property
    def id(self) -> str:
        """The session's id; with a state folder it can be opened again by it."""
        return self._scope.session_id

    @property
    def model(self) -> str:
        """The model, as ``provider/model``."""
        return f"{self._agent.model.provider.name}/{self._agent.model.name}"

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages so far, the system prompt not among them."""
        return self._conversation.messages

    @property
    def usage(self) -> Usage:
        """What the session has used so far, aborted calls included."""
        return self._usage

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The tools that the model may be offered."""
        return tuple(
            OfferedTool(
                name, tool.capability, tool.plugin, tool.spec, tool.effects, type(tool.default).__name__.lower()
            )
            for name, tool in self._agent.tools.items()
        )

    def records(self) -> tuple[Entry, ...]:
        """Return every entry of the transcript so far: messages, decisions, effects."""
        return self._conversation.transcript.entries()

    async def say(
        self,
        content: Content,
        *,
        parameters: ModelParameters | None = None,
        limits: Limits | None = None,
        origin: str = "",
    ) -> TurnResult:
        """Run one turn and return what it came to.

        A denial, a reached limit or an unanswered approval is a result (``result.why``).
        Raises ProviderError if the model could not be asked, HookError if a plugin that may
        not fail did, SessionError while another turn runs. The conversation stays whole.
        """
        return await self._turn(content, parameters, limits, origin, None)

    def stream(
        self,
        content: Content,
        *,
        parameters: ModelParameters | None = None,
        limits: Limits | None = None,
        origin: str = "",
    ) -> TurnStream:
        """Run one turn and watch it: an async context manager that is an async iterator of events.

        >>> async def watch(session):
        ...     async with session.stream("hello") as events:
        ...         async for event in events:
        ...             print(event)
        ...     return events.result
        """
        feed = Feed()
        return TurnStream(feed, lambda: self._turn(content, parameters, limits, origin or "stream", feed))

    async def call_tool(self, name: str, arguments: str | Mapping[str, Json], *, origin: str = "api") -> ToolOutput:
        """Call one tool, without a model, under all policies of a tool call.

        *arguments* is JSON text or a mapping. A denial is an output with ``is_error``.
        Nothing joins the conversation; decisions and effects are recorded.
        """
        async with self._turn_scope(origin) as scope:
            return await call_directly(self._services, self._conversation, self._agent, scope, name, arguments)

    async def aclose(self) -> None:
        """End a turn that still runs, close the session, give up its transcript. Safe twice."""
        if not self._closed:
            self._closed = True
            task = self._task
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await _to_its_end(self._idle.wait())
            self._conversation.transcript.close()
            self._services.tell(SessionClosed(self._scope))
            self._on_close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _turn(
        self,
        content: Content,
        parameters: ModelParameters | None,
        limits: Limits | None,
        origin: str,
        feed: Feed | None,
    ) -> TurnResult:
        message = _message(content)
        if not message.content:
            raise SessionError("there is nothing to say: the message is empty")
        if message.role is not Role.USER or message.tool_calls:
            raise SessionError(f"only a user's message can be said, not one of role {message.role} or with tool calls")
        agent = attrs.evolve(
            self._agent, parameters=parameters or self._agent.parameters, limits=limits or self._agent.limits
        )
        async with self._turn_scope(origin) as scope:
            turn = Turn(self._services, self._conversation, agent, scope, feed)
            try:
                return await turn.run(message)
            finally:
                self._usage += turn.usage

    @contextlib.asynccontextmanager
    async def _turn_scope(self, origin: str) -> AsyncGenerator[Scope]:
        if self._closed:
            raise SessionError(f"session '{self.id}' is closed")
        if self._task is not None:
            raise SessionError(f"session '{self.id}' is in the middle of a turn; wait for it, or open another session")
        self._task = asyncio.current_task()
        self._idle.clear()
        self._turns += 1
        try:
            yield attrs.evolve(self._scope, turn_id=f"t{self._turns}", origin=origin or self._scope.origin)
        except asyncio.CancelledError:
            if not self._closed or self._task is None:
                raise
            # The session cancelled the turn, not the caller: he is told, and goes on.
            self._task.uncancel()
            raise SessionError(f"session '{self.id}' was closed in the middle of this turn") from None
        finally:
            self._task = None
            self._idle.set()


class TurnStream:
    """A running turn: enter it, iterate over its events, read ``result`` afterwards.

    Leaving it early cancels the turn and waits until nothing of it runs any more.
    """

    def __init__(self, feed: Feed, run: Callable[[], Awaitable[TurnResult]]) -> None:
        self._feed = feed
        self._run = run
        self._task: asyncio.Task[TurnResult] | None = None

    @property
    def result(self) -> TurnResult:
        """What the turn came to. Raises SessionError before its end, or what the turn raised."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise SessionError("the turn has no result yet: read its events to the end first")
        return self._task.result()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise SessionError("a stream is used once; call session.stream() again")
        self._task = asyncio.create_task(self._to_the_end(), name="pluggent-turn")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Observation]:
        return self._events()

    async def aclose(self) -> None:
        """End the turn if it still runs. Safe twice."""
        if self._task is None:
            return
        if not self._task.done():
            self._feed.abandon()
            self._task.cancel()
        await _to_its_end(self._task)
        if not self._task.cancelled():
            self._task.exception()

    async def _to_the_end(self) -> TurnResult:
        try:
            return await self._run()
        finally:
            self._feed.end()

    async def _events(self) -> AsyncIterator[Observation]:
        if self._task is None:
            raise SessionError("enter the stream first: async with session.stream(…) as events")
        async for event in self._feed.events():
            yield event
        await asyncio.wait((self._task,))
        self._task.result()


def _message(content: Content) -> Message:
    if isinstance(content, Message):
        return content
    given: tuple[object, ...] = content if isinstance(content, tuple) else (content,)
    if not isinstance(content, str) and not all(isinstance(part, _PARTS) for part in given):
        raise TypeError(f"expected text, a part, a tuple of parts or a Message, got {type(content).__name__}")
    return Message.user(content)


_PARTS = get_args(Part)


async def _to_its_end(awaitable: Awaitable[Any]) -> None:
    """Wait until *awaitable* is done, even if the waiting is cancelled; the cancellation comes after."""
    waiting = asyncio.ensure_future(awaitable)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
