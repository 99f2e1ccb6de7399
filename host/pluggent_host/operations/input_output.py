"""The edges of a turn as operations: what a person says, also to refuse a request, and what a person is shown."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.events import InputEvent, OutputEvent, Scope
from pluggent_hookspecs.messages import Message, Role, Text
from pluggent_hookspecs.observations import Change

from pluggent_host.operations.model_call import message_digest
from pluggent_host.operations.operation import Attempt, Hooks, Journal, Operation, Recorded, asked_by, with_digest

R = TypeVar("R")


class _Edge(Operation[Any, Any]):
    """What all edges share: a message under a digest, decided by policies alone."""

    def changed(self, event: Any, value: Any, plugin: str) -> Any:
        if not isinstance(value, Message) or value.role is not event.message.role:
            raise ValueError(f"returned {type(value).__name__}, not a Message of role {event.message.role}")
        return attrs.evolve(event, message=value)

    def diff(self, before: Any, after: Any) -> Change:
        # Not the texts: what a hook took out of a message must not stand in the record of it.
        return Change("", ("message",))

    def freeze(self, event: Any) -> Any:
        head = f"{self.scope.session_id}\n{self.id}\n".encode()
        said = message_digest(event.message)
        return with_digest(event, hashlib.sha256(head + said + asked_by(event.scope)).hexdigest())


class InputOperation(_Edge, Generic[R]):
    """A message that starts a turn; executing it is the turn itself."""

    name = "input"
    hooks = Hooks("transform_input", "decide_input", "around_turn")

    def __init__(
        self,
        journal: Journal,
        scope: Scope,
        message: Message,
        run: Callable[[InputEvent], Awaitable[R]],
        *,
        resumed: bool = False,
    ) -> None:
        super().__init__(journal, scope, scope.turn_id, "turn", InputEvent(scope, message, resumed=resumed))
        self._run = run
        self._begun = False

    def rendered(self, event: InputEvent) -> str:
        others = [type(part).__name__.lower() for part in event.message.content if not isinstance(part, Text)]
        more = f" and: {', '.join(others)}" if others else ""
        return f"start a turn with: {escape_all(event.message.text)}{more}"

    async def execute(self, event: InputEvent, attempt: Attempt) -> R:
        if self._begun:
            raise ValueError("a turn runs once; call_next() was called again")
        self._begun = True
        return await self._run(event)

    def response(self, value: object) -> Any:
        if self._begun:
            raise ValueError("the result of a turn cannot be replaced; return what call_next() returned")
        if isinstance(value, str):
            value = Message.assistant(value)
        if not isinstance(value, Message) or value.role is not Role.ASSISTANT:
            raise ValueError(f"answered {type(value).__name__}; a turn is answered with text or an assistant message")
        return value


class RefusalOperation(_Edge):
    """The words with which *refused* is refused. The model reads them, so the policies on input decide about them."""

    name = "input"
    hooks = Hooks("transform_input", "decide_input")

    def __init__(self, refused: Recorded, words: str) -> None:
        scope = refused.scope
        event = InputEvent(scope, Message.user(words))
        super().__init__(refused.journal, scope, f"{refused.id}.refusal", "refusal", event)

    def rendered(self, event: InputEvent) -> str:
        return f"refuse with: {escape_all(event.message.text)}"

    async def execute(self, event: InputEvent, attempt: Attempt) -> str:
        return event.message.text

    def response(self, value: object) -> str:
        raise ValueError("the words of a refusal cannot be answered")


class OutputOperation(_Edge):
    """Something to be shown. Executing it is nothing: what passed is what is shown.

    That the result ``of_a_tool`` passed, with no policy that votes or changes it, is stated by its ToolFinished.
    """

    name = "output"
    hooks = Hooks("transform_output", "decide_output")

    def __init__(
        self, journal: Journal, scope: Scope, message: Message, source: str, id: str, *, of_a_tool: bool = False
    ) -> None:
        super().__init__(journal, scope, id, source, OutputEvent(scope, message, source))
        self.recorded_elsewhere = of_a_tool

    def rendered(self, event: OutputEvent) -> str:
        return f"show ({escape_all(self.capability)}): {escape_all(event.message.text)}"

    async def execute(self, event: OutputEvent, attempt: Attempt) -> Message:
        return event.message

    def response(self, value: object) -> Message:
        raise ValueError("an output is shown or not; it cannot be answered")
