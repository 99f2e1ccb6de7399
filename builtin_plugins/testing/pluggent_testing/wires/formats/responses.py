"""How an OpenAI server writes responses: items, each of whose pieces names its place.

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from pluggent_hookspecs import (
    FinishReason,
    Json,
    ModelResponse,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    thaw,
)

from pluggent_testing.wires.format import Fault, Says, given, pieces
from pluggent_testing.wires.formats.openai import OpenAIWire

_EMPTY: Mapping[str, Mapping[str, Json]] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "encrypted_content": None},
    "function_call": {"arguments": ""},
}
"""What an item holds when it begins."""
_END = {FinishReason.LENGTH: "incomplete", FinishReason.CONTENT_FILTER: "incomplete"}


class ResponsesWire(OpenAIWire):
    """Responses as OpenAI speaks them; errors and the list of models are those of chat completions."""

    format = "openai_responses"
    says = frozenset(
        {
            Says.THINKING,
            Says.SIGNATURES,
            Says.REFUSALS,
            Says.CACHED,
            Says.CACHE_WRITES,
            Says.THINKING_TOKENS,
            Says.ORDER,
            Says.MESSAGE_FIELDS,
            Says.LOGPROBS,
            Says.ARGUMENTS_AS_TEXT,
        }
    )
    finish: ClassVar[Mapping[FinishReason, str]] = {
        FinishReason.STOP: "completed",
        FinishReason.LENGTH: "max_output_tokens",
        FinishReason.TOOL_CALLS: "completed",
        FinishReason.CONTENT_FILTER: "content_filter",
    }
    own_fields: ClassVar[tuple[str, ...]] = ("model", "input", "stream", "tools", "previous_response_id", "background")
    vendor_part = VendorPart(
        "openai_responses",
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "7f3a"}},
        "web_search",
    )
    idle_events = (
        b": keep-alive\n\n",
        b'event: response.new_7f3a\ndata: {"type": "response.new_7f3a", "new": {"a": 1}}\n\n',
    )

    def whole(self, reply: ModelResponse) -> bytes:
        return _json(self._response(reply, list(_items(reply))))

    def events(self, reply: ModelResponse) -> list[bytes]:
        items = list(_items(reply))
        begun: dict[str, Json] = {
            **_frame(reply),
            "status": "in_progress",
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }
        told: list[dict[str, Json]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for place, item in enumerate(items):
            told += _item_events(place, item)
        whole = self._response(reply, items)
        told.append({"type": f"response.{_END.get(reply.finish_reason, 'completed')}", "response": whole})
        return [_event({**event, "sequence_number": number}) for number, event in enumerate(told)]

    def faults_in_stream(self) -> Sequence[Fault]:
        told = super().faults_in_stream()
        flat: dict[str, Json] = {
            "type": "error",
            "code": "rate_limit_exceeded",
            "message": "Rate limit reached",
            "param": None,
        }
        failed: dict[str, Json] = {
            "type": "response.failed",
            "response": {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "It broke"}},
        }
        return (
            *told,
            Fault("rate limit, on one level", told[0].kind, _event(flat)),
            Fault("failed", told[1].kind, _event(failed)),
        )

    def _response(self, reply: ModelResponse, items: list[dict[str, Json]]) -> dict[str, Json]:
        cut = reply.finish_reason in _END
        return {
            **_frame(reply),
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": self.finish[reply.finish_reason]} if cut else None,
            "output": items,
            "usage": _usage(reply.usage),
        }


def _frame(reply: ModelResponse) -> dict[str, Json]:
    return {
        "id": reply.id,
        "object": "response",
        "created_at": 1_760_000_000,
        "error": None,
        "instructions": None,
        "model": reply.model,
        "parallel_tool_calls": True,
        "store": False,
        "text": {"format": {"type": "text"}},
        "tools": [],
        "metadata": {},
    }


def _items(reply: ModelResponse) -> Iterator[dict[str, Json]]:
    """Yield the items of *reply*: one message for the texts between two thoughts, one for each call."""
    said: list[Part] = []
    number = 0
    for part in (*reply.message.content, None):
        if isinstance(part, Text | Refusal):
            said.append(part)
            continue
        if said:
            yield _message(f"msg_{number}", said, reply)
            said, number = [], number + 1
        match part:
            case Reasoning(text, signature):
                summary: Json = [{"type": "summary_text", "text": text}]
                yield {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": signature}
                number += 1
            case VendorPart(value=value):
                item = thaw(value)
                assert isinstance(item, dict)
                yield item
            case None:
                break
            case _:
                raise TypeError(f"a reply of this API has no {type(part).__name__}")
    for call in reply.message.tool_calls:
        yield _call(f"fc_{call.id}", call)


def _message(id: str, said: list[Part], reply: ModelResponse) -> dict[str, Json]:
    chances = thaw(reply.extra.get("logprobs", {}))
    assert isinstance(chances, dict)
    content: list[Json] = [
        {"type": "refusal", "refusal": part.text}
        if isinstance(part, Refusal)
        else {"type": "output_text", "text": part.text, "annotations": [], "logprobs": chances.get("content", [])}
        for part in said
        if isinstance(part, Text | Refusal)
    ]
    own = thaw(reply.message.extra.get("openai_responses", {}))
    assert isinstance(own, dict)
    return {"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content, **own}


def _call(id: str, call: ToolCall) -> dict[str, Json]:
    if call.hosted:
        label = call.hosted.removeprefix("mcp/")
        said: dict[str, Json] = {"id": call.id, "server_label": label, "name": call.name, "arguments": call.arguments}
        return {"type": "mcp_approval_request", **said}
    return {
        "id": id,
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _item_events(place: int, item: dict[str, Json]) -> Iterator[dict[str, Json]]:
    at: dict[str, Json] = {"output_index": place}
    begun = {"status": "in_progress"} if "status" in item else {}
    yield {"type": "response.output_item.added", **at, "item": {**item, **begun, **_EMPTY.get(str(item["type"]), {})}}
    at["item_id"] = item.get("id", "")
    match item["type"]:
        case "message":
            content = item["content"]
            assert isinstance(content, list)
            for index, part in enumerate(content):
                assert isinstance(part, dict)
                yield from _content_events({**at, "content_index": index}, part)
        case "reasoning":
            summary = item["summary"]
            assert isinstance(summary, list)
            for index, part in enumerate(summary):
                assert isinstance(part, dict)
                yield from _summary_events({**at, "summary_index": index}, str(part["text"]))
        case "function_call":
            arguments = str(item["arguments"])
            kind = "response.function_call_arguments"
            yield from ({"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces(arguments))
            yield {"type": f"{kind}.done", **at, "arguments": arguments, "name": item["name"]}
        case _:
            yield {"type": f"response.{item['type']}.completed", **at}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _content_events(at: dict[str, Json], part: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if field == "refusal" else "response.output_text"
    yield {"type": "response.content_part.added", **at, "part": {**part, field: ""}}
    chances: dict[str, Json] = {} if field == "refusal" else {"logprobs": []}
    yield from ({"type": f"{kind}.delta", **at, "delta": piece, **chances} for piece in pieces(str(part[field])))
    yield {"type": f"{kind}.done", **at, field: part[field]}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary_events(at: dict[str, Json], text: str) -> Iterator[dict[str, Json]]:
    kind = "response.reasoning_summary"
    yield {"type": f"{kind}_part.added", **at, "part": {"type": "summary_text", "text": ""}}
    yield from ({"type": f"{kind}_text.delta", **at, "delta": piece} for piece in pieces(text))
    yield {"type": f"{kind}_text.done", **at, "text": text}
    yield {"type": f"{kind}_part.done", **at, "part": {"type": "summary_text", "text": text}}


def _usage(usage: Usage) -> dict[str, Json] | None:
    if usage == Usage():
        return None
    sent = given({"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write})
    made = given({"reasoning_tokens": usage.reasoning})
    counts = given({"input_tokens": usage.input, "output_tokens": usage.output, "total_tokens": usage.total})
    return {**counts, "input_tokens_details": sent, "output_tokens_details": made}


def _event(value: Mapping[str, Json]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), _json(value))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
