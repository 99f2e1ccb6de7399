"""Providers that count tokens, with a server at the other end that counts honestly, or badly."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from odd_server import Loopback, Received, answer, read_request
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    Message,
    ModelParameters,
    ModelRequest,
    Provider,
    ProviderError,
    Secret,
    ToolSpec,
)
from pluggent_openai.plugin import OpenAI
from pluggent_testing.counters import ADD, CounterConformance
from pluggent_testing.providers import opened

KEY = "sk-secret-0123456789"


class CountingServer(Loopback):
    """Counts a token for every 4 bytes of a request, or gives *reply*."""

    def __init__(self, reply: bytes | None = None, status: int = 200) -> None:
        super().__init__()
        self.requests: list[Received] = []
        self._reply = reply
        self._status = status

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            self.requests.append(request)
            honest = json.dumps({"input_tokens": len(request.body) // 4}).encode()
            (data,) = answer(honest if self._reply is None else self._reply, self._status)
            assert isinstance(data, bytes)
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def counting(
    vendor: str, reply: bytes | None = None, status: int = 200, **more: Any
) -> AsyncGenerator[tuple[CountingServer, Any]]:
    async with CountingServer(reply, status) as server:
        at: dict[str, Any] = {"base_url": f"http://127.0.0.1:{server.port}/v1", "api_key": Secret.of(KEY), **more}
        if vendor == "openai":
            plugin: Any = OpenAI(OpenAI.Settings(**{"api": "responses", **at}))
        else:
            plugin = Anthropic(Anthropic.Settings(**at))
        async with opened(plugin) as provider:
            yield server, provider


@asynccontextmanager
async def counter(vendor: str) -> AsyncGenerator[Provider]:
    async with counting(vendor) as (_, provider):
        yield provider


class TestOpenAI(CounterConformance):
    def make_counter(self):
        return counter("openai")


class TestAnthropic(CounterConformance):
    def make_counter(self):
        return counter("anthropic")


every_vendor = pytest.mark.parametrize("vendor", ["openai", "anthropic"])
ASKED = ModelRequest(
    "m-1",
    (Message.system("Be brief."), Message.user("hello")),
    (ADD,),
    ModelParameters(
        temperature=0.1, max_output_tokens=50, stop=("x",), tool_choice="required", user="u", metadata={"a": "b"},
        output_schema={"type": "object", "properties": {}, "additionalProperties": False},
        extra={"truncation": "auto", "prompt_cache_key": "k", "cache_control": {"type": "ephemeral"}},
    ),
)  # fmt: skip


async def test_openai_gets_what_tokens_depend_on():
    async with counting("openai") as (server, provider):
        await provider.count(ASKED)

    (sent,) = server.requests
    assert sent.line == "POST /v1/responses/input_tokens HTTP/1.1"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert set(sent.json) == {"model", "input", "tools", "tool_choice", "text", "truncation"}
    assert sent.json["text"]["format"]["type"] == "json_schema"


async def test_anthropic_gets_what_tokens_depend_on():
    async with counting("anthropic") as (server, provider):
        await provider.count(ASKED)

    (sent,) = server.requests
    assert sent.line == "POST /v1/messages/count_tokens HTTP/1.1"
    assert sent.headers["x-api-key"] == KEY
    assert set(sent.json) == {
        "model", "messages", "system", "tools", "tool_choice", "output_config", "cache_control",
    }  # fmt: skip


@every_vendor
@pytest.mark.parametrize(
    "reply", [b"", b"{}", b"[]", b"null", b'{"input_tokens": "7"}', b'{"input_tokens": -1}', b"<html>", b"[" * 100_000]
)
async def test_an_answer_that_is_no_count_is_a_protocol_error(vendor, reply):
    async with counting(vendor, reply) as (_, provider):
        with pytest.raises(ProviderError, match="not a count") as caught:
            await provider.count(ASKED)

    assert caught.value.kind == "protocol"


@every_vendor
async def test_a_refusal_is_an_error_of_its_kind_without_the_key(vendor):
    body = json.dumps({"error": {"message": f"who is {KEY}?", "type": "authentication_error"}}).encode()

    async with counting(vendor, body, 401) as (_, provider):
        with pytest.raises(ProviderError) as caught:
            await provider.count(ASKED)

    assert caught.value.kind == "authentication"
    assert KEY not in str(caught.value)


async def test_a_model_of_chat_completions_is_not_counted():
    async with counting("openai", api="chat") as (server, provider):
        with pytest.raises(ProviderError, match="counted through Responses") as caught:
            await provider.count(ASKED)

    assert (caught.value.kind, server.requests) == ("bad_request", [])


async def test_what_responses_have_no_word_for_is_a_bad_request():
    async with counting("openai") as (server, provider):
        with pytest.raises(ProviderError, match="cannot be sent") as caught:
            await provider.count(ModelRequest("m", (Message.user(Audio("AAAA")),)))

    assert (caught.value.kind, server.requests) == ("bad_request", [])


async def test_a_choice_of_tools_that_are_not_offered_is_a_bad_request():
    asked = ModelRequest(
        "m", (Message.user("hi"),), (ToolSpec("add"),), ModelParameters(tool_choice=AllowedTools(("sub",)))
    )

    async with counting("anthropic") as (server, provider):
        with pytest.raises(ProviderError, match="not offered"):
            await provider.count(asked)

    assert server.requests == []
