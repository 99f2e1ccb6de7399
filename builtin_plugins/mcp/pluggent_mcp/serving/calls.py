"""Calls of clients, each an ordinary operation of the host: limited in number, with a principal, run to their end."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Self, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import NotificationParams
from pluggent_hookspecs import ConfigError, HostOperations, PluggentError, ToolOutput

from pluggent_mcp.client_model import CLIENT
from pluggent_mcp.serving.client_requests import ClientRequests
from pluggent_mcp.serving.elicitation import ClientPerson, client_person
from pluggent_mcp.serving.exchanges import LONGEST_CLIENT, Context, session_of
from pluggent_mcp.serving.notifications import MOST_SESSIONS, CallNotifier, Levels
from pluggent_mcp.serving.settings import Serving

ORIGIN = "mcp"
CLAIMED = "claimed:"
"""The prefix of the principal of a call: the name of a client is its own claim."""
WAITING_FOR_EACH = 16
"""Waiting calls for each that may run."""
WAIT_S = 30.0
"""How long a call may wait until it runs."""
BUSY = -32_000

_LOG = logging.getLogger("pluggent.mcp.serve")


class _CallSlots:
    """Slots for concurrent calls, and as many more for calls that wait for a person."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._most = count
        self._asked = 0

    async def take(self) -> _Slot:
        """Wait for a slot. Raises MCPError if none gets free in time."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        return _Slot(self)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            raise MCPError(BUSY, f"it has waited for {WAIT_S:g} s for other calls to end; try again later") from None

    def leave(self) -> bool:
        """Free a slot for a question to a person, if not too many wait for one."""
        if self._asked >= self._most:
            return False
        self._asked += 1
        self._free.release()
        return True

    def give_back(self, *, asked: bool) -> None:
        """Give back a slot that was taken; *asked*: it was freed already."""
        if asked:
            self._asked -= 1
        else:
            self._free.release()


class _Slot:
    """A slot that was taken, for a ``with`` block."""

    def __init__(self, slots: _CallSlots) -> None:
        self._slots = slots
        self._asked = False

    def may_ask(self) -> bool:
        """Free the slot for a question to a person; False if too many wait."""
        self._asked = self._asked or self._slots.leave()
        return self._asked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._slots.give_back(asked=self._asked)


class Calls:
    """The calls of all clients that run."""

    def __init__(self, operations: HostOperations, settings: Serving) -> None:
        self._operations = operations
        self._root_changes: OrderedDict[str, int] = OrderedDict()
        """How often each client has said that its folders are others."""
        self.levels = Levels()
        """Which logs of calls each client wants."""
        self._slots = _CallSlots(settings.max_calls)
        self._under_way = 0
        self._most = settings.max_calls * (1 + WAITING_FOR_EACH)

    async def run(self, context: Context, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Have the host call a tool; what fails is an output too. Raises MCPError if too many are under way."""
        if self._under_way >= self._most:
            raise MCPError(BUSY, f"{self._under_way} calls are under way or waiting already; try again later")
        self._under_way += 1
        try:
            # Notifications are sent outside the slot: a slow reader takes no slot from another call.
            async with CallNotifier(context, self.levels) as notifier:
                with await self._slots.take() as slot:
                    person = client_person(context, slot.may_ask)
                    return await self._run_call(context, notifier, person, name, arguments)
        finally:
            self._under_way -= 1

    async def wait(self, context: Context, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Have the host call a tool that waits for a change: without a slot, and without questions to anybody."""
        call = self._operations.call_tool(name, arguments, origin=ORIGIN, principal=principal(context))
        return await _Finished(_caught(call, None))

    async def note_roots(self, context: Context, _: NotificationParams | None) -> None:
        """Note that the client of *context* works in other folders now."""
        session = session_of(context)
        self._root_changes[session] = self._root_changes.pop(session, 0) + 1
        if len(self._root_changes) > MOST_SESSIONS:
            self._root_changes.popitem(last=False)

    async def _run_call(
        self,
        context: Context,
        notifier: CallNotifier,
        person: ClientPerson | None,
        name: str,
        arguments: Mapping[str, Any],
    ) -> ToolOutput:
        """Run the call in the host, with progress and logs for the client and questions for its person."""
        call = self._operations.call_tool(
            name, arguments, origin=ORIGIN, principal=principal(context), on_progress=notifier.progressed,
            on_log=notifier.logged, requester=person,
        )  # fmt: skip
        client = ClientRequests(context, self._root_changes.get(session_of(context), 0))
        return await _Finished(_caught(call, client))


def principal(context: Context) -> str:
    """Return the principal that the client claims; empty if it has no name."""
    params = context.session.client_params
    name = params.client_info.name if params else ""
    name = name if name.isprintable() else "".join(filter(str.isprintable, name))
    return f"{CLAIMED}{name[:LONGEST_CLIENT]}" if name else ""


async def _caught(call: Any, client: ClientRequests | None) -> ToolOutput:
    """Return the output of *call*, whatever happens; below it *client* may be asked."""
    before = CLIENT.set(client)
    try:
        output: ToolOutput = (await call).output
    except ConfigError as error:
        return ToolOutput.error(str(error))
    except PluggentError as error:
        return ToolOutput.error(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 (a fault of the host: what it says is for its log, not for a client)
        _LOG.exception("a call failed in the host")
        return ToolOutput.error("the call failed in the host; its log says why")
    finally:
        CLIENT.reset(before)
    return output


class _Finished:
    """Awaits *call* to its end; a cancellation reaches it once.

    The SDK cancels again and again until its scope is left, which would cut off what the host does at
    the end of a call. From its first cancellation on the call is shielded. A task of its own would do
    that, too, and cost each call two trips through the loop.
    """

    def __init__(self, call: Coroutine[Any, Any, ToolOutput]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, ToolOutput]:
        step: Callable[[Any], Any] = self._call.send
        value: Any = None
        shield: anyio.CancelScope | None = None
        try:
            while True:
                try:
                    waits_for = step(value)
                except StopIteration as ended:
                    return cast("ToolOutput", ended.value)
                try:
                    value = yield waits_for
                    step = self._call.send
                except BaseException as error:  # noqa: BLE001 (all of it is for the call)
                    step, value = self._call.throw, error
                    if shield is None and anyio.current_effective_deadline() == -math.inf:  # by the SDK
                        shield = anyio.CancelScope(shield=True)
                        shield.__enter__()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if shield is not None or (task is not None and task.cancelling()):
                raise
            # One that is not the client's would end the connection.
            return ToolOutput.error("the call was cancelled in the host")
        finally:
            if shield is not None:
                shield.__exit__(None, None, None)
