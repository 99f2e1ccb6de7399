"""One running server: started, used and stopped in one task of its own.

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
    ResourceUpdatedNotification,
    SetLevelRequest,
    SetLevelRequestParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pluggent_process_engine.process_table import new_mark

from pluggent_mcp.client.guarded_transport import GuardedTransport
from pluggent_mcp.client.http_transport import Authorizing, describe_failure, send_unchanged, transport
from pluggent_mcp.client.logs import CURRENT_STATUS, entry, filter_sdk_loggers, part, wanted
from pluggent_mcp.client.process import Child, Guard, StartError, start_process, stop, withheld
from pluggent_mcp.client.process_tree import MARKS, end_orphans
from pluggent_mcp.client.resource_watch import ResourceWatch
from pluggent_mcp.client.server_requests import ServerRequests
from pluggent_mcp.client.status import LONGEST_LINE, ServerStatus
from pluggent_mcp.client.stdio_transport import stdio_streams
from pluggent_mcp.client.tool_list import ListedTool, ListingError, list_tools
from pluggent_mcp.settings import OFF, Server

OURSELVES = Implementation(name="pluggent", version="0.1")
RELIST_S = 1.0
"""The least time between two requests of a list that the server reports as changed."""


class RunningServer:
    """Starts at once. ``ready`` is set when it can be used, or when it failed: then ``status`` has ended."""

    def __init__(
        self,
        name: str,
        server: Server,
        requests: ServerRequests,
        changed: Callable[[], None],
        ended: Callable[[], None],
        guard: Guard,
    ) -> None:
        self.status = ServerStatus(name, server, ended)
        self.listed_tools: Mapping[str, ListedTool] = {}
        self.ready = asyncio.Event()
        self.refused_discovery = False
        """Whether the server ended on the discovery request, as some servers of older protocols do."""
        self.step_times: dict[str, float] = {}
        """When it was started, initialized and listed, on the clock of the loop."""
        self._server = server
        self._guard = guard
        self._requests = requests
        self._told = changed
        self._client: Client | None = None
        self._watch: ResourceWatch | None = None
        self._child: Child | None = None
        self._changed = asyncio.Event()
        self._late = asyncio.get_running_loop().call_later(server.start_timeout_s, self._too_late)
        filter_sdk_loggers()
        context = contextvars.Context()
        context.run(CURRENT_STATUS.set, self.status)
        self.task = asyncio.create_task(self._live(), name=f"pluggent-mcp-{name}", context=context)

    @property
    def over(self) -> bool:
        return self.status.ended.is_set()

    @property
    def client(self) -> Client:
        """The SDK's client; only after ``ready``, and while it is not over."""
        assert self._client is not None
        return self._client

    @property
    def watch(self) -> ResourceWatch:
        """Its watched resources; as with ``client``."""
        assert self._watch is not None
        return self._watch

    def abandon(self, why: str) -> None:
        """End the connection; its task stops the process."""
        self.status.end(why)
        if not self.ready.is_set():
            self.ready.set()
            self.task.cancel()

    def _too_late(self) -> None:
        withheld_names = withheld(self._server, os.environ) if self._server.kind == "stdio" else ""
        why = f". It did not get our {withheld_names}: name in its env what it needs" if withheld_names else ""
        self.abandon(f"it did not start within {self._server.start_timeout_s:g} s (start_timeout_s){why}")

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._serve(stack)
        except Exception as error:  # noqa: BLE001 (an error while stopping must not affect other servers)
            self.status.end(why(error))
        finally:
            self._late.cancel()
            self.status.end("it was ended")
            self.ready.set()

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Serve until the end and report the end at once: closing *stack* takes a while."""
        wire: GuardedTransport | None = None
        try:
            wire = GuardedTransport(await self._transport(stack), self.status)
            self._note_step("started")
            async with self._made(wire) as client, anyio.create_task_group() as tasks:
                wire.version = client.protocol_version
                self._note_step("greeted")
                tasks.start_soon(self._ask_for_logs, client)
                self.listed_tools = await list_tools(client, self._server, self.status, wire.outputs)
                self._client = client
                apart = contextvars.copy_context()  # what is watched is watched for no single call
                self._watch = ResourceWatch(
                    client, lambda run: apart.run(tasks.start_soon, run), self._server.call_timeout_s
                )
                self._note_step("listed")
                self._late.cancel()
                self.ready.set()
                await self._follow(client, wire, tasks)
        except Exception as error:  # noqa: BLE001 (from the SDK, a server or a socket: it ends this connection only)
            requests = self._child is not None and self._server.protocol == "auto"
            self.refused_discovery = requests and wire is not None and wire.version is None
            self.status.end(why(error))
            if not self.refused_discovery:  # else it is restarted once this process has ended
                self.ready.set()

    def _note_step(self, what: str) -> None:
        self.step_times[what] = asyncio.get_running_loop().time()

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if self._server.kind != "stdio":
            return transport(self._server, self.status, self._authorizing())
        # In a thread: it looks at every process. What an ended host has left may hold files or ports of this server.
        left = await asyncio.to_thread(end_orphans, os.environ.get(MARKS, ""), self._server.stop_timeout_s)
        if left:
            self.status.log.warning("%d processes of MCP servers whose host had died were ended", left)
        mark = new_mark()
        child = self._child = await start_process(self._server, os.environ, mark, self._guard)
        stack.push_async_callback(stop, child, self._server.stop_timeout_s, mark)
        return stdio_streams(child, self.status, self._server.max_message_bytes, self._server.call_timeout_s)

    def _authorizing(self) -> Authorizing:
        if self._server.login is None:
            return send_unchanged
        # Only for servers with OAuth.
        from pluggent_mcp.oauth.tokens import Tokens

        return Tokens(self._server, self._server.login, self.status, os.environ).sent

    def _made(self, wire: GuardedTransport) -> Client:
        return Client(
            wire,
            mode=self._server.protocol,
            cache=None,
            client_info=OURSELVES,
            sampling_callback=self._requests.sample,
            elicitation_callback=self._requests.elicit,
            list_roots_callback=self._requests.roots,
            logging_callback=self._logged,
            log_level=None if self._server.log_level == OFF else self._server.log_level,
            message_handler=self._noticed,
        )

    # ---- notifications of the server -----------------------------------------------------

    async def _ask_for_logs(self, client: Client) -> None:
        """Set the log level of the server. In the newest protocol each request has it."""
        level = self._server.log_level
        modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if level == OFF or modern or client.server_capabilities.logging is None:
            return
        try:
            async with asyncio.timeout(self._server.start_timeout_s):
                request = SetLevelRequest(params=SetLevelRequestParams(level=level))
                await client.session.send_request(request, EmptyResult)
        except (MCPError, TimeoutError, ValueError) as error:
            self.status.log.debug("it logs as it likes: %s", why(error))

    async def _logged(self, params: LoggingMessageNotificationParams) -> None:
        call = self._requests.context
        if call is not None and wanted(params.level, self._server.log_level):
            message, data = entry(params.data, self.status)
            call.log(params.level, message, logger=part(params.logger, self.status), data=data)
        if self.status.log.isEnabledFor(logging.DEBUG):
            # The call that it belongs to is unknown, so it goes to the debug log only.
            self.status.log.debug(
                "log %s: %s", params.level, self.status.shown(str(params.data).encode(errors="replace"))[:LONGEST_LINE]
            )

    async def _noticed(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()
        elif isinstance(message, ResourceUpdatedNotification) and self._watch is not None:
            self._watch.updated(message.params.uri)
        elif isinstance(message, Exception):
            self.status.log.debug("the transport says: %s", type(message).__name__)

    async def _follow(self, client: Client, wire: GuardedTransport, tasks: TaskGroup) -> None:
        """Keep the list of tools up to date until the end."""
        tasks.start_soon(self._relist, client, wire)
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and client.server_capabilities.tools is not None:
            tasks.start_soon(self._subscribe, client)
        await self.status.ended.wait()
        tasks.cancel_scope.cancel()

    async def _relist(self, client: Client, wire: GuardedTransport) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                async with asyncio.timeout(self._server.start_timeout_s):
                    listed_tools = await list_tools(client, self._server, self.status, wire.outputs)
            except (ListingError, MCPError, TimeoutError, ValueError) as error:
                self.status.end(f"it cannot say which tools it has now: {why(error)}")
                return
            if listed_tools != self.listed_tools:
                self.listed_tools = listed_tools
                self._told()
            await asyncio.sleep(RELIST_S)

    async def _subscribe(self, client: Client) -> None:
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed.set()
        except (MCPError, SubscriptionLost, TimeoutError, ValueError) as error:
            self.status.log.debug("no news of its tools: %s", why(error))


def why(error: BaseException) -> str:
    """Return a description of the first cause of *error*."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return why(group.exceptions[0])
    if isinstance(error, StartError | ListingError):
        return str(error)
    if isinstance(error, MCPError):
        return f"it says: {error.error.message}"
    if words := describe_failure(error):
        return words
    # The first line: the HTTP library appends links to documentation.
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
