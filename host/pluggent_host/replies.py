"""What a provider answered, looked at before it is used: is it a reply, and what of it is to be seen?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import attrs
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Role, Text, ToolCall, Usage
from pluggent_hookspecs.models import Delta, ModelResponse, ReasoningDelta, RefusalDelta, TextDelta
from pluggent_hookspecs.observations import ModelCalled


@attrs.frozen
class Called:
    """What one call of a model, reissued for another, came to."""

    model: str
    usage: Usage
    elapsed_s: float
    error: str
    finish: str = ""

    def event(self, scope: Scope, round: int) -> ModelCalled:
        """Return what observers are told of it."""
        return ModelCalled(scope, self.model, round, self.usage, self.elapsed_s, self.finish, self.error)


def checked(response: object) -> ModelResponse:
    """Return *response*. Raises TypeError if it is no reply of an assistant, through and through."""
    if not isinstance(response, ModelResponse):
        raise TypeError(f"it returned {type(response).__name__}, not a ModelResponse")
    message = response.message
    if not _is_from_assistant(message):
        raise TypeError("its reply is not a message of the assistant")
    for part in message.content:
        _check_part(part)
    for call in message.tool_calls:
        _check_call(call)
    return response


def _is_from_assistant(message: object) -> bool:
    return isinstance(message, Message) and message.role is Role.ASSISTANT


def _check_part(part: object) -> None:
    if not isinstance(part, _PARTS):
        raise TypeError(f"its reply has a content part of type {type(part).__name__}")
    if isinstance(part, Text | Refusal | Reasoning) and type(part.text) is not str:
        raise TypeError("its reply has a text that is none")


def _check_call(call: object) -> None:
    if not isinstance(call, ToolCall):
        raise TypeError(f"its reply has a tool call of type {type(call).__name__}")
    if any(type(field) is not str for field in (call.id, call.name, call.arguments)):
        raise TypeError("its reply has a tool call whose id, name or arguments are not text")


_PARTS = get_args(Part)


def seen_in(batch: Sequence[Delta]) -> tuple[str, str]:
    """Return the text, refusals included, and the reasoning of one batch."""
    text: list[str] = []
    reasoning: list[str] = []
    for delta in batch:
        if type(delta) is TextDelta or type(delta) is RefusalDelta:
            text.append(delta.text)
        elif type(delta) is ReasoningDelta:
            reasoning.append(delta.text)
    return "".join(text), "".join(reasoning)
