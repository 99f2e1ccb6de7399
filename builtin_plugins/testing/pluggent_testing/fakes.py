"""A model that says what it is told to, and an observer that remembers: parts for tests.

Real plugins, registered like any other; nothing is patched.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.embeddings import Embedder, EmbeddingRequest, EmbeddingResponse, Vectors
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.markers import hookimpl
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.models import (
    Delta,
    FinishReason,
    ModelRequest,
    ModelResponse,
    Provider,
    TextDelta,
    deltas,
)
from pluggent_hookspecs.observations import Observation
from pluggent_hookspecs.tools import HostedTool

T = TypeVar("T")

Reply: TypeAlias = (
    "str | ToolCall | tuple[ToolCall, ...] | ModelResponse | BaseException | Callable[[ModelRequest], Reply]"
)
"""What a scripted model does next: say text, call tools, answer exactly this, or fail."""


def call(name: str, id: str = "", /, **arguments: Json) -> ToolCall:
    """Return a tool call; its id defaults to ``call_<name>``.

    >>> call("add", a=1).arguments
    '{"a": 1}'
    """
    return ToolCall(id or f"call_{name}", name, json.dumps(arguments))


class ScriptedModel:
    """A provider called ``scripted`` that gives *replies* in order, and then says ``done``.

    ``requests`` holds what it was asked. ``streams`` counts the streams that were opened and
    are not closed. With ``hold`` a reply waits until ``hold`` is set, so that a test can act
    in the middle of a call. A stream gives a word a batch; one that *cut* names (counted in
    batches) breaks there. *hosted* are tools that run at this vendor.
    """

    name = "scripted"
    target = "memory:"

    def __init__(
        self,
        *replies: Reply,
        hold: asyncio.Event | None = None,
        cut: int | None = None,
        hosted: Iterable[HostedTool] = (),
    ) -> None:
        self._replies = list(replies)
        self._hosted = tuple(hosted)
        self._hold = hold
        self._cut = cut
        self.asked = asyncio.Event()
        self.requests: list[ModelRequest] = []
        self.streams = 0

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> list[Provider]:
        return [self]

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        return self._hosted

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._next(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        self.streams += 1
        try:
            response = await self._next(request)
            for number, batch in enumerate(_batches(response)):
                if number == self._cut:
                    raise ProviderError(ProviderErrorKind.STREAM_BROKEN, "the stream was cut", provider=self.name)
                yield batch
                await asyncio.sleep(0)
        finally:
            self.streams -= 1

    async def _next(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        reply = self._replies.pop(0) if self._replies else "done"
        self.asked.set()
        if self._hold is not None:
            await self._hold.wait()
        return _response(reply, request)


def _response(reply: Reply, request: ModelRequest) -> ModelResponse:
    usage = Usage(input=10, output=5)
    match reply:
        case str():
            return ModelResponse(Message.assistant(reply), usage=usage)
        case ToolCall():
            return ModelResponse(Message.assistant((), (reply,)), FinishReason.TOOL_CALLS, usage)
        case tuple():
            return ModelResponse(Message.assistant((), reply), FinishReason.TOOL_CALLS, usage)
        case ModelResponse():
            return reply
        case BaseException():
            raise reply
        case _:
            return _response(reply(request), request)


def _batches(response: ModelResponse) -> Iterable[tuple[Delta, ...]]:
    for delta in deltas(response):
        if isinstance(delta, TextDelta):
            yield from ((attrs.evolve(delta, text=word),) for word in delta.text.replace(" ", " \0").split("\0"))
        else:
            yield (delta,)


class ScriptedEmbedder:
    """An embedder called ``scripted``: the vector of a text is that of its hash, so equal texts have equal ones.

    ``requests`` holds what it was asked. *replies*, in order, are given instead, raised, or called with the
    request. A token is counted for every 4 bytes.
    """

    name = "scripted"
    target = "memory:"
    dimensions = 8

    def __init__(self, *replies: EmbeddingReply) -> None:
        self._replies = list(replies)
        self.requests: list[EmbeddingRequest] = []

    @hookimpl
    def provide_embedders(self, event: ProvideEvent) -> list[Embedder]:
        return [self]

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        self.requests.append(request)
        reply = self._replies.pop(0) if self._replies else None
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            return reply(request)
        return self.vectors_of(request) if reply is None else reply

    def vectors_of(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return the vectors that it has for *request*."""
        size = request.dimensions or self.dimensions
        rows = [_numbers(f"{request.role} {text}", size) for text in request.texts]
        tokens = sum(len(text.encode("utf-8", "surrogatepass")) for text in request.texts) // 4
        return EmbeddingResponse(Vectors.of(rows), Usage(input=tokens), request.model)


EmbeddingReply: TypeAlias = "EmbeddingResponse | BaseException | Callable[[EmbeddingRequest], EmbeddingResponse] | None"
"""What a scripted embedder does next; None: it embeds."""


def _numbers(text: str, size: int) -> list[float]:
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(size)
    return [byte / 256 for byte in digest]


class Recorder:
    """An observer that keeps every event it is told."""

    def __init__(self) -> None:
        self.events: list[Observation] = []

    @hookimpl
    def observe(self, event: Observation) -> None:
        self.events.append(event)

    def of(self, kind: type[T]) -> list[T]:
        """Return the events of class *kind*, in order."""
        return [event for event in self.events if isinstance(event, kind)]
