"""How a Gemini server writes interactions: steps, each of whose pieces names its place.

https://ai.google.dev/api/interactions-api
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pluggent_hookspecs import (
    FinishReason,
    Json,
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

from pluggent_testing.wires.format import Fault, Says, given, pieces
from pluggent_testing.wires.formats.gemini import WRITTEN, GeminiWire, encoded
from pluggent_testing.wires.http_server import Received

_EMPTY: Mapping[str, tuple[str, ...]] = {"thought": ("signature", "summary"), "model_output": ("content",)}
"""What a step does not say when it begins."""


class InteractionsWire(GeminiWire):
    """The Interactions API: a list of steps, statuses in words, thoughts counted apart."""

    format = "gemini_interactions"
    says = frozenset({Says.THINKING, Says.SIGNATURES, Says.CACHED, Says.THINKING_TOKENS, Says.AUDIO_TOKENS, Says.ORDER})
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "completed",
        FinishReason.LENGTH: "incomplete",
        FinishReason.TOOL_CALLS: "requires_action",
    }
    own_fields = ("model", "input", "system_instruction", "tools", "stream", "background", "previous_interaction_id")
    vendor_part = VendorPart(
        "gemini_interactions",
        {"type": "google_search_call", "id": "gs_1", "arguments": {"queries": ["7f3a"]}, "signature": "c2lnbmVk"},
        "google_search",
    )
    idle_events = (
        b": keep-alive\n\n",
        b'data: {"event_type": "interaction.status_update", "interaction_id": "i_1", "status": "in_progress"}\n\n',
    )
    arguments_are_objects = False

    def wants_stream(self, asked: Received) -> bool:
        body: Mapping[str, Json] = asked.json
        return body.get("stream") is True

    def names_model(self, asked: Received, model: str) -> bool:
        return bool(asked.json.get("model") == model)

    def whole(self, reply: ModelResponse) -> bytes:
        return encoded({**_frame(reply), **self._end(reply), "steps": list(_steps(reply))})

    def events(self, reply: ModelResponse) -> list[bytes]:
        told: list[dict[str, Any]] = [
            {"event_type": "interaction.created", "interaction": {**_frame(reply), "status": "in_progress"}},
            {"event_type": "interaction.status_update", "interaction_id": reply.id, "status": "in_progress"},
        ]
        for index, step in enumerate(_steps(reply)):
            told += _step_events(index, step)
        told.append({"event_type": "interaction.completed", "interaction": {**_frame(reply), **self._end(reply)}})
        return [_event({**event, "event_id": f"e_{number}"}) for number, event in enumerate(told)]

    def faults(self) -> Sequence[Fault]:
        return (
            *super().faults(),
            _fault("unknown field", Kind.BAD_REQUEST, 400, "parameter_unknown"),
            _fault("limit of a minute", Kind.RATE_LIMITED, 429, "rate_limit_exceeded"),
            _fault("blocked", Kind.REFUSED, 400, "prohibited_content"),
            _fault("unavailable", Kind.UNAVAILABLE, 503, "service_unavailable"),
        )

    def faults_in_stream(self) -> Sequence[Fault]:
        failed = {"id": "i_1", "status": "failed", "errors": [_error("spii")]}
        return (
            Fault("overloaded", Kind.UNAVAILABLE, _error_event("service_unavailable")),
            Fault("rate limit", Kind.RATE_LIMITED, _error_event("rate_limit_exceeded")),
            Fault("too late", Kind.TIMEOUT, _error_event("deadline_exceeded")),
            Fault("blocked", Kind.REFUSED, _error_event("safety")),
            Fault("failed", Kind.REFUSED, _event({"event_type": "interaction.completed", "interaction": failed})),
        )

    def _end(self, reply: ModelResponse) -> dict[str, Any]:
        counted = {} if reply.usage == Usage() else {"usage": _usage(reply.usage)}
        return {"status": self.finish[reply.finish_reason], **counted}


def _frame(reply: ModelResponse) -> dict[str, Any]:
    return {"id": reply.id, "object": "interaction", "model": reply.model}


def _steps(reply: ModelResponse) -> Iterator[dict[str, Any]]:
    """Yield the steps of *reply*: one for the texts between two thoughts, one for each call."""
    said: list[dict[str, Any]] = []
    for part in (*reply.message.content, None):
        if isinstance(part, Text):
            said.append({"type": "text", "text": part.text})
            continue
        if said:
            yield {"type": "model_output", "content": said}
            said = []
        if part is not None:
            yield _step(part)
    for call in reply.message.tool_calls:
        yield _call(call)


def _step(part: Part) -> dict[str, Any]:
    match part:
        case Reasoning(text, signature):
            summary = {"summary": [{"type": "text", "text": text}]} if text else {}
            return {"type": "thought", **given({"signature": signature}), **summary}
        case VendorPart(value=value):
            step = thaw(value)
            assert isinstance(step, dict)
            return step
        case _:
            raise TypeError(f"a reply of this API has no {type(part).__name__}")


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": WRITTEN + call.arguments}


def _step_events(index: int, step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    at = {"index": index}
    kind = step["type"]
    begun = {name: value for name, value in step.items() if name not in _EMPTY.get(kind, ())}
    yield {"event_type": "step.start", **at, "step": begun | ({"arguments": {}} if kind == "function_call" else {})}
    yield from ({"event_type": "step.delta", **at, "delta": delta} for delta in _deltas(step))
    yield {"event_type": "step.stop", **at}


def _deltas(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    match step["type"]:
        case "model_output":
            for content in step["content"]:
                yield from ({"type": "text", "text": piece} for piece in pieces(content["text"]))
        case "thought":
            for content in step.get("summary", ()):
                said = ({"type": "text", "text": piece} for piece in pieces(content["text"]))
                yield from ({"type": "thought_summary", "content": each} for each in said)
            if "signature" in step:
                yield {"type": "thought_signature", "signature": step["signature"]}
        case "function_call":
            written = step["arguments"].removeprefix(WRITTEN)
            yield from ({"type": "arguments_delta", "arguments": piece} for piece in pieces(written))
        case _:
            pass


def _usage(usage: Usage) -> dict[str, Json]:
    counts: dict[str, Json] = {
        "total_input_tokens": usage.input,
        # Thoughts are counted apart from what is said.
        "total_output_tokens": None if usage.output is None else usage.output - (usage.reasoning or 0),
        "total_thought_tokens": usage.reasoning,
        "total_cached_tokens": usage.cached,
        "total_tokens": usage.total,
    }
    for name, tokens in (("output_tokens_by_modality", usage.audio), ("input_tokens_by_modality", usage.input_audio)):
        if tokens is not None:
            counts[name] = [{"modality": "text", "tokens": 1}, {"modality": "audio", "tokens": tokens}]
    return given(counts)


def _error(code: str) -> dict[str, Json]:
    return {"code": code, "message": f"It did not work: {code}."}


def _fault(name: str, kind: Kind, status: int, code: str) -> Fault:
    return Fault(name, kind, encoded({"error": _error(code)}), status)


def _error_event(code: str) -> bytes:
    return _event({"event_type": "error", "error": _error(code)})


def _event(value: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(value["event_type"]).encode(), encoded(value))
