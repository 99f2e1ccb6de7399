"""Says what is wrong with a reply that a provider gave."""

from __future__ import annotations

import math
from typing import Any, cast, get_args

from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Role, Text, ToolCall, Usage
from pluggent_hookspecs.models import ModelResponse

_PARTS = get_args(Part)
_COUNTS = ("input", "output", "cached", "reasoning", "audio", "cache_write", "input_audio")


def checked_response(response: object) -> ModelResponse:
    """Return *response*. Raises TypeError if any part of it is not a reply of an assistant."""
    if not isinstance(response, ModelResponse):
        raise TypeError(f"it returned {type(response).__name__}, not a ModelResponse")
    message = cast("object", response.message)
    if not isinstance(message, Message) or message.role is not Role.ASSISTANT:
        raise TypeError("its reply is not a message of the assistant")
    for part in message.content:
        _check_part(part)
    for call in message.tool_calls:
        _check_call(call)
    return response


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


def impossible_usage(usage: Usage) -> str:
    """Return what of *usage*, as a provider gave it, is not a count or an amount of money; empty if nothing is."""
    for name in _COUNTS:
        count: object = getattr(usage, name)
        if count is not None and (type(count) is not int or count < 0):
            return f"{name}={count!r}"
    cost: Any = usage.cost_usd
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf):
        return f"cost_usd={cost!r}"
    return ""
