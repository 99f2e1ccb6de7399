"""How an Ollama server writes replies: a line of JSON for each piece, calls whole, counts in the last line.

https://docs.ollama.com/api/chat
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

import attrs
from pluggent_hookspecs import (
    FinishReason,
    Json,
    ModelInfo,
    ModelResponse,
    ProviderErrorKind as Kind,
    Reasoning,
    Text,
    Usage,
    thaw,
)

from pluggent_testing.wires.format import Fault, Says, Wire, given, pieces
from pluggent_testing.wires.http_server import Received

_WRITTEN = "written-7f3a:"
"""Stands before arguments until the line is written, in which they are an object as the model wrote it."""


class OllamaWire(Wire):
    """/api/chat of Ollama: newline-delimited JSON, arguments as objects, no ids of replies."""

    format = "ollama"
    stream_type = "application/x-ndjson"
    is_sse = False
    says = frozenset({Says.THINKING, Says.LOGPROBS, Says.MESSAGE_FIELDS})
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.TOOL_CALLS: "stop",
    }
    own_fields: ClassVar[tuple[str, ...]] = ("model", "messages", "stream", "tools")
    idle_events = (
        b'{"model": "", "created_at": "", "message": {"role": "assistant", "content": ""}, "done": false}\n',
        b"\n",
    )
    names_replies = False
    arguments_are_objects = True

    def data(self, event: bytes) -> bytes:
        return event.rstrip(b"\n")

    def with_data(self, event: bytes, data: bytes) -> bytes:
        return data + b"\n"

    def wants_stream(self, asked: Received) -> bool:
        body: Mapping[str, Json] = asked.json
        return body.get("stream", True) is True

    def whole(self, reply: ModelResponse) -> bytes:
        message: dict[str, Json] = {"role": "assistant", "content": _joined(reply, Text)}
        if thought := _joined(reply, Reasoning):
            message["thinking"] = thought
        if calls := list(_calls(reply)):
            message["tool_calls"] = calls
        chances = _chances(reply)
        more: dict[str, Json] = {"logprobs": chances} if chances else {}
        return _line({**_frame(reply), "message": message | _own(reply), **more, **self._end(reply)}).rstrip(b"\n")

    def events(self, reply: ModelResponse) -> list[bytes]:
        lines = [*_lines(reply), {"message": _EMPTY, **self._end(reply)}]
        return [_line({**_frame(reply), **line}) for line in lines]

    def faults(self) -> Sequence[Fault]:
        return (
            _fault("wrong key", Kind.AUTHENTICATION, 401, "unauthorized"),
            _fault("not allowed", Kind.AUTHENTICATION, 403, "remote inference is unavailable"),
            attrs.evolve(
                _fault("rate limit", Kind.RATE_LIMITED, 429, "too many requests"),
                headers={"retry-after": "7"}, retry_after=7.0,
            ),
            _fault("too long", Kind.CONTEXT_LENGTH, 400, "the input length exceeds the context length"),
            _fault("bad request", Kind.BAD_REQUEST, 400, '"model-1" does not support tools'),
            _fault("unknown model", Kind.BAD_REQUEST, 404, "model 'no-such-model-7f3a' not found"),
            _fault("their fault", Kind.UNAVAILABLE, 500, "model requires more system memory than is available"),
            _fault("overloaded", Kind.UNAVAILABLE, 503, "server busy, please try again. maximum pending requests"),
        )  # fmt: skip

    def faults_in_stream(self) -> Sequence[Fault]:
        return (
            Fault("their fault", Kind.UNAVAILABLE, _line({"error": "model runner has unexpectedly stopped"})),
            Fault("too long", Kind.CONTEXT_LENGTH, _line({"error": "the input length exceeds the context length",
                                                          "status": 400})),
        )  # fmt: skip

    def models(self, models: Sequence[ModelInfo], asked: Received) -> bytes:
        listed = [
            {
                "name": model.id,
                "model": model.id,
                "modified_at": datetime.fromtimestamp(model.created or 0, UTC).isoformat(),
                "size": 1,
                "details": {"family": "a-family", "context_length": model.context_window or 4096},
            }
            for model in models
        ]
        return json.dumps({"models": listed}).encode()

    def _end(self, reply: ModelResponse) -> dict[str, Json]:
        usage = reply.usage
        counts: Mapping[str, Json] = {"prompt_eval_count": usage.input, "eval_count": usage.output}
        times: dict[str, Json] = {} if usage == Usage() else {"total_duration": 7_000_000, "load_duration": 2_000_000}
        return {"done": True, "done_reason": self.finish[reply.finish_reason], **times, **given(counts)}


_EMPTY: Mapping[str, Json] = {"role": "assistant", "content": ""}


def _lines(reply: ModelResponse) -> Iterator[Mapping[str, Json]]:
    for said in _messages(reply):
        yield {"message": {"role": "assistant", **said}, "done": False}
    for chance in _chances(reply):
        yield {"message": _EMPTY, "logprobs": [chance], "done": False}


def _messages(reply: ModelResponse) -> Iterator[Mapping[str, Json]]:
    for part in reply.message.content:
        match part:
            case Text(text):
                yield from ({"content": piece} for piece in pieces(text))
            case Reasoning(text):
                yield from ({"content": "", "thinking": piece} for piece in pieces(text))
            case _:
                raise TypeError(f"a reply of this API has no {type(part).__name__}")
    for call in _calls(reply):
        yield {"content": "", "tool_calls": [call]}
    if own := _own(reply):
        yield {"content": "", **own}


def _frame(reply: ModelResponse) -> dict[str, Json]:
    return {"model": reply.model, "created_at": "2026-11-20T10:00:00.123456789Z"}


def _calls(reply: ModelResponse) -> Iterator[Mapping[str, Json]]:
    for index, call in enumerate(reply.message.tool_calls):
        function: dict[str, Json] = {"index": index, "name": call.name, "arguments": _WRITTEN + call.arguments}
        yield {"id": call.id, "function": function}


def _joined(reply: ModelResponse, kind: type[Text | Reasoning]) -> str:
    return "".join(part.text for part in reply.message.content if isinstance(part, kind))


def _own(reply: ModelResponse) -> dict[str, Json]:
    own = thaw(reply.message.extra.get("ollama", {}))
    assert isinstance(own, dict)
    return own


def _chances(reply: ModelResponse) -> list[Json]:
    logprobs = thaw(reply.extra.get("logprobs", {}))
    assert isinstance(logprobs, dict)
    tokens = logprobs.get("content", [])
    assert isinstance(tokens, list)
    return tokens


def _line(value: Mapping[str, Json]) -> bytes:
    """Return a line, in which arguments are what the model wrote."""
    text = json.dumps(value, ensure_ascii=False)
    while (start := text.find(f'"{_WRITTEN}')) >= 0:
        arguments, end = json.JSONDecoder().raw_decode(text, start)
        text = text[:start] + arguments.removeprefix(_WRITTEN) + text[end:]
    return text.encode() + b"\n"


def _fault(name: str, kind: Kind, status: int, message: str) -> Fault:
    return Fault(name, kind, json.dumps({"error": message}).encode(), status)
