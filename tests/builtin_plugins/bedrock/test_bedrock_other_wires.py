"""The other wires at Bedrock, as the README configures them: addresses, keys and signatures of requests."""

from __future__ import annotations

import json
import re
import threading
import time
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import attrs
import pluggent_bedrock
import pytest
from aws_signatures import KEYS, SETTINGS, signed_again
from pluggent_anthropic.plugin import Anthropic
from pluggent_hookspecs import (
    EmbeddingRequest,
    Message,
    ModelParameters,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    collect,
)
from pluggent_openai.embedder import OpenAIEmbedder
from pluggent_openai.plugin import OpenAI, OpenAIEmbedders
from pluggent_openai.provider import OpenAIProvider
from pluggent_plugin_loader.options import settings_for
from pluggent_provider_http.aws.sigv4 import Scope
from pluggent_testing.wires import AnthropicWire, ResponsesWire, Wire, WireServer
from pluggent_testing.wires.http_server import answer

README = Path(pluggent_bedrock.__path__[0]).parent / "README.md"


def section(plugin: str) -> dict[str, Any]:
    """Return what the README says of *plugin*, below its table of servers."""
    for text in re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        found = tomllib.loads(text)["plugins"].get(plugin)
        if found is not None:
            return found
    raise AssertionError(f"the README does not configure {plugin}")


ASKED = ModelRequest("openai.gpt-5.5", (Message.user("hi"),))
BOTH = [
    (OpenAI, "pluggent-openai", ResponsesWire(), "/openai/v1/responses"),
    (Anthropic, "pluggent-anthropic", AnthropicWire(), "/anthropic/v1/messages"),
]


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*KEYS, *SETTINGS, "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    yield
    for thread in threading.enumerate():  # who waits for credentials goes on a moment before the search ends
        if thread.name == "pluggent-aws-credentials":
            thread.join(20)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def provider_at(server: WireServer, plugin: Any, name: str, **changed: Any) -> AsyncIterator[Any]:
    """Yield the provider that the README configures for mantle, at *server*, with settings that are *changed*."""
    given = section(name)
    ((server_name, settings),) = given["servers"].items()
    host, _, path = settings["base_url"].removeprefix("https://").partition("/")
    assert host == "bedrock-mantle.us-east-1.api.aws"
    given["servers"][server_name] = {**settings, "base_url": f"{server.origin}/{path}", **changed}
    (made,) = settings_for(name, plugin.Settings, given)
    provider = next(one for one in plugin(made).provide_providers(None) if one.name == server_name)
    try:
        yield provider
    finally:
        await provider.close()


@pytest.mark.parametrize(("plugin", "name", "wire", "path"), BOTH)
async def test_a_server_of_the_readme_is_asked_with_the_key(monkeypatch, plugin: Any, name: str, wire: Wire, path: str):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    with WireServer(wire, 10.0, 1_000_000) as server:
        key = {"auth": "bearer", "api_key": "env:AWS_BEARER_TOKEN_BEDROCK"}
        async with provider_at(server, plugin, name, **key) as provider:
            await provider.complete(ASKED)

    (asked,) = server.requests
    assert (asked.path, asked.headers["authorization"]) == (path, "Bearer bedrock-key")


@pytest.mark.parametrize(("plugin", "name", "wire", "path"), BOTH)
async def test_a_server_of_the_readme_is_asked_with_a_signature(keys, plugin: Any, name: str, wire: Wire, path: str):
    place = {"region": "us-east-1", "service": "bedrock-mantle"}
    with WireServer(wire, 10.0, 1_000_000) as server:
        async with provider_at(server, plugin, name, headers={"x-own": "a  b"}, **place) as provider:
            await provider.complete(ASKED)
            async for _ in provider.stream(ASKED):
                pass
            await provider.list_models()

    assert {asked.headers["authorization"] for asked in server.requests} == {
        signed_again(asked, server.origin, Scope("us-east-1", "bedrock-mantle")) for asked in server.requests
    }
    assert [asked.method for asked in server.requests[:3]] == ["POST", "POST", "GET"]
    assert server.requests[0].path == path
    assert not {"x-api-key", "api-key"} & server.requests[0].headers.keys()


async def test_embeddings_are_signed_too(keys, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    said = {"data": [{"index": 0, "embedding": [1.0, 0.5]}], "model": "m", "usage": {"prompt_tokens": 1}}
    with WireServer(ResponsesWire(), 10.0, 1_000_000) as server:
        server.will(answer(json.dumps(said).encode()))
        plugin = OpenAIEmbedders(OpenAIEmbedders.Settings(base_url=f"{server.origin}/openai/v1", auth="sigv4"))
        (embedder,) = plugin.provide_embedders(ProvideEvent())
        assert isinstance(embedder, OpenAIEmbedder)
        found = await embedder.embed(EmbeddingRequest("m", ("hi",)))
        await embedder.close()

    (asked,) = server.requests
    assert found.vectors.dimensions == 2
    assert asked.headers["authorization"] == signed_again(asked, server.origin, Scope("eu-west-1", "bedrock"))


@pytest.mark.parametrize(("plugin", "name", "wire", "path"), BOTH)
async def test_a_clock_that_is_off_by_ten_minutes_is_said_and_costs_one_refusal(
    keys, plugin: Any, name: str, wire: Wire, path: str
):
    date = {"date": formatdate(time.time() - 600, usegmt=True), "x-amzn-errortype": "InvalidSignatureException"}
    with WireServer(wire, 10.0, 1_000_000) as server:
        server.will(answer(b'{"message": "Signature not yet current"}', 403, date))
        async with provider_at(server, plugin, name, region="us-east-1") as provider:
            with pytest.raises(ProviderError) as caught:
                await provider.complete(ASKED)
            await provider.complete(ASKED)

    assert caught.value.retryable
    assert re.search(r"this machine's clock is (599|600|601) s ahead of the server's", str(caught.value))


@pytest.mark.parametrize(("plugin", "name", "wire", "path"), BOTH)
async def test_without_credentials_or_a_region_nothing_is_sent(plugin: Any, name: str, wire: Wire, path: str):
    with WireServer(wire, 10.0, 1_000_000) as server:
        errors: list[ProviderError] = []
        for region in ("us-east-1", ""):
            async with provider_at(server, plugin, name, region=region) as provider:
                with pytest.raises(ProviderError) as caught:
                    await provider.complete(ASKED)
            errors.append(caught.value)

    assert [error.kind for error in errors] == [Kind.AUTHENTICATION, Kind.BAD_REQUEST]
    assert "found no AWS credentials" in str(errors[0])
    assert "set region, or AWS_REGION" in str(errors[1])
    assert server.requests == []


@pytest.mark.parametrize("plugin", [OpenAI, Anthropic])
def test_a_signature_takes_no_key(plugin: Any):
    with pytest.raises(ValueError, match="leave api_key out, or take bearer"):
        plugin.Settings(auth="sigv4", api_key=Secret("env:MINE"))
    (provider,) = plugin(plugin.Settings(auth="sigv4", region="us-east-1")).provide_providers(None)
    assert provider.server.api_key is None


async def test_a_reply_in_the_background_is_signed_at_each_request(keys):
    place = {"region": "us-east-1", "service": "bedrock-mantle", "compat": {"background": True}}
    asked_later = attrs.evolve(ASKED, parameters=ModelParameters(background=True))
    with WireServer(ResponsesWire(), 10.0, 1_000_000) as server:
        async with provider_at(server, OpenAI, "pluggent-openai", **place) as provider:
            assert isinstance(provider, OpenAIProvider)
            ticket = await provider.submit(asked_later)
            reply = await collect(provider.attach(ticket, asked_later))
            server.will(answer(b"{}"))
            await provider.cancel(ticket)

    scope = Scope("us-east-1", "bedrock-mantle")
    assert reply.message.text.startswith("Hello")
    assert len(server.requests) > 1
    for asked in server.requests:
        assert asked.headers["authorization"] == signed_again(asked, server.origin, scope)
