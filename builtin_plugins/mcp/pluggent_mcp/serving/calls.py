"""Calls that clients ask for, each an ordinary operation of the host: how many at once, on whose behalf, to the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from pluggent_hookspecs import ConfigError, HostOperations, PluggentError, ToolOutput

from pluggent_mcp.serving.exchanges import Context
from pluggent_mcp.serving.people import Person, person_at
from pluggent_mcp.serving.settings import Serving
from pluggent_mcp.serving.telling import Levels, Telling

ORIGIN = "mcp"
CLAIMED = "claimed:"
"""How the principal of a call begins: what a client calls itself is its own word."""
LONGEST_CLIENT = 64
WAITING_FOR_EACH = 4
"""Calls that may wait for each that may run."""
BUSY = -32_000

_LOG = logging.getLogger("pluggent.mcp.serve")


class _Places:
    """For as many calls as may run at once; and as many more whose person has been asked something."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._most = count
        self._asked = 0

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Callable[[], bool]]:
        """Wait for a place; yield what gives it back early, and says whether a person may be asked: not by too many."""
        await self._free.acquire()
        asked = False

        def leave() -> bool:
            nonlocal asked
            if not asked and self._asked < self._most:
                asked = True
                self._asked += 1
                self._free.release()
            return asked

        try:
            yield leave
        finally:
            if asked:
                self._asked -= 1
            else:
                self._free.release()


class Calls:
    """The calls of all clients that run."""

    def __init__(self, operations: HostOperations, settings: Serving) -> None:
        self._operations = operations
        self.levels = Levels()
        """Which logs of calls each client wants."""
        self._places = _Places(settings.max_calls)
        self._under_way = 0
        self._most = settings.max_calls * (1 + WAITING_FOR_EACH)

    async def run(self, context: Context, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Have the host call a tool; what fails is an output too. Raises MCPError if too many are under way."""
        if self._under_way >= self._most:
            raise MCPError(BUSY, f"{self._under_way} calls are under way or waiting already; try again later")
        self._under_way += 1
        try:
            # Who takes long to be told takes no place from a call that could run: told is outside of it.
            async with Telling(context, self.levels) as telling, self._places.one() as may_ask:
                person = person_at(context, may_ask)
                return await self._operated(context, telling, person, name, arguments)
        finally:
            self._under_way -= 1

    async def _operated(
        self, context: Context, telling: Telling, person: Person | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolOutput:
        """Have the host run the call, telling the client how far it is, and asking its person what is to be asked."""
        call = self._operations.call_tool(
            name, arguments, origin=ORIGIN, principal=principal(context), on_progress=telling.progressed,
            on_log=telling.logged, requester=person,
        )  # fmt: skip
        return await _finished(asyncio.create_task(_caught(call), name="pluggent-mcp-call"))


def principal(context: Context) -> str:
    """Return who asks, by its own word; empty where it has not said."""
    params = context.session.client_params
    name = "".join(char for char in params.client_info.name if char.isprintable()) if params else ""
    return f"{CLAIMED}{name[:LONGEST_CLIENT]}" if name else ""


async def _caught(call: Any) -> ToolOutput:
    try:
        output: ToolOutput = (await call).output
    except ConfigError as error:
        return ToolOutput.error(str(error))
    except PluggentError as error:
        return ToolOutput.error(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 (a fault of the host: what it says is for its log, not for a client)
        _LOG.exception("a call failed in the host")
        return ToolOutput.error("the call failed in the host; its log says why")
    return output


async def _finished(task: asyncio.Task[ToolOutput]) -> ToolOutput:
    """Wait for *task*. Who is cancelled cancels it, and waits for its end.

    The SDK cancels again and again until its scope is left, which would cut off what the host
    does at the end of a call. So the call has a task of its own, and the wait is shielded.
    """
    try:
        return await asyncio.shield(task)
    finally:
        await _ended(task)


async def _ended(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,))
