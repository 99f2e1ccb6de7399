"""Subscriptions of clients to single resources: a tool of the source waits for a change, again and again.

Each wait is a call like every other, decided anew: a policy that denies it, or later does, ends the subscription.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from pluggent_hookspecs import ToolOutput, thaw

from pluggent_mcp.serving.calls import BUSY, Calls
from pluggent_mcp.serving.exchanges import Context, session_of
from pluggent_mcp.serving.selection import Source
from pluggent_mcp.serving.sources.resources_and_prompts import Resources
from pluggent_mcp.serving.sources.tool_results import failure, not_found

MOST_SUBSCRIPTIONS = 64
MOST_OF_CLIENT = 16
MOST_STREAMS = 256
"""Streams of events that are open at once."""
AGAIN_S = 1.0
"""The least time between two waits for one resource, and so between two notifications of its changes."""
PING_S = 5.0
"""Time for a client to say that it is there, asked after each wait, and to take a notification."""
LONGEST_URI = 2_000

_LOG = logging.getLogger("pluggent.mcp.serve")

Notify = Callable[[], Awaitable[object]]


class Subscriptions:
    """What clients have subscribed to; an older client for its session, a newer one for its stream of events."""

    def __init__(self, calls: Calls, resources: Resources | None, lists: SubscriptionBus) -> None:
        self._calls = calls
        self._resources = resources
        self._lists = lists
        self._following: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._streams = 0

    async def aclose(self) -> None:
        """End all subscriptions."""
        await _end(self._following.values())

    # ---- the handshake protocols ---------------------------------------------------------

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Answer resources/subscribe. Raises MCPError."""
        key = session_of(context), str(params.uri)
        if key not in self._following:
            session = context.session

            async def notify() -> None:
                await session.send_resource_updated(key[1])

            await self._follow(context, key, notify, lambda: _is_there(session))
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Answer resources/unsubscribe."""
        task = self._following.pop((session_of(context), str(params.uri)), None)
        await _end(() if task is None else (task,))
        return EmptyResult()

    # ---- 2026-07-28 ----------------------------------------------------------------------

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Answer subscriptions/listen: with news of the lists, and of the resources that may be read."""
        if self._streams >= MOST_STREAMS:
            raise MCPError(BUSY, f"{MOST_STREAMS} streams are open already; try again later")
        bus = _StreamBus(self._lists)
        stream = f"stream {id(bus)}"
        wanted = dict.fromkeys(params.notifications.resource_subscriptions or ())
        honored: list[str] = []
        self._streams += 1
        try:
            for uri in islice(wanted, MOST_OF_CLIENT):
                try:
                    await self._follow(context, (stream, uri), bus.notifier(uri), _always)
                    honored.append(uri)
                except MCPError as error:
                    _LOG.info("a subscription is refused: %s", error)
            agreed = params.notifications.model_copy(update={"resource_subscriptions": honored})
            handler = ListenHandler(bus, max_subscriptions=1)
            return await handler(context, params.model_copy(update={"notifications": agreed}))
        finally:
            self._streams -= 1
            ours = [key for key in self._following if key[0] == stream]
            with anyio.CancelScope(shield=True):
                await _end([self._following.pop(key) for key in ours])

    # ---- following -----------------------------------------------------------------------

    async def _follow(
        self, context: Context, key: tuple[str, str], notify: Notify, is_there: Callable[[], Awaitable[bool]]
    ) -> None:
        """Follow the resource of *key* from now on. Raises MCPError if it cannot be, or may not."""
        owner, uri = key
        if len(uri) > LONGEST_URI:
            raise MCPError(INVALID_PARAMS, f"the URI is longer than {LONGEST_URI:,} characters")
        self._check_room(owner)
        source = None if self._resources is None else await self._resources.source(context, uri)
        if source is None:
            raise not_found("Resource not found", context.protocol_version, uri)
        if not source.waits:
            raise MCPError(INVALID_PARAMS, "it is not known when that resource changes")
        revision = await self._revision(context, source, uri, None)
        self._check_room(owner)  # others may have come meanwhile, the same one too
        await _end([self._following.pop(key)] if key in self._following else [])
        task = asyncio.create_task(
            self._run(context, source, uri, revision, notify, is_there), name="pluggent-mcp-subscription"
        )
        self._following[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def _check_room(self, owner: str) -> None:
        own = sum(each[0] == owner for each in self._following)
        if own >= MOST_OF_CLIENT or len(self._following) >= MOST_SUBSCRIPTIONS:
            problem = f"subscriptions are at their limit, {MOST_OF_CLIENT} of a client and {MOST_SUBSCRIPTIONS} in all"
            raise MCPError(BUSY, problem)

    def _forget(self, key: tuple[str, str], done: asyncio.Task[None]) -> None:
        if self._following.get(key) is done:
            del self._following[key]
        if not done.cancelled() and (error := done.exception()) is not None:
            _LOG.info("a subscription has ended: %s", error)

    async def _run(
        self, context: Context, source: Source, uri: str, revision: str, notify: Notify,
        is_there: Callable[[], Awaitable[bool]],
    ) -> None:  # fmt: skip
        while True:
            await asyncio.sleep(AGAIN_S)
            known, revision = revision, await self._revision(context, source, uri, revision)
            if not await is_there():
                return
            if revision != known:
                async with asyncio.timeout(PING_S):
                    await notify()

    async def _revision(self, context: Context, source: Source, uri: str, since: str | None) -> str:
        given = {"uri": uri} if since is None else {"uri": uri, "since": since}
        # The first one answers at once and takes a slot: clients may ask for many that they do not get.
        output = await (self._calls.run if since is None else self._calls.wait)(context, source.waits, given)
        if output.is_error:
            raise failure(output, context.protocol_version, uri)
        return _revision_in(output, source.waits)


def _revision_in(output: ToolOutput, name: str) -> str:
    data = thaw(output.data)
    revision = data.get("revision") if isinstance(data, dict) else None
    if not isinstance(revision, str):
        raise MCPError(INTERNAL_ERROR, f"'{name}' did not return a revision")
    return revision


class _StreamBus:
    """The events of one stream: those of the lists, and those of its own resources."""

    def __init__(self, lists: SubscriptionBus) -> None:
        self._lists = lists
        self._own = InMemorySubscriptionBus()

    def notifier(self, uri: str) -> Notify:
        return lambda: self._own.publish(ResourceUpdated(uri))

    async def publish(self, event: ServerEvent) -> None:
        await self._own.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        ends = (self._lists.subscribe(listener), self._own.subscribe(listener))

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe


async def _always() -> bool:
    return True


async def _is_there(session: ServerSession) -> bool:
    """Return whether the client takes what it is sent apart from answers."""
    try:
        async with asyncio.timeout(PING_S):
            await session.send_ping()
    except (MCPError, TimeoutError, OSError):
        return False
    return True


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    ending = [*tasks]
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
