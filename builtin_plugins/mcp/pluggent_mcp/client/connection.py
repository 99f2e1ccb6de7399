"""The connection to one server for all sessions of a host: started on first use, restarted after it ended."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, RootsListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_hookspecs import ConfigError, ToolContext, ToolError, ToolErrorKind, ToolOutput

from pluggent_mcp.client import content
from pluggent_mcp.client.guarded_transport import UNSOLICITED
from pluggent_mcp.client.logs import sdk_logs_of
from pluggent_mcp.client.process import Guard
from pluggent_mcp.client.running_server import RunningServer
from pluggent_mcp.client.server_requests import ServerRequests
from pluggent_mcp.client.tool_list import ListedTool, changes, shown
from pluggent_mcp.client_model import CLIENT
from pluggent_mcp.oauth.challenges import WANTS_LOGIN
from pluggent_mcp.references import resolved
from pluggent_mcp.settings import Server

STABLE_S = 60.0
"""A server that ran this long is restarted at once."""
LONGEST_WAIT_S = 60.0
MOST_TRIES = 8
"""Restarts in the background of a server that failed at its start; about two minutes in all."""
LAST_WORDS_S = 1.0
LONGEST_MESSAGE = 500
"""Characters of what a server says about its progress."""
GOODBYE_S = 0.4
"""Time for the closing request over HTTP, and for a cancelled task to end."""
CLOSED = "Connection closed"
"""What the SDK says of a connection that ended."""
UNANSWERED = ("SSE stream", UNSOLICITED.partition(" (")[0])
"""What is said of a request whose own answer did not come."""
REFUSED = "Server returned an error response"
"""What the SDK says where a server answers with an error of HTTP and of nothing else."""
FORGOTTEN = "Session terminated"
"""What the SDK says where a server answers 404."""


class ServerError(ToolError):
    """A server cannot be used; the message says which, why, and what it wrote last."""


class ForgottenError(ServerError):
    """The server has dropped our session; it did not run the call."""


class Connection:
    """One server, for all sessions of a host. Nothing is started before it is needed."""

    def __init__(self, name: str, server: Server, guard: Guard | None = None) -> None:
        """Connect to *server*; *guard* is the one of all servers, by default one of its own."""
        self.name = name
        self._guard = Guard() if guard is None else guard
        self.server = server
        self.revision = 0
        """Incremented when the tools of the server change, or when a missing server has started."""
        self.missing = False
        """Whether its tools were requested and it has never started."""
        self._requests = ServerRequests(name)
        self._log = logging.getLogger(f"pluggent.mcp.{name}")
        self._running: RunningServer | None = None
        self._listed_tools: Mapping[str, ListedTool] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: asyncio.Task[None] | None = None
        self._failures = 0
        self._began_at = self._not_before = 0.0
        self._announced: tuple[Path | None, str] = (None, "")
        self._closed = False

    async def listed_tools(self) -> Mapping[str, ListedTool]:
        """Return the tools as the server has them now. Raises ServerError or ConfigError."""
        self.missing = self._listed_tools is None
        try:
            self._listed_tools = (await self.running()).listed_tools
        except ServerError:
            if self.missing and self._again is None and not (self.server.required or self._closed):
                self._again = asyncio.create_task(
                    self._try_again(), name=f"pluggent-mcp-{self.name}-again", context=contextvars.Context()
                )
            raise
        self.missing = False
        return self._listed_tools

    async def _try_again(self) -> None:
        """Restart it in the background. One that ended in use is restarted by the next call."""
        for _ in range(MOST_TRIES):
            await asyncio.sleep(self._not_before - monotonic())
            if not self.missing:
                return  # a session that opened meanwhile has found it
            with suppress(ServerError, ConfigError):
                await self.listed_tools()
                self.revision += 1
                return
        self._log.warning("MCP server '%s' failed %d times; the next session tries again", self.name, MOST_TRIES + 1)
        self._again = None

    async def running(self) -> RunningServer:
        """Return the running server; start it if needed. Raises ServerError, ConfigError for a missing variable."""
        running = self._running
        if running is None or running.over:
            running = self._running = self._start(running)
        await running.ready.wait()
        if running.refused_discovery:
            if self.server.protocol == "auto":
                self.server = attrs.evolve(self.server, protocol="legacy")
                self._failures, self._not_before = 0, 0.0
            return await self.running()
        if running.over:
            raise self._error(running.status.explanation)
        if self._listed_tools is not None and running.listed_tools != self._listed_tools:
            self._changed()
        return running

    def _start(self, last: RunningServer | None) -> RunningServer:
        if self._closed:
            raise self._error("it is closed")
        now = monotonic()
        if last is not None and now < self._not_before:
            raise self._error(f"{last.status.explanation}. It is started again in {self._not_before - now:.0f} s")
        server = resolved(self.name, self.server, os.environ)
        self._began_at = now
        self._announced = (None, "")
        running = RunningServer(self.name, server, self._requests, self._changed, self._ended, self._guard)
        self._tasks.add(running.task)
        running.task.add_done_callback(self._tasks.discard)
        return running

    def _changed(self) -> None:
        if self._running is not None:
            changed = changes(self._listed_tools or {}, self._running.listed_tools)
            if changed:
                self._log.warning(
                    "MCP server '%s' has changed tools since they were offered: %s. What was approved of them counts"
                    " no longer", self.name, changed,
                )  # fmt: skip
            self._listed_tools = self._running.listed_tools
        self.revision += 1

    def _ended(self) -> None:
        """Wait longer before each start, unless the last one served for a while."""
        now = monotonic()
        self._failures = 1 if now - self._began_at >= STABLE_S else self._failures + 1
        self._not_before = now + (0 if self._failures == 1 else min(LONGEST_WAIT_S, 2.0 ** (self._failures - 2)))

    async def aclose(self) -> None:
        """Stop the server, and wait until its processes and tasks have ended."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
            await asyncio.wait((self._again,), timeout=GOODBYE_S)
        if self._running is not None:
            self._running.abandon("it is closed")
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=2 * self.server.stop_timeout_s + GOODBYE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=GOODBYE_S)

    # ---- calls ---------------------------------------------------------------------------

    async def call(self, tool: ListedTool, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Call *tool* if its definition is unchanged. Raises ToolError."""

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, shown(message or "", LONGEST_MESSAGE))

        async def once(client: Client) -> ToolOutput:
            return content.output(await client.call_tool(tool.name, dict(arguments), progress_callback=progressed))

        return await self.use(once, context, tool)

    async def use(
        self, once: Callable[[Client], Awaitable[ToolOutput]], context: ToolContext, tool: ListedTool | None = None
    ) -> ToolOutput:
        """Run *once* for the call of *context*; repeat it if the server had dropped our session without running it."""
        with self._requests.for_call(context):
            try:
                return await self._once(once, context, tool)
            except ForgottenError:
                return await self._once(once, context, tool)

    async def use_apart(self, once: Callable[[Client], Awaitable[ToolOutput]], context: ToolContext) -> ToolOutput:
        """Run *once*, which may last, without being the call that requests of the server are answered for."""
        return await self._once(once, context, None)

    async def _once(
        self, once: Callable[[Client], Awaitable[ToolOutput]], context: ToolContext, tool: ListedTool | None
    ) -> ToolOutput:
        running = await self._ready_for(context, tool)
        try:
            with sdk_logs_of(running.status):
                return await once(running.client)
        except MCPError as error:
            if error.error.message == FORGOTTEN:
                running.status.end("it has forgotten the session")
                raise ForgottenError(f"MCP server '{self.name}': {running.status.explanation}") from error
            raise await self._failed(running, error) from error
        except (ValueError, RuntimeError, OSError) as error:
            raise await self._failed(running, error) from error

    async def _ready_for(self, context: ToolContext, tool: ListedTool | None) -> RunningServer:
        running = await self.running()
        if tool is not None:
            self._unchanged(running, tool)
        await self._announce(running, context.workspace)
        return running

    def _unchanged(self, running: RunningServer, tool: ListedTool) -> None:
        now = running.listed_tools.get(tool.name)
        if now is None:
            raise self._error(f"it does not offer '{tool.name}' any more")
        if now.digest != tool.digest:
            raise self._error(f"the definition of '{tool.name}' has changed since it was offered, so it was not called")

    async def _announce(self, running: RunningServer, workspace: Path | None) -> None:
        """Notify a server that has requested the roots that the workspace, or the served client, is another one."""
        client = CLIENT.get()
        now = (workspace, "" if client is None else client.key)
        if not self._requests.roots_requested or now == self._announced:
            return
        self._announced = now
        if running.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await running.client.session.send_notification(RootsListChangedNotification())

    async def _failed(self, running: RunningServer, error: Exception) -> ToolError:
        """Return the ToolError for *error*; its kind is OUTCOME_UNKNOWN if the call may have taken effect."""
        if isinstance(error, MCPError):
            said = error.error.message
            if said == REFUSED and running.status.login:
                return self._error(running.status.login)
            if said == CLOSED:
                # The waiting call sees the end before the task that knows the reason.
                await asyncio.wait((running.task,), timeout=0 if running.over else LAST_WORDS_S)
            # Servers use the code of a closed connection, too.
            unanswered = error.error.code == CONNECTION_CLOSED and said.startswith((CLOSED, *UNANSWERED))
            if running.over or unanswered:
                ended = "the connection closed" if said.startswith(CLOSED) else said
                why = running.status.explanation if running.over else ended
                return self._error(f"{why}. The call may have taken effect", ToolErrorKind.OUTCOME_UNKNOWN)
            how = f". {running.status.refusal}" if said == REFUSED else ""
            return self._error(f"it refused: {shown(said)} ({error.error.code}){how}")
        return self._error(f"its answer cannot be used: {shown(str(error))}", ToolErrorKind.RESULT)

    def _error(self, why: str, kind: ToolErrorKind = ToolErrorKind.FAILED) -> ServerError:
        colon = "" if why.startswith(WANTS_LOGIN) else ":"
        return ServerError(f"MCP server '{self.name}'{colon} {why}", kind=kind)
