"""Sessions for tests of turns: real hosts with fakes alone, and histories looked at as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pluggent_hookspecs import Message
from pluggent_hookspecs.messages import Role
from pluggent_host import Host, Session
from pluggent_host.tools.selection import ToolChoice
from pluggent_host.turns.result import TurnResult
from pluggent_testing.fakes import Reply, ScriptedModel

WAIT_S = 10.0
"""How long a test waits for an event that is sure to come."""


@asynccontextmanager
async def hosting(
    *replies: Reply,
    model: object = None,
    tools: Iterable[ToolChoice] = (),
    plugins: Iterable[object] = (),
    **options: Any,
) -> AsyncGenerator[Host]:
    """Open a host without installed plugins, on a scripted model that gives *replies*."""
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
