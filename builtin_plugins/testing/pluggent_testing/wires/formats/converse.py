"""How Amazon Bedrock writes what a model says: Converse, whole and as an event stream of Amazon's.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar
from zlib import crc32

from pluggent_hookspecs import (
    FinishReason,
    Json,
    ModelInfo,
    ModelResponse,
    Part,
    ProviderErrorKind as Kind,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    thaw,
)

from pluggent_testing.wires.format import Fault, Says, Wire, given, pieces
from pluggent_testing.wires.http_server import Received

_TEXT = 7
"""The type of a header that is a text."""


def frame(name: str, value: Mapping[str, Json], *, exception: bool = False) -> bytes:
    """Return one event of a stream."""
    kind = "exception" if exception else "event"
    made = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        _text(key) + bytes([_TEXT]) + len(word).to_bytes(2, "big") + word.encode() for key, word in made.items()
    )
    return _framed(headers, _json({**value, "p": "abcdefgh"}))


def _text(word: str) -> bytes:
    return bytes([len(word)]) + word.encode()


def _framed(headers: bytes, data: bytes) -> bytes:
    lengths = (16 + len(headers) + len(data)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    front = lengths + crc32(lengths).to_bytes(4, "big") + headers + data
    return front + crc32(front).to_bytes(4, "big")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


class ConverseWire(Wire):
    """Converse: content in blocks without types, frames with checksums, no word on which model replied."""

    format = "bedrock"
    stream_type = "application/vnd.amazon.eventstream"
    is_sse = False
    names_replies = False
    says = frozenset({Says.THINKING, Says.SIGNATURES, Says.CACHED, Says.CACHE_WRITES, Says.ORDER})
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "end_turn",
        FinishReason.LENGTH: "max_tokens",
        FinishReason.TOOL_CALLS: "tool_use",
        FinishReason.CONTENT_FILTER: "guardrail_intervened",
    }
    idle_events = (frame("new_7f3a", {"new": {"a": 1}}),)
    own_fields = ("messages", "system", "toolConfig", "modelId")
    vendor_part = VendorPart("bedrock", {"reasoningContent": {"redactedContent": "c2VjcmV0LTdmM2E="}})

    def wants_stream(self, asked: Received) -> bool:
        return asked.path.partition("?")[0].endswith("/converse-stream")

    def whole(self, reply: ModelResponse) -> bytes:
        content = [_block(part) for part in reply.message.content]
        content += [
            {"toolUse": _use(call) | {"input": json.loads(call.arguments)}} for call in reply.message.tool_calls
        ]
        message: dict[str, Json] = {"role": "assistant", "content": content}
        return _json({"output": {"message": message}, **self._end(reply), **_metadata(reply.usage)})

    def events(self, reply: ModelResponse) -> list[bytes]:
        made = [frame("messageStart", {"role": "assistant"})]
        items: tuple[Part | ToolCall, ...] = (*reply.message.content, *reply.message.tool_calls)
        for index, item in enumerate(items):
            made += [frame(name, {"contentBlockIndex": index, **value}) for name, value in _block_events(item)]
            made.append(frame("contentBlockStop", {"contentBlockIndex": index}))
        return [*made, frame("messageStop", self._end(reply)), frame("metadata", _metadata(reply.usage))]

    def data(self, event: bytes) -> bytes:
        head, tail = _edges(event)
        return event[head:tail]

    def with_data(self, event: bytes, data: bytes) -> bytes:
        head, _ = _edges(event)
        return _framed(event[12:head], data)

    def faults(self) -> Sequence[Fault]:
        too_long = "The model returned the following errors: prompt is too long: 215000 tokens > 200000 maximum"
        return (
            _fault(
                "wrong key", Kind.AUTHENTICATION, 403, "UnrecognizedClientException", "The security token is invalid"
            ),
            _fault(
                "not allowed", Kind.AUTHENTICATION, 403, "AccessDeniedException", "You don't have access to the model"
            ),
            _fault("rate limit", Kind.RATE_LIMITED, 429, "ThrottlingException", "Too many requests", 7.0),
            _fault("too long", Kind.CONTEXT_LENGTH, 400, "ValidationException", too_long, None, (215_000, 200_000)),
            _fault("longer", Kind.CONTEXT_LENGTH, 400, "ValidationException", "Input is too long for requested model."),
            _fault("bad request", Kind.BAD_REQUEST, 400, "ValidationException", "messages.0.content must not be empty"),
            _fault("unknown model", Kind.BAD_REQUEST, 400, "ValidationException", "The model identifier is invalid."),
            _fault("no such model", Kind.BAD_REQUEST, 404, "ResourceNotFoundException", "Could not resolve the model"),
            _fault("slow model", Kind.TIMEOUT, 408, "ModelTimeoutException", "The model took too long"),
            _fault("model's fault", Kind.UNAVAILABLE, 424, "ModelErrorException", "The model failed"),
            _fault("cold model", Kind.UNAVAILABLE, 429, "ModelNotReadyException", "The model is not ready"),
            _fault("their fault", Kind.UNAVAILABLE, 500, "InternalServerException", "An internal error"),
            _fault("overloaded", Kind.UNAVAILABLE, 503, "ServiceUnavailableException", "Try again later"),
        )

    def faults_in_stream(self) -> Sequence[Fault]:
        named = {
            "throttlingException": Kind.RATE_LIMITED,
            "validationException": Kind.BAD_REQUEST,
            "modelStreamErrorException": Kind.UNAVAILABLE,
            "serviceUnavailableException": Kind.UNAVAILABLE,
            "internalServerException": Kind.UNAVAILABLE,
        }
        return [
            Fault(name, kind, frame(name, {"message": "it failed"}, exception=True)) for name, kind in named.items()
        ]

    def names_model(self, asked: Received, model: str) -> bool:
        return f"/model/{_quoted(model)}/" in asked.path

    def models(self, models: Sequence[ModelInfo], asked: Received) -> bytes:
        if "/foundation-models" in asked.path:
            return _json({"modelSummaries": []})
        profiles = [
            {
                "inferenceProfileId": model.id,
                "inferenceProfileName": model.name or model.id,
                "createdAt": datetime.fromtimestamp(model.created or 0, UTC).isoformat(),
            }
            for model in models
        ]
        return _json({"inferenceProfileSummaries": profiles})

    def _end(self, reply: ModelResponse) -> dict[str, Json]:
        return {"stopReason": self.finish[reply.finish_reason]}


def _edges(event: bytes) -> tuple[int, int]:
    """Return where the data of an event begins and ends."""
    return 12 + int.from_bytes(event[4:8], "big"), len(event) - 4


def _quoted(model: str) -> str:
    """Return a name of a model as it stands in a path: all but letters, digits and -._~ in percent."""
    plain = "-._~"
    return "".join(
        c if c.isascii() and (c.isalnum() or c in plain) else "".join(f"%{b:02X}" for b in c.encode()) for c in model
    )


def _block(part: Part) -> dict[str, Json]:
    match part:
        case Text(text):
            return {"text": text}
        case Reasoning(text, signature):
            return {"reasoningContent": {"reasoningText": {"text": text, **given({"signature": signature})}}}
        case VendorPart(value=value):
            block = thaw(value)
            assert isinstance(block, dict)
            return block
        case _:
            raise TypeError(f"a reply of this API has no {type(part).__name__}")


def _use(call: ToolCall) -> dict[str, Json]:
    return {"toolUseId": call.id, "name": call.name}


def _block_events(item: Part | ToolCall) -> Iterator[tuple[str, dict[str, Json]]]:
    if isinstance(item, ToolCall):
        yield "contentBlockStart", {"start": {"toolUse": _use(item)}}
    for delta in _block_deltas(item):
        yield "contentBlockDelta", {"delta": delta}


def _block_deltas(item: Part | ToolCall) -> Iterator[Mapping[str, Json]]:
    match item:
        case ToolCall(arguments=arguments):
            yield from ({"toolUse": {"input": piece}} for piece in pieces(arguments))
        case Text(text):
            yield from ({"text": piece} for piece in pieces(text))
        case Reasoning(text, signature):
            yield from ({"reasoningContent": {"text": piece}} for piece in pieces(text))
            if signature:
                yield {"reasoningContent": {"signature": signature}}
        case _:
            yield _block(item)


def _metadata(usage: Usage) -> dict[str, Json]:
    read, written = usage.cached or 0, usage.cache_write or 0
    counted = given(
        {
            # Bedrock counts what is neither read from the cache nor stored in it.
            "inputTokens": None if usage.input is None else usage.input - read - written,
            "cacheReadInputTokens": usage.cached,
            "cacheWriteInputTokens": usage.cache_write,
            "outputTokens": usage.output,
        }
    )
    return {"usage": counted, "metrics": {"latencyMs": 7}}


def _fault(
    name: str,
    kind: Kind,
    status: int,
    type_: str,
    message: str,
    retry_after: float | None = None,
    numbers: tuple[int | None, int | None] = (None, None),
) -> Fault:
    headers = {"x-amzn-errortype": f"{type_}:http://internal.amazon.com/coral/com.amazon.bedrock/"}
    headers |= {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Fault(name, kind, _json({"message": message}), status, headers, retry_after, *numbers)
