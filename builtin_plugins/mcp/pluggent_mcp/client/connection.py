"""A server as the rest of the plugin sees it: there when it is needed, started again when it died."""

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
from pluggent_mcp.client.asked import Asked
from pluggent_mcp.client.life import Life
from pluggent_mcp.client.offered import Offered, changes, shown
from pluggent_mcp.client.quiet import speaking
from pluggent_mcp.oauth.words import WANTS_LOGIN
from pluggent_mcp.references import resolved
from pluggent_mcp.settings import Server

STABLE_S = 60.0
"""Who lived this long is started again at once."""
LONGEST_WAIT_S = 60.0
MOST_TRIES = 8
"""How often a server that failed at its start is started again in the background; about two minutes."""
LAST_WORDS_S = 1.0
LONGEST_MESSAGE = 500
"""Characters of what a server says about its progress."""
GOODBYE_S = 0.4
"""How long a goodbye over HTTP may take, and a task that was cancelled."""
CLOSED = "Connection closed"
BROKEN = "SSE stream"
"""What the SDK says of a connection, and of the stream of one answer, that ended."""
REFUSED = "Server returned an error response"
"""What the SDK says where a server answers with an error of HTTP and of nothing else."""
FORGOTTEN = "Session terminated"
"""What the SDK says where a server answers 404."""


class ServerError(ToolError):
    """A server cannot be used; the message says which, why, and what it wrote last."""


class ForgottenError(ServerError):
    """The server knows our session no more, and has done nothing."""


class Connection:
    """One server, for all sessions of a host. Nothing is started before it is needed."""

    def __init__(self, name: str, server: Server) -> None:
        self.name = name
        self.server = server
        self.revision = 0
        """Grows when the server's tools have changed, or when it is there after all."""
        self.missing = False
        """Whether it was asked for its tools and has never been there."""
        self._asked = Asked(name)
        self._log = logging.getLogger(f"pluggent.mcp.{name}")
        self._life: Life | None = None
        self._offered: Mapping[str, Offered] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: asyncio.Task[None] | None = None
        self._failures = 0
        self._began_at = self._not_before = 0.0
        self._announced: Path | None = None
        self._closed = False

    async def offered(self) -> Mapping[str, Offered]:
        """Return the tools as the server has them now. Raises ServerError or ConfigError."""
        self.missing = self._offered is None
        try:
            self._offered = (await self.life()).offered
        except ServerError:
            if self.missing and self._again is None and not (self.server.required or self._closed):
                self._again = asyncio.create_task(
                    self._try_again(), name=f"pluggent-mcp-{self.name}-again", context=contextvars.Context()
                )
            raise
        self.missing = False
        return self._offered

    async def _try_again(self) -> None:
        """Start it in the background. Who died in use is started by the next call; this one has nothing to call."""
        for _ in range(MOST_TRIES):
            await asyncio.sleep(self._not_before - monotonic())
            if not self.missing:
                return  # a session that opened meanwhile has found it
            with suppress(ServerError, ConfigError):
                await self.offered()
                self.revision += 1
                return
        self._log.warning("MCP server '%s' failed %d times; the next session tries again", self.name, MOST_TRIES + 1)
        self._again = None

    async def life(self) -> Life:
        """Return the running life, begun if need be. Raises ServerError, ConfigError for a missing variable."""
        life = self._life
        if life is None or life.over:
            life = self._life = self._begun(life)
        await life.settled.wait()
        if life.took_offence:
            if self.server.protocol == "auto":
                self.server = attrs.evolve(self.server, protocol="legacy")
                self._failures, self._not_before = 0, 0.0
            return await self.life()
        if life.over:
            raise self._error(life.link.explained)
        if self._offered is not None and life.offered != self._offered:
            self._changed()
        return life

    def _begun(self, last: Life | None) -> Life:
        if self._closed:
            raise self._error("it is closed")
        now = monotonic()
        if last is not None and now < self._not_before:
            raise self._error(f"{last.link.explained}. It is started again in {self._not_before - now:.0f} s")
        server = resolved(self.name, self.server, os.environ)
        self._began_at = now
        self._announced = None
        life = Life(self.name, server, self._asked, self._changed, self._ended)
        self._tasks.add(life.task)
        life.task.add_done_callback(self._tasks.discard)
        return life

    def _changed(self) -> None:
        if self._life is not None:
            changed = changes(self._offered or {}, self._life.offered)
            if changed:
                self._log.warning(
                    "MCP server '%s' has changed tools since they were offered: %s. What was approved of them counts"
                    " no longer", self.name, changed,
                )  # fmt: skip
            self._offered = self._life.offered
        self.revision += 1

    def _ended(self) -> None:
        """Wait longer before each start, unless the last one served for a while."""
        now = monotonic()
        self._failures = 1 if now - self._began_at >= STABLE_S else self._failures + 1
        self._not_before = now + (0 if self._failures == 1 else min(LONGEST_WAIT_S, 2.0 ** (self._failures - 2)))

    async def aclose(self) -> None:
        """End it, and wait until nothing of it is left."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
            await asyncio.wait((self._again,), timeout=GOODBYE_S)
        if self._life is not None:
            self._life.give_up("it is closed")
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=2 * self.server.stop_timeout_s + GOODBYE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=GOODBYE_S)

    # ---- calls ---------------------------------------------------------------------------

    async def call(self, tool: Offered, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Call *tool*, if it still is what it was. Raises ToolError."""

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, shown(message or "", LONGEST_MESSAGE))

        async def once(client: Client) -> ToolOutput:
            return content.output(await client.call_tool(tool.name, dict(arguments), progress_callback=progressed))

        return await self.use(once, context, tool)

    async def use(
        self, once: Callable[[Client], Awaitable[ToolOutput]], context: ToolContext, tool: Offered | None = None
    ) -> ToolOutput:
        """Do *once* for the call of *context*; again if the server had forgotten us and done nothing."""
        with self._asked.during(context):
            try:
                return await self._once(once, context, tool)
            except ForgottenError:
                return await self._once(once, context, tool)

    async def _once(
        self, once: Callable[[Client], Awaitable[ToolOutput]], context: ToolContext, tool: Offered | None
    ) -> ToolOutput:
        life = await self._ready(context, tool)
        try:
            with speaking(life.link):
                return await once(life.client)
        except MCPError as error:
            if error.error.message == FORGOTTEN:
                life.link.end("it has forgotten the session")
                raise ForgottenError(f"MCP server '{self.name}': {life.link.explained}") from error
            raise await self._failed(life, error) from error
        except (ValueError, RuntimeError, OSError) as error:
            raise await self._failed(life, error) from error

    async def _ready(self, context: ToolContext, tool: Offered | None) -> Life:
        life = await self.life()
        if tool is not None:
            self._unchanged(life, tool)
        await self._announce(life, context.workspace)
        return life

    def _unchanged(self, life: Life, tool: Offered) -> None:
        now = life.offered.get(tool.name)
        if now is None:
            raise self._error(f"it does not offer '{tool.name}' any more")
        if now.digest != tool.digest:
            raise self._error(f"the definition of '{tool.name}' has changed since it was offered, so it was not called")

    async def _announce(self, life: Life, workspace: Path | None) -> None:
        """Tell a server that wants to know folders that there is another one now."""
        if not self._asked.roots_asked or workspace == self._announced:
            return
        self._announced = workspace
        if life.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await life.client.session.send_notification(RootsListChangedNotification())

    async def _failed(self, life: Life, error: Exception) -> ToolError:
        """Return what to tell of *error*: an outcome that is not known is said to be so."""
        if isinstance(error, MCPError):
            said = error.error.message
            if said == REFUSED and life.link.login:
                return self._error(life.link.login)
            if said == CLOSED:
                # The waiting call hears of the end before the task that knows why has seen it.
                await asyncio.wait((life.task,), timeout=0 if life.over else LAST_WORDS_S)
            # Servers use the code of a closed connection too.
            if life.over or (error.error.code == CONNECTION_CLOSED and said.startswith(BROKEN)):
                why = life.link.explained if life.over else said
                return self._error(f"{why}. The call may have taken effect", ToolErrorKind.OUTCOME_UNKNOWN)
            how = f". {life.link.refusal}" if said == REFUSED else ""
            return self._error(f"it refused: {shown(said)} ({error.error.code}){how}")
        return self._error(f"its answer cannot be used: {shown(str(error))}", ToolErrorKind.RESULT)

    def _error(self, why: str, kind: ToolErrorKind = ToolErrorKind.FAILED) -> ServerError:
        colon = "" if why.startswith(WANTS_LOGIN) else ":"
        return ServerError(f"MCP server '{self.name}'{colon} {why}", kind=kind)
