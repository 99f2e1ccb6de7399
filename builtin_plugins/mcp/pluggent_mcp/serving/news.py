"""Tells clients that what is offered has changed: those who listen, and those of the older protocols all."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable

from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types import NotificationParams

from pluggent_mcp.serving.exchanges import Context
from pluggent_mcp.serving.selection import Selection
from pluggent_mcp.serving.telling import MOST_SESSIONS, session_of

TOLD_S = 2.0
"""How long a client may take to be told."""
_LOG = logging.getLogger("pluggent.mcp.serve")


class News:
    """Who wants to know of changes."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._greeted: OrderedDict[str, ServerSession] = OrderedDict()
        self.listen = ListenHandler(self._bus, max_subscriptions=MOST_SESSIONS)
        """Answers subscriptions/listen, of the newest protocol."""

    async def greeted(self, context: Context, _: NotificationParams | None) -> None:
        """Take down a client of the older protocols, once it is there."""
        self._greeted[session_of(context)] = context.session
        if len(self._greeted) > MOST_SESSIONS:
            self._greeted.popitem(last=False)

    async def tell(self, before: Selection, now: Selection) -> None:
        """Tell of the lists that differ."""
        events = [*_changes(before, now)]
        for event in events:
            await self._bus.publish(event)
        if events:
            await asyncio.gather(*(self._tell(id, session, events) for id, session in [*self._greeted.items()]))

    async def _tell(self, id: str, session: ServerSession, events: Iterable[ServerEvent]) -> None:
        try:
            async with asyncio.timeout(TOLD_S):
                for event in events:
                    match event:
                        case ToolsListChanged():
                            await session.send_tool_list_changed()
                        case ResourcesListChanged():
                            await session.send_resource_list_changed()
                        case _:
                            await session.send_prompt_list_changed()
        except (MCPError, TimeoutError, OSError) as error:
            self._greeted.pop(id, None)
            _LOG.debug("a client could not be told of changes: %s", error)


def _changes(before: Selection, now: Selection) -> Iterable[ServerEvent]:
    if before.tools != now.tools:
        yield ToolsListChanged()
    if before.resources != now.resources:
        yield ResourcesListChanged()
    if before.prompts != now.prompts:
        yield PromptsListChanged()
