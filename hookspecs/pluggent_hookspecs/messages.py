"""A conversation in terms that belong to no vendor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar, cast

import attrs

from pluggent_hookspecs._frozen import EMPTY, Json, freeze_object
from pluggent_hookspecs._value import Value

__all__ = [
    "Audio", "CachePoint", "File", "Image", "Message", "Part", "Reasoning", "Refusal", "Role", "Text", "ToolCall",
    "Usage", "VendorPart",
]  # fmt: skip

T = TypeVar("T")


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@attrs.frozen(repr=False)
class Text(Value):
    """Plain text."""

    text: str


@attrs.frozen(repr=False)
class Image(Value):
    """A picture: ``url``, ``data`` (base64, with its ``media_type``), or ``file_id`` of one that the vendor holds."""

    url: str | None = None
    data: str | None = None
    media_type: str = "image/png"
    detail: str | None = None
    file_id: str | None = None


@attrs.frozen(repr=False)
class Audio(Value):
    """Sound: ``data`` is base64, ``format`` a name such as ``wav`` or ``mp3``."""

    data: str
    format: str = "wav"
    transcript: str | None = None


@attrs.frozen(repr=False)
class File(Value):
    """A document: ``data`` is base64; or ``url``, or ``file_id`` of one that the vendor holds."""

    data: str | None = None
    file_id: str | None = None
    filename: str | None = None
    media_type: str = "application/octet-stream"
    url: str | None = None


@attrs.frozen(repr=False)
class Refusal(Value):
    """The model's own words on why it will not answer."""

    text: str


@attrs.frozen(repr=False)
class Reasoning(Value):
    """Thinking that the vendor let out; ``signature`` is handed back to it unread."""

    text: str
    signature: str | None = None


@attrs.frozen(repr=False)
class VendorPart(Value):
    """A part that only ``vendor`` has a meaning for: kept, and handed back to that vendor as it is.

    ``vendor`` names the wire format, as in Message.extra. Others leave the part out. ``hosted`` is the name of the
    HostedTool whose call or result this is, empty for what is none.
    """

    vendor: str
    value: Mapping[str, Json] = attrs.field(converter=freeze_object)
    hosted: str = ""


@attrs.frozen(repr=False)
class CachePoint(Value):
    """The end of what the vendor is to keep of a prompt: the parts before it in this message, and all above.

    ``ttl`` says for how long, in the vendor's words: ``5m`` or ``1h`` at Anthropic, ``30m`` or ``12h`` at OpenAI;
    None is the vendor's own time. Something has to stand before it in its message. A provider whose vendor has no
    such points, or none in this place, leaves it out; its reply says so in ``meta.notes``.
    """

    ttl: str | None = None


Part: TypeAlias = Text | Image | Audio | File | Refusal | Reasoning | VendorPart | CachePoint


@attrs.frozen(repr=False)
class ToolCall(Value):
    """A model's wish to call a tool.

    ``arguments`` is JSON text exactly as the model wrote it. The host parses it, once and
    strictly, before any policy or tool sees it: they get objects. A provider neither
    parses nor repairs it. ``extra`` is as in Message: vendor fields under the vendor's name. ``hosted`` is the name of
    the HostedTool that makes this call at the vendor once it is approved: its result is then HOSTED_APPROVED, and any
    other result, an error above all, tells the vendor not to make it.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    hosted: str = ""


def _to_parts(value: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(value)


def _to_calls(value: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(value)


@attrs.frozen(repr=False)
class Message(Value):
    """One entry of a conversation. ``content`` is empty where a reply has only calls.

    ``tool_call_id``, ``name`` and ``is_error`` belong to role ``tool``. ``extra`` carries
    vendor fields that have no place of their own, under the name of the wire format that they
    belong to: ``{"openai": {"name": "ann"}}``. They are kept and sent back to servers of that
    format, and left out for others: one conversation may go from one vendor to the next.

    >>> Message.user("hello").text
    'hello'
    """

    role: Role = attrs.field(converter=Role)
    content: tuple[Part, ...] = attrs.field(default=(), converter=_to_parts)
    tool_calls: tuple[ToolCall, ...] = attrs.field(default=(), converter=_to_calls)
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    extra: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    _memo: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    @classmethod
    def system(cls, text: str) -> Message:
        """Return an instruction of the application."""
        return cls(Role.SYSTEM, (Text(text),))

    @classmethod
    def user(cls, content: str | Part | tuple[Part, ...]) -> Message:
        """Return what a person said: text, one part, or several."""
        return cls(Role.USER, _parts(content))

    @classmethod
    def assistant(cls, content: str | Part | tuple[Part, ...] = (), tool_calls: tuple[ToolCall, ...] = ()) -> Message:
        """Return what a model said."""
        return cls(Role.ASSISTANT, _parts(content), tool_calls)

    @classmethod
    def tool(cls, call: ToolCall, content: str | Part | tuple[Part, ...], *, is_error: bool = False) -> Message:
        """Return the result of *call*."""
        return cls(Role.TOOL, _parts(content), tool_call_id=call.id, name=call.name, is_error=is_error)

    @property
    def text(self) -> str:
        """All text parts in a row, without refusals and reasoning."""
        content = self.content
        if len(content) == 1 and type(content[0]) is Text:
            return content[0].text
        return "".join(part.text for part in content if isinstance(part, Text))

    def memo(self, key: object, make: Callable[[Message], T]) -> T:
        """Return ``make(self)``, made once for each *key* as long as this message lives.

        Providers keep the encoded form of a message here, so that a turn's cost does not
        grow with its history. The key is a module-level object of the provider's own.
        """
        memo = self._memo
        try:
            return cast("T", memo[key])
        except KeyError:
            made = memo[key] = make(self)
            return made

    @staticmethod
    def memos(messages: Sequence[Message], key: object, make: Callable[[Message], T]) -> list[T]:
        """Return ``message.memo(key, make)`` of each, in a third of the time where all of them are made.

        >>> Message.memos((Message.user("a"), Message.user("b")), "text", lambda message: message.text)
        ['a', 'b']
        """
        known = len(messages)
        while known and key not in messages[known - 1]._memo:  # noqa: SLF001 (its own class)
            known -= 1  # what a conversation grows by is at its end
        try:
            made: list[T] = [message._memo[key] for message in messages[:known]]  # noqa: SLF001 (its own class)
        except KeyError:
            made = [message.memo(key, make) for message in messages[:known]]
        return [*made, *[message.memo(key, make) for message in messages[known:]]]


def _parts(content: str | Part | tuple[Part, ...]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return content if isinstance(content, tuple) else (content,)


@attrs.frozen(repr=False)
class Usage(Value):
    """Tokens as the vendor counted them; None is unknown, which is not zero.

    ``input`` includes ``cached`` (read from the vendor's cache), ``cache_write`` (stored in
    it) and ``input_audio``; ``output`` includes ``reasoning`` and ``audio``. ``cost_usd`` is
    filled from known prices, never by guessing. ``hosted_usd`` is what tools at the vendor cost
    beside the tokens, by the operator's prices for a call; ``cost_usd`` includes it. ``estimated``
    says that some of it was estimated by the host, because a stream broke before the vendor reported it.

    >>> (Usage(input=3) + Usage(input=4, output=5)).total
    12
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    audio: int | None = None
    cost_usd: float | None = None
    estimated: bool = False
    cache_write: int | None = None
    input_audio: int | None = None
    hosted_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cached, other.cached),
            _sum(self.reasoning, other.reasoning),
            _sum(self.audio, other.audio),
            _sum(self.cost_usd, other.cost_usd),
            self.estimated or other.estimated,
            _sum(self.cache_write, other.cache_write),
            _sum(self.input_audio, other.input_audio),
            _sum(self.hosted_usd, other.hosted_usd),
        )

    @property
    def total(self) -> int:
        """Input and output together, unknown counted as nothing."""
        return (self.input or 0) + (self.output or 0)


N = TypeVar("N", int, float)


def _sum(a: N | None, b: N | None) -> N | None:
    if a is None:
        return b
    return a if b is None else a + b
