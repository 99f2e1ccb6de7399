"""What another program sent back of a reply that a vendor really gave, and what we send back of it: the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast
from urllib.parse import unquote

import attrs
import pytest
import yaml
from pluggent_hookspecs import Message, ModelRequest, Secret, ToolSpec, collect
from pluggent_testing.wires import WireServer
from pluggent_testing.wires.http_server import Steps, answer, chunked
from recordings import FOLDER, needs_recordings
from strict_vendors import VENDORS

WIRES: Mapping[str, tuple[str, str, str]] = {
    "chat": ("test_openai", "/chat/completions", "messages"),
    "responses": ("test_openai_responses", "/responses", "input"),
    "anthropic": ("test_anthropic", "/v1/messages", "messages"),
    "google": ("test_google", "enerateContent", "contents"),
    "bedrock": ("test_bedrock", "/converse", "messages"),
}
"""Of each wire: where its recordings are, what its addresses have, and where the conversation stands in a request."""
OK = 200
USER = Message.user("What was asked?")
TOOL = ToolSpec("any", "Any.", {"type": "object"})


@attrs.frozen
class Pair:
    """A recorded answer, and what the next request of the same program has of it."""

    name: str
    model: str
    answer: Any
    back: list[Any]


def pairs(wire: str) -> Iterator[Pair]:
    folder = WIRES[wire][0]
    for file in sorted((FOLDER / "pydantic-ai" / folder).glob("*.yaml")):
        exchanges = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["interactions"]
        for first, second in pairwise(exchanges):
            before, after = (said_in(exchange, wire) for exchange in (first, second))
            if not before or after[: len(before)] != before or first["response"]["status"]["code"] != OK:
                continue
            if back := list(of_the_model(after[len(before) :])):
                yield Pair(file.stem, model_of(first["request"]), body_of(first["response"]), back)


def said_in(exchange: Mapping[str, Any], wire: str) -> list[Any]:
    """Return the conversation in a request of *wire*; nothing if it is none."""
    _, path, field = WIRES[wire]
    asked = body_of(exchange["request"])
    if path not in exchange["request"]["uri"] or not isinstance(asked, dict):
        return []
    said: object = cast("dict[str, object]", asked).get(field)
    return said if isinstance(said, list) else []  # pyright: ignore[reportUnknownVariableType] (any JSON)


def model_of(request: Mapping[str, Any]) -> str:
    named = body_of(request).get("model")
    path = unquote(request["uri"].rpartition("/model")[2].lstrip("s/"))
    return str(named or re.split("/converse|:gen|:stream", path)[0])


def body_of(message: Mapping[str, Any]) -> Any:
    if "parsed_body" in message:
        return message["parsed_body"]
    body: Any = message.get("body")
    text = body["string"] if isinstance(body, dict) else body
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def of_the_model(items: list[Any]) -> Iterator[Any]:
    """Yield the items that stand for the reply: those before a result, or before what a user says."""
    for item in items:
        kind = str(item.get("type", ""))
        if item.get("role", "assistant") not in ("assistant", "model") or kind.endswith("_output"):
            return
        if item.get("content") != "" or item.get("tool_calls"):  # some recordings have messages that say nothing
            yield item


def steps(wire: str, body: Any) -> Steps:
    if isinstance(body, dict):
        return answer(json.dumps(body).encode())
    data = body.encode() if isinstance(body, str) else body
    return chunked("application/vnd.amazon.eventstream" if wire == "bedrock" else "text/event-stream", [data])


@needs_recordings
@pytest.mark.parametrize("wire", WIRES)
async def test_what_another_program_sends_back_of_a_reply_we_send_back_too(wire: str) -> None:
    vendor, field = VENDORS[wire], WIRES[wire][2]
    compared = 0
    with WireServer(vendor.wire(), 20, 10**7) as server:
        async with vendor.made(server.url, Secret.of(server.key)) as provider:
            for pair in pairs(wire):
                server.will(steps(wire, pair.answer))
                asked = ModelRequest(pair.model, (USER,), (TOOL,))
                reply = await collect(provider.stream(asked))
                results = [Message.tool(call, "1") for call in reply.message.tool_calls]
                await provider.complete(attrs.evolve(asked, messages=(USER, reply.message, *results, USER)))
                sent = "\n".join(leaves(list(of_the_model(server.asked[-1].json[field][1:]))))
                missing = [leaf for leaf in leaves(pair.back) if leaf not in sent]
                assert missing == [] or pair.name in OTHERS, pair.name
                compared += 1
    assert compared > 12


def leaves(value: object) -> Iterator[str]:
    """Yield the texts and numbers of a JSON value as both programs write them.

    Ids that the programs have made and base64 in either alphabet are alike; JSON in a text is read.
    """
    if isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from leaves(item)
    elif isinstance(value, str) and value != UNSIGNED and not MADE.fullmatch(value):
        yield value.strip().replace("-", "+").replace("_", "/")
    elif isinstance(value, int | float):
        yield str(value)


UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
MADE = re.compile(r"pyd_ai_[0-9a-f]{32}|call_\d+")
_COMPACTED = "the other program sends the compaction of another request back"
_EDITED = "the recording was edited by hand"
_TAGS = "the other program sends thinking without a signature as text between tags"
_RESULTS = "the other program writes what was found into the response of the vendor's tool"
OTHERS: Mapping[str, str] = {
    "test_openai_responses_compact_with_auto_previous_response_id_chain": _COMPACTED,
    "test_openai_responses_compact_stateful_mode": "nothing that stands before a compaction is sent again here",
    "test_openai_responses_phase_streamed_on_part_start": _EDITED,
    "test_openai_responses_thinking_with_modified_history": "the test of the other program changes the reply",
    "test_google_model_file_search_grounding_gemini_3[False]": _RESULTS,
    "test_google_model_file_search_grounding_gemini_3[True]": _RESULTS,
    "test_bedrock_model_thinking_part_anthropic_legacy": _EDITED,
    "test_bedrock_model_thinking_part_deepseek": _TAGS,
    "test_bedrock_moonshotai_tool_call": _TAGS,
    "test_bedrock_thinking_high_qwen_variant": _TAGS,
}
"""Recordings in which the other program sends what we do not, and why."""
