"""What chat completions servers say, for an OddServer to send, and the provider that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import pytest
from odd_server import (
    CLOSE,
    GO,
    LEAVE,
    RESET,
    STREAM_HEAD,
    Answer,
    OddServer,
    Received,
    Word,
    answer,
    event,
    http_chunk,
    json_answer,
    stream_answer,
)
from pluggent_hookspecs import (
    Message,
    ModelRequest,
    ModelResponse,
    ProvideEvent,
    Provider,
    ProviderError,
    Reply,
    Secret,
)
from pluggent_openai.compat import Dialect
from pluggent_openai.plugin import OpenAI
from pluggent_openai.provider import ChatCompletions
from pluggent_openai.stream import StreamReader
from pluggent_provider_http.faults import Faults

__all__ = [
    "CLOSE",
    "DONE",
    "GO",
    "KEY",
    "LEAVE",
    "LENT",
    "RESET",
    "STREAM_HEAD",
    "Answer",
    "OddServer",
    "Received",
    "Word",
    "answer",
    "batches",
    "call",
    "chunk",
    "completion",
    "event",
    "failure_of",
    "http_chunk",
    "json_answer",
    "plugin_at",
    "provider_at",
    "read_stream",
    "reply_of",
    "request",
    "stream_answer",
    "stream_failure",
]


class _Lent:
    """What a host lends a plugin."""

    plugin = "pluggent-openai"
    host_version = "0"

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        return (pattern,)

    async def model_named(self, name: str) -> str:
        return name


LENT = _Lent()
KEY = "sk-secret-0123456789"


def chunk(delta: Mapping[str, object] | None = None, finish: str | None = None, **more: object) -> dict[str, object]:
    """Return a piece of a streamed reply."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice], **more}


def call(
    index: int | None = 0, id: str | None = None, name: str | None = None, arguments: object = ...
) -> dict[str, object]:
    """Return the delta of one piece of a tool call; what is not given is left out."""
    function: dict[str, object] = {}
    if name is not None:
        function["name"] = name
    if arguments is not ...:
        function["arguments"] = arguments
    piece: dict[str, object] = {"function": function}
    if index is not None:
        piece["index"] = index
    if id is not None:
        piece["id"] = id
    return {"tool_calls": [piece]}


DONE = b"data: [DONE]\n\n"


def completion(message: Mapping[str, object], finish: str | None = "stop", **more: object) -> dict[str, object]:
    """Return a whole reply."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "model": "m-1", "choices": [choice], **more}


def request(*messages: Message, model: str = "m", **more: Any) -> ModelRequest:
    """Return a request with *messages*, or with one that says hello."""
    return ModelRequest(model, messages or (Message.user("hello"),), **more)


def provider_at(url: str, **settings: Any) -> ChatCompletions:
    """Return a provider for the server at *url*, with a key."""
    return plugin_at(url, **settings)[1]


def plugin_at(url: str, **settings: Any) -> tuple[OpenAI, ChatCompletions]:
    """Return a plugin for the server at *url*, with a key, and its first provider."""
    settings.setdefault("api_key", Secret.of(KEY))
    plugin = OpenAI(OpenAI.Settings(base_url=url, **settings))
    first = next(iter(plugin.provide_providers(ProvideEvent())))
    return plugin, cast("ChatCompletions", first)


async def batches(provider: Provider, asked: ModelRequest | None = None) -> list[Any]:
    """Return all deltas of a stream in a row."""
    stream: AsyncIterator[Sequence[Any]] = provider.stream(asked or request())
    return [delta async for batch in stream for delta in batch]


async def failure_of(provider: Provider, *, stream: bool) -> ProviderError:
    """Ask *provider* and return the error that it raises."""
    with pytest.raises(ProviderError) as caught:
        await (batches(provider) if stream else provider.complete(request()))
    return caught.value


def read_stream(
    *reads: bytes, asked: ModelRequest | None = None, limit: int = 100_000, dialect: Dialect | None = None
) -> list[Any]:
    """Return the deltas of a stream that came in these reads, or raise what went wrong."""
    faults = Faults("openai", "http://x/v1", "m")
    reader = StreamReader(asked or request(), dialect or Dialect(), faults, limit)
    found: list[Any] = []
    for data in reads:
        found += reader.feed(data)
        if reader.failure is not None:
            raise reader.failure
    if not reader.done:
        found += reader.end()
    if reader.failure is not None:
        raise reader.failure
    return found


def reply_of(*reads: bytes, asked: ModelRequest | None = None, dialect: Dialect | None = None) -> ModelResponse:
    """Return the reply that a stream makes."""
    collected = Reply()
    collected.add(read_stream(*reads, asked=asked, dialect=dialect))
    return collected.response()


def stream_failure(*reads: bytes, limit: int = 100_000) -> ProviderError:
    """Return what a stream raises."""
    with pytest.raises(ProviderError) as caught:
        read_stream(*reads, limit=limit)
    return caught.value
