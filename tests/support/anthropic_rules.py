"""The rules that the Messages API holds requests to, as its errors and its documentation say them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

USERS = {"text", "image", "document", "search_result", "container_upload", "tool_result"}
REPLIES = {"text", "thinking", "redacted_thinking", "tool_use"}
ID = re.compile(r"[a-zA-Z0-9_-]+")


def broken_rules(body: Mapping[str, Any], *, system_turns: bool) -> list[str]:
    """Return what is wrong with a request; empty for a good one."""
    return [*_turn_rules(body["messages"], system_turns=system_turns), *_calls(body["messages"]), *_marks(body)]


def _turn_rules(turns: Sequence[Mapping[str, Any]], *, system_turns: bool) -> Iterator[str]:
    if not turns or turns[0]["role"] != "user":
        yield "the first turn is a user's"
    for before, turn in zip([None, *turns], turns, strict=False):
        role = turn["role"]
        if before is not None and before["role"] == role:
            yield f"two turns of {role} in a row"
        if role == "system" and (not system_turns or before is None or before["role"] != "user"):
            yield "a system turn follows a user's turn, for models that know it"
        if before is not None and before["role"] == "system" and role != "assistant":
            yield "a reply follows a system turn"
        yield from _content(turn, last=turn is turns[-1])


def _content(turn: Mapping[str, Any], *, last: bool) -> Iterator[str]:
    role: str = turn["role"]
    content: list[Any] = turn["content"]
    if not content:
        yield f"a turn of {role} is empty"
        return
    for block in content:
        kind = block["type"]
        vendor = kind.endswith(("_tool_use", "_tool_result"))
        known = {"user": kind in USERS, "assistant": kind in REPLIES or vendor, "system": kind == "text"}[role]
        if not known:
            yield f"a turn of {role} holds {kind}"
        yield from _texts(block)
    if role == "assistant":
        if content[-1]["type"] in {"thinking", "redacted_thinking"}:
            yield "a reply ends in thinking"
        if last and content[-1]["type"] == "text" and content[-1]["text"] != content[-1]["text"].rstrip():
            yield "the final reply ends in white space"
        if any(block["type"] == "thinking" and not block.get("signature") for block in content):
            yield "thinking without a signature"


def _texts(block: Mapping[str, Any]) -> Iterator[str]:
    if block["type"] == "text" and not block["text"].strip():
        yield "a blank text"
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        if not block["content"]:
            yield "a result without content blocks"
        for inner in block["content"]:
            yield from _texts(inner)
    if block["type"] == "tool_use" and not isinstance(block["input"], dict):
        yield "input is an object"


def _calls(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    used: set[str] = set()
    for place, turn in enumerate(turns):
        calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        kinds = [block["type"] == "tool_result" for block in turn["content"]]
        before = [block["id"] for block in turns[place - 1]["content"] if block["type"] == "tool_use"] if place else []
        if sorted(results) != sorted(before):
            yield f"results {results} of calls {before}"
        if kinds != sorted(kinds, reverse=True):
            yield "results come first"
        if seen & set(calls) or len(set(calls)) != len(calls):
            yield "ids of calls occur once"
        if not all(ID.fullmatch(one) for one in calls):
            yield "an id of a call has letters, digits, _ and - only"
        seen |= set(calls)
        if calls and place + 1 == len(turns):
            yield "calls without results at the end"
        yield from _vendor_calls(turn, used, last=place + 1 == len(turns), waits=bool(calls))


def _vendor_calls(turn: Mapping[str, Any], used: set[str], *, last: bool, waits: bool) -> Iterator[str]:
    opened = {block["id"] for block in turn["content"] if block["type"].endswith("_tool_use")}
    closed = {block["tool_use_id"] for block in turn["content"] if block["type"].endswith("_tool_result")}
    if closed - opened - used:
        yield "a result of the vendor's tool without its use"
    if opened - closed and not (last or waits):
        yield "a use of the vendor's tool without its result"
    used |= opened


def _marks(body: Mapping[str, Any]) -> Iterator[str]:
    if count_marks(body) > 4:
        yield "more than four cache points"


def count_marks(value: Any) -> int:
    """Return how many cache points *value* has, however deep."""
    return json.dumps(value).count('"cache_control": {')
