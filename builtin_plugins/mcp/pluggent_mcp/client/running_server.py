"""One life of a connection: made, used and ended in one task of its own.

One task, because the SDK's cancel scopes have to be left where they were entered; a context of
its own, because it serves calls of several sessions and belongs to none.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    EmptyResult,
    Implementation,
    LoggingMessageNotificationParams,
    SetLevelRequest,
    SetLevelRequestParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pluggent_mcp.client.asked import Asked
from pluggent_mcp.client.failures import unreachable
from pluggent_mcp.client.kin import new_mark
from pluggent_mcp.client.link import LONGEST_LINE, Link
from pluggent_mcp.client.logs import entry, part, wanted
from pluggent_mcp.client.offered import ListingError, Offered, offered_by
from pluggent_mcp.client.process import Child, StartError, started, stop
from pluggent_mcp.client.quiet import SPEAKING, keep_aside
from pluggent_mcp.client.remote import Signing, send_unsigned, transport
from pluggent_mcp.client.stdio import spoken_to
from pluggent_mcp.client.wire import Wire
from pluggent_mcp.settings import OFF, Server

OURSELVES = Implementation(name="pluggent", version="0.1")
RELIST_S = 1.0
"""The least time between two looks at a list that its server says has changed."""


class Life:
    """Begins at once. ``settled`` is set when it can be used, or cannot be any more: then ``link`` has ended."""

    def __init__(
        self, name: str, server: Server, asked: Asked, changed: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.link = Link(name, server, ended)
        self.offered: Mapping[str, Offered] = {}
        self.settled = asyncio.Event()
        self.took_offence = False
        """Whether the server ended when it was asked which protocols it speaks, as some do that know only the old."""
        self.reached: dict[str, float] = {}
        """When it was started, greeted and listed, on the clock of the loop."""
        self._server = server
        self._asked = asked
        self._told = changed
        self._client: Client | None = None
        self._child: Child | None = None
        self._changed = asyncio.Event()
        self._late = asyncio.get_running_loop().call_later(server.start_timeout_s, self._too_late)
        keep_aside()
        context = contextvars.Context()
        context.run(SPEAKING.set, self.link)
        self.task = asyncio.create_task(self._live(), name=f"pluggent-mcp-{name}", context=context)

    @property
    def over(self) -> bool:
        return self.link.ended.is_set()

    @property
    def client(self) -> Client:
        """The SDK's client; only after ``settled``, and while it is not over."""
        assert self._client is not None
        return self._client

    def give_up(self, why: str) -> None:
        """End it, whatever it is doing; what it started is stopped in its task."""
        self.link.end(why)
        if not self.settled.is_set():
            self.settled.set()
            self.task.cancel()

    def _too_late(self) -> None:
        self.give_up(f"it did not start within {self._server.start_timeout_s:g} s (start_timeout_s)")

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._serve(stack)
        except Exception as error:  # noqa: BLE001 (nothing that goes wrong in stopping it harms another one)
            self.link.end(why(error))
        finally:
            self._late.cancel()
            self.link.end("it was ended")
            self.settled.set()

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Be of use until the end, and tell that at once: to stop what is left on *stack* takes a while."""
        wire: Wire | None = None
        try:
            wire = Wire(await self._transport(stack), self.link)
            self._reach("started")
            async with self._made(wire) as client, anyio.create_task_group() as tasks:
                wire.version = client.protocol_version
                self._reach("greeted")
                tasks.start_soon(self._ask_for_logs, client)
                self.offered = await offered_by(client, self._server, self.link, wire.outputs)
                self._client = client
                self._reach("listed")
                self._late.cancel()
                self.settled.set()
                await self._follow(client, wire, tasks)
        except Exception as error:  # noqa: BLE001 (the SDK, a server or a socket: it ends this life and no other)
            asked = self._child is not None and self._server.protocol == "auto"
            self.took_offence = asked and wire is not None and wire.version is None
            self.link.end(why(error))
            if not self.took_offence:  # otherwise it is started again, and not beside itself
                self.settled.set()

    def _reach(self, what: str) -> None:
        self.reached[what] = asyncio.get_running_loop().time()

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if self._server.kind != "stdio":
            return transport(self._server, self.link, self._signing())
        mark = new_mark()
        child = self._child = await started(self._server, os.environ, mark)
        stack.push_async_callback(stop, child, self._server.stop_timeout_s, mark)
        return spoken_to(child, self.link, self._server.max_message_bytes, self._server.call_timeout_s)

    def _signing(self) -> Signing:
        if self._server.login is None:
            return send_unsigned
        # Only for servers that people log in to.
        from pluggent_mcp.oauth.tokens import Tokens

        return Tokens(self._server, self._server.login, self.link, os.environ).sent

    def _made(self, wire: Wire) -> Client:
        return Client(
            wire,
            mode=self._server.protocol,
            cache=None,
            client_info=OURSELVES,
            sampling_callback=self._asked.sample,
            elicitation_callback=self._asked.elicit,
            list_roots_callback=self._asked.roots,
            logging_callback=self._logged,
            log_level=None if self._server.log_level == OFF else self._server.log_level,
            message_handler=self._noticed,
        )

    # ---- what the server says by itself --------------------------------------------------

    async def _ask_for_logs(self, client: Client) -> None:
        """Say from which level on the server shall log. In the newest protocol each request says so."""
        level = self._server.log_level
        modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if level == OFF or modern or client.server_capabilities.logging is None:
            return
        try:
            async with asyncio.timeout(self._server.start_timeout_s):
                request = SetLevelRequest(params=SetLevelRequestParams(level=level))
                await client.session.send_request(request, EmptyResult)
        except (MCPError, TimeoutError, ValueError) as error:
            self.link.log.debug("it logs as it likes: %s", why(error))

    async def _logged(self, params: LoggingMessageNotificationParams) -> None:
        call = self._asked.context
        if call is not None and wanted(params.level, self._server.log_level):
            message, data = entry(params.data, self.link)
            call.log(params.level, message, logger=part(params.logger, self.link), data=data)
        if self.link.log.isEnabledFor(logging.DEBUG):
            # For which call it is nobody knows, so it is for those alone who debug.
            self.link.log.debug("log %s: %s", params.level, self.link.shown(str(params.data)[:LONGEST_LINE].encode()))

    async def _noticed(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()
        elif isinstance(message, Exception):
            self.link.log.debug("the transport says: %s", type(message).__name__)

    async def _follow(self, client: Client, wire: Wire, tasks: TaskGroup) -> None:
        """Keep the list of tools up to date until the end."""
        tasks.start_soon(self._relist, client, wire)
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and client.server_capabilities.tools is not None:
            tasks.start_soon(self._subscribe, client)
        await self.link.ended.wait()
        tasks.cancel_scope.cancel()

    async def _relist(self, client: Client, wire: Wire) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                async with asyncio.timeout(self._server.start_timeout_s):
                    offered = await offered_by(client, self._server, self.link, wire.outputs)
            except (ListingError, MCPError, TimeoutError, ValueError) as error:
                self.link.end(f"it cannot say which tools it has now: {why(error)}")
                return
            if offered != self.offered:
                self.offered = offered
                self._told()
            await asyncio.sleep(RELIST_S)

    async def _subscribe(self, client: Client) -> None:
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed.set()
        except (MCPError, SubscriptionLost, TimeoutError, ValueError) as error:
            self.link.log.debug("no news of its tools: %s", why(error))


def why(error: BaseException) -> str:
    """Return the first cause in *error*, in words."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return why(group.exceptions[0])
    if isinstance(error, StartError | ListingError):
        return str(error)
    if isinstance(error, MCPError):
        return f"it says: {error.error.message}"
    if words := unreachable(error):
        return words
    # The first line: behind it the HTTP library links to an encyclopedia.
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
