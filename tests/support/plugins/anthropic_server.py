"""Replies of Messages API servers for an OddServer, their rules for requests, and the provider that asks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import attrs
from odd_server import Answer, deltas_of, error_of, event, failure_in, json_answer, read_all, reply_in, stream_answer
from pluggent_anthropic.plugin import Anthropic
from pluggent_anthropic.provider import Messages
from pluggent_anthropic.request import encode_request
from pluggent_anthropic.settings import Server, declared
from pluggent_anthropic.stream import Events
from pluggent_hookspecs import (
    Message,
    ModelRequest,
    ModelResponse,
    PluginContext,
    ProvideEvent,
    Provider,
    ProviderError,
    Secret,
)
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults

LENT = cast("PluginContext", None)
"""What a host lends a plugin; this one looks at nothing of it."""

KEY = "sk-ant-secret-0123456789"
FAULTS = Faults("anthropic", "http://x", "m")
USAGE = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}


def request(*messages: Message, model: str = "opus-5", **more: Any) -> ModelRequest:
    """Return a request with *messages*, or with one that says hello."""
    return ModelRequest(model, messages or (Message.user("hello"),), **more)


def sent(asked: ModelRequest, *, stream: bool = False, **settings: Any) -> dict[str, Any]:
    """Return what *asked* is on the wire; without cache points unless *settings* say so."""
    settings.setdefault("cache", "off")
    server = Server(base_url="http://x", **settings)
    asked = attrs.evolve(asked, hosted=offered("anthropic", declared(server)))
    body = encode_request(asked, server, FAULTS, stream=stream)
    value: dict[str, Any] = json.loads(body.data)
    return value


def turns(*messages: Message, model: str = "opus-5", **settings: Any) -> list[Any]:
    """Return the turns that *messages* become."""
    found: list[Any] = sent(request(*messages, model=model), **settings)["messages"]
    return found


# ---- replies ----------------------------------------------------------------------------


def message(*content: Mapping[str, Any], stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    """Return a whole reply."""
    usage = {**USAGE, "output_tokens": 7}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": list(content)}
    return {**said, "stop_reason": stop, "stop_sequence": None, "usage": usage, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said, **more}


def call(name: str = "add", arguments: object = None, id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": {} if arguments is None else arguments, **more}


def start(**more: Any) -> dict[str, Any]:
    """Return the first event of a stream."""
    return {"type": "message_start", "message": message(stop=None, usage=USAGE, **more)}


def stop(reason: str | None = "end_turn", **more: Any) -> list[dict[str, Any]]:
    """Return the last events of a stream."""
    delta = {"stop_reason": reason, "stop_sequence": None, **more}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]


def block_events(index: int, block: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events that stream *block*, in pieces where it has some."""
    kind, pieces = block["type"], list[dict[str, Any]]()
    begun = dict(block)
    if kind == "text":
        begun["text"] = ""
        cited = begun.pop("citations", [])
        pieces = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
        pieces += [{"type": "citations_delta", "citation": one} for one in cited]
    elif kind == "thinking":
        begun = {"type": kind, "thinking": "", "signature": ""}
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in halves(block["thinking"])]
        pieces += [{"type": "signature_delta", "signature": block["signature"]}] if block.get("signature") else []
    elif "input" in block:
        begun["input"] = {}
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(json.dumps(block["input"]))]
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": index},
    ]


def halves(said: str) -> list[str]:
    """Return *said* in two pieces."""
    return [piece for piece in (said[: len(said) // 2], said[len(said) // 2 :]) if piece]


def events(*content: Mapping[str, Any], reason: str | None = "end_turn", **more: Any) -> list[dict[str, Any]]:
    """Return the events that stream *content*."""
    blocks = [one for index, block in enumerate(content) for one in block_events(index, block)]
    return [start(), {"type": "ping"}, *blocks, *stop(reason, **more)]


def sse(*given: Mapping[str, Any]) -> bytes:
    """Return *given* as server-sent events, as the API writes them."""
    return b"".join(b"event: %b\n%b" % (str(one["type"]).encode(), event(one)) for one in given)


def streamed(*content: Mapping[str, Any], reason: str | None = "end_turn") -> Answer:
    """Return an answer that streams *content*."""
    return stream_answer(*(sse(one) for one in events(*content, reason=reason)))


def whole(*content: Mapping[str, Any], reason: str | None = "end_turn") -> Answer:
    """Return an answer that gives *content* at once."""
    return json_answer(message(*content, stop=reason))


# ---- reading ----------------------------------------------------------------------------


def reader(asked: ModelRequest | None = None, limit: int = 100_000) -> ReplyReader:
    """Return what reads an answer to *asked*."""
    return ReplyReader(Events(asked or request(), FAULTS), FAULTS, limit)


def read_stream(*reads: bytes, asked: ModelRequest | None = None, limit: int = 100_000) -> list[Any]:
    """Return the deltas of a stream that came in these reads, or raise what went wrong."""
    return read_all(reader(asked, limit), *reads)


def reply_of(*reads: bytes, asked: ModelRequest | None = None) -> ModelResponse:
    """Return the reply that a stream makes."""
    return reply_in(reader(asked), *reads)


def streamed_reply(*content: Mapping[str, Any], reason: str | None = "end_turn", **more: Any) -> ModelResponse:
    """Return the reply that *content* makes when it is streamed."""
    return reply_of(sse(*events(*content, reason=reason, **more)))


def whole_reply(*content: Mapping[str, Any], reason: str | None = "end_turn", **more: Any) -> ModelResponse:
    """Return the reply that *content* makes when it comes at once."""
    return reply_of(json.dumps(message(*content, stop=reason, **more)).encode())


def stream_failure(*reads: bytes, limit: int = 100_000) -> ProviderError:
    """Return what a stream raises."""
    return failure_in(reader(limit=limit), *reads)


# ---- asking -----------------------------------------------------------------------------


def plugin_at(url: str, **settings: Any) -> tuple[Anthropic, Messages]:
    """Return a plugin for the server at *url*, with a key, and its first provider."""
    settings.setdefault("api_key", Secret.of(KEY))
    plugin = Anthropic(Anthropic.Settings(base_url=url, **settings))
    return plugin, cast("Messages", next(iter(plugin.provide_providers(ProvideEvent()))))


def provider_at(url: str, **settings: Any) -> Messages:
    """Return a provider for the server at *url*, with a key."""
    return plugin_at(url, **settings)[1]


async def batches(provider: Provider, asked: ModelRequest | None = None) -> list[Any]:
    """Return all deltas of a stream in a row."""
    return await deltas_of(provider, asked or request())


async def failure_of(provider: Provider, *, stream: bool = True) -> ProviderError:
    """Ask *provider* and return the error that it raises."""
    return await error_of(provider, request(), stream=stream)


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
