"""Replaces lone surrogates in values of the contract, and says what is wrong with a history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, cast

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.messages import Message, Part, Role, Text, ToolCall, VendorPart

LONE_SURROGATE = " (a lone surrogate was sent here)"
"""Appended to arguments with a lone surrogate, so that they are not JSON and are refused."""


def clean(text: str) -> str:
    """Return *text* with lone surrogates replaced; pairs of them become the character they mean."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Json) -> Json:
    """Return *value* with every text in it clean, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key): clean_json(item) for key, item in value.items()}
    return [clean_json(item) for item in value] if isinstance(value, list | tuple) else value


def finite(value: object) -> float | None:
    """Return *value* as a JSON number, None if it is not one.

    >>> finite(2), finite(0.5), finite(float("nan")), finite("2")
    (2, 0.5, None, None)
    """
    if isinstance(value, int):
        number: float = int(value)
    elif isinstance(value, Real):
        number = float(value)
    else:
        return None
    try:
        return number if math.isfinite(number) else None
    except OverflowError:
        return None


def _clean_extra(extra: Mapping[str, Json]) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", clean_json(extra)) if extra else extra


def clean_part(part: Part) -> Part:
    """Return *part* with every text in it clean; the same object if it was clean."""
    if type(part) is Text:  # nearly all of a long history
        text = clean(part.text)
        return part if text is part.text else Text(text)
    if isinstance(part, VendorPart):
        return VendorPart(clean(part.vendor), _clean_extra(part.value), clean(part.hosted))
    fields = {name: value for name, value in attrs.asdict(part, recurse=False).items() if isinstance(value, str)}
    wrong = {name: better for name, value in fields.items() if (better := clean(value)) != value}
    return cast("Part", attrs.evolve(cast("Any", part), **wrong)) if wrong else part


def clean_message(message: Message) -> Message:
    """Return *message* with every text in it clean; the same object if it was clean."""
    content = tuple([clean_part(part) for part in message.content])
    calls = tuple([_clean_call(call) for call in message.tool_calls]) if message.tool_calls else ()
    extra = _clean_extra(message.extra)
    call_id = message.tool_call_id and clean(message.tool_call_id)
    name = message.name and clean(message.name)
    # Clean parts are the same objects, so that comparing costs nothing.
    same = content == message.content and calls == message.tool_calls and extra == message.extra
    if same and call_id == message.tool_call_id and name == message.name:
        return message
    return attrs.evolve(message, content=content, tool_calls=calls, extra=extra, tool_call_id=call_id, name=name)


def clean_history(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return *messages* with every text in them clean; plain texts are checked all at once."""
    parts = [part for message in messages for part in message.content]
    texts = [part.text for part in parts if type(part) is Text]
    whole = "".join(texts)
    plain = len(texts) == len(parts) and not any(
        message.tool_calls or message.extra or message.tool_call_id or message.name for message in messages
    )
    return messages if plain and clean(whole) is whole else tuple(map(clean_message, messages))


def _clean_call(call: ToolCall) -> ToolCall:
    if call.id.isascii() and call.name.isascii() and call.arguments.isascii() and not call.extra:
        return call
    arguments = clean(call.arguments)
    if arguments != call.arguments:
        # Not repaired in silence: a policy and the tool would see what the model did not write.
        arguments += LONE_SURROGATE
    return ToolCall(clean(call.id), clean(call.name), arguments, _clean_extra(call.extra), clean(call.hosted))


def check_history(messages: tuple[Message, ...]) -> None:
    """Raise ValueError, naming the first message that is wrong, unless every call has one result."""
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message.role is Role.TOOL:
            if message.tool_call_id not in waiting:
                raise ValueError(f"message {number} is the result of no call ({message.tool_call_id!r})")
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            raise ValueError(f"message {number} comes before the result of the call {waiting[0]!r}")
        waiting = [call.id for call in message.tool_calls]
        if message.role is not Role.ASSISTANT and waiting:
            raise ValueError(f"message {number} has tool calls and is not the assistant's")
        if len(set(waiting)) != len(waiting) or not all(waiting):
            raise ValueError(f"message {number} has two calls of one id, or one without")
    if waiting:
        raise ValueError(f"there is no result of the call {waiting[0]!r} at the end")
