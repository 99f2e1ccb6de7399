"""What a client is told while its request is under way: how far a call is, and what it has for a log."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any, Self, cast

import anyio
from mcp.server.connection import allowed_log_levels
from mcp_types import (
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SetLevelRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import LOG_LEVELS, ToolLogged, thaw

from pluggent_mcp.serving.exchanges import Context, current

MOST_WAITING = 64
"""Things to tell that wait for a client to read them; more are passed over."""
DEFAULT_LEVEL = "info"
"""Of a client of the handshake protocols that has not said which it wants."""
MOST_SESSIONS = 256
TOLD_S = 1.0
"""How long the client of a call that has ended may take to hear what was told before its end."""
_LOG = logging.getLogger("pluggent.mcp.serve")


class Levels:
    """From which level on each client wants logs."""

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
        """Say whether the client of *context* wants logs of *level*: newer ones say so in each request."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return level in allowed_log_levels(context.protocol_version, cast("dict[str, Any] | None", context.meta))
        wanted = self._wanted.get(session_of(context), DEFAULT_LEVEL)
        return LOG_LEVELS.index(level) >= LOG_LEVELS.index(wanted)


class Telling:
    """Tells the client of one call, in order, as fast as it reads; what is too much is passed over.

    To be told is no right: whatever goes wrong here, the call goes on, and its outcome is what it is.
    """

    def __init__(self, context: Context, levels: Levels) -> None:
        self._first = context
        self._exchange = current()
        self._levels = levels
        self._waiting: asyncio.Queue[tuple[float, float | None, str] | ToolLogged | None] = asyncio.Queue(MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="pluggent-mcp-telling")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Have told what was told before the end, as long as that takes no longer than it may."""
        assert self._task is not None
        try:
            if kind is None:
                self._end()
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
        """Have told how far it is."""
        if not self._waiting.full():
            self._waiting.put_nowait((done, total, message))

    def logged(self, event: ToolLogged) -> None:
        """Have told what it has for a log."""
        if not self._waiting.full() and self._levels.allow(self._context, event.level):
            self._waiting.put_nowait(event)

    async def _run(self) -> None:
        while (step := await self._waiting.get()) is not None:
            try:
                await self._tell(step)
            except Exception as error:  # noqa: BLE001 (of the SDK and below it; the next may arrive)
                _LOG.debug("a client could not be told: %s: %s", type(error).__name__, error)

    def _end(self) -> None:
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)

    async def _tell(self, step: tuple[float, float | None, str] | ToolLogged) -> None:
        context = self._context
        if not isinstance(step, ToolLogged):
            done, total, message = step
            await context.session.report_progress(done, total, message or None)
            return
        told: Any = step.message if step.data is None else {"message": step.message, "data": thaw(step.data)}
        level, logger = cast("LoggingLevel", step.level), step.logger or step.name
        params = LoggingMessageNotificationParams(level=level, logger=logger, data=told)
        await context.session.send_notification(LoggingMessageNotification(params=params), context.request_id)


def session_of(context: Context) -> str:
    """Return the client's session over HTTP, empty for the one client of a pipe."""
    headers = getattr(context.request, "headers", None)
    return "" if headers is None else str(headers.get("mcp-session-id", ""))
