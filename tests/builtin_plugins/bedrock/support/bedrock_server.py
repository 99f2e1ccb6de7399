"""What Bedrock says, event by event, and the readers and writers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from converse_schema import broken_rules
from pluggent_bedrock.request import encode_request
from pluggent_bedrock.settings import Server, declared
from pluggent_bedrock.stream import Events
from pluggent_hookspecs import Delta, Message, ModelParameters, ModelRequest, ModelResponse, ProviderError, Reply
from pluggent_provider_http.aws.event_stream import FrameFeed, frame
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults

SONNET = "us.anthropic.sonnet-4-6"
NOVA_MODEL = "us.amazon.nova-pro-v1:0"
FAULTS = Faults("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com", SONNET)
ASKED = ModelRequest(SONNET, (Message.user("hi"),))


def event(name: str, **value: Any) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps({**value, "p": "abc"}).encode())


def exception(name: str, message: str) -> bytes:
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


START = event("messageStart", role="assistant")


def piece(index: int, **delta: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=delta)


def begun(index: int, **start: Any) -> bytes:
    return event("contentBlockStart", contentBlockIndex=index, start=start)


def over(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def end(reason: str = "end_turn", usage: Mapping[str, Any] | None = None, **more: Any) -> bytes:
    counted = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15} if usage is None else dict(usage)
    return event("messageStop", stopReason=reason) + event("metadata", usage=counted, metrics={"latencyMs": 7}, **more)


def streamed(*reads: bytes) -> tuple[list[Delta], ProviderError | None]:
    """Return what *reads* brought, and how they failed."""
    reader = ReplyReader(Events(ASKED, FAULTS), FAULTS, framing=FrameFeed)
    found: list[Delta] = []
    for data in reads:
        found += reader.feed(data)
        if reader.failure is not None or reader.done:
            return found, reader.failure
    return [*found, *reader.end()], reader.failure


def reply_of(*reads: bytes) -> ModelResponse:
    deltas, failure = streamed(*reads)
    if failure is not None:
        raise failure
    reply = Reply()
    reply.add(deltas)
    return reply.response()


def failure_of(*reads: bytes) -> ProviderError:
    _, failure = streamed(*reads)
    assert failure is not None
    return failure


def answer(*content: Mapping[str, Any], reason: str = "end_turn", **more: Any) -> bytes:
    message = {"role": "assistant", "content": [*content]}
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    return json.dumps({"output": {"message": message}, "stopReason": reason, "usage": usage, **more}).encode()


def whole(*content: Mapping[str, Any], **more: Any) -> ModelResponse:
    return reply_of(answer(*content, **more))


def sent(
    *messages: Message, model: str = SONNET, tools: Sequence[Any] = (), server: Server | None = None, **parameters: Any
) -> dict[str, Any]:
    """Return the body of a request, which keeps the vendor's rules."""
    server = server or Server(cache="off")
    hosted = offered("bedrock", declared(server))
    request = ModelRequest(model, messages, tuple(tools), ModelParameters(**parameters), hosted)
    body: dict[str, Any] = json.loads(encode_request(request, server).data)
    assert broken_rules(body) == []
    return body
