"""The host for a command of a plugin: it lists and calls tools, under all policies.

The requester of a call may approve it only where the operator granted that to the plugin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeAlias, TypeVar

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.commands import HostResult, HostTool, OnLog, OnProgress, Requester
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import ConfigError, SessionError, ToolErrorKind
from pluggent_hookspecs.events import ApprovalEvent, QuestionEvent, Scope
from pluggent_hookspecs.messages import Text
from pluggent_hookspecs.observations import DecisionMade, ToolFinished, ToolLogged, ToolProgressed
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.tools import ToolOutput
from pluggent_host.common.running import said
from pluggent_host.host import Host
from pluggent_host.inspection import FILTERS
from pluggent_host.session import Session
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_transcript.patterns import may_approve

log = logging.getLogger("pluggent.host")

T = TypeVar("T")

LOOK_S = 1.0
"""How often tools are looked at for changes."""
MOST_IDLE = 64
"""Sessions that are kept for further calls, of all callers; the least recently used one is closed."""
HOW_TO_APPROVE = (
    "The operator of this host can let it run unasked, in the settings: under [effects], what '{}' really does, if it"
    ' only reads; or a rule of a policy in [grants] may_allow. Or be asked each time: on_ask = "console", in the'
    " foreground of a terminal."
)
HOW_TO_BE_ASKED = ' Or the requester may be asked: [grants] approvers = ["{}"].'

OWN_ORIGIN = "cli"
"""The origin of calls that the person who typed the command asks for."""

_Key: TypeAlias = tuple[tuple[str, ...], str, str]


@attrs.frozen
class _Where:
    """A tool, and the choices of tools among which it is called by its name."""

    capability: str
    choices: tuple[str, ...]


@attrs.frozen
class CommandPlugin:
    """The plugin whose command it is. ``approver_s`` is how long those whom it speaks for may take to approve.

    0: the operator has not granted that.
    """

    plugin: str = ""
    approver_s: float = 0.0


class CommandHost:
    """HostOperations: a host that is opened when it is needed. Every call that runs has a session to itself."""

    def __init__(
        self, open_host: Callable[[], AbstractAsyncContextManager[Host]], borrower: CommandPlugin | None = None
    ) -> None:
        self._open = open_host
        self._borrower = borrower or CommandPlugin()
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._host: Host | None = None
        self._named: dict[str, _Where] = {}
        self._idle: list[tuple[_Key, Session]] = []
        self._origins: dict[str, str] = {}
        self._requesters: dict[str, Requester] = {}
        self._listed: set[tuple[str, ...]] = set()
        self._closed = False

    async def aclose(self) -> None:
        """End the calls that still run, and close the host if it was opened. Safe twice."""
        async with self._lock:
            self._closed = True
            await self._stack.aclose()

    def origin_of(self, session_id: str) -> str:
        """Return on whose behalf everything in that session happens, below a tool too; empty if it is none of these."""
        return self._origins.get(session_id, "")

    def is_own(self, session_id: str) -> bool:
        """Say whether the person who typed the command asks for what happens in that session."""
        return self.origin_of(session_id) == OWN_ORIGIN

    async def approve(self, event: ApprovalEvent) -> Approval | None:
        """Ask the requester of the call in that session; None if there is none, who may not, or says nothing."""
        if not may_approve(event.approvers, self._borrower.plugin):
            return None
        answer = await self._asked(event.scope, lambda requester: requester.approve(event))
        if answer is None:
            return None
        given = answer if isinstance(answer, Approval) else Approval(answer is True)
        # For this one call, whatever they would like it to be good for.
        return Approval(given.agreed, reason=given.reason, by=self._borrower.plugin)

    async def answer(self, event: QuestionEvent) -> Elicited | None:
        """Ask the requester of the call in that session for data; None as in approve().

        While results or outputs are filtered no question is asked: it would go past the filter.
        """
        if self._host is None or any(self._host.chains[hook] for hook in FILTERS):
            return None
        return await self._asked(event.scope, lambda requester: requester.answer(event))

    async def _asked(self, scope: Scope, ask: Callable[[Requester], Awaitable[T | None]]) -> T | None:
        requester = self._requesters.get(scope.session_id)
        if requester is None or self._borrower.approver_s <= 0:
            return None
        try:
            async with asyncio.timeout(self._borrower.approver_s):
                return await ask(requester)
        except TimeoutError:
            return None
        except Exception as error:  # noqa: BLE001 (a plugin's own; another approver may still be there)
            log.warning("plugin '%s' could not ask who asked for a call: %s", self._borrower.plugin, said(error))
            return None

    async def tools(self, *choices: str) -> tuple[HostTool, ...]:
        """See HostOperations."""
        choices = choices or ("*",)
        host = await self._opened()
        found = await host.tools(*choices)
        self._listed.add(choices)
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
        on_log: OnLog | None = None,
        requester: Requester | None = None,
    ) -> HostResult:
        """See HostOperations."""
        where = await self._find(name)
        key = (where.choices, origin, principal)
        session, own = await self._lent(key, where.capability)
        followed = _Followed(on_progress, on_log)
        try:
            if own is None:
                raise _unknown(name, (tool.name for tool in session.tools))
            if requester is not None:
                self._requesters[session.id] = requester
            output = await followed.call(session, own, arguments, origin)
        finally:
            self._requesters.pop(session.id, None)
            await self._give_back(key, session)
        if output.is_error and followed.unanswered:
            output = _with(output, self._how_to_approve(where.capability, requester))
        return HostResult(output, followed.outcome)

    def _how_to_approve(self, capability: str, requester: Requester | None) -> str:
        ungranted = requester is not None and self._borrower.approver_s <= 0
        more = HOW_TO_BE_ASKED.format(self._borrower.plugin) if ungranted else ""
        return HOW_TO_APPROVE.format(capability) + more

    async def changed(self) -> None:
        """See HostOperations."""
        host = await self._opened()
        # Sources have a number that grows, and no event for it.
        while not any(host.tools_changed(*choices) for choices in self._listed):  # noqa: ASYNC110 (see above)
            await asyncio.sleep(LOOK_S)

    async def _find(self, name: str) -> _Where:
        if ":tool/" in name:
            return _Where(name, (name,))
        if name not in self._named:
            await self.tools()
        if name not in self._named:
            raise _unknown(name, self._named)
        return self._named[name]

    async def _lent(self, key: _Key, capability: str) -> tuple[Session, str | None]:
        """Return a session that no other call uses, and the tool's name there; see _give_back.

        It is an old one, unless its tools have changed since.
        """
        session = self._taken(key)
        if session is not None:
            if (own := _own_name(session, capability)) is not None:
                return session, own
            await self._end(session)
        choices, origin, principal = key
        host = await self._opened()
        # Another name, or another origin, is what the other end of a wire says.
        claimed = bool(principal) or origin != OWN_ORIGIN
        session = await host.session(tools=choices, origin=origin, principal=principal, claimed=claimed)
        self._origins[session.id] = origin
        return session, _own_name(session, capability)

    async def _give_back(self, key: _Key, session: Session) -> None:
        self._idle.append((key, session))
        if len(self._idle) > MOST_IDLE:
            await self._end(self._idle.pop(0)[1])

    def _taken(self, key: _Key) -> Session | None:
        """Take the idle session of *key* that was used last."""
        found = next((each for each in reversed(self._idle) if each[0] == key), None)
        if found is None:
            return None
        self._idle.remove(found)
        return found[1]

    async def _end(self, session: Session) -> None:
        self._origins.pop(session.id, None)
        await session.aclose()

    async def _opened(self) -> Host:
        async with self._lock:
            if self._closed:
                raise SessionError("the command has ended, and the host with it")
            if self._host is None:
                self._host = await self._stack.enter_async_context(self._open())
            return self._host


class _Followed:
    """A call with its events: progress and log are passed on, and the outcome is kept."""

    def __init__(self, on_progress: OnProgress | None, on_log: OnLog | None) -> None:
        self._on_progress = on_progress
        self._on_log = on_log
        self.outcome: ToolErrorKind | None = None
        self.unanswered = False
        """Whether an ask without an answer is final."""

    async def call(self, session: Session, name: str, arguments: Mapping[str, Json], origin: str) -> ToolOutput:
        """Make the call, and return its output."""
        with session.listening(self._take, DecisionMade, ToolProgressed, ToolLogged, ToolFinished):
            return await session.call_tool(name, arguments, origin=origin)

    def _take(self, event: object) -> None:
        match event:
            case DecisionMade(operation="tool_call", scope=scope) if not scope.parent_id:
                self.unanswered = event.verdict == "ask"
            case ToolProgressed(scope=scope) if self._on_progress is not None and not scope.parent_id:
                self._on_progress(event.done, event.total, event.message)
            case ToolLogged(scope=scope) if self._on_log is not None and not scope.parent_id:
                self._on_log(event)
            case ToolFinished(scope=scope) if not scope.parent_id:
                outcome = event.outcome or (ToolErrorKind.WITHHELD if event.withheld else "")
                self.outcome = ToolErrorKind(outcome) if outcome else None
            case _:
                """What happens below the call is the call's own matter."""


def _own_name(session: Session, capability: str) -> str | None:
    return next((tool.name for tool in session.tools if tool.capability == capability), None)


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    return ConfigError("tools", [f"there is no tool {name!r}{did_you_mean(name, known)}"])


def _with(output: ToolOutput, more: str) -> ToolOutput:
    text = output.for_model
    return attrs.evolve(output, for_model=f"{text} {more}" if isinstance(text, str) else (*text, Text(more)))
