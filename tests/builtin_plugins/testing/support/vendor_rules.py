"""What vendors refuse with status 400, for the wires whose plugins have no checker of their own.

Chat completions (OpenAI's openapi.json 2.3.0), the Messages API of Anthropic (its SDK's types) and /api/chat of Ollama
(its documentation), all of August 2026. A field that they do not have is a problem, as is an order that they refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Shapes: TypeAlias = Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]]

TEXT, LIST, OBJECT, FLAG, NUMBER, COUNT = str, list, dict, bool, (int, float), int

# ---- chat completions -----------------------------------------------------------------------

CHAT: Mapping[str, Any] = {
    "model": TEXT, "messages": LIST, "tools": LIST, "tool_choice": (str, dict), "parallel_tool_calls": FLAG,
    "stream": FLAG, "stream_options": OBJECT, "store": FLAG, "reasoning_effort": TEXT, "max_completion_tokens": COUNT,
}  # fmt: skip
CHAT_MESSAGES: Shapes = {
    "system": (("content",), {"content": (str, list)}),
    "developer": (("content",), {"content": (str, list)}),
    "user": (("content",), {"content": (str, list), "name": TEXT}),
    "assistant": ((), {"content": (str, list, type(None)), "refusal": TEXT, "name": TEXT, "tool_calls": LIST}),
    "tool": (("content", "tool_call_id"), {"content": (str, list), "tool_call_id": TEXT}),
}
_CHAT_ID, _NAME = 40, re.compile(r"[a-zA-Z0-9_-]{1,64}")


def chat_problems(body: Mapping[str, Any]) -> list[str]:
    """Return what OpenAI refuses in a request for chat completions."""
    found = [*_object("request", body, ("model", "messages"), CHAT)]
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        where = f"messages[{place}]"
        found += _kind(where, "role", message, CHAT_MESSAGES)
        if message["role"] == "tool":
            found += [] if message["tool_call_id"] in waiting else [f"{where}: a result without its call"]
            waiting = [id for id in waiting if id != message["tool_call_id"]]
            continue
        found += [f"{where}: {waiting} have no results"] if waiting else []
        calls = message.get("tool_calls", ())
        waiting = [call["id"] for call in calls]
        found += [f"{where}: neither words nor calls"] if not (calls or message.get("content")) else []
        for call in calls:
            found += _object(where, call, ("id", "type", "function"), {"id": TEXT, "type": TEXT, "function": OBJECT})
            made = call["function"]
            found += _object(where, made, ("name", "arguments"), {"name": TEXT, "arguments": TEXT})
            found += [f"{where}: {call['id']} is too long"] if len(call["id"]) > _CHAT_ID else []
            found += [] if _NAME.fullmatch(made["name"]) else [f"{where}: the name {made['name']}"]
    return [*found, *([f"{waiting} have no results"] if waiting else [])]


# ---- Messages -------------------------------------------------------------------------------

MESSAGES: Mapping[str, Any] = {
    "model": TEXT, "messages": LIST, "system": (str, list), "max_tokens": COUNT, "tools": LIST, "tool_choice": OBJECT,
    "stream": FLAG, "thinking": OBJECT, "output_config": OBJECT, "cache_control": OBJECT, "metadata": OBJECT,
}  # fmt: skip
BLOCKS: Shapes = {
    "text": (("text",), {"text": TEXT, "citations": LIST, "cache_control": OBJECT}),
    "thinking": (("thinking", "signature"), {"thinking": TEXT, "signature": TEXT}),
    "redacted_thinking": (("data",), {"data": TEXT}),
    "tool_use": (
        ("id", "name", "input"), {"id": TEXT, "name": TEXT, "input": OBJECT, "cache_control": OBJECT, "caller": OBJECT}
    ),
    "tool_result": (
        ("tool_use_id",),
        {"tool_use_id": TEXT, "content": (str, list), "is_error": FLAG, "cache_control": OBJECT},
    ),
    "image": (("source",), {"source": OBJECT, "cache_control": OBJECT}),
    "server_tool_use": (("id", "name", "input"), {"id": TEXT, "name": TEXT, "input": OBJECT, "caller": OBJECT}),
    "web_search_tool_result": (("tool_use_id", "content"), {"tool_use_id": TEXT, "content": (list, dict)}),
}  # fmt: skip
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def messages_problems(body: Mapping[str, Any]) -> list[str]:
    """Return what Anthropic refuses in a request to /v1/messages."""
    found = [*_object("request", body, ("model", "messages", "max_tokens"), MESSAGES)]
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        where, role = f"messages[{place}]", message["role"]
        found += _object(where, message, ("role", "content"), {"role": TEXT, "content": (str, list)})
        found += [] if role == ("user", "assistant")[place % 2] else [f"{where}: a turn of {role}"]
        given = message["content"]
        blocks: list[Any] = [{"type": "text", "text": given}] if isinstance(given, str) else given
        found += _blocks(where, role, blocks)
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        found += [f"{where}: answers {answered} to {waiting}"] if sorted(answered) != sorted(waiting) else []
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        found += [] if all(map(_ID.fullmatch, waiting)) else [f"{where}: ids {waiting}"]
        found += [f"{where}: one id twice"] if len(set(waiting)) < len(waiting) else []
    return [*found, *([f"{waiting} have no results"] if waiting else [])]


def _blocks(where: str, role: str, blocks: list[Any]) -> Iterator[str]:
    kinds = [block["type"] for block in blocks]
    yield from ([] if blocks else [f"{where}: no content"])
    for block in blocks:
        yield from _kind(where, "type", block, BLOCKS)
        if block["type"] == "text" and not block["text"].strip():
            yield f"{where}: a blank text"
    if role == "user" and kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
        yield f"{where}: something stands before the results"
    if role == "assistant":
        thinks = [kind in ("thinking", "redacted_thinking") for kind in kinds]
        if any(thinks) and not thinks[0]:
            yield f"{where}: thinking that does not stand first"
        if thinks and thinks[-1]:
            yield f"{where}: it ends in thinking"


# ---- Ollama ---------------------------------------------------------------------------------

OLLAMA: Mapping[str, Any] = {
    "model": TEXT, "messages": LIST, "tools": LIST, "stream": FLAG, "options": OBJECT, "think": (bool, str),
    "format": (str, dict), "keep_alive": (str, int), "truncate": FLAG, "logprobs": FLAG, "top_logprobs": COUNT,
    "shift": FLAG,
}  # fmt: skip
OLLAMA_MESSAGES: Shapes = {
    "system": (("content",), {"content": TEXT}),
    "user": (("content",), {"content": TEXT, "images": LIST}),
    "assistant": (("content",), {"content": TEXT, "thinking": TEXT, "tool_calls": LIST}),
    "tool": (("content",), {"content": TEXT, "tool_name": TEXT, "tool_call_id": TEXT, "images": LIST}),
}


def ollama_problems(body: Mapping[str, Any]) -> list[str]:
    """Return what Ollama cannot read in a request to /api/chat."""
    found = [*_object("request", body, ("model", "messages"), OLLAMA)]
    waiting = 0
    for place, message in enumerate(body["messages"]):
        where = f"messages[{place}]"
        found += _kind(where, "role", message, OLLAMA_MESSAGES)
        if message["role"] == "tool":
            found += [] if waiting else [f"{where}: a result without its call"]
            waiting -= 1
            continue
        found += [f"{where}: {waiting} results are missing"] if waiting else []
        waiting = len(message.get("tool_calls", ()))
        for call in message.get("tool_calls", ()):
            found += _object(where, call, ("function",), {"id": TEXT, "type": TEXT, "function": OBJECT})
            known = {"name": TEXT, "arguments": OBJECT, "index": COUNT}
            found += _object(where, call["function"], ("name", "arguments"), known)
    return [*found, *([f"{waiting} results are missing"] if waiting else [])]


# ---- shared ---------------------------------------------------------------------------------


def _kind(where: str, field: str, value: Mapping[str, Any], kinds: Shapes) -> Iterator[str]:
    kind = str(value.get(field))
    if kind not in kinds:
        yield f"{where}: there is no {field} {kind}"
        return
    needed, known = kinds[kind]
    yield from _object(f"{where} ({kind})", value, needed, {field: TEXT, **known})


def _object(where: str, value: Mapping[str, Any], needed: tuple[str, ...], known: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{where}: {name} is missing" for name in needed if name not in value)
    for name, given in value.items():
        if name not in known:
            yield f"{where}: there is no field {name}"
        elif not isinstance(given, known[name]):
            yield f"{where}: {name} is {type(given).__name__}"
