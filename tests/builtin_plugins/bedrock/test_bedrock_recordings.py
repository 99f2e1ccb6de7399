"""What Bedrock has really answered: each answer is read without loss, and goes back block by block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bedrock_server import SONNET, reply_of, sent, streamed
from pluggent_bedrock.settings import Server
from pluggent_hookspecs import (
    File,
    Image,
    Message,
    ModelResponse,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    thaw,
)
from pluggent_provider_http.aws.event_stream import FrameFeed
from pluggent_testing.providers.values import check_deltas, check_reply
from recordings import needs_recordings, whole_exchanges

TWICE = {"totalTokens", "cacheReadInputTokenCount", "cacheWriteInputTokenCount"}
"""Counts that are not kept: the sum of others, and others under a second name."""


@needs_recordings
def test_every_recorded_answer_is_read_without_loss_and_goes_back():
    read = 0
    for name, _, body in whole_exchanges("/converse"):
        if isinstance(body, bytes):
            continue
        reply = check_reply(reply_of(json.dumps(body).encode()))
        assert said(reply) == expected(body), name
        assert back(reply) == blocks(body["output"]["message"]["content"]), name
        read += 1
    assert read > 60


@needs_recordings
def test_every_recorded_stream_is_read_without_loss_and_goes_back():
    read = 0
    for name, _, body in whole_exchanges("/converse-stream"):
        feed = FrameFeed()
        events = [json.loads(event) for event in feed.feed(body)]
        deltas, failure = streamed(body)
        assert failure is None, (name, failure)
        check_deltas(deltas)
        reply = check_reply(reply_of(body))
        whole = assembled(events)
        assert said(reply) == expected(whole), name
        assert back(reply) == blocks(whole["output"]["message"]["content"]), name
        assert reply_of(json.dumps(whole).encode()).message.content == reply.message.content, name
        read += 1
    assert read > 8


@needs_recordings
def test_every_recorded_stream_gives_the_same_reply_however_it_is_cut():
    for _, _, body in whole_exchanges("/converse-stream"):
        assert reply_of(*(body[at : at + 7] for at in range(0, len(body), 7))) == reply_of(body)


@needs_recordings
def test_every_recorded_request_is_what_its_conversation_becomes_here():
    """The same conversation as a peer's: the same blocks, but for names of documents and what goes without saying."""
    made = 0
    for name, body, _ in (*whole_exchanges("/converse"), *whole_exchanges("/converse-stream")):
        if not isinstance(body, dict):
            continue
        messages = [message for turn in body["messages"] for message in meant(turn)]
        instructions = [Message.system(block["text"]) for block in body.get("system", ()) if "text" in block]
        ours = sent(*instructions, *messages, model="acme.any")  # turns are as they were recorded
        theirs = [{"role": turn["role"], "content": plainly(turn["content"])} for turn in body["messages"]]
        if theirs[0]["role"] == "assistant":
            ours["messages"] = ours["messages"][1:]  # a turn of the user comes before, which the vendor wants
        assert [{**turn, "content": plainly(turn["content"])} for turn in ours["messages"]] == theirs, name
        assert ours.get("system", []) == [block for block in body.get("system", ()) if "text" in block], name
        made += 1
    assert made > 70


def meant(turn: dict[str, Any]) -> list[Message]:
    """Return the messages of which *turn* is made."""
    content = turn["content"]
    uses = [block["toolUse"] for block in content if "toolUse" in block]
    calls = [use for use in uses if use.get("type") != "server_tool_use"]
    made = tuple(ToolCall(use["toolUseId"], use["name"], json.dumps(use["input"])) for use in calls)
    parts = [part for block in content if (part := part_of(block)) is not None]
    if turn["role"] == "assistant":
        return [Message(Role.ASSISTANT, tuple(parts), made, extra={"bedrock": {}})]
    results = [block["toolResult"] for block in content if "toolResult" in block]
    found = [
        Message(
            Role.TOOL,
            tuple(part for block in result["content"] if (part := part_of(block)) is not None),
            tool_call_id=result["toolUseId"],
            is_error=result.get("status") == "error",
        )
        for result in results
    ]
    said = [part for block in content if "toolResult" not in block and (part := part_of(block)) is not None]
    return [*found, Message(Role.USER, tuple(said))] if said else found


def part_of(block: dict[str, Any]) -> Part | None:
    match block:
        case {"text": text}:
            return Text(text)
        case {"image": {"format": form, "source": {"bytes": data}}}:
            return Image(data=data, media_type=f"image/{form}")
        case {"document": {"format": form, "name": name, "source": {"bytes": data}}}:
            return File(data=data, filename=f"{name}.{form}")
        case {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}:
            return Reasoning(text, signature)
        case {"toolUse": {"type": "server_tool_use"}} | {"toolResult": {"type": _}} | {"cachePoint": _}:
            return VendorPart("bedrock", block)
        case {"toolUse": _} | {"toolResult": _}:
            return None
        case _:
            return VendorPart("bedrock", block)


def plainly(content: list[Any]) -> list[Any]:
    """Return *content* without names of documents, blank texts, and the success of a result."""
    found = [json.loads(json.dumps(block)) for block in content if block.get("text") is None or block["text"].strip()]
    for block in found:
        block.get("document", {}).pop("name", None)
        result = block.get("toolResult", {})
        if result.get("status") == "success" and "type" not in result:
            del result["status"]
        for inner in result.get("content", ()):
            inner.get("document", {}).pop("name", None)
    return found


def back(reply: ModelResponse) -> list[Any]:
    """Return the blocks that the reply goes back as."""
    results = [Message.tool(call, "22") for call in reply.message.tool_calls]
    turns = sent(
        Message.user("hi"), reply.message, *results, Message.user("on"), server=Server(cache="off"), model=SONNET
    )
    return turns["messages"][1]["content"] if len(turns["messages"]) > 1 else []


def blocks(content: list[Any]) -> list[Any]:
    """Return what of *content* goes back: not thinking without a signature, nor a blank text."""
    found = [json.loads(json.dumps(block)) for block in content]
    for block in found:
        if block.get("toolUse", {}).get("type") == "tool_use":
            del block["toolUse"]["type"]  # a word for what goes without saying, which requests do not take
    thoughts = [block.get("reasoningContent", {}).get("reasoningText", {}) for block in found]
    kept = [block for block, thought in zip(found, thoughts, strict=True) if not thought or thought.get("signature")]
    return [block for block in kept if block.get("text") is None or block["text"].strip()]


def said(reply: ModelResponse) -> dict[str, Any]:
    return {"reason": reply.finish_reason.value, "usage": reply.usage, "tier": reply.meta.service_tier,
            "extra": thaw(reply.extra)}  # fmt: skip


def expected(body: Mapping[str, Any]) -> dict[str, Any]:
    usage = dict(body["usage"])
    read, wrote = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    counted = Usage(
        input=usage["inputTokens"] + (read or 0) + (wrote or 0), output=usage["outputTokens"], cached=read,
        cache_write=wrote,
    )  # fmt: skip
    counts = {"inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"}
    more = {name: value for name, value in usage.items() if name not in counts | TWICE and value != {}}
    extra = {
        name: value for name, value in body.items() if name not in ("output", "usage", "stopReason", "serviceTier")
    }
    reasons = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
    tier = body.get("serviceTier", {}).get("type", "")
    return {
        "reason": reasons[body["stopReason"]],
        "usage": counted,
        "tier": tier,
        "extra": extra | ({"usage": more} if more else {}),
    }


def assembled(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the whole answer that the events of a stream make."""
    found: dict[int, dict[str, Any]] = {}
    pieces: dict[int, str] = {}
    body: dict[str, Any] = {}
    for event in events:
        ((name, value),) = event.items()
        value.pop("p", None)
        index = value.get("contentBlockIndex", -1)
        match name:
            case "contentBlockStart":
                found[index] = value["start"]
            case "contentBlockDelta":
                add(found.setdefault(index, {}), value["delta"], pieces, index)
            case "messageStop" | "metadata":
                body |= value
    for index, text in pieces.items():
        found[index]["toolUse"]["input"] = json.loads(text)
    return {"output": {"message": {"content": [found[index] for index in sorted(found)]}}, **body}


def add(block: dict[str, Any], delta: dict[str, Any], pieces: dict[int, str], index: int) -> None:
    match delta:
        case {"text": text}:
            block["text"] = block.get("text", "") + text
        case {"reasoningContent": {"redactedContent": sealed}}:
            block["reasoningContent"] = {"redactedContent": sealed}
        case {"reasoningContent": thought}:
            whole = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})["reasoningText"]
            for name, text in thought.items():
                whole[name] = whole.get(name, "") + text
        case {"toolUse": {"input": text}}:
            pieces[index] = pieces.get(index, "") + text
        case {"toolResult": content}:
            block["toolResult"]["content"] = block["toolResult"].get("content", []) + content
        case _:
            raise AssertionError(delta)
