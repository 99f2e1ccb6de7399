"""Operations below a running tool call: another tool, the model, memory. All under policy.

An ask down here goes to somebody who can answer now; nobody there is a denial, never a pause.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from time import perf_counter
from typing import Protocol, TypeVar

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message, Role, Text, Usage
from pluggent_hookspecs.models import ModelParameters, ModelRequest, ModelResponse
from pluggent_hookspecs.observations import ToolFinished, ToolProgressed, ToolStarted
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.arguments import ArgumentProblems, canonical
from pluggent_host.batch import REFUSED, WOULD_ASK
from pluggent_host.calling import Caller
from pluggent_host.clock import Deadline
from pluggent_host.conversation import Agent, Services
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.modelcalls import ModelCallOperation
from pluggent_host.nearest import nearest
from pluggent_host.operation import Journal
from pluggent_host.quota import Quota
from pluggent_host.results import fit
from pluggent_host.settings import Limits
from pluggent_host.threads import Threads
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolcontext import CallContext
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import Dispatched, Entry, Settled, Spending
from pluggent_host.wellformed import clean_message

E = TypeVar("E")
R = TypeVar("R")


class NestingTurn(Journal, Protocol):
    """The turn, as far as nested operations need it."""

    @property
    def scope(self) -> Scope: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def quota(self) -> Quota: ...
    @property
    def caller(self) -> Caller: ...
    @property
    def threads(self) -> Threads: ...

    effects: int

    @property
    def refused(self) -> set[str]: ...
    def may_ask(self) -> bool: ...
    def append(self, *entries: Entry) -> None: ...
    async def commit(self) -> None: ...
    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str: ...
    def settled(self, call: ToolCallOperation, event: ToolCallEvent, outcome: str) -> None: ...
    def spend(self, usage: Usage) -> None: ...
    async def put(self, asked: Asked[E, R]) -> Decided[E, R] | None: ...


class NestedCalls:
    """Makes contexts for the calls of one turn and runs what tools ask for through them."""

    def __init__(self, turn: NestingTurn, agent: Agent, services: Services) -> None:
        self._turn = turn
        self._agent = agent
        self._services = services
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self.caller = turn.caller
        self.threads = turn.threads
        self.protected = agent.protected
        self._outer: dict[str, ToolCallOperation] = {}

    def context(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return CallContext(self, call, clock, self._agent.workspace, len(self._above(call)))

    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str:
        return self._turn.doubts(call, event)

    def progressed(self, call: ToolCallOperation, done: float, total: float | None, message: str) -> None:
        event = ToolProgressed(call.scope, call.event.call_id, call.tool.spec.name, done, total, message)
        self._loop.call_soon_threadsafe(self._turn.tell, event)

    # ---- another tool --------------------------------------------------------------------

    async def nested_tool(
        self, outer: ToolCallOperation, depth: int, name: str, arguments: Mapping[str, Json]
    ) -> ToolOutput:
        tools: Toolset = self._agent.tools
        if name not in tools:
            raise errors.ToolError(f"there is no tool {name!r}{nearest(name, tools)}", kind=ToolErrorKind.UNKNOWN)
        if depth > self._turn.limits.delegation_depth:
            raise errors.LimitReached("delegation_depth", self._turn.limits.delegation_depth)
        try:
            prepared = tools[name].prepare(canonical(arguments).decode())
        except ArgumentProblems as error:
            raise errors.ToolError("; ".join(error.problems), tool=name, kind=ToolErrorKind.ARGUMENTS) from error
        quota = self._turn.quota
        if refusal := quota.take(tools[name]).refusal:
            raise errors.ToolError(refusal.removeprefix("Error: "), tool=name, kind=ToolErrorKind.LIMIT)
        id = f"{outer.id}.{next(self._numbers)}"
        call = ToolCallOperation(
            self, self._turn, self._below(outer), tools[name], id, prepared, outer.event.round, outer.event.index,
            min(outer.timeout_s, quota.timeout_s(tools[name])), id,
        )  # fmt: skip
        self._outer[id] = outer
        try:
            return await self._run(call, outer)
        finally:
            del self._outer[id]

    def _above(self, call: ToolCallOperation) -> list[ToolCallOperation]:
        above: list[ToolCallOperation] = []
        outer = self._outer.get(call.id)
        while outer is not None:
            above.append(outer)
            outer = self._outer.get(outer.id)
        return above

    async def _put(self, asked: Asked[E, R], outer: ToolCallOperation) -> Decided[E, R] | None:
        """Ask somebody, the clocks of every call above standing still."""
        clocks = [call.clock for call in (outer, *self._above(outer))]
        for clock in clocks:
            clock.stop()
        try:
            return await self._turn.put(asked)
        finally:
            for clock in clocks:
                clock.start()

    async def _run(self, call: ToolCallOperation, outer: ToolCallOperation) -> ToolOutput:
        try:
            agreed = await self._agreed(call, outer)
        except BaseException:
            self._turn.quota.give_back(call.tool)
            raise
        if isinstance(agreed, ToolOutput):
            self._turn.quota.give_back(call.tool)
            return agreed
        turn, name, capability = self._turn, call.tool.spec.name, call.tool.capability
        risky = isinstance(agreed, Ready) and not call.tool.repeatable and not call.scope.dry_run
        try:
            if risky:
                key = (call.event.call_id, f"{call.scope.session_id}.{call.id}", call.fingerprint(agreed.event))
                turn.append(Dispatched(call.scope.turn_id, (key,)))
                await turn.commit()
            turn.tell(ToolStarted(call.scope, call.event.call_id, name, capability, agreed.event.arguments_json))
            output, whole = fit(await self._services.operations.perform(agreed), turn.quota.result_bytes(call.tool))
        except BaseException:
            if risky:
                call.unsure = True
                self._settle(call, agreed.event, ToolOutput.error("This call was interrupted while it ran."), None)
            raise
        finally:
            turn.effects += call.ran and call.tool.changes
        outer.ends_turn = outer.ends_turn or call.ends_turn
        if risky:
            self._settle(call, agreed.event, output, whole)
        told = attrs.evolve(output, for_user=None, media=())
        turn.tell(ToolFinished(call.scope, call.event.call_id, name, capability, told, call.elapsed_s, call.ran))
        return output

    async def _agreed(
        self, call: ToolCallOperation, outer: ToolCallOperation
    ) -> Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput] | ToolOutput:
        """Return what may be performed, or what the tool is told instead."""
        turn = self._turn
        decided = await self._services.operations.decide(call)
        if isinstance(decided, Asked):
            fingerprint = call.fingerprint(decided.event)
            if fingerprint in turn.refused or not turn.may_ask():
                return ToolOutput.error(f"Denied: {REFUSED}")
            answer = await self._put(decided, outer)
            if isinstance(answer, Denied):
                turn.refused.add(fingerprint)
            decided = answer or decided
        match decided:
            case Denied(deny=deny):
                outer.ends_turn = outer.ends_turn or deny.ends_turn
                return ToolOutput.error(f"Denied: {deny.tell_model}")
            case Asked() if call.scope.dry_run:
                return ToolOutput(WOULD_ASK.format(call.tool.spec.name, decided.verdict.reason))
            case Asked():
                return ToolOutput.error("Denied: this needs a person's approval, and nobody was there to give it")
            case _:
                return decided

    def _settle(self, call: ToolCallOperation, event: ToolCallEvent, output: ToolOutput, whole: str | None) -> None:
        content = (Text(output.for_model),) if isinstance(output.for_model, str) else output.for_model
        made = Message(Role.TOOL, content, tool_call_id=call.event.call_id, name=call.tool.spec.name)
        message = clean_message(made)
        outcome = ToolErrorKind.OUTCOME_UNKNOWN if call.unsure else call.kind or ""
        self._turn.append(Settled(call.scope.turn_id, call.event.call_id, message, outcome, whole))
        self._turn.settled(call, event, outcome)

    def _below(self, outer: ToolCallOperation) -> Scope:
        return attrs.evolve(self._turn.scope, origin="tool", parent_id=outer.id)

    # ---- the model and memory ------------------------------------------------------------

    async def nested_model(
        self, outer: ToolCallOperation, prompt: str, system: str, parameters: ModelParameters | None
    ) -> ModelResponse:
        agent, turn = self._agent, self._turn
        messages = (*((Message.system(system),) if system else ()), Message.user(prompt))
        request = ModelRequest(agent.model.name, messages, (), parameters or ModelParameters())
        scope = self._below(outer)
        call = ModelCallOperation(
            turn, scope, agent.model.provider, agent.model.capability, request, Toolset(), outer.event.round,
            lambda: self._services.settings.timeouts.model_s, None, self._services.model,
            lambda asked: self._put(asked, outer), f"{outer.id}.{next(self._numbers)}",
        )  # fmt: skip
        decided = await self._services.operations.decide(call)
        if isinstance(decided, Asked):
            decided = await self._put(decided, outer) or decided
        match decided:
            case Denied(by=by, deny=deny):
                raise errors.Denied(by, deny.tell_model, decided.event.digest)
            case Asked():
                raise errors.Denied("host", "this model call needs a person's approval", decided.event.digest)
            case Ready() | Answered():
                pass
        started, failure, finish = perf_counter(), "", ""
        try:
            response = await self._services.operations.perform(decided)
            finish = response.finish_reason
            return response
        except BaseException as error:
            failure = str(error) or type(error).__name__
            raise
        finally:
            for each in call.calls(perf_counter() - started, finish, failure):
                turn.spend(each.usage)
                turn.append(Spending(scope.turn_id, each.model, each.usage, each.error))
                turn.tell(each.event(scope, outer.event.round))

    def nested_memory(self, outer: ToolCallOperation, store: str) -> MemoryAccess:
        return self._services.memory(
            store, self._turn, self._below(outer), self._numbers, lambda asked: self._put(asked, outer)
        )
