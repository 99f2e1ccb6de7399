"""What a model is asked and what it answers; the Provider protocol.

A provider turns a ModelRequest into a ModelResponse or a stream of deltas. It knows one
wire format and nothing of turns, tools or policies.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze_maybe, freeze_object
from pluggent_hookspecs._value import Value
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.messages import Message, Part, Reasoning, Refusal, Role, Text, ToolCall, Usage
from pluggent_hookspecs.reply_meta import ReplyMeta
from pluggent_hookspecs.tools import HostedTool, ToolSpec

__all__ = [
    "AllowedTools", "CountsTokens", "Delta", "FinishReason", "Finished", "HostsTools", "ListsModels", "ModelInfo",
    "ModelParameters", "ModelRequest", "ModelResponse", "ModelTimeouts", "PartDelta", "Provider", "ReasoningDelta",
    "RefusalDelta", "Reply", "TextDelta", "ToolCallDelta", "ToolChoice", "UsageDelta", "collect", "deltas",
]  # fmt: skip


def _to_names(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"names: expected several, got the text {value!r}; write names=({value!r},)")
    return tuple(value)


@attrs.frozen(repr=False)
class AllowedTools(Value):
    """Of the offered tools only ``names`` may be called; one of them must be if ``required``.

    The other tools stay in the request where the vendor can say so: its cache stays valid.
    """

    names: tuple[str, ...] = attrs.field(converter=_to_names)
    required: bool = False


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str | AllowedTools
"""``auto``, ``none``, ``required``, the name of the one tool to be called, or AllowedTools."""


def _to_stop(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _to_metadata(value: Mapping[str, str]) -> Mapping[str, str]:
    return cast("Mapping[str, str]", freeze_object(value))


def _to_messages(value: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(value)


def _to_specs(value: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    return tuple(value)


def _to_hosted(value: Iterable[HostedTool]) -> tuple[HostedTool, ...]:
    return tuple(value)


def _names_of(headers: Mapping[str, str]) -> str:
    return repr(sorted(headers))


@attrs.frozen(repr=False)
class ModelTimeouts(Value):
    """Seconds for one request: until the connection stands, to the first byte of the answer, between two pieces.

    Each counts where it is shorter than what the operator has set for the server; None is the operator's.
    """

    connect_s: float | None = None
    first_byte_s: float | None = None
    silence_s: float | None = None


@attrs.frozen(repr=False)
class ModelParameters(Value):
    """How to answer. None means the vendor's default.

    ``logprobs`` asks for the log-probability of every token of the reply and of that many likely
    alternatives (0: none); they come back in ModelResponse.extra. ``user`` is a pseudonymous id of the
    person, for the vendor's abuse detection. ``metadata`` is stored by the vendor with the request.
    ``output_schema`` is a JSON Schema for the text of the reply.

    ``headers`` are sent with the request: names that the operator allows in the settings of the server, never one
    that says who asks. Their values are shown nowhere, and not stored with a turn that waits: in another process
    it continues with those that the session is opened with. ``timeouts`` are for this request. ``cache`` is for the
    vendor's cache of prompts: ``off``, ``auto`` (what the vendor and the settings do), or how long it keeps what a
    prompt begins with, such as ``5m`` or ``1h``.

    ``background``: the vendor continues the reply when the connection, or this process, is lost, and another
    process attaches to it (RunsLater); the host refuses it for a provider without that. The vendor keeps the reply.

    A provider refuses parameters that its vendor does not have, and leaves none out in silence. ``extra``
    goes into the request as it is, under the vendor's names; the provider refuses a name that it sets
    from a field above.
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
    top_k: int | None = None
    logprobs: int | None = None
    service_tier: str | None = None
    user: str | None = None
    metadata: Mapping[str, str] = attrs.field(default=cast("Mapping[str, str]", EMPTY), converter=_to_metadata)
    headers: Mapping[str, str] = attrs.field(
        default=cast("Mapping[str, str]", EMPTY), converter=_to_metadata, repr=_names_of
    )
    timeouts: ModelTimeouts | None = None
    cache: str | None = None
    background: bool = False


@attrs.frozen(repr=False)
class ModelRequest(Value):
    """One call of a model: ``model`` is the provider's own name for it.

    ``hosted`` are the tools that the vendor may run meanwhile, of those that the provider HostsTools; the host fills
    it for the turns of a session alone. A policy may narrow it, as it may ``tools``.
    """

    model: str
    messages: tuple[Message, ...] = attrs.field(converter=_to_messages)
    tools: tuple[ToolSpec, ...] = attrs.field(default=(), converter=_to_specs)
    parameters: ModelParameters = ModelParameters()
    hosted: tuple[HostedTool, ...] = attrs.field(default=(), converter=_to_hosted)


class FinishReason(StrEnum):
    """Why a reply ended.

    ``paused``: the vendor interrupted a long reply; the model continues it if asked again with it at
    the end of the conversation.
    """

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSED = "paused"
    OTHER = "other"


@attrs.frozen(repr=False)
class ModelResponse(Value):
    """A whole reply. ``model`` is the name the vendor reports, ``extra`` what else it said.

    ``meta`` is what is known of the answer that brought it.
    """

    message: Message
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    meta: ReplyMeta = ReplyMeta()


@attrs.frozen(repr=False)
class TextDelta(Value):
    """More text of the reply."""

    text: str


@attrs.frozen(repr=False)
class ReasoningDelta(Value):
    """More thinking. ``signature`` ends a block of it: what comes next is a Reasoning part of its own."""

    text: str
    signature: str | None = None


@attrs.frozen(repr=False)
class RefusalDelta(Value):
    """More of a refusal."""

    text: str


@attrs.frozen(repr=False)
class ToolCallDelta(Value):
    """More of one call. ``index`` identifies the call; the provider assigns it.

    ``id`` and ``name`` are given once, in the call's first delta; ``arguments`` of all
    deltas of one index are joined. ``extra`` and ``hosted`` are those of the call, given once.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    hosted: str = ""


@attrs.frozen(repr=False)
class PartDelta(Value):
    """A whole content part at once: audio, an image."""

    part: Part


@attrs.frozen(repr=False)
class UsageDelta(Value):
    """Usage of this call so far, for servers that tell it before the end; replaces the last."""

    usage: Usage


@attrs.frozen(repr=False)
class Finished(Value):
    """The reply is complete. A stream that ends without one is broken.

    ``message_extra`` is what belongs to the message itself (Message.extra), ``extra`` and ``meta`` to the reply.
    """

    reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    message_extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    meta: ReplyMeta = ReplyMeta()


Delta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta | PartDelta | UsageDelta | Finished


@runtime_checkable
class Provider(Protocol):
    """One vendor, or one wire format. Models are named ``<provider.name>/<model>``.

    ``target`` says where requests go (a base URL without secrets); approvals are bound to
    it. Both calls raise ProviderError and nothing else on purpose, close what they opened
    when they are cancelled, and have time limits of their own on every wait. A count in a
    Usage is None where the server gave none that is possible.
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


@attrs.frozen(repr=False)
class ModelInfo(Value):
    """A model as its vendor lists it; None is what the vendor does not say.

    ``id`` is what ModelRequest.model takes, ``created`` seconds since 1970, the sizes are tokens.
    """

    id: str
    name: str = ""
    created: float | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)


@runtime_checkable
class ListsModels(Protocol):
    """A Provider that can say which models it has. Offering this is up to the provider."""

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A Provider that can say how long a request is, before it is sent. Offering this is up to the provider."""

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of the prompt, as the vendor counts them: messages, tools and what it adds itself.

        The vendor gets the whole request and answers nothing. Raises ProviderError, ``bad_request`` for a request
        that it cannot count.
        """
        ...


@runtime_checkable
class HostsTools(Protocol):
    """A Provider whose vendor runs tools within a request. Offering this is up to the provider."""

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        """Return the tools that the operator has set up for requests to *model*, under names of their own.

        A request runs those of them that are in its ``hosted``, and no others: one that is not set up is refused.
        Opens and reads nothing.
        """
        ...


_Place: TypeAlias = tuple[int, type[Text | Reasoning | Refusal] | None, list[str], int, dict[int, int]]
"""How far a reply had come: whole parts, the open part and how many pieces it had, those of each call."""


class Reply:
    """Collects the deltas of one stream; ``response()`` is the reply they make.

    Parts keep the order in which they began: text after thinking after text are three.
    ``usage`` is what is known of it so far.

    >>> reply = Reply()
    >>> reply.add((TextDelta("hel"), TextDelta("lo"), Finished()))
    >>> reply.response().message.text
    'hello'
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._kind: type[Text | Reasoning | Refusal] | None = None
        self._pieces: list[str] = []
        self._calls: dict[int, ToolCallDelta] = {}
        self._arguments: dict[int, list[str]] = {}
        self._finished: Finished | None = None
        self.usage: Usage = Usage()
        self._reported: _Place = (0, None, [], 0, {})

    @property
    def finished(self) -> bool:
        """Whether the stream said that it is complete."""
        return self._finished is not None

    def add(self, batch: Sequence[Delta]) -> None:
        """Take one batch."""
        for delta in batch:
            match delta:
                case TextDelta(text):
                    self._more(Text, text)
                case ToolCallDelta():
                    self._call(delta)
                case ReasoningDelta(text, signature):
                    self._more(Reasoning, text)
                    if signature:
                        self._parts.append(Reasoning("".join(self._pieces), signature))
                        self._kind = None
                case RefusalDelta(text):
                    self._more(Refusal, text)
                case PartDelta(part):
                    self._end_part()
                    self._parts.append(part)
                case UsageDelta(usage):
                    self.usage = usage
                    lengths = {index: len(pieces) for index, pieces in self._arguments.items()}
                    self._reported = (len(self._parts), self._kind, self._pieces, len(self._pieces), lengths)
                case Finished():
                    self._finished = delta
                    self.usage = delta.usage if delta.usage != Usage() else self.usage

    def message(self) -> Message:
        """Return what has come so far, whole or not; unfinished calls are left out."""
        return self.so_far() if self._finished is not None else self._made(())

    def so_far(self) -> Message:
        """Return all that has come so far, unfinished calls too: what a stream that breaks off has cost."""
        return self._made(
            tuple(
                ToolCall(call.id, call.name, "".join(self._arguments[index]) or "{}", call.extra, call.hosted)
                for index, call in sorted(self._calls.items())
            )
        )

    def reported(self) -> Message:
        """Return what of ``so_far`` had come when ``usage`` was reported last: some vendors report at the start."""
        parts, kind, pieces, count, arguments = self._reported
        begun = (kind("".join(pieces[:count])),) if kind is not None and count else ()
        calls = tuple(
            ToolCall(self._calls[index].id, self._calls[index].name, "".join(self._arguments[index][:length]))
            for index, length in arguments.items()
        )
        return Message(Role.ASSISTANT, (*self._parts[:parts], *begun), calls)

    def _made(self, calls: tuple[ToolCall, ...]) -> Message:
        content = (*self._parts, *self._open_part())
        extra = EMPTY if self._finished is None else self._finished.message_extra
        return Message(Role.ASSISTANT, content, calls, extra=extra)

    def response(self) -> ModelResponse:
        """Return the reply. Raises ProviderError ``stream_broken`` if it is not complete."""
        done = self._finished
        if done is None:
            raise ProviderError(ProviderErrorKind.STREAM_BROKEN, "the stream ended before the reply was complete")
        return ModelResponse(self.message(), done.reason, self.usage, done.model, done.id, done.extra, done.meta)

    def _more(self, kind: type[Text | Reasoning | Refusal], text: str) -> None:
        if kind is not self._kind:
            self._end_part()
            self._kind, self._pieces = kind, []
        self._pieces.append(text)

    def _open_part(self) -> tuple[Part, ...]:
        text = "".join(self._pieces) if self._kind is not None else ""
        return (self._kind(text),) if self._kind is not None and text else ()

    def _end_part(self) -> None:
        self._parts += self._open_part()
        self._kind = None

    def _call(self, delta: ToolCallDelta) -> None:
        index = delta.index
        known = self._calls.get(index)
        if known is None:
            self._calls[index], self._arguments[index] = delta, [delta.arguments]
            return
        self._arguments[index].append(delta.arguments)
        if delta.id or delta.name or delta.extra:
            extra = {**known.extra, **delta.extra}
            self._calls[index] = ToolCallDelta(
                index, known.id or delta.id, known.name or delta.name, "", extra, known.hosted or delta.hosted
            )


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
        out.append(ToolCallDelta(index, call.id, call.name, call.arguments, call.extra, call.hosted))
    out.append(
        Finished(
            response.finish_reason,
            response.usage,
            response.model,
            response.id,
            response.extra,
            response.message.extra,
            response.meta,
        )
    )
    return tuple(out)
