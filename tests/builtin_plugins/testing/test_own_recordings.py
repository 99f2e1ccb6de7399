"""Small recordings of our own: each answer is read without loss, means what it should, and goes back as it came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pluggent_contract_values.as_json import to_json
from pluggent_hookspecs import (
    Audio,
    Image,
    Message,
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderError,
    Reasoning,
    Refusal,
    Secret,
    ToolSpec,
    Usage,
    VendorPart,
    collect,
    thaw,
)
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Server
from pluggent_testing.providers.asking import opened
from pluggent_testing.providers.values import check_reply, check_written_down
from pluggent_testing.wires import WireServer
from pluggent_testing.wires.formats.converse import frame
from pluggent_testing.wires.http_server import Steps, answer, chunked
from strict_vendors import VENDORS

FOLDER = Path(__file__).parent / "recordings"
FILES = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.yaml"))}
EXCHANGES = [(wire, exchange) for wire, file in FILES.items() for exchange in file["exchanges"]]
BACK = {
    "chat": "messages", "responses": "input", "anthropic": "messages", "google": "contents", "steps": "input",
    "bedrock": "messages", "ollama": "messages",
}  # fmt: skip
"""Where the conversation stands in a request."""
USER = Message.user("What is it?")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def test_every_wire_has_recordings() -> None:
    assert set(FILES) == set(VENDORS)


@pytest.mark.parametrize(
    ("wire", "exchange"), EXCHANGES, ids=[f"{wire}: {exchange['name']}" for wire, exchange in EXCHANGES]
)
async def test_an_answer_is_read_without_loss_and_goes_back_as_it_came(wire: str, exchange: dict[str, Any]) -> None:
    vendor, expected = VENDORS[wire], dict(exchange["reply"])
    with WireServer(vendor.wire(), 20, 10**6) as server:
        server.will(answer_of(wire, exchange))
        async with provider_for(wire, exchange, server) as provider:
            if kind := expected.pop("error", ""):
                assert (await failure_of(provider, exchange)).kind == kind
                return
            reply = check_reply(await reply_of(provider, exchange))
            check_written_down(reply, ModelResponse)
            results = [Message.tool(call, "3") for call in reply.message.tool_calls]
            await provider.complete(asked(reply.message, *results))

    assert said(reply) == {**NOTHING, "finish": "stop", **expected}
    assert lost(exchange, reply, [*FILES[wire]["unsaid"], *exchange.get("unsaid", ())]) == []
    sent: list[Any] = server.asked[-1].json[BACK[wire]]
    if "back" in exchange:
        start = next(place for place, item in enumerate(sent) if "What is it?" in json.dumps(item)) + 1
        assert [plain(item) for item in sent[start : start + len(exchange["back"])]] == exchange["back"]
    if "server" not in exchange:
        assert [problem for problem in vendor.problems(server.asked[-1].json) if "an unknown type" not in problem] == []


# ---- the server and the provider ----------------------------------------------------------


def answer_of(wire: str, exchange: Mapping[str, Any]) -> Steps:
    status = exchange.get("status", 200)
    if "answer" in exchange:
        return answer(json.dumps(exchange["answer"]).encode(), status)
    if wire == "bedrock":
        frames = [frame(name, value) for name, value in exchange["stream"]]
        return chunked("application/vnd.amazon.eventstream", frames)
    if wire == "ollama":
        return chunked("application/x-ndjson", [json.dumps(line).encode() + b"\n" for line in exchange["stream"]])
    return chunked("text/event-stream", [sse(event) for event in exchange["stream"]])


def sse(event: Mapping[str, Any]) -> bytes:
    kind = event.get("event_type", event.get("type", ""))
    named = f"event: {kind}\n" if kind else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


def provider_for(wire: str, exchange: Mapping[str, Any], server: WireServer) -> opened:
    if like := exchange.get("server"):
        speaks = Server(base_url=server.url, api_key=Secret.of(server.key), api="chat", compat={"like": like})
        return opened(OpenAI(OpenAI.Settings(servers={like: speaks})), like)
    return VENDORS[wire].made(server.url, Secret.of(server.key))


def asked(*more: Message) -> ModelRequest:
    return ModelRequest("gemini-3-flash", (USER, *more), (ADD,))


async def reply_of(provider: Provider, exchange: Mapping[str, Any]) -> ModelResponse:
    if "stream" in exchange:
        return await collect(provider.stream(asked()))
    return await provider.complete(asked())


async def failure_of(provider: Provider, exchange: Mapping[str, Any]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await reply_of(provider, exchange)
    return caught.value


# ---- what a reply says --------------------------------------------------------------------

NOTHING: Mapping[str, Any] = {
    "text": "", "refusal": "", "thinking": "", "signatures": [], "calls": [], "vendor": [], "media": [], "usage": {},
}  # fmt: skip


def said(reply: ModelResponse) -> dict[str, Any]:
    content = reply.message.content
    refusal = "".join(part.text for part in content if isinstance(part, Refusal))
    thoughts = [part for part in content if isinstance(part, Reasoning)]
    counted = {name: getattr(reply.usage, name) for name in Usage.__slots__ if name not in ("estimated", "__weakref__")}
    return {
        "text": reply.message.text.removesuffix(refusal),
        "refusal": refusal,
        "thinking": "".join(part.text for part in thoughts),
        "signatures": [part.signature for part in thoughts if part.signature],
        "calls": [[call.name, json.loads(call.arguments)] for call in reply.message.tool_calls],
        "vendor": [thaw(part.value) for part in content if isinstance(part, VendorPart)],
        "media": [part.media_type for part in content if isinstance(part, Image)]
        + [f"audio/{part.format}" for part in content if isinstance(part, Audio)],
        "finish": reply.finish_reason.value,
        "usage": {name: count for name, count in counted.items() if count is not None},
    }


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return *item* of a request without fields that say nothing."""
    return {name: value for name, value in item.items() if value is not None or name == "content"}


def lost(exchange: Mapping[str, Any], reply: ModelResponse, unsaid: Sequence[str]) -> list[str]:
    """Return the words and numbers of an answer that *reply* has nowhere."""
    written = json.loads(to_json(reply))
    kept = json.dumps(written, ensure_ascii=False).replace("\\", "")
    words = "".join(str(word) for _, word in leaves(written))
    numbers = {*map(int, re.findall(r"\b\d+\b", kept)), *said(reply)["usage"].values()}
    missing: list[str] = []
    events = [event[-1] if isinstance(event, list) else event for event in exchange.get("stream", ())]
    for name, value in leaves(exchange.get("answer") or events):
        found = value in numbers if isinstance(value, int) else value in kept or value in words
        if name not in unsaid and not found:
            missing.append(f"{name}: {value}")
    return missing if exchange.get("status", 200) == 200 else []


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every text and number of a JSON value with the name of its field."""
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield from leaves(item, key)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from leaves(item, name)
    elif isinstance(value, str | int) and not isinstance(value, bool) and value:
        yield name, value
