"""Which API a request is sent to."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from openai_server import HELLO, STOP
from pluggent_hookspecs import (
    Audio,
    ConfigError,
    Message,
    ModelParameters,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind,
    Secret,
    collect,
)
from pluggent_openai.apis import Api, Apis
from pluggent_openai.plugin import OpenAI
from responses_server import answer, message, text

OPENAI = "https://api.openai.com/v1"
LOCAL = "http://127.0.0.1:8000/v1"
BEDROCK = "https://bedrock-mantle.us-east-1.api.aws/openai/v1"


def chosen(
    base_url: str = OPENAI, api: Api = "auto", model: str = "gpt-5", said: Message | None = None, **parameters: Any
) -> str:
    asked = ModelRequest(model, (said or Message.user("hi"),), parameters=ModelParameters(**parameters))
    return Apis(base_url, api, {"old-*": "chat", "new-*": "responses", "new-2": "chat", "any-*": "auto"}).chosen(asked)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "responses"),
        ({"base_url": LOCAL}, "chat"),
        ({"base_url": "https://api.openai.com.evil.test/v1"}, "chat"),
        ({"api": "chat"}, "chat"),
        ({"api": "responses", "base_url": LOCAL}, "responses"),
        ({"model": "old-1"}, "chat"),
        ({"model": "new-2", "base_url": LOCAL}, "responses"),
        ({"model": "any-1", "api": "chat"}, "chat"),
        ({"model": "gpt-4o-audio-preview"}, "chat"),
        ({"model": "gpt-4o-search-preview"}, "chat"),
        ({"model": "gpt-99-audio"}, "chat"),
        ({"model": "gpt-99"}, "responses"),
        ({"model": "gpt-5.6-sol-2026-07-01"}, "responses"),
        ({"base_url": BEDROCK, "model": "openai.gpt-5.5"}, "responses"),
        ({"base_url": BEDROCK, "model": "openai.gpt-5.5", "stop": ("a",)}, "chat"),
        ({"base_url": BEDROCK, "model": "deepseek.v3.2"}, "chat"),
        ({"base_url": "https://acme.openai.azure.com/openai/v1", "model": "kimi-k2.6"}, "chat"),
        ({"stop": ("a",)}, "chat"),
        ({"seed": 1}, "chat"),
        ({"temperature": 0.5, "reasoning_effort": "low"}, "responses"),
        ({"extra": {"logit_bias": {"7": 1}}}, "chat"),
        ({"extra": {"reasoning": {"summary": "auto"}}}, "responses"),
        ({"said": Message.user(Audio("QQ=="))}, "chat"),
        ({"api": "responses", "stop": ("a",)}, "responses"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_the_api_of_a_request(asked, expected):
    assert chosen(**asked) == expected


@pytest.mark.parametrize("ask", ["complete", "stream", "count"])
async def test_a_torn_catalog_is_an_error_with_what_to_do(ask, monkeypatch):
    def torn() -> None:
        raise ConfigError("models.json.gz", ["is damaged: it is cut"])

    monkeypatch.setattr("pluggent_models.catalog.shipped", torn)
    provider: Any
    (provider,) = OpenAI(OpenAI.Settings(base_url=BEDROCK, api_key=None)).provide_providers(ProvideEvent())
    request = ModelRequest("gpt-5", (Message.user("hi"),))

    with pytest.raises(ProviderError, match=r'is damaged: it is cut.*api = "chat"') as caught:
        await (collect(provider.stream(request)) if ask == "stream" else getattr(provider, ask)(request))

    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST


@pytest.mark.parametrize("stream", [False, True])
async def test_one_provider_asks_each_model_where_it_is(stream):
    asked: list[str] = []

    def server(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        if request.url.path.endswith("/responses"):
            return httpx2.Response(200, json=answer(message(text("Hello"))))
        body = HELLO + STOP if stream else json.dumps(
            {"id": "c", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
        ).encode()  # fmt: skip
        return httpx2.Response(200, content=body)

    settings = OpenAI.Settings(base_url=LOCAL, api_key=Secret.of("sk-1"), apis={"new-*": "responses"})
    provider: Any
    (provider,) = OpenAI(settings, transport=httpx2.MockTransport(server)).provide_providers(ProvideEvent())
    for model in ("new-1", "old-1"):
        request = ModelRequest(model, (Message.user("hi"),))
        reply = await (collect(provider.stream(request)) if stream else provider.complete(request))
        assert reply.message.text == "Hello"
    await provider.close()

    assert asked == ["/v1/responses", "/v1/chat/completions"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"api": "completions"}, "'api' must be in"),
        ({"apis": {"gpt-*": "completions"}}, "apis: 'gpt-\\*': expected one of 'auto', 'chat', 'responses'"),
        ({"replay_thinking": "no"}, "'replay_thinking' must be"),
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused(settings, problem):
    with pytest.raises((ValueError, TypeError), match=problem):
        OpenAI.Settings(**settings)


def test_settings_and_servers_of_ones_own_need_no_catalog():
    code = f"""
import sys
from pluggent_hookspecs import Message, ModelRequest, ProvideEvent
from pluggent_openai.plugin import OpenAI
(provider,) = OpenAI(OpenAI.Settings(base_url={LOCAL!r}, api_key=None)).provide_providers(ProvideEvent())
provider.asked(ModelRequest("m", (Message.user("hi"),)))
print("pluggent_models.catalog" in sys.modules)
"""
    done = subprocess.run(  # noqa: S603 (our own words)
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(("api", "other"), [("chat", "responses"), ("responses", "chat.chunks")])
def test_only_the_api_that_is_asked_is_imported(api, other):
    code = f"""
import sys
from pluggent_hookspecs import Message, ModelRequest, ProvideEvent
from pluggent_openai.plugin import OpenAI
(provider,) = OpenAI(OpenAI.Settings(api={api!r}, api_key=None)).provide_providers(ProvideEvent())
provider.asked(ModelRequest("m", (Message.user("hi"),)))
print([name for name in sys.modules if name.startswith("pluggent_openai.{other}")])
"""
    done = subprocess.run(  # noqa: S603 (our own words)
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
