"""A checker of requests for interactions, made of the vendor's schema (its SDK's types of August 2026).

A field that the schema does not have is a problem, as the API refuses it; so is a result without its call, a call
without its result, and a call without a signed thought before it where *signed* is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TEXT, LIST, OBJECT, FLAG, COUNT, ANY = str, list, dict, bool, int, object

REQUEST: Mapping[str, Any] = {
    "model": TEXT, "input": LIST, "system_instruction": TEXT, "tools": LIST, "generation_config": OBJECT,
    "response_format": OBJECT, "safety_settings": LIST, "service_tier": TEXT, "labels": OBJECT, "store": FLAG,
    "stream": FLAG,
}  # fmt: skip
CONFIG: Mapping[str, Any] = {
    "max_output_tokens": COUNT, "seed": COUNT, "stop_sequences": LIST, "thinking_level": TEXT,
    "thinking_summaries": TEXT, "tool_choice": (str, dict), "image_config": OBJECT, "speech_config": (dict, list),
    "transcription_config": OBJECT, "video_config": OBJECT,
}  # fmt: skip
TOOLS: Mapping[str, Mapping[str, Any]] = {
    "function": {"name": TEXT, "description": TEXT, "parameters": OBJECT},
    "google_search": {"search_types": LIST}, "url_context": {}, "code_execution": {},
}  # fmt: skip
SIGNED: Mapping[str, Any] = {"signature": TEXT}
STEPS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "user_input": (("content",), {"content": LIST}),
    "model_output": ((), {"content": LIST, "error": OBJECT}),
    "thought": (("signature",), {"summary": LIST, **SIGNED}),
    # The schema has no signature here, and the API sends one.
    "function_call": (("id", "name", "arguments"), {"id": TEXT, "name": TEXT, "arguments": OBJECT, **SIGNED}),
    "function_result": (
        ("call_id", "result"), {"call_id": TEXT, "result": (str, list, dict), "name": TEXT, "is_error": FLAG}
    ),
    "google_search_call": (
        ("id", "arguments"), {"id": TEXT, "arguments": OBJECT, "search_type": TEXT, **SIGNED}
    ),
    "google_search_result": (
        ("call_id", "result"), {"call_id": TEXT, "result": LIST, "is_error": FLAG, **SIGNED}
    ),
    "code_execution_call": (("id", "arguments"), {"id": TEXT, "arguments": OBJECT, **SIGNED}),
    "code_execution_result": (
        ("call_id", "result"), {"call_id": TEXT, "result": TEXT, "is_error": FLAG, **SIGNED}
    ),
}  # fmt: skip
PLACE: Mapping[str, Any] = {"data": TEXT, "mime_type": TEXT, "uri": TEXT}
CONTENTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "text": (("text",), {"text": TEXT, "annotations": LIST}),
    "image": ((), {**PLACE, "resolution": TEXT}),
    "audio": ((), {**PLACE, "channels": COUNT, "sample_rate": COUNT}),
    "video": ((), {**PLACE, "resolution": TEXT}),
    "document": ((), PLACE),
}


def problems(body: Mapping[str, Any], *, signed: bool = False) -> list[str]:
    """Return what the vendor's schema says against *body*; nothing if it is a request of this API."""
    found = [*_object("request", body, ("model", "input"), REQUEST)]
    found += _object("generation_config", body.get("generation_config", {}), (), CONFIG)
    for tool in body.get("tools", ()):
        found += _typed("a tool", tool, {name: ((), fields) for name, fields in TOOLS.items()})
    for place, step in enumerate(body["input"]):
        found += _typed(f"input[{place}]", step, STEPS)
        content = [*step.get("content", ()), *step.get("summary", ())]
        content += step["result"] if step["type"] == "function_result" and isinstance(step["result"], list) else []
        for each in content:
            found += _typed(f"input[{place}]", each, CONTENTS)
            found += ["an empty text"] if each.get("text") == "" else []
    found += _order(body["input"])
    return [*found, *(_unsigned(body["input"]) if signed else ())]


def _order(steps: list[Any]) -> Iterator[str]:
    if not steps or steps[0]["type"] != "user_input":
        yield "the first step is not a user's"
    waiting: list[str] = []
    for step in steps:
        if step["type"] == "function_call":
            waiting.append(step["id"])
        elif step["type"] == "function_result":
            if step["call_id"] not in waiting:
                yield f"a result of {step['call_id']}, which nothing has called"
            else:
                waiting.remove(step["call_id"])
        elif step["type"] == "user_input" and waiting:
            yield f"calls without results: {waiting}"
    if waiting:
        yield f"calls without results: {waiting}"


def _unsigned(steps: list[Any]) -> Iterator[str]:
    """Yield calls behind the last input of a user that no signed thought of their reply stands before."""
    start = max(place for place, step in enumerate(steps) if step["type"] == "user_input")
    signed = False
    for step in steps[start:]:
        if step["type"] == "function_call" and not signed:
            yield f"no thought is signed before the call {step}"
        signed = step["type"] != "function_result" and (signed or bool(step.get("signature")))


def _typed(
    where: str, value: Mapping[str, Any], kinds: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]]
) -> Iterator[str]:
    kind = str(value.get("type"))
    if kind not in kinds:
        yield f"{where}: there is no type {kind}"
        return
    needed, known = kinds[kind]
    yield from _object(f"{where} ({kind})", value, needed, {"type": TEXT, **known})


def _object(where: str, value: Mapping[str, Any], needed: tuple[str, ...], known: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{where}: {name} is missing" for name in needed if name not in value)
    for name, given in value.items():
        if name not in known:
            yield f"{where}: there is no field {name}"
        elif not isinstance(given, known[name]):
            yield f"{where}: {name} is {type(given).__name__}"
