"""How an Anthropic server writes messages.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

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

PAGE = 2
"""How many models are listed at once, however many were asked for."""


class AnthropicWire(Wire):
    """Messages: content in blocks, arguments as objects, counts of tokens that exclude the cache."""

    format = "anthropic"
    says = frozenset({Says.THINKING, Says.SIGNATURES, Says.CACHED, Says.CACHE_WRITES, Says.ORDER})
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "end_turn",
        FinishReason.LENGTH: "max_tokens",
        FinishReason.TOOL_CALLS: "tool_use",
        FinishReason.CONTENT_FILTER: "refusal",
        FinishReason.PAUSED: "pause_turn",
    }
    idle_events = (
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b'event: new_7f3a\ndata: {"type": "new_7f3a", "new": {"a": 1}}\n\n',
    )
    own_fields = ("model", "messages", "stream", "tools", "max_tokens")
    vendor_part = VendorPart("anthropic", {"type": "redacted_thinking", "data": "c2VjcmV0LTdmM2E="})

    def whole(self, reply: ModelResponse) -> bytes:
        content = [_block(part) for part in reply.message.content]
        content += [_call_block(call, json.loads(call.arguments)) for call in reply.message.tool_calls]
        return _json({**_frame(reply), "content": content, **self._end(reply), "usage": _usage(reply.usage)})

    def events(self, reply: ModelResponse) -> list[bytes]:
        empty: dict[str, Json] = {**_frame(reply), "content": [], "stop_reason": None, "stop_sequence": None}
        sent = {**_usage(reply.usage), **given({"output_tokens": reply.usage.output and 1})}
        told: list[Mapping[str, Json]] = [
            {"type": "message_start", "message": {**empty, "usage": sent}},
            {"type": "ping"},
        ]
        items: tuple[Part | ToolCall, ...] = (*reply.message.content, *reply.message.tool_calls)
        for index, item in enumerate(items):
            told += _block_events(index, item)
        made: dict[str, Json] = given({"output_tokens": reply.usage.output})
        told += [{"type": "message_delta", "delta": self._end(reply), "usage": made}, {"type": "message_stop"}]
        return [_event(each) for each in told]

    def faults(self) -> Sequence[Fault]:
        too_long = "prompt is too long: 215000 tokens > 200000 maximum"
        return (
            _fault("wrong key", Kind.AUTHENTICATION, 401, "invalid x-api-key", "authentication_error"),
            _fault("not allowed", Kind.AUTHENTICATION, 403, "no permission to use it", "permission_error"),
            _fault("rate limit", Kind.RATE_LIMITED, 429, "this would exceed your limit", "rate_limit_error", 7.0),
            _fault("too long", Kind.CONTEXT_LENGTH, 400, too_long, "invalid_request_error", None, (215_000, 200_000)),
            _fault("bad request", Kind.BAD_REQUEST, 400, "messages: must not be odd", "invalid_request_error"),
            _fault("unknown model", Kind.BAD_REQUEST, 404, "model: no-such-model", "not_found_error"),
            _fault("their fault", Kind.UNAVAILABLE, 500, "Internal server error", "api_error"),
            _fault("overloaded", Kind.UNAVAILABLE, 529, "Overloaded", "overloaded_error"),
        )

    def faults_in_stream(self) -> Sequence[Fault]:
        return (
            Fault("overloaded", Kind.UNAVAILABLE, _event(_error("Overloaded", "overloaded_error"))),
            Fault("rate limit", Kind.RATE_LIMITED, _event(_error("too many", "rate_limit_error"))),
        )

    def models(self, models: Sequence[ModelInfo], asked: Received) -> bytes:
        after = parse_qs(urlsplit(asked.path).query).get("after_id", [""])[0]
        start = next((place for place, model in enumerate(models, 1) if model.id == after), 0)
        page = models[start : start + PAGE]
        listed = [
            {
                "type": "model",
                "id": model.id,
                "display_name": model.name or model.id,
                "created_at": datetime.fromtimestamp(model.created or 0, UTC).isoformat().replace("+00:00", "Z"),
            }
            for model in page
        ]
        ends = {"first_id": page[0].id, "last_id": page[-1].id} if page else {"first_id": None, "last_id": None}
        return _json({"data": listed, "has_more": start + PAGE < len(models), **ends})

    def _end(self, reply: ModelResponse) -> dict[str, Json]:
        return {"stop_reason": self.finish[reply.finish_reason], "stop_sequence": None}


def _frame(reply: ModelResponse) -> dict[str, Json]:
    return {"id": reply.id, "type": "message", "role": "assistant", "model": reply.model}


def _block(part: Part) -> dict[str, Json]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature or ""}
        case VendorPart(value=value):
            block = thaw(value)
            assert isinstance(block, dict)
            return block
        case _:
            raise TypeError(f"a reply of this API has no {type(part).__name__}")


def _call_block(call: ToolCall, arguments: Json) -> dict[str, Json]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _block_events(index: int, item: Part | ToolCall) -> Iterator[dict[str, Json]]:
    yield {"type": "content_block_start", "index": index, "content_block": _started(item)}
    for delta in _block_deltas(item):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _started(item: Part | ToolCall) -> dict[str, Json]:
    match item:
        case ToolCall():
            return _call_block(item, {})
        case Text():
            return {"type": "text", "text": ""}
        case Reasoning():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case _:
            return _block(item)


def _block_deltas(item: Part | ToolCall) -> Iterator[Mapping[str, Json]]:
    match item:
        case ToolCall(arguments=arguments):
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments))
        case Text(text):
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(text))
        case Reasoning(text, signature):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(text))
            yield {"type": "signature_delta", "signature": signature or ""}
        case _:
            return


def _usage(usage: Usage) -> dict[str, Json]:
    read, written = usage.cached or 0, usage.cache_write or 0
    return given(
        {
            # Anthropic counts what is neither read from the cache nor stored in it.
            "input_tokens": None if usage.input is None else usage.input - read - written,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": usage.output,
        }
    )


def _fault(
    name: str,
    kind: Kind,
    status: int,
    message: str,
    type_: str,
    retry_after: float | None = None,
    numbers: tuple[int | None, int | None] = (None, None),
) -> Fault:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Fault(name, kind, _json(_error(message, type_)), status, headers, retry_after, *numbers)


def _error(message: str, type_: str) -> dict[str, Json]:
    return {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_7f3a"}


def _event(value: Mapping[str, Json]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), _json(value))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
