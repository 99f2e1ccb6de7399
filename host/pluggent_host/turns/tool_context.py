"""What a tool is lent for one call: facts, and operations under the same policies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pluggent_hookspecs import Json
from pluggent_hookspecs.errors import LimitReached, ToolError, ToolErrorKind
from pluggent_hookspecs.memory import MemoryAccess, MemoryHit, MemoryItem, MemoryPage, MemoryQuery
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters, ModelResponse
from pluggent_hookspecs.observations import LOG_LEVELS
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.common.deadline import Deadline
from pluggent_host.operations.question import question_of
from pluggent_host.operations.tool_call import CallRunner, ToolCallOperation
from pluggent_host.tools.arguments import ArgumentProblems
from pluggent_host.turns.nested import NestedCalls, prompt_of
from pluggent_host.turns.parts import TurnParts

R = TypeVar("R")


class _WhileAlive(Protocol):
    """Runs an operation, unless the call is over, and no longer than it."""

    def __call__(self, operate: Callable[[], Awaitable[R]]) -> Awaitable[R]: ...


class _LentMemory:
    """A memory store for as long as a call lasts."""

    __slots__ = ("__memory", "__while_alive")

    def __init__(self, memory: MemoryAccess, while_alive: _WhileAlive) -> None:
        self.__memory = memory
        self.__while_alive = while_alive

    async def save(self, items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
        return await self.__while_alive(lambda: self.__memory.save(items))

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        return await self.__while_alive(lambda: self.__memory.get(namespace, key))

    async def delete(self, namespace: str, key: str) -> bool:
        return await self.__while_alive(lambda: self.__memory.delete(namespace, key))

    async def list(self, query: MemoryQuery) -> MemoryPage:
        return await self.__while_alive(lambda: self.__memory.list(query))

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        return await self.__while_alive(lambda: self.__memory.search(namespace, text, limit))


class CallContext:
    """A ToolContext. It hands out no provider, tool or store, only what it says."""

    __slots__ = ("__below", "__call", "__clock", "__depth", "__lender", "__over", "channel", "chat_id", "workspace")

    def __init__(
        self, lender: NestedCalls, call: ToolCallOperation, clock: Deadline, workspace: Path | None, depth: int
    ) -> None:
        self.__lender = lender
        self.__call = call
        self.__clock = clock
        self.__depth = depth
        self.__over = False
        self.__below: set[asyncio.Task[Any]] = set()
        self.workspace = workspace
        self.channel = call.scope.channel
        self.chat_id = call.scope.chat_id

    @property
    def session_id(self) -> str:
        return self.__call.scope.session_id

    @property
    def turn_id(self) -> str:
        return self.__call.scope.turn_id

    @property
    def call_id(self) -> str:
        return self.__call.event.call_id

    @property
    def idempotency_key(self) -> str:
        return f"{self.session_id}.{self.__call.id}"

    @property
    def cancelled(self) -> bool:
        return self.__over or self.__clock.left() <= 0

    def end(self) -> None:
        """Nobody waits for this call any more: what it has begun below itself ends too."""
        self.__over = True
        for task in self.__below - {asyncio.current_task()}:
            task.cancel()

    def remaining_s(self) -> float:
        return self.__clock.left()

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        if not self.__over:
            self.__lender.progressed(self.__call, done, total, message)

    def log(self, level: str, message: str, *, logger: str = "", data: Json = None) -> None:
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no level of a log; there are {', '.join(LOG_LEVELS)}")
        if not self.__over:
            self.__lender.logged(self.__call, level, message, logger, data)

    async def call_tool(self, name: str, arguments: Mapping[str, Json]) -> ToolOutput:
        return await self.__while_alive(
            lambda: self.__lender.nested_tool(self.__call, self.__depth + 1, name, arguments)
        )

    async def call_model(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str = "",
        parameters: ModelParameters | None = None,
        ask: str = "",
    ) -> ModelResponse:
        asked = prompt_of(prompt, system, parameters, ask)
        return await self.__while_alive(lambda: self.__lender.nested_model(self.__call, asked))

    async def elicit(self, message: str, schema: Mapping[str, Json], *, source: str = "") -> Elicited:
        self.__alive()
        try:
            question = question_of(message, schema, source)
        except ArgumentProblems as error:
            raise ToolError("; ".join(error.problems), kind=ToolErrorKind.ARGUMENTS) from error
        return await self.__while_alive(lambda: self.__lender.nested_question(self.__call, question))

    def memory(self, store: str = "") -> MemoryAccess:
        self.__alive()
        return _LentMemory(self.__lender.nested_memory(self.__call, store), self.__while_alive)

    async def __while_alive(self, operate: Callable[[], Awaitable[R]]) -> R:
        """Run one operation below the call, no longer than the call itself."""
        self.__alive()
        task = asyncio.current_task()
        assert task is not None
        first = task not in self.__below
        self.__below.add(task)
        try:
            return await operate()
        finally:
            if first:
                self.__below.discard(task)

    def __alive(self) -> None:
        if self.__over:
            raise LimitReached("tool_timeout_s", self.__call.timeout_s)


def call_runner(turn: TurnParts) -> CallRunner:
    """Return what the tool calls of *turn* run with; their contexts lead to operations of the same turn."""
    return NestedCalls(turn, CallContext).runner
