"""Headers in the settings that refer to a secret: read at each request, sent, and shown nowhere."""

from typing import Any

import httpx2
import pytest
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import Message, ModelRequest, ProvideEvent, ProviderError, ProviderErrorKind as Kind, Secret
from pluggent_openai.plugin import OpenAI
from pluggent_plugin_loader.options import settings_for
from pluggent_provider_http.endpoint import Endpoint

VALUE = "gateway-0123456789"
PLUGINS = pytest.mark.parametrize("plugin", [OpenAI, Anthropic])


async def failure_of(plugin: Any, *, headers: dict[str, Any]) -> tuple[ProviderError, list[httpx2.Request]]:
    """Ask a server that echoes the header; return the error and what was sent."""
    sent: list[httpx2.Request] = []

    def answer(asked: httpx2.Request) -> httpx2.Response:
        sent.append(asked)
        return httpx2.Response(403, json={"error": {"message": f"not for {asked.headers['x-gateway']}"}})

    settings = plugin.Settings(base_url="http://one.test/v1", api_key=None, headers=headers)
    made = plugin(settings, transport=httpx2.MockTransport(answer))
    (provider,) = made.provide_providers(ProvideEvent())
    with pytest.raises(ProviderError) as caught:
        await provider.complete(ModelRequest("m", (Message.user("hi"),)))
    await provider.close()
    return caught.value, sent


@PLUGINS
@pytest.mark.parametrize("given", ["env:GATEWAY_TOKEN", Secret("env:GATEWAY_TOKEN"), Secret.of(VALUE)])
async def test_a_header_that_names_a_variable_carries_its_value_and_is_not_shown(plugin, given, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", VALUE)

    error, (sent,) = await failure_of(plugin, headers={"X-Gateway": given})

    assert sent.headers["x-gateway"] == VALUE
    assert "not for [secret]" in str(error)


@PLUGINS
async def test_a_header_whose_variable_is_not_set_reaches_no_server(plugin, monkeypatch):
    monkeypatch.delenv("GATEWAY_TOKEN", raising=False)

    error, sent = await failure_of(plugin, headers={"X-Gateway": "env:GATEWAY_TOKEN"})

    assert (error.kind, sent) == (Kind.AUTHENTICATION, [])
    assert "GATEWAY_TOKEN is not set (setting headers.X-Gateway)" in str(error)


async def test_a_secret_that_no_header_can_carry_is_not_sent(monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "a\nx-admin: 1")

    error, sent = await failure_of(OpenAI, headers={"X-Gateway": "env:GATEWAY_TOKEN"})

    assert (error.kind, sent, "x-admin" in str(error)) == (Kind.AUTHENTICATION, [], False)


def test_neither_the_settings_nor_a_mistake_in_them_shows_a_value():
    endpoint = Endpoint(base_url="http://x", headers={"X-Gateway": "env:GATEWAY_TOKEN", "X-Plain": VALUE})

    assert endpoint.headers["X-Gateway"] == Secret("env:GATEWAY_TOKEN")
    assert VALUE not in repr(endpoint)
    with pytest.raises(ValueError, match=r"X-Gateway.*whole path"):
        Endpoint(base_url="http://x", headers={"X-Gateway": "file:token"})


def test_a_file_of_settings_can_name_the_variable():
    section = {"headers": {"X-Gateway": "env:GATEWAY_TOKEN"}}

    (settings,) = settings_for("pluggent-openai", OpenAI.Settings, section)

    assert isinstance(settings, OpenAI.Settings)
    assert settings.headers == {"X-Gateway": Secret("env:GATEWAY_TOKEN")}
