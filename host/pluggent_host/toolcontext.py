"""What a tool is lent for one call: facts, and operations under the same policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.errors import LimitReached, ToolError, ToolErrorKind
from pluggent_hookspecs.memory import MemoryAccess
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import ModelParameters, ModelResponse
from pluggent_hookspecs.observations import LOG_LEVELS
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.tools import ToolOutput

from pluggent_host.arguments import ArgumentProblems
from pluggent_host.clock import Deadline
from pluggent_host.nested_models import Prompt, prompt_of
from pluggent_host.questions import Question, question_of
from pluggent_host.toolcalls import ToolCallOperation


class Lender(Protocol):
    """The turn, as far as a context needs it."""

    def progressed(self, call: ToolCallOperation, done: float, total: float | None, message: str) -> None: ...
    def logged(self, call: ToolCallOperation, level: str, message: str, logger: str, data: Json) -> None: ...
    async def nested_tool(
        self, outer: ToolCallOperation, depth: int, name: str, arguments: Mapping[str, Json]
    ) -> ToolOutput: ...
    async def nested_model(self, outer: ToolCallOperation, prompt: Prompt) -> ModelResponse: ...
    async def nested_question(self, outer: ToolCallOperation, question: Question) -> Elicited: ...
    def nested_memory(self, outer: ToolCallOperation, store: str) -> MemoryAccess: ...


class CallContext:
    """A ToolContext. It hands out no provider, tool or store, only what it says."""

    __slots__ = ("__call", "__clock", "__depth", "__lender", "__over", "channel", "chat_id", "workspace")

    def __init__(
        self, lender: Lender, call: ToolCallOperation, clock: Deadline, workspace: Path | None, depth: int
    ) -> None:
        self.__lender = lender
        self.__call = call
        self.__clock = clock
        self.__depth = depth
        self.__over = False
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
        """Nobody waits for this call any more."""
        self.__over = True

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
        self.__alive()
        return await self.__lender.nested_tool(self.__call, self.__depth + 1, name, arguments)

    async def call_model(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str = "",
        parameters: ModelParameters | None = None,
        ask: str = "",
    ) -> ModelResponse:
        self.__alive()
        return await self.__lender.nested_model(self.__call, prompt_of(prompt, system, parameters, ask))

    async def elicit(self, message: str, schema: Mapping[str, Json], *, source: str = "") -> Elicited:
        self.__alive()
        try:
            question = question_of(message, schema, source)
        except ArgumentProblems as error:
            raise ToolError("; ".join(error.problems), kind=ToolErrorKind.ARGUMENTS) from error
        return await self.__lender.nested_question(self.__call, question)

    def memory(self, store: str = "") -> MemoryAccess:
        self.__alive()
        return self.__lender.nested_memory(self.__call, store)

    def __alive(self) -> None:
        if self.__over:
            raise LimitReached("tool_timeout_s", self.__call.timeout_s)
