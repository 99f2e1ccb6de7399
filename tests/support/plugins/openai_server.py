"""What chat completions servers say, for an OddServer to send, and the provider that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

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
    deltas_of,
    error_of,
    event,
    failure_in,
    http_chunk,
    json_answer,
    read_all,
    reply_in,
    stream_answer,
)
from pluggent_hookspecs import (
    Message,
    ModelRequest,
    ModelResponse,
    ProvideEvent,
    Provider,
    ProviderError,
    Secret,
)
from pluggent_openai.chat.chunks import Chunks
from pluggent_openai.dialects import Dialect
from pluggent_openai.plugin import OpenAI
from pluggent_openai.provider import OpenAIProvider
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults

__all__ = [
    "CLOSE",
    "DONE",
    "GO",
    "HELLO",
    "KEY",
    "LEAVE",
    "LENGTH",
    "LENT",
    "REPLY",
    "RESET",
    "STOP",
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
    "reader",
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


HELLO = event(chunk({"content": "Hello"}))
STOP = event(chunk({}, "stop"))
REPLY = completion({"content": "Hello"})
LENGTH = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
"""The head of an answer that promises more than will come."""


def request(*messages: Message, model: str = "m", **more: Any) -> ModelRequest:
    """Return a request with *messages*, or with one that says hello."""
    return ModelRequest(model, messages or (Message.user("hello"),), **more)


def provider_at(url: str, **settings: Any) -> OpenAIProvider:
    """Return a provider for the server at *url*, with a key."""
    return plugin_at(url, **settings)[1]


def plugin_at(url: str, **settings: Any) -> tuple[OpenAI, OpenAIProvider]:
    """Return a plugin for the server at *url*, with a key, and its first provider."""
    settings.setdefault("api_key", Secret.of(KEY))
    plugin = OpenAI(OpenAI.Settings(base_url=url, **settings))
    first = next(iter(plugin.provide_providers(ProvideEvent())))
    return plugin, cast("OpenAIProvider", first)


async def batches(provider: Provider, asked: ModelRequest | None = None) -> list[Any]:
    """Return all deltas of a stream in a row."""
    return await deltas_of(provider, asked or request())


async def failure_of(provider: Provider, *, stream: bool) -> ProviderError:
    """Ask *provider* and return the error that it raises."""
    return await error_of(provider, request(), stream=stream)


def reader(asked: ModelRequest | None = None, limit: int = 100_000, dialect: Dialect | None = None) -> ReplyReader:
    """Return what reads an answer of a server of *dialect* to *asked*."""
    faults = Faults("openai", "http://x/v1", "m")
    return ReplyReader(Chunks(asked or request(), dialect or Dialect(), faults), faults, limit)


def read_stream(
    *reads: bytes, asked: ModelRequest | None = None, limit: int = 100_000, dialect: Dialect | None = None
) -> list[Any]:
    """Return the deltas of a stream that came in these reads, or raise what went wrong."""
    return read_all(reader(asked, limit, dialect), *reads)


def reply_of(*reads: bytes, asked: ModelRequest | None = None, dialect: Dialect | None = None) -> ModelResponse:
    """Return the reply that a stream makes."""
    return reply_in(reader(asked, dialect=dialect), *reads)


def stream_failure(*reads: bytes, limit: int = 100_000) -> ProviderError:
    """Return what a stream raises."""
    return failure_in(reader(limit=limit), *reads)
