"""Which resources of a server have changed: subscribed to while somebody waits, and for a while after.

Each has a revision, a word that is another one after each change. Who knows the last one misses nothing
between two waits: a change meanwhile, or another run of the server, has made a new one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import attrs
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    EmptyResult,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import ToolError

MOST_WATCHED = 64
"""Resources of one server that are watched at once."""
IDLE_S = 60.0
"""How long a resource is watched without a waiting call."""
GOODBYE_S = 5.0
"""Time to end a subscription."""

Spawn = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Runs a coroutine function in the background, as long as the server does."""


@attrs.define(eq=False)
class _Watched:
    """One resource. ``over`` is set when it is to be watched no longer, or cannot be."""

    name: str = attrs.field(factory=lambda: secrets.token_hex(4))
    changes: int = 0
    waiters: int = 0
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    over: asyncio.Event = attrs.field(factory=asyncio.Event)
    ready: asyncio.Future[None] = attrs.field(factory=lambda: asyncio.get_running_loop().create_future())
    idle: asyncio.TimerHandle | None = None

    @property
    def revision(self) -> str:
        return f"{self.name}.{self.changes}"

    def note(self) -> None:
        """Note a change."""
        self.changes += 1
        self.changed.set()

    def end(self) -> None:
        """Watch it no longer; who waits is told that it may have changed."""
        self.over.set()
        self.note()


class ResourceWatch:
    """The watched resources of one running server."""

    def __init__(self, client: Client, spawn: Spawn, limit_s: float) -> None:
        self._client = client
        self._spawn = spawn
        self._limit_s = limit_s
        self._watched: dict[str, _Watched] = {}

    def updated(self, uri: str) -> None:
        """Note that the server says that *uri* has changed: it, or what is below a watched one."""
        for watched, each in self._watched.items():
            if uri == watched or uri.startswith(watched.rstrip("/") + "/"):
                each.note()

    async def wait(self, uri: str, since: str | None, seconds: float) -> str:
        """Return the revision of *uri*, when it is another one than *since*; after *seconds* in any case.

        Raises MCPError if the server refuses, ToolError if too many are watched.
        """
        watched = self._watched.get(uri) or self._begin(uri)
        watched.waiters += 1
        if watched.idle is not None:
            watched.idle.cancel()
        try:
            await asyncio.shield(watched.ready)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while watched.revision == since:
                        watched.changed.clear()
                        await watched.changed.wait()
            return watched.revision
        finally:
            watched.waiters -= 1
            if not watched.waiters:
                watched.idle = asyncio.get_running_loop().call_later(IDLE_S, watched.over.set)

    def _begin(self, uri: str) -> _Watched:
        if len(self._watched) >= MOST_WATCHED:
            raise ToolError(f"{MOST_WATCHED} resources of this server are watched already; try again in a minute")
        watched = self._watched[uri] = _Watched()
        # No call may be waiting any more when it fails.
        watched.ready.add_done_callback(lambda ready: ready.exception())
        self._spawn(lambda: self._watch(uri, watched))
        return watched

    async def _watch(self, uri: str, watched: _Watched) -> None:
        modern = self._client.protocol_version in MODERN_PROTOCOL_VERSIONS
        try:
            await (self._listen(uri, watched) if modern else self._subscribe(uri, watched))
        except (MCPError, TimeoutError, ValueError, RuntimeError) as error:
            if not watched.ready.done():
                problem = str(error) or "it did not confirm the subscription in time"
                watched.ready.set_exception(error if isinstance(error, MCPError) else ToolError(problem))
        finally:
            if not watched.ready.done():  # a cancellation would be taken for one of the waiting call
                watched.ready.set_exception(ToolError("the connection to its server ended"))
            self._watched.pop(uri, None)
            watched.end()

    async def _subscribe(self, uri: str, watched: _Watched) -> None:
        session = self._client.session
        async with asyncio.timeout(self._limit_s):
            await session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)
        watched.ready.set_result(None)
        await watched.over.wait()
        async with asyncio.timeout(GOODBYE_S):
            await session.send_request(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)

    async def _listen(self, uri: str, watched: _Watched) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._limit_s):
                events = await stack.enter_async_context(self._client.listen(resource_subscriptions=[uri]))
            if uri not in (events.honored.resource_subscriptions or ()):
                raise ValueError("it does not say when that resource changes")
            watched.ready.set_result(None)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_after, watched.over, tasks.cancel_scope)
                with suppress(RuntimeError, MCPError):  # here: a group of tasks would wrap it
                    async for _ in events:
                        watched.note()
                tasks.cancel_scope.cancel()


async def _cancel_after(event: asyncio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
