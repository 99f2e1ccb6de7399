"""What a model is asked and what it answers; the Provider protocol.

A provider turns a ModelRequest into a ModelResponse or a stream of deltas. It knows one
wire format and nothing of turns, tools or policies.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze_maybe, freeze_object
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Role, Text, ToolCall, Usage
from pluggent_hookspecs.tools import ToolSpec

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str
"""``auto``, ``none``, ``required``, or the name of the one tool to be called."""


def _to_stop(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _to_messages(value: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(value)


def _to_specs(value: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    return tuple(value)


@attrs.frozen
class ModelParameters:
    """How to answer. None means the vendor's default.

    ``extra`` goes into the request as it is, under the vendor's own names; a name that the
    provider already sets from a field above is refused by it, not silently replaced.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = attrs.field(default=(), converter=_to_stop)
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    output_schema: Mapping[str, Json] | None = attrs.field(default=None, converter=freeze_maybe)
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@attrs.frozen
class ModelRequest:
    """One call of a model: ``model`` is the provider's own name for it."""

    model: str
    messages: tuple[Message, ...] = attrs.field(converter=_to_messages)
    tools: tuple[ToolSpec, ...] = attrs.field(default=(), converter=_to_specs)
    parameters: ModelParameters = ModelParameters()


class FinishReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@attrs.frozen
class ModelResponse:
    """A whole reply. ``model`` is the name the vendor reports, ``extra`` what else it said."""

    message: Message
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@attrs.frozen
class TextDelta:
    """More text of the reply."""

    text: str


@attrs.frozen
class ReasoningDelta:
    """More thinking."""

    text: str
    signature: str | None = None


@attrs.frozen
class RefusalDelta:
    """More of a refusal."""

    text: str


@attrs.frozen
class ToolCallDelta:
    """More of one call. ``index`` tells calls apart and is the provider's to keep straight.

    ``id`` and ``name`` are given once, in the call's first delta; ``arguments`` of all
    deltas of one index are joined.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@attrs.frozen
class PartDelta:
    """A whole content part at once: audio, an image."""

    part: Part


@attrs.frozen
class UsageDelta:
    """Usage of this call so far, for servers that tell it before the end; replaces the last."""

    usage: Usage


@attrs.frozen
class Finished:
    """The reply is complete. A stream that ends without one is broken.

    ``message_extra`` is what belongs to the message itself (Message.extra), ``extra`` to the reply.
    """

    reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    message_extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


Delta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta | PartDelta | UsageDelta | Finished


@runtime_checkable
class Provider(Protocol):
    """One vendor, or one wire format. Models are named ``<provider.name>/<model>``.

    ``target`` says where requests go (a base URL without secrets); approvals are bound to
    it. Both calls raise ProviderError and nothing else on purpose, close what they opened
    when they are cancelled, and have time limits of their own on every wait.
    """

    @property
    def name(self) -> str:
        """The short name, usually that of the entry point."""
        ...

    @property
    def target(self) -> str:
        """Where requests go, without secrets."""
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply in batches, each all that one read brought; Finished comes last.

        Closing it early closes the connection.
        """
        ...


class Reply:
    """Collects the deltas of one stream; ``response()`` is the reply they make.

    ``usage`` is what is known of it so far.

    >>> reply = Reply()
    >>> reply.add((TextDelta("hel"), TextDelta("lo"), Finished()))
    >>> reply.response().message.text
    'hello'
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._parts: list[Part] = []
        self._calls: dict[int, list[str]] = {}
        self._signature: str | None = None
        self._finished: Finished | None = None
        self.usage: Usage = Usage()

    @property
    def finished(self) -> bool:
        """Whether the stream said that it is complete."""
        return self._finished is not None

    def add(self, batch: Sequence[Delta]) -> None:
        """Take one batch."""
        for delta in batch:
            match delta:
                case TextDelta(text):
                    self._text.append(text)
                case ToolCallDelta(index, id, name, arguments):
                    call = self._calls.setdefault(index, ["", "", ""])
                    call[0] = call[0] or id
                    call[1] = call[1] or name
                    call[2] += arguments
                case ReasoningDelta(text, signature):
                    self._reasoning.append(text)
                    self._signature = signature or self._signature
                case RefusalDelta(text):
                    self._refusal.append(text)
                case PartDelta(part):
                    self._parts.append(part)
                case UsageDelta(usage):
                    self.usage = usage
                case Finished():
                    self._finished = delta
                    self.usage = delta.usage if delta.usage != Usage() else self.usage

    def message(self) -> Message:
        """Return what has come so far, whole or not; unfinished calls are left out."""
        calls = tuple(
            ToolCall(id, name, arguments or "{}")
            for _, (id, name, arguments) in sorted(self._calls.items())
            if self._finished is not None
        )
        content: list[Part] = []
        if self._reasoning or self._signature:
            content.append(Reasoning("".join(self._reasoning), self._signature))
        if text := "".join(self._text):
            content.append(Text(text))
        if refusal := "".join(self._refusal):
            content.append(Refusal(refusal))
        extra = EMPTY if self._finished is None else self._finished.message_extra
        return Message(Role.ASSISTANT, (*content, *self._parts), calls, extra=extra)

    def response(self) -> ModelResponse:
        """Return the reply. Raises ProviderError ``stream_broken`` if it is not complete."""
        done = self._finished
        if done is None:
            raise ProviderError(ProviderErrorKind.STREAM_BROKEN, "the stream ended before the reply was complete")
        return ModelResponse(self.message(), done.reason, self.usage, done.model, done.id, done.extra)


async def collect(batches: AsyncIterator[Sequence[Delta]]) -> ModelResponse:
    """Make ``complete`` of ``stream``: read it to its end and return the reply."""
    reply = Reply()
    async for batch in batches:
        reply.add(batch)
    return reply.response()


def deltas(response: ModelResponse) -> tuple[Delta, ...]:
    """Make one batch of a whole reply, for providers that cannot stream."""
    out: list[Delta] = []
    for part in response.message.content:
        match part:
            case Text(text):
                out.append(TextDelta(text))
            case Reasoning(text, signature):
                out.append(ReasoningDelta(text, signature))
            case Refusal(text):
                out.append(RefusalDelta(text))
            case _:
                out.append(PartDelta(part))
    for index, call in enumerate(response.message.tool_calls):
        out.append(ToolCallDelta(index, call.id, call.name, call.arguments))
    out.append(
        Finished(
            response.finish_reason, response.usage, response.model, response.id, response.extra, response.message.extra
        )
    )
    return tuple(out)
