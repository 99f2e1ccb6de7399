"""Answers that Google has really given: each is read without loss, and goes back part by part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from gemini_schema import problems
from gemini_server import failure_of, reply_of, written
from pluggent_hookspecs import Message, ModelRequest, ModelResponse, ProviderErrorKind as Kind, thaw
from pluggent_testing.providers.values import check_reply, check_written_down
from recordings import FOLDER, needs_recordings

READ = {"candidates", "content", "usageMetadata", "modelVersion", "responseId", "finishReason"}
"""Fields of an answer that have their place in a reply, and are compared there."""
NOT_KEPT = {"index": "a reply is one candidate"}
COUNTED = {
    "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount", "serviceTier",
    "trafficType", "totalTokenCount",
}  # fmt: skip
"""Counts that are a part of Usage, a sum of such, or the tier; all others are in the extra of the reply."""


def answers() -> Iterator[tuple[str, str, bytes]]:
    """Yield the name of each recorded exchange, its model, and the body of the answer."""
    for file in sorted((FOLDER / "pydantic-ai" / "test_google").glob("*.yaml")):
        for exchange in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["interactions"]:
            address, response = exchange["request"]["uri"], exchange["response"]
            if "enerateContent" not in address:
                continue
            model = address.partition("/models/")[2].partition(":")[0]
            streamed = response.get("body", {}).get("string", "")
            body = streamed or json.dumps(response["parsed_body"])
            yield file.stem, model, body.encode()


def parts_in(body: bytes) -> list[dict[str, Any]]:
    """Return the parts of an answer, neighbouring ones without a signature joined, those that say nothing left out."""
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")] or [json.loads(body)]
    candidates = [candidate for event in events for candidate in event.get("candidates", ())]
    found: list[dict[str, Any]] = []
    for part in (part for candidate in candidates for part in candidate.get("content", {}).get("parts", ())):
        last = found[-1] if found else {}
        if part == {"text": ""}:
            continue
        joins = "text" in part and "text" in last and "thoughtSignature" not in {**part, **last}
        if joins and part.get("thought") == last.get("thought"):
            found[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            found.append(part)
    return found


@needs_recordings
def test_every_recorded_answer_is_read_and_goes_back() -> None:
    read = streams = 0
    for name, model, body in answers():
        asked = ModelRequest(model, (Message.user("hi"),))
        if b"blockReason" in body:
            assert failure_of(body).kind is Kind.REFUSED
            continue
        reply = reply_of(body, asked=asked)
        check_written_down(check_reply(reply), ModelResponse)
        results = [Message.tool(made, "1") for made in reply.message.tool_calls]
        sent, _ = written(*asked.messages, reply.message, *results, model=model)
        assert problems(sent) == [], name
        expected = parts_in(body)
        back = sent["contents"][1]["parts"] if len(sent["contents"]) > 1 else []
        assert [without_made_id(part, given) for part, given in zip(back, expected, strict=True)] == expected, name
        assert lost_of(body, reply) == [], name
        read, streams = read + 1, streams + body.startswith(b"data:")
    assert (read > 90, streams > 10) == (True, True)


def without_made_id(part: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if "functionCall" in part and "id" not in given["functionCall"]:
        part["functionCall"].pop("id")
    return part


def lost_of(body: bytes, reply: ModelResponse) -> list[str]:
    """Return the names of fields of an answer that *reply* has nowhere."""
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")] or [json.loads(body)]
    extra: Any = thaw(reply.extra)
    lost: list[str] = []
    for event in events:
        for holder in (event, *event.get("candidates", ())):
            said = {name for name, value in holder.items() if value not in (None, {}, [])}
            lost += sorted(said - READ - set(NOT_KEPT) - set(extra))
        lost += sorted(set(event.get("usageMetadata", {})) - COUNTED - set(extra.get("usage", {})))
    last = events[-1]
    assert (reply.model, reply.id) == (last["modelVersion"], last["responseId"])
    assert reply.usage.input is not None
    return lost
