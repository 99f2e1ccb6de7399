"""How a Gemini server writes replies: parts of a candidate, calls whole, counts with every event.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

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
WRITTEN = "written-7f3a:"
"""Marks a text that stands in JSON as it is, without quotes: arguments in the very letters of the model."""
_AS_TEXT = re.compile(rf'"{WRITTEN}((?:[^"\\]|\\.)*)"')
_RETRY = "type.googleapis.com/google.rpc.RetryInfo"
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class GeminiWire(Wire):
    """generateContent: the model in the path, parts in one list, arguments as objects, thoughts counted apart."""

    format = "gemini"
    base_path = "/v1beta"
    says = frozenset(
        {
            Says.THINKING,
            Says.SIGNATURES,
            Says.CACHED,
            Says.THINKING_TOKENS,
            Says.AUDIO_TOKENS,
            Says.LOGPROBS,
            Says.ORDER,
        }
    )
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "STOP",
        FinishReason.LENGTH: "MAX_TOKENS",
        FinishReason.TOOL_CALLS: "STOP",
        FinishReason.CONTENT_FILTER: "SAFETY",
    }
    own_fields: ClassVar[tuple[str, ...]] = (
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "cachedContent",
    )
    vendor_part = VendorPart(
        "gemini", {"executableCode": {"language": "PYTHON", "code": "print(0x7f3a)"}}, "codeExecution"
    )
    idle_events = (b": keep-alive\n\n", b'data: {"usageMetadata": {"new7f3a": 1}, "new7f3a": {"a": 1}}\n\n')
    arguments_are_objects = True
    dates_models = False

    def wants_stream(self, asked: Received) -> bool:
        return ":streamGenerateContent" in asked.path

    def names_model(self, asked: Received, model: str) -> bool:
        return unquote(asked.path.partition("?")[0].rpartition("/models/")[2].rpartition(":")[0]) == model

    def whole(self, reply: ModelResponse) -> bytes:
        parts = [_part(item) for item in (*reply.message.content, *reply.message.tool_calls)]
        return encoded(self._answer(reply, parts, reply.usage, ends=True))

    def events(self, reply: ModelResponse) -> list[bytes]:
        told = [self._answer(reply, [part], Usage(input=reply.usage.input)) for part in _in_pieces(reply)]
        # What ends a reply may come with an empty text.
        told.append(self._answer(reply, [{"text": ""}], reply.usage, ends=True))
        return [b"data: %b\n\n" % encoded(each) for each in told]

    def faults(self) -> Sequence[Fault]:
        too_long = "The input token count (215000) exceeds the maximum number of tokens allowed (200000)."
        bad_key: dict[str, Json] = {"@type": _INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        wait: dict[str, Json] = {"@type": _RETRY, "retryDelay": "7s"}
        return (
            _fault("wrong key", Kind.AUTHENTICATION, 400, "API key not valid.", "INVALID_ARGUMENT", bad_key),
            _fault("expired token", Kind.AUTHENTICATION, 401, "Request had invalid credentials.", "UNAUTHENTICATED"),
            _fault("not allowed", Kind.AUTHENTICATION, 403, "Permission denied.", "PERMISSION_DENIED"),
            _fault("rate limit", Kind.RATE_LIMITED, 429, "Quota exceeded.", "RESOURCE_EXHAUSTED", wait, 7.0),
            _fault("too long", Kind.CONTEXT_LENGTH, 400, too_long, "INVALID_ARGUMENT", None, None, (215_000, 200_000)),
            _fault("bad request", Kind.BAD_REQUEST, 400, "Invalid JSON payload received.", "INVALID_ARGUMENT"),
            _fault("unknown model", Kind.BAD_REQUEST, 404, "models/no-such-model is not found", "NOT_FOUND"),
            _fault("their fault", Kind.UNAVAILABLE, 500, "An internal error has occurred.", "INTERNAL"),
            _fault("overloaded", Kind.UNAVAILABLE, 503, "The model is overloaded.", "UNAVAILABLE"),
            _fault("too slow", Kind.TIMEOUT, 504, "Deadline expired.", "DEADLINE_EXCEEDED"),
        )

    def faults_in_stream(self) -> Sequence[Fault]:
        wait: dict[str, Json] = {"@type": _RETRY, "retryDelay": "7s"}
        blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "model-1"}
        return (
            Fault("overloaded", Kind.UNAVAILABLE, _event(_error(503, "The model is overloaded.", "UNAVAILABLE"))),
            Fault("rate limit", Kind.RATE_LIMITED, _event(_error(429, "Quota.", "RESOURCE_EXHAUSTED", wait))),
            Fault("blocked prompt", Kind.REFUSED, _event(blocked)),
        )

    def models(self, models: Sequence[ModelInfo], asked: Received) -> bytes:
        start = int(parse_qs(urlsplit(asked.path).query).get("pageToken", ["0"])[0])
        page = models[start : start + PAGE]
        listed = [
            {"name": f"models/{model.id}", "version": "1", "displayName": model.name or model.id} for model in page
        ]
        more = {"nextPageToken": str(start + PAGE)} if start + PAGE < len(models) else {}
        return encoded({"models": listed, **more})

    def _answer(
        self, reply: ModelResponse, parts: Sequence[Mapping[str, Any]], usage: Usage, *, ends: bool = False
    ) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if ends:
            candidate["finishReason"] = self.finish[reply.finish_reason]
            chances = thaw(reply.extra.get("logprobs", {}))
            assert isinstance(chances, dict)
            if chances:
                candidate["logprobsResult"] = {"chosenCandidates": chances["content"]}
        counted = {} if reply.usage == Usage() else {"usageMetadata": _usage(usage)}
        return {"candidates": [candidate], **counted, "modelVersion": reply.model, "responseId": reply.id}


def _in_pieces(reply: ModelResponse) -> Iterator[Mapping[str, Any]]:
    for item in (*reply.message.content, *reply.message.tool_calls):
        match item:
            case Text(text):
                yield from ({"text": piece} for piece in pieces(text))
            case Reasoning(text, signature):
                # What is signed comes whole: a signature is that of its part alone.
                parts = [text] if signature else pieces(text)
                yield from (_part(Reasoning(piece, signature)) for piece in parts)
            case _:
                yield _part(item)


def _part(item: Part | ToolCall) -> Mapping[str, Any]:
    match item:
        case Text(text):
            return {"text": text}
        case Reasoning(text, signature):
            return {"text": text, "thought": True, **given({"thoughtSignature": signature})}
        case ToolCall(id, name, arguments, extra):
            own = thaw(extra.get("gemini", {}))  # such as a signature
            assert isinstance(own, dict)
            return {"functionCall": {"name": name, "args": WRITTEN + arguments, "id": id}, **own}
        case VendorPart(value=value):
            part = thaw(value)
            assert isinstance(part, dict)
            return part
        case _:
            raise TypeError(f"a reply of this API has no {type(item).__name__}")


def _usage(usage: Usage) -> dict[str, Json]:
    counts: dict[str, Json] = {
        "promptTokenCount": usage.input,
        # Gemini counts thoughts apart from what is said.
        "candidatesTokenCount": None if usage.output is None else usage.output - (usage.reasoning or 0),
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cached,
    }
    if usage.input is not None and usage.output is not None:
        counts["totalTokenCount"] = usage.input + usage.output
    for name, tokens in (("candidatesTokensDetails", usage.audio), ("promptTokensDetails", usage.input_audio)):
        if tokens is not None:
            counts[name] = [{"modality": "TEXT", "tokenCount": 1}, {"modality": "AUDIO", "tokenCount": tokens}]
    return given(counts)


def _fault(
    name: str,
    kind: Kind,
    code: int,
    message: str,
    status: str,
    detail: Mapping[str, Json] | None = None,
    retry_after: float | None = None,
    numbers: tuple[int | None, int | None] = (None, None),
) -> Fault:
    return Fault(name, kind, encoded(_error(code, message, status, detail)), code, {}, retry_after, *numbers)


def _error(code: int, message: str, status: str, detail: Mapping[str, Json] | None = None) -> dict[str, Any]:
    details = {"details": [detail]} if detail else {}
    return {"error": {"code": code, "message": message, "status": status, **details}}


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % encoded(value)


def encoded(value: object) -> bytes:
    """Return *value* as JSON, with arguments in the very letters in which the model wrote them."""
    data = json.dumps(value, ensure_ascii=False)
    return _AS_TEXT.sub(lambda found: str(json.loads(f'"{found[1]}"')), data).encode()
