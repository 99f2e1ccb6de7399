"""A checker of Responses requests, made of the vendor's schema (openapi.json 2.3.0, August 2026).

It knows the items and fields that this provider makes by itself; items that a vendor has sent are checked where they
are listed. A field that the schema does not have is a problem, as the API refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TEXT, LIST, OBJECT, FLAG, NUMBER, COUNT = str, list, dict, bool, (int, float), int

REQUEST: Mapping[str, Any] = {
    "model": TEXT, "input": LIST, "tools": LIST, "tool_choice": (str, dict), "parallel_tool_calls": FLAG,
    "temperature": NUMBER, "top_p": NUMBER, "top_logprobs": COUNT, "max_output_tokens": COUNT, "max_tool_calls": COUNT,
    "text": OBJECT, "reasoning": OBJECT, "include": LIST, "store": FLAG, "stream": FLAG, "stream_options": OBJECT,
    "service_tier": TEXT, "safety_identifier": TEXT, "user": TEXT, "metadata": OBJECT, "truncation": TEXT,
    "prompt_cache_key": TEXT, "prompt_cache_options": OBJECT, "prompt_cache_retention": TEXT, "instructions": TEXT,
    "context_management": LIST, "moderation": OBJECT, "prompt": OBJECT,
}  # fmt: skip
ITEMS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "reasoning": (
        ("id", "summary"),
        {"id": TEXT, "summary": LIST, "content": LIST, "encrypted_content": TEXT, "status": TEXT},
    ),
    "function_call": (
        ("call_id", "name", "arguments"),
        {"id": TEXT, "call_id": TEXT, "name": TEXT, "arguments": TEXT, "status": TEXT, "namespace": TEXT,
         "caller": OBJECT},
    ),
    "function_call_output": (
        ("call_id", "output"),
        {"id": TEXT, "call_id": TEXT, "output": (str, list), "status": TEXT, "name": TEXT, "namespace": TEXT},
    ),
    "custom_tool_call": (
        ("call_id", "name", "input"),
        {"id": TEXT, "call_id": TEXT, "name": TEXT, "input": TEXT, "namespace": TEXT, "caller": OBJECT},
    ),
    "custom_tool_call_output": (("call_id", "output"), {"id": TEXT, "call_id": TEXT, "output": (str, list)}),
    "web_search_call": (("id", "status", "action"), {"id": TEXT, "status": TEXT, "action": OBJECT}),
    "image_generation_call": (("id", "status", "result"), {"id": TEXT, "status": TEXT, "result": TEXT}),
    "compaction": (("encrypted_content",), {"id": TEXT, "encrypted_content": TEXT, "created_by": TEXT}),
}  # fmt: skip
PARTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "input_text": (("text",), {"text": TEXT, "prompt_cache_breakpoint": OBJECT}),
    "input_image": (("detail",), {"detail": TEXT, "image_url": TEXT, "file_id": TEXT}),
    "input_file": ((), {"file_id": TEXT, "filename": TEXT, "file_data": TEXT, "file_url": TEXT, "detail": TEXT}),
    "output_text": (
        ("text", "annotations", "logprobs"), {"text": TEXT, "annotations": LIST, "logprobs": LIST},
    ),
    "refusal": (("refusal",), {"refusal": TEXT}),
    "summary_text": (("text",), {"text": TEXT}),
    "reasoning_text": (("text",), {"text": TEXT}),
}  # fmt: skip
TOOLS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "function": (
        ("name", "strict", "parameters"),
        {"name": TEXT, "description": TEXT, "strict": FLAG, "parameters": OBJECT, "defer_loading": FLAG},
    ),
    "custom": (("name",), {"name": TEXT, "description": TEXT, "format": OBJECT}),
}
INSIDE: Mapping[str, Mapping[str, Any]] = {
    "text": {"format": OBJECT, "verbosity": TEXT},
    "reasoning": {"effort": TEXT, "summary": TEXT, "mode": TEXT, "context": TEXT},
}
MOST_ID_CHARS = 64
_REPLIED = ("output_text", "refusal")
_SAID = ("input_text", "input_image", "input_file")


def problems(body: Mapping[str, Any]) -> list[str]:
    """Return what the vendor's schema says against *body*; nothing if it is a request of this API."""
    found = [*_object("request", body, ("model", "input"), REQUEST)]
    for name, fields in INSIDE.items():
        found += _object(name, body.get(name, {}), (), fields)
    for place, item in enumerate(body.get("input", ())):
        found += _item(f"input[{place}]", item)
    for place, tool in enumerate(body.get("tools", ())):
        found += _typed(f"tools[{place}]", tool, TOOLS)
    return [*found, *_unanswered(body.get("input", ()))]


def _item(where: str, item: Mapping[str, Any]) -> Iterator[str]:
    if item.get("type", "message") == "message":
        yield from _message(where, item)
        return
    yield from _typed(where, item, ITEMS)
    if len(item.get("call_id", "")) > MOST_ID_CHARS:
        yield f"{where}: call_id is too long"
    for name in ("summary", "content", "output"):
        if isinstance(item.get(name), list):
            yield from _parts(f"{where}.{name}", item[name])


def _message(where: str, item: Mapping[str, Any]) -> Iterator[str]:
    known = {"type": TEXT, "role": TEXT, "content": (str, list), "phase": TEXT, "id": TEXT, "status": TEXT}
    needed = ("id", "status", "role", "content") if "type" in item else ("role", "content")
    yield from _object(where, item, needed, known)
    content: Any = item.get("content", "")
    if not isinstance(content, str):
        allowed = _REPLIED if item.get("role") == "assistant" else _SAID
        yield from (f"{where}: a {part['type']} in it" for part in content if part["type"] not in allowed)
        yield from _parts(f"{where}.content", content)


def _parts(where: str, parts: list[Any]) -> Iterator[str]:
    for place, part in enumerate(parts):
        yield from _typed(f"{where}[{place}]", part, PARTS)


def _typed(where: str, value: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    if value.get("type") not in known:
        yield f"{where}: an unknown type {value.get('type')!r}"
        return
    needed, fields = known[value["type"]]
    yield from _object(where, value, needed, {"type": TEXT, **fields})


def _object(where: str, value: Mapping[str, Any], needed: tuple[str, ...], known: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{where}: {name} is missing" for name in needed if name not in value)
    for name, given in value.items():
        if name not in known:
            yield f"{where}: there is no field {name}"
        elif not isinstance(given, known[name]):
            yield f"{where}: {name} is {type(given).__name__}"


def _unanswered(items: Any) -> Iterator[str]:
    """Yield what the API refuses of calls and thinking: a call or a result alone, thinking at the end of a reply."""
    kinds = [(item.get("call_id"), item.get("type", "message")) for item in items]
    calls = {id: f"{kind}_output" for id, kind in kinds if kind.endswith("_tool_call") or kind == "function_call"}
    results = {id: kind for id, kind in kinds if kind.endswith("_call_output")}
    if calls != results:
        yield f"calls want {calls}, and there are {results}"
    for item, follows in zip(items, [*items[1:], {"role": "user"}], strict=True):
        of_a_reply = follows.get("role", "assistant") == "assistant" and not follows.get("type", "").endswith("_output")
        if item.get("type") == "reasoning" and not of_a_reply:
            yield "thinking that leads to nothing"
