"""Text that can be written down: half characters, which models and tools do send, are replaced."""

from __future__ import annotations

import attrs
from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Text, ToolCall


def clean(text: str) -> str:
    """Return *text* with lone surrogates replaced; pairs of them become the character they mean."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_part(part: Part) -> Part:
    """Return *part* with its text clean."""
    if isinstance(part, Text | Refusal | Reasoning) and (text := clean(part.text)) != part.text:
        return attrs.evolve(part, text=text)
    return part


def clean_message(message: Message) -> Message:
    """Return *message* with every text in it clean; the same object if nothing was wrong."""
    content = tuple(clean_part(part) for part in message.content)
    calls = tuple(_clean_call(call) for call in message.tool_calls)
    if content == message.content and calls == message.tool_calls:
        return message
    return attrs.evolve(message, content=content, tool_calls=calls)


def _clean_call(call: ToolCall) -> ToolCall:
    if call.id.isascii() and call.name.isascii() and call.arguments.isascii():
        return call
    return ToolCall(clean(call.id), clean(call.name), clean(call.arguments))
