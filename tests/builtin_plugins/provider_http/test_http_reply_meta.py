"""What an answer says besides the reply or the error."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from anthropic_server import message, text
from openai_server import DONE, HELLO, REPLY, STOP
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import (
    Message,
    ModelRequest,
    ModelResponse,
    ProvideEvent,
    ProviderError,
    RateLimit,
    ReplyMeta,
    Secret,
    collect,
)
from pluggent_openai.plugin import OpenAI
from pluggent_provider_http.reply_meta import meta_of
from pluggent_provider_http.server_errors import Faults

KEY = "sk-0123456789"
CASES = pytest.mark.parametrize(
    ("plugin", "body", "stream"),
    [
        (OpenAI, json.dumps(REPLY).encode(), False),
        (OpenAI, HELLO + STOP + DONE, True),
        (OpenAI, json.dumps(REPLY).encode(), True),
        (Anthropic, json.dumps(message(text("Hello"))).encode(), True),
    ],
    ids=["openai-whole", "openai-stream", "openai-whole-for-stream", "anthropic"],
)


async def ask(plugin: Any, body: bytes, headers: dict[str, str], *, stream: bool, status: int = 200) -> ModelResponse:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers=headers)

    settings = plugin.Settings(base_url="http://one.test/v1", api_key=Secret.of(KEY))
    (provider,) = plugin(settings, transport=httpx2.MockTransport(answer)).provide_providers(ProvideEvent())
    asked = ModelRequest("m", (Message.user("hi"),))
    try:
        return await (collect(provider.stream(asked)) if stream else provider.complete(asked))
    finally:
        await provider.close()


@CASES
async def test_the_request_id_and_the_rate_limits_of_a_good_answer_are_kept(plugin, body, stream):
    limits = {"x-ratelimit-remaining-tokens": "17", "anthropic-ratelimit-input-tokens-limit": "50"}

    reply = await ask(plugin, body, {"X-Request-Id": "req_1", **limits, "date": "x", "set-cookie": "a"}, stream=stream)

    assert reply.message.text == "Hello"
    expected = (RateLimit("tokens", remaining=17), RateLimit("input-tokens", 50))
    assert reply.meta == ReplyMeta("req_1", expected)
    assert reply.meta.first_byte_s is not None
    assert reply.meta.first_byte_s >= 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_has_them_too(stream):
    headers = {"x-request-id": "req_1", "x-ratelimit-limit-requests": "3", "x-ratelimit-remaining-requests": "0"}

    with pytest.raises(ProviderError) as caught:
        await ask(OpenAI, b'{"error": {"message": "slow down"}}', headers, stream=stream, status=429)

    assert caught.value.meta == ReplyMeta("req_1", (RateLimit("requests", 3, 0),))


@pytest.mark.parametrize("body", [b'data: {"error": {"message": "no"}}\n\n', HELLO], ids=["error-event", "cut"])
async def test_so_has_an_error_in_a_stream(body):
    with pytest.raises(ProviderError) as caught:
        await ask(OpenAI, body, {"x-request-id": "req_1"}, stream=True)

    assert caught.value.meta is not None
    assert (caught.value.meta.request_id, caught.value.meta.first_byte_s is None) == ("req_1", False)


async def test_the_tier_that_was_used_is_told():
    body = json.dumps(REPLY | {"service_tier": "flex"}).encode()

    reply = await ask(OpenAI, body, {}, stream=False)

    assert reply.meta.service_tier == "flex"


async def test_what_is_kept_is_short_on_one_line_and_shows_no_key():
    many = {f"x-ratelimit-limit-{number}": "7" for number in range(100)}
    odd = {"request-id": f"for {KEY} " + "x" * 5000}

    reply = await ask(OpenAI, HELLO + STOP, odd | many, stream=True)

    assert len(reply.meta.limits) == 16
    assert len(repr(reply.meta)) < 3000
    assert KEY not in repr(reply.meta)


async def test_a_server_that_says_neither_leaves_nothing():
    reply = await ask(OpenAI, HELLO + STOP, {}, stream=True)

    assert (reply.meta, dict(reply.extra)) == (ReplyMeta(), {})


def limits_of(**headers: str) -> tuple[RateLimit, ...]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return meta_of(named, Faults("acme", "https://x"), now=1_000_000_000.0).limits


def test_a_reset_is_a_moment_however_the_server_writes_it():
    assert limits_of(x_ratelimit_reset_tokens="1m2.5s") == (RateLimit("tokens", resets_at=1_000_000_062.5),)
    assert limits_of(x_ratelimit_reset="1000000007000000") == ()
    assert limits_of(x_ratelimit_reset="1000000007") == (RateLimit("", resets_at=1_000_000_007.0),)
    assert limits_of(anthropic_ratelimit_tokens_reset="2001-09-09T01:46:45Z") == (
        RateLimit("tokens", resets_at=1_000_000_005.0),
    )


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1e400", "9" * 400])
def test_a_limit_that_is_no_number_is_left_out(text):
    assert limits_of(x_ratelimit_limit_tokens=text, x_ratelimit_reset_tokens="soon") == ()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("priority", "priority"),
        ("x\x1b]0;t\x07\u202e y", "x\ufffd]0;t\ufffd\ufffd y"),
        (f"for {KEY}", "for [secret]"),
        ("long" * 100, f"{'long' * 25}… (400 characters)"),
    ],
)
async def test_what_a_server_calls_its_tier_is_cut_and_steers_no_terminal(said: str, shown: str) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={**REPLY, "service_tier": said})

    settings = OpenAI.Settings(base_url="http://127.0.0.1:9/v1", api_key=Secret.of(KEY))
    (provider,) = OpenAI(settings, transport=httpx2.MockTransport(answer)).provide_providers(ProvideEvent())
    request = ModelRequest("m", (Message.user("hi"),))
    replies = [await provider.complete(request), await collect(provider.stream(request))]

    assert [reply.meta.service_tier for reply in replies] == [shown, shown]
