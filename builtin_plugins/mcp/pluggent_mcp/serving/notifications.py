"""Notifications to clients: progress and logs of their calls, and changes of the lists."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Self, TypeAlias, cast

import anyio
from mcp.server.connection import allowed_log_levels
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types import (
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    NotificationParams,
    SetLevelRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import LOG_LEVELS, ToolLogged, thaw

from pluggent_mcp.serving.exchanges import Context, current, session_of
from pluggent_mcp.serving.selection import Selection

MOST_WAITING = 64
"""Notifications that wait for a client to read them; more are dropped."""
DEFAULT_LEVEL = "info"
"""Log level of clients of the handshake protocols that did not set one."""
MOST_SESSIONS = 256
TOLD_S = 1.0
"""Time to send the last notifications of a call that has ended."""
_LOG = logging.getLogger("pluggent.mcp.serve")


class Levels:
    """The log level of each client."""

    def __init__(self) -> None:
        self._wanted: OrderedDict[str, str] = OrderedDict()

    async def set(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        """Answer logging/setLevel."""
        self._wanted[session_of(context)] = params.level
        self._wanted.move_to_end(session_of(context))
        if len(self._wanted) > MOST_SESSIONS:
            self._wanted.popitem(last=False)
        return EmptyResult()

    def allow(self, context: Context, level: str) -> bool:
        """Return whether the client of *context* wants logs of *level*: newer ones send it in each request."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return level in allowed_log_levels(context.protocol_version, cast("dict[str, Any] | None", context.meta))
        wanted = self._wanted.get(session_of(context), DEFAULT_LEVEL)
        return LOG_LEVELS.index(level) >= LOG_LEVELS.index(wanted)


_Step: TypeAlias = tuple[float, float | None, str] | ToolLogged


def _end(waiting: asyncio.Queue[_Step | None]) -> None:
    if waiting.full():
        waiting.get_nowait()
    waiting.put_nowait(None)


class CallNotifier:
    """Sends notifications about one call in order, as fast as the client reads; drops what exceeds the queue.

    Best effort: errors here affect neither the call nor its result.
    """

    def __init__(self, context: Context, levels: Levels) -> None:
        self._first = context
        self._exchange = current()
        self._levels = levels
        self._waiting: asyncio.Queue[_Step | None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Send the queued notifications, within a time limit."""
        if self._task is None or self._waiting is None:
            return
        try:
            if kind is None:
                _end(self._waiting)
                await asyncio.wait((self._task,), timeout=TOLD_S)
        finally:
            self._task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((self._task,), timeout=TOLD_S)

    @property
    def _context(self) -> Context:
        """The context of the round that is open now."""
        return self._first if self._exchange is None else self._exchange.context

    def progressed(self, done: float, total: float | None, message: str) -> None:
        """Queue a progress notification."""
        self._queue((done, total, message))

    def logged(self, event: ToolLogged) -> None:
        """Queue a log record."""
        if self._levels.allow(self._context, event.level):
            self._queue(event)

    def _queue(self, step: _Step) -> None:
        if self._waiting is None:  # most calls send none
            self._waiting = asyncio.Queue(MOST_WAITING)
            self._task = asyncio.create_task(self._run(self._waiting), name="pluggent-mcp-notifying")
        if not self._waiting.full():
            self._waiting.put_nowait(step)

    async def _run(self, waiting: asyncio.Queue[_Step | None]) -> None:
        while (step := await waiting.get()) is not None:
            try:
                await self._send(step)
            except Exception as error:  # noqa: BLE001 (of the SDK and below it; the next may arrive)
                _LOG.debug("a client could not be notified: %s: %s", type(error).__name__, error)

    async def _send(self, step: _Step) -> None:
        context = self._context
        if not isinstance(step, ToolLogged):
            done, total, message = step
            await context.session.report_progress(done, total, message or None)
            return
        told: Any = step.message if step.data is None else {"message": step.message, "data": thaw(step.data)}
        level, logger = cast("LoggingLevel", step.level), step.logger or step.name
        params = LoggingMessageNotificationParams(level=level, logger=logger, data=told)
        await context.session.send_notification(LoggingMessageNotification(params=params), context.request_id)


SEND_S = 2.0
"""Time to send the changes to one client."""


class ChangeNotifier:
    """Notifies clients of changes of the lists."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        """For subscribers of the newest protocol."""
        self._clients: OrderedDict[str, ServerSession] = OrderedDict()

    async def add_client(self, context: Context, _: NotificationParams | None) -> None:
        """Add a client of the older protocols after its handshake."""
        self._clients[session_of(context)] = context.session
        if len(self._clients) > MOST_SESSIONS:
            self._clients.popitem(last=False)

    async def publish(self, before: Selection, now: Selection) -> None:
        """Notify clients of the lists that differ."""
        events = [*_changes(before, now)]
        for event in events:
            await self.bus.publish(event)
        if events:
            await asyncio.gather(*(self._send(id, session, events) for id, session in [*self._clients.items()]))

    async def _send(self, id: str, session: ServerSession, events: Iterable[ServerEvent]) -> None:
        try:
            async with asyncio.timeout(SEND_S):
                for event in events:
                    match event:
                        case ToolsListChanged():
                            await session.send_tool_list_changed()
                        case ResourcesListChanged():
                            await session.send_resource_list_changed()
                        case _:
                            await session.send_prompt_list_changed()
        except (MCPError, TimeoutError, OSError) as error:
            self._clients.pop(id, None)
            _LOG.debug("a client could not be notified of changes: %s", error)


def _changes(before: Selection, now: Selection) -> Iterable[ServerEvent]:
    if before.tools != now.tools:
        yield ToolsListChanged()
    if before.resources != now.resources:
        yield ResourcesListChanged()
    if before.prompts != now.prompts:
        yield PromptsListChanged()
