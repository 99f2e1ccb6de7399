"""Operations below a running tool call: another tool, the model, memory. All under policy.

An ask down here goes to somebody who can answer now; nobody there is a denial, never a pause.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TypeVar

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs._frozen import Json, freeze, thaw
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import ToolCallEvent
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message, Role, Text
from pluggent_hookspecs.models import ModelResponse
from pluggent_hookspecs.observations import ToolFinished, ToolLogged, ToolProgressed, ToolStarted
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.arguments import ArgumentProblems, canonical
from pluggent_host.batch import REFUSED, TOO_OFTEN, WOULD_ASK
from pluggent_host.clock import Deadline
from pluggent_host.conversation import Agent, Services
from pluggent_host.decided import Answered, Asked, Denied, Ready
from pluggent_host.nearest import nearest
from pluggent_host.nested_models import Prompt, ask_model
from pluggent_host.nested_questions import ask_person
from pluggent_host.nesting import Nesting, NestingTurn
from pluggent_host.questions import Question
from pluggent_host.results import fit
from pluggent_host.toolcalls import ToolCallOperation
from pluggent_host.toolcontext import CallContext
from pluggent_host.toolset import Toolset
from pluggent_host.transcript import Dispatched, Settled
from pluggent_host.wellformed import clean, clean_json, clean_message, finite

E = TypeVar("E")
R = TypeVar("R")


FILTERS = ("transform_tool_result", "decide_tool_result", "transform_output", "decide_output")
"""While one of these is implemented, the progress of a tool is told without its words, and no log of it at all."""


class NestedCalls:
    """Makes contexts for the calls of one turn and runs what tools ask for through them."""

    def __init__(self, turn: NestingTurn, agent: Agent, services: Services) -> None:
        self._turn = turn
        self._agent = agent
        self._services = services
        self._nesting = Nesting(turn, agent, services)
        self._filtered = any(services.chains[hook] for hook in FILTERS)
        self._loop = asyncio.get_running_loop()
        self.caller = turn.caller
        self.threads = turn.threads
        self.protected = agent.protected

    def context(self, call: ToolCallOperation, clock: Deadline) -> CallContext:
        return CallContext(self, call, clock, self._agent.workspace, len(self._nesting.above(call)))

    def doubts(self, call: ToolCallOperation, event: ToolCallEvent) -> str:
        return self._turn.doubts(call, event)

    def progressed(self, call: ToolCallOperation, done: float, total: float | None, message: str) -> None:
        number = finite(done)
        if number is None:  # it says nothing of how far the tool is, and no wire can carry it
            return
        # What every other text has to pass cannot be asked from here, in whatever thread this is.
        text = "" if self._filtered else clean(str(message))
        event = ToolProgressed(call.scope, call.event.call_id, call.tool.spec.name, number, finite(total), text)
        self._loop.call_soon_threadsafe(self._turn.tell, event)

    def logged(self, call: ToolCallOperation, level: str, message: str, logger: str, data: Json) -> None:
        if self._filtered:  # as above, and without its words a log says nothing
            return
        text, part, facts = clean(str(message)), clean(str(logger)), _facts(data)
        event = ToolLogged(call.scope, call.event.call_id, call.tool.spec.name, level, text, part, facts)
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
        id = self._nesting.next_id(outer)
        call = ToolCallOperation(
            self, self._turn, self._nesting.scope(outer), tools[name], id, prepared,
            outer.event.round, outer.event.index, min(outer.timeout_s, quota.timeout_s(tools[name])), id,
        )  # fmt: skip
        with self._nesting.entered(id, outer):
            return await self._run(call, outer)

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
            output, whole = fit(await self._performed(call, agreed), turn.quota.result_bytes(call.tool))
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
        turn.tell(
            ToolFinished(
                call.scope, call.event.call_id, name, capability, told, call.elapsed_s, call.ran, call.outcome
            )
        )  # fmt: skip
        return output

    async def _performed(
        self, call: ToolCallOperation, agreed: Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput]
    ) -> ToolOutput:
        try:
            return await self._services.operations.perform(agreed)
        except errors.Denied as refused:  # by a ledger, or because the decision had grown old
            call.kind = ToolErrorKind.DENIED
            if not call.ran:
                self._turn.quota.give_back(call.tool)
            return ToolOutput.error(f"Denied: {refused.tell_model}")

    async def _agreed(
        self, call: ToolCallOperation, outer: ToolCallOperation
    ) -> Ready[ToolCallEvent, ToolOutput] | Answered[ToolCallEvent, ToolOutput] | ToolOutput:
        """Return what may be performed, or what the tool is told instead."""
        turn = self._turn
        decided = await self._services.operations.decide(call)
        fingerprint = call.fingerprint(decided.event)
        if fingerprint in turn.refused and not isinstance(decided, Denied):
            return ToolOutput.error(f"Denied: {REFUSED}")
        if isinstance(decided, Asked):
            answer = turn.answer(decided)
            if answer is None and not turn.may_ask():
                return ToolOutput.error(f"Denied: {TOO_OFTEN}")
            answer = answer or await self._nesting.put(decided, outer)
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
        self._turn.append(Settled(call.scope.turn_id, call.event.call_id, message, call.outcome, whole))
        self._turn.settled(call, event, call.outcome)

    # ---- the model, people and memory ----------------------------------------------------

    async def nested_model(self, outer: ToolCallOperation, prompt: Prompt) -> ModelResponse:
        return await ask_model(self._nesting, outer, prompt)

    async def nested_question(self, outer: ToolCallOperation, question: Question) -> Elicited:
        return await ask_person(self._nesting, outer, question)

    def nested_memory(self, outer: ToolCallOperation, store: str) -> MemoryAccess:
        nesting = self._nesting
        return self._services.memory(
            store, self._turn, nesting.scope(outer), nesting.numbers, lambda asked: nesting.put(asked, outer)
        )


def _facts(data: Json) -> Json:
    """Return *data* as any wire can carry it. What is no JSON is left out: a log is no reason to fail."""
    try:
        return freeze(clean_json(json.loads(json.dumps(thaw(data), allow_nan=False))))
    except (TypeError, ValueError, RecursionError):
        return None
