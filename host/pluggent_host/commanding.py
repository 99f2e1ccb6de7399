"""What the host does for a command of a plugin: tools listed and called, under all policies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import attrs
from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.commands import HostTool, OnProgress
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.messages import Text
from pluggent_hookspecs.observations import DecisionMade, ToolProgressed
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.host import Host
from pluggent_host.nearest import nearest
from pluggent_host.session import Session

HOW_TO_APPROVE = (
    "Whoever runs this host can let it run unasked, in the settings: under [effects], what '{}' really does, if it"
    ' only reads; or a rule of a policy in [grants] may_allow. Or be asked each time: on_ask = "console", in the'
    " foreground of a terminal."
)

_Key: TypeAlias = tuple[tuple[str, ...], str, str]


@attrs.frozen
class _Where:
    """A tool, and the choices of tools among which it is called by its name."""

    capability: str
    choices: tuple[str, ...]


class LentHost:
    """HostOperations: a host that is opened when it is needed. Every call that runs has a session to itself."""

    def __init__(self, open_host: Callable[[], AbstractAsyncContextManager[Host]]) -> None:
        self._open = open_host
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._host: Host | None = None
        self._named: dict[str, _Where] = {}
        self._idle: dict[_Key, list[Session]] = {}
        self._origins: dict[str, str] = {}
        self._closed = False

    async def aclose(self) -> None:
        """End the calls that still run, and close the host if it was opened. Safe twice."""
        async with self._lock:
            self._closed = True
            await self._stack.aclose()

    def origin_of(self, session_id: str) -> str:
        """Return on whose behalf everything in that session happens, below a tool too; empty if it is none of these."""
        return self._origins.get(session_id, "")

    async def tools(self, *choices: str) -> tuple[HostTool, ...]:
        """See HostOperations."""
        choices = choices or ("*",)
        host = await self._opened()
        found = await host.tools(*choices)
        self._named |= {tool.name: _Where(tool.capability, choices) for tool in found}
        return tuple(HostTool(tool.spec, tool.capability, tool.plugin, tool.effects, tool.default) for tool in found)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json],
        *,
        origin: str,
        principal: str = "",
        on_progress: OnProgress | None = None,
    ) -> ToolOutput:
        """See HostOperations."""
        where = await self._find(name)
        async with self._session((where.choices, origin, principal), where.capability) as session:
            own = _own_name(session, where.capability)
            if own is None:
                raise _unknown(name, (tool.name for tool in session.tools))
            output, last = await _followed(session, own, arguments, origin, on_progress)
        # An ask that nobody answered is the last word about a call that did not run.
        unasked = output.is_error and last is not None and last.verdict == "ask"
        return _with(output, HOW_TO_APPROVE.format(where.capability)) if unasked else output

    async def _find(self, name: str) -> _Where:
        if ":tool/" in name:
            return _Where(name, (name,))
        if name not in self._named:
            await self.tools()
        if name not in self._named:
            raise _unknown(name, self._named)
        return self._named[name]

    @asynccontextmanager
    async def _session(self, key: _Key, capability: str) -> AsyncGenerator[Session]:
        """Lend a session that no other call uses: an old one, unless its tools have changed since."""
        idle = self._idle.setdefault(key, [])
        session = idle.pop() if idle else None
        if session is not None and _own_name(session, capability) is None:
            await session.aclose()
            session = None
        if session is None:
            choices, origin, principal = key
            host = await self._opened()
            session = await host.session(tools=choices, origin=origin, principal=principal)
            self._origins[session.id] = origin
        try:
            yield session
        finally:
            idle.append(session)

    async def _opened(self) -> Host:
        async with self._lock:
            if self._closed:
                raise SessionError("the command has ended, and the host with it")
            if self._host is None:
                self._host = await self._stack.enter_async_context(self._open())
            return self._host


async def _followed(
    session: Session, name: str, arguments: Mapping[str, Json], origin: str, on_progress: OnProgress | None
) -> tuple[ToolOutput, DecisionMade | None]:
    """Call a tool, telling of its progress; return what came of it, and the last decision about it."""
    last: DecisionMade | None = None
    async with session.events(DecisionMade, ToolProgressed) as events:
        task = asyncio.create_task(session.call_tool(name, arguments, origin=origin), name="pluggent-lent-call")
        task.add_done_callback(lambda _: events.end())
        try:
            async for event in events:
                match event:
                    case DecisionMade(operation="tool_call", scope=scope) if not scope.parent_id:
                        last = event
                    case ToolProgressed(scope=scope) if on_progress is not None and not scope.parent_id:
                        on_progress(event.done, event.total, event.message)
                    case _:
                        continue
        finally:
            task.cancel()
            await asyncio.wait((task,))
    return task.result(), last


def _own_name(session: Session, capability: str) -> str | None:
    return next((tool.name for tool in session.tools if tool.capability == capability), None)


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    return ConfigError("tools", [f"there is no tool {name!r}{nearest(name, known)}"])


def _with(output: ToolOutput, more: str) -> ToolOutput:
    text = output.for_model
    return attrs.evolve(output, for_model=f"{text} {more}" if isinstance(text, str) else (*text, Text(more)))
