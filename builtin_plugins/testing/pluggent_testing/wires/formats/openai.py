"""How an OpenAI server writes chat completions.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar

import attrs
from pluggent_hookspecs import (
    FinishReason,
    Json,
    ModelInfo,
    ModelResponse,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
    thaw,
)

from pluggent_testing.wires.format import Fault, Says, Wire, given, pieces
from pluggent_testing.wires.http_server import Received


class OpenAIWire(Wire):
    """Chat completions as OpenAI and many others speak them; ``reasoning_content`` is the others' word."""

    format = "openai"
    base_path = "/v1"
    says = frozenset(
        {
            Says.THINKING,
            Says.REFUSALS,
            Says.CACHED,
            Says.THINKING_TOKENS,
            Says.AUDIO_TOKENS,
            Says.MESSAGE_FIELDS,
            Says.LOGPROBS,
            Says.ARGUMENTS_AS_TEXT,
        }
    )
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.CONTENT_FILTER: "content_filter",
    }
    own_fields: ClassVar[tuple[str, ...]] = ("model", "messages", "stream", "tools")
    # What Azure begins with, and what others send to keep a connection alive.
    idle_events = (
        b'data: {"id":"","object":"","model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}\n\n',
        b": keep-alive\n\n",
    )

    def whole(self, reply: ModelResponse) -> bytes:
        message: dict[str, Json] = {
            "role": "assistant",
            "content": _text(reply, Text),
            "refusal": _text(reply, Refusal),
        }
        message |= given({"reasoning_content": _text(reply, Reasoning)})
        if reply.message.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in reply.message.tool_calls
            ]
        message |= _own(reply.message.extra)
        reason, chances = self.finish[reply.finish_reason], _chances(reply)
        logprobs = {"content": chances, "refusal": None} if chances else None
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reason}
        return _json({**_frame(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply.usage)})

    def events(self, reply: ModelResponse) -> list[bytes]:
        frame = _frame(reply, "chat.completion.chunk")
        deltas: list[Mapping[str, Json]] = [{"role": "assistant", "content": "", "refusal": None}, *self._deltas(reply)]
        chunks = [_chunk(frame, delta, None) for delta in deltas]
        chunks += [_chunk(frame, {}, None, {"content": [chance], "refusal": None}) for chance in _chances(reply)]
        chunks.append(_chunk(frame, {}, self.finish[reply.finish_reason]))
        chunks.append({**frame, "choices": [], "usage": _usage(reply.usage)})
        return [b"data: %b\n\n" % data for data in (*map(_json, chunks), b"[DONE]")]

    def _deltas(self, reply: ModelResponse) -> Iterator[Mapping[str, Json]]:
        for part in reply.message.content:
            match part:
                case Text(text):
                    yield from ({"content": piece} for piece in pieces(text))
                case Refusal(text):
                    yield from ({"refusal": piece} for piece in pieces(text))
                case Reasoning(text):
                    yield from ({"reasoning_content": piece} for piece in pieces(text))
                case _:
                    raise TypeError(f"a reply of this API has no {type(part).__name__}")
        if own := _own(reply.message.extra):
            yield own
        yield from _call_deltas(reply.message.tool_calls)

    def faults(self) -> Sequence[Fault]:
        too_long = (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
            " Please reduce the length of the messages."
        )
        return (
            _fault("wrong key", Kind.AUTHENTICATION, 401, "Incorrect API key provided", "invalid_api_key"),
            _fault("not allowed", Kind.AUTHENTICATION, 403, "You do not have access to it", "permission_denied"),
            _fault("rate limit", Kind.RATE_LIMITED, 429, "Rate limit reached", "rate_limit_exceeded", retry_after=7.0),
            attrs.evolve(
                _fault("rate limit, soon over", Kind.RATE_LIMITED, 429, "Slow down", "rate_limit_exceeded"),
                headers={"retry-after": "2", "retry-after-ms": "1500"},
                retry_after=1.5,
            ),
            _fault("too long", Kind.CONTEXT_LENGTH, 400, too_long, "context_length_exceeded", numbers=(9001, 8192)),
            _fault("policy", Kind.REFUSED, 400, "Your request was rejected", "content_policy_violation"),
            _fault("bad request", Kind.BAD_REQUEST, 400, "'messages' must not be odd", None),
            _fault("unknown model", Kind.BAD_REQUEST, 404, "The model does not exist", "model_not_found"),
            _fault("their fault", Kind.UNAVAILABLE, 500, "The server had an error", None, "server_error"),
            _fault("overloaded", Kind.UNAVAILABLE, 503, "The engine is overloaded", None, "server_error"),
        )

    def faults_in_stream(self) -> Sequence[Fault]:
        return tuple(
            Fault(name, kind, b"data: %b\n\n" % _error(message, code, type_))
            for name, kind, message, code, type_ in (
                ("rate limit", Kind.RATE_LIMITED, "Rate limit reached", "rate_limit_exceeded", "requests"),
                ("their fault", Kind.UNAVAILABLE, "The server had an error", None, "server_error"),
            )
        )

    def models(self, models: Sequence[ModelInfo], asked: Received) -> bytes:
        listed = [
            {"id": model.id, "object": "model", "created": int(model.created or 0), "owned_by": "a-vendor"}
            for model in models
        ]
        return _json({"object": "list", "data": listed})


def _frame(reply: ModelResponse, kind: str) -> dict[str, Json]:
    return {
        "id": reply.id,
        "object": kind,
        "created": 1_760_000_000,
        "model": reply.model,
        "system_fingerprint": "fp_7f3a",
    }


def _chunk(
    frame: Mapping[str, Json], delta: Mapping[str, Json], finish: str | None, logprobs: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    choice: Json = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return {**frame, "choices": [choice], "usage": None}


def _chances(reply: ModelResponse) -> list[Json]:
    """Return the log-probabilities that are to be sent, one for each token."""
    logprobs = thaw(reply.extra.get("logprobs", {}))
    assert isinstance(logprobs, dict)
    tokens = logprobs.get("content", [])
    assert isinstance(tokens, list)
    return tokens


def _call_deltas(calls: Sequence[ToolCall]) -> Iterator[dict[str, Json]]:
    """Yield the beginnings of all calls, and then their arguments in turns: what ``index`` is for."""
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
    for turn in zip_longest(*(pieces(call.arguments) for call in calls)):
        for index, piece in enumerate(turn):
            if piece is not None:
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _text(reply: ModelResponse, kind: type[Text | Refusal | Reasoning]) -> str | None:
    texts = [part.text for part in reply.message.content if isinstance(part, kind)]
    return "".join(texts) if texts else None


def _own(extra: Mapping[str, Json]) -> dict[str, Json]:
    own = thaw(extra.get("openai", {}))
    assert isinstance(own, dict)
    return own


def _usage(usage: Usage) -> dict[str, Json] | None:
    if usage == Usage():
        return None
    sent = given({"cached_tokens": usage.cached, "audio_tokens": usage.input_audio})
    made = given({"reasoning_tokens": usage.reasoning, "audio_tokens": usage.audio})
    counts = given({"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total})
    return {**counts, "prompt_tokens_details": sent, "completion_tokens_details": made}


def _fault(
    name: str,
    kind: Kind,
    status: int,
    message: str,
    code: str | None,
    type_: str = "invalid_request_error",
    *,
    retry_after: float | None = None,
    numbers: tuple[int | None, int | None] = (None, None),
) -> Fault:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Fault(name, kind, _error(message, code, type_), status, headers, retry_after, *numbers)


def _error(message: str, code: str | None, type_: str) -> bytes:
    return _json({"error": {"message": message, "type": type_, "param": None, "code": code}})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
