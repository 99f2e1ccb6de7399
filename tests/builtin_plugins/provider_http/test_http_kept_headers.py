"""What is kept of the headers of a good answer."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from anthropic_server import message, text
from openai_server import DONE, HELLO, REPLY, STOP
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import Message, ModelRequest, ModelResponse, ProvideEvent, Secret, collect, thaw
from pluggent_openai.plugin import OpenAI

KEY = "sk-0123456789"
CASES = pytest.mark.parametrize(
    ("plugin", "body", "stream"),
    [
        (OpenAI, json.dumps(REPLY).encode(), False),
        (OpenAI, HELLO + STOP + DONE, True),
        (OpenAI, json.dumps(REPLY).encode(), True),
        (Anthropic, json.dumps(message(text("Hello"))).encode(), True),
    ],
)


async def reply_to(plugin: Any, body: bytes, headers: dict[str, str], *, stream: bool) -> ModelResponse:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers=headers)

    settings = plugin.Settings(base_url="http://one.test/v1", api_key=Secret.of(KEY))
    (provider,) = plugin(settings, transport=httpx2.MockTransport(answer)).provide_providers(ProvideEvent())
    asked = ModelRequest("m", (Message.user("hi"),))
    try:
        return await (collect(provider.stream(asked)) if stream else provider.complete(asked))
    finally:
        await provider.close()


@CASES
async def test_the_request_id_and_the_rate_limits_of_a_good_answer_are_kept(plugin, body, stream):
    limits = {"x-ratelimit-remaining-tokens": "17", "anthropic-ratelimit-requests-limit": "50"}

    reply = await reply_to(
        plugin, body, {"X-Request-Id": "req_1", **limits, "date": "x", "set-cookie": "a"}, stream=stream
    )

    assert reply.message.text == "Hello"
    assert reply.extra["http"] == {"x-request-id": "req_1", **limits}


async def test_what_is_kept_is_short_on_one_line_and_shows_no_key():
    many = {f"x-ratelimit-{number}": "7" for number in range(100)}
    odd = {"request-id": f"for {KEY} " + "x" * 5000}

    reply = await reply_to(OpenAI, HELLO + STOP, odd | many, stream=True)
    kept = thaw(reply.extra["http"])

    assert isinstance(kept, dict)
    assert len(kept) == 40
    assert len(json.dumps(kept)) < 3000
    assert KEY not in json.dumps(kept)


async def test_a_server_that_says_neither_leaves_nothing():
    reply = await reply_to(OpenAI, HELLO + STOP, {}, stream=True)

    assert "http" not in reply.extra
