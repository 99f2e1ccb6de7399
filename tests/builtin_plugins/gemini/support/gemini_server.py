"""What a server of generateContent says, event by event, and the readers and writers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pluggent_gemini.generate.request import Body, encode_request
from pluggent_gemini.generate.stream import Events
from pluggent_gemini.settings import Server, declared
from pluggent_hookspecs import Delta, Message, ModelParameters, ModelRequest, ModelResponse, ProviderError, Reply
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults

TARGET = "https://gemini.test/v1beta"
MODEL = "gemini-3-flash"
FAULTS = Faults("gemini", TARGET, MODEL)
ASKED = ModelRequest(MODEL, (Message.user("hi"),))


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, **more}


def thought(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, "thought": True, **more}


def signed(part: Mapping[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature}


def call(name: str = "add", id: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments, **({} if id is None else {"id": id})}}


def event(
    *parts: Mapping[str, Any], ends: str = "", usage: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": [*parts], "role": "model"}, "index": 0, **more}
    if ends:
        candidate["finishReason"] = ends
    counts = {"promptTokenCount": 8, "totalTokenCount": 8} if usage is None else usage
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": MODEL, "responseId": "r_1"}


def sse(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\r\n\r\n" % json.dumps(value).encode()


def streamed(*data: bytes, asked: ModelRequest = ASKED) -> tuple[list[Delta], ProviderError | None]:
    """Return what *data*, each read by itself, brought, and how they failed."""
    reader = ReplyReader(Events(asked, TARGET, FAULTS), FAULTS)
    found: list[Delta] = []
    for each in data:
        found += reader.feed(each)
        if reader.failure is not None or reader.done:
            return found, reader.failure
    return [*found, *reader.end()], reader.failure


def reply_of(*data: bytes, asked: ModelRequest = ASKED) -> ModelResponse:
    deltas, failure = streamed(*data, asked=asked)
    if failure is not None:
        raise failure
    reply = Reply()
    reply.add(deltas)
    return reply.response()


def said(*parts: Mapping[str, Any], ends: str = "STOP", asked: ModelRequest = ASKED) -> ModelResponse:
    """Return the reply of a stream in which each of *parts* is an event."""
    *first, last = parts
    return reply_of(*(sse(event(part)) for part in first), sse(event(last, ends=ends)), asked=asked)


def failure_of(*data: bytes) -> ProviderError:
    _, failure = streamed(*data)
    assert failure is not None
    return failure


def written(
    *messages: Message,
    model: str = MODEL,
    server: Server | None = None,
    target: str = TARGET,
    tools: Sequence[Any] = (),
    **parameters: Any,
) -> tuple[dict[str, Any], Body]:
    """Return the body of a request as JSON, and the Body."""
    server = server or Server()
    hosted = offered("gemini", declared(server))
    request = ModelRequest(model, messages, tuple(tools), ModelParameters(**parameters), hosted)
    body = encode_request(request, server, target)
    return json.loads(body.whole()), body


def contents(*messages: Message, **more: Any) -> list[Any]:
    """Return the contents of a request."""
    body, _ = written(*messages, **more)
    return list(body["contents"])
