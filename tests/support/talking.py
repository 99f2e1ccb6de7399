"""Sessions for tests of turns: real hosts with fakes alone, models fed by the test, observers, and whole histories."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from pluggent_hookspecs import Allow, Message, ModelRequest, ModelResponse, Provider, Scope, TextShown, hookimpl
from pluggent_hookspecs.events import ProvideEvent, ToolCallEvent
from pluggent_hookspecs.messages import Role
from pluggent_hookspecs.models import Delta, Finished, TextDelta
from pluggent_hookspecs.observations import Observation
from pluggent_host import Host, Session
from pluggent_host.common.running import Threads
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.event_bus import Observers
from pluggent_host.hooks.order import Impl
from pluggent_host.tools.selection import ToolChoice
from pluggent_host.turns.result import TurnResult
from pluggent_testing.fakes import Reply, ScriptedModel

WAIT_S = 10.0
"""How long a test waits for an event that is sure to come."""


class Permits:
    """The application's word that its own tools run unasked, whatever effects they declare (44)."""

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Allow:
        return Allow("permitted")


@asynccontextmanager
async def hosting(
    *replies: Reply,
    model: object = None,
    tools: Iterable[ToolChoice] = (),
    plugins: Iterable[object] = (),
    permits: bool = False,
    **options: Any,
) -> AsyncGenerator[Host]:
    """Open a host without installed plugins, on a scripted model that gives *replies*; *permits*: no tool asks."""
    if permits:
        options["policies"] = [*options.get("policies", ()), Permits()]
    asked = ScriptedModel(*replies) if model is None else model
    name = f"{getattr(asked, 'name', 'scripted')}/m"
    async with Host.open(model=name, tools=tools, plugins=[asked, *plugins], installed=False, **options) as host:
        yield host


@asynccontextmanager
async def talking(*replies: Reply, **options: Any) -> AsyncGenerator[Session]:
    """Open a session on such a host; see hosting()."""
    async with hosting(*replies, **options) as host, await host.session() as session:
        yield session


async def said(*replies: Reply, dry_run: bool = False, **options: Any) -> tuple[TurnResult[Any], Session]:
    """Say ``go`` in such a session; return the result and the closed session, whose history is whole."""
    async with talking(*replies, **options) as session:
        result = await asyncio.wait_for(session.say("go", dry_run=dry_run), WAIT_S)
    assert_whole(session.history)
    return result, session


def shape(history: Sequence[Message]) -> list[str]:
    """Return who says what, one short text a message: ``user hi``, ``assistant -> add``, ``tool 3``."""
    return [" ".join(filter(None, [message.role, message.text, _calls(message)])) for message in history]


def _calls(message: Message) -> str:
    return "-> " + ", ".join(call.name for call in message.tool_calls) if message.tool_calls else ""


def assert_whole(history: Sequence[Message]) -> None:
    """Fail unless every call is followed, in the order of the calls, by exactly one result."""
    waiting: list[str] = []
    for message in history:
        if message.role is Role.TOOL:
            assert waiting, f"a result of no call: {message}"
            assert message.tool_call_id == waiting.pop(0), f"not the result that comes next: {message}"
            continue
        assert not waiting, f"no result of {waiting} before {message}"
        ids = [call.id for call in message.tool_calls]
        assert len(set(ids)) == len(ids), f"two calls of one reply with one id: {ids}"
        assert all(ids), f"a call without an id: {message}"
        waiting = ids
    assert not waiting, f"no result of {waiting} at the end"


def results(history: Sequence[Message]) -> list[str]:
    """Return the texts of all tool results, in order."""
    return [message.text for message in history if message.role is Role.TOOL]


Batch: TypeAlias = tuple[Delta, ...]


class Live:
    """A provider whose stream gives the batches in ``queue``, or raises an error that it finds there.

    ``streams`` counts the streams that are not closed, ``given`` the batches that were taken.
    """

    name = "live"
    target = "memory:"

    def __init__(self, *batches: Batch | BaseException) -> None:
        self.queue = asyncio.Queue[Batch | BaseException]()
        for batch in batches:
            self.queue.put_nowait(batch)
        self.streams = 0
        self.given = 0

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> list[Provider]:
        return [self]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(Message.assistant("whole"))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        self.streams += 1
        try:
            while True:
                batch = await self.queue.get()
                if isinstance(batch, BaseException):
                    raise batch
                self.given += 1
                yield batch
                if any(isinstance(delta, Finished) for delta in batch):
                    return
        finally:
            self.streams -= 1


def text(*words: str) -> list[Batch]:
    """Return a batch for each word."""
    return [(TextDelta(word),) for word in words]


async def seen(events: AsyncIterable[Observation]) -> list[str]:
    """Read *events* to their end and return the texts that were shown."""
    return [event.text async for event in events if isinstance(event, TextShown)]


SCOPE = Scope("s", "t")


def shown(text: str) -> TextShown:
    return TextShown(SCOPE, text)


class Told:
    """Observers over some functions, without a host around them."""

    def __init__(self, *functions: Callable[[Any], Any], observe_s: float = 0.5, **more: Any) -> None:
        self.threads = Threads(name="observing")
        chain = tuple(
            Impl(f"plugin-{number}", function, is_async=inspect.iscoroutinefunction(function), **more)
            for number, function in enumerate(functions)
        )
        self.observers = Observers(chain, Caller(self.threads), observe_s)

    async def close(self, timeout_s: float = 1) -> None:
        await self.observers.close(timeout_s)
        self.threads.close()
