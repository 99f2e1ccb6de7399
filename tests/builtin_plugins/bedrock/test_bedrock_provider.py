"""The provider over real connections: keys, signatures, regions, models' ids, counting."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import formatdate
from typing import Any

import pytest
from aws_signatures import KEYS, SETTINGS, signed_again
from bedrock_server import SONNET
from pluggent_bedrock.model_traits import Model
from pluggent_bedrock.plugin import Bedrock
from pluggent_bedrock.provider import Converse
from pluggent_bedrock.settings import Server, Settings
from pluggent_hookspecs import (
    CountsTokens,
    Message,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    ToolSpec,
)
from pluggent_plugin_loader.options import settings_for
from pluggent_provider_http.aws.sigv4 import Scope
from pluggent_testing.wires import ConverseWire, WireServer
from pluggent_testing.wires.http_server import answer
from pluggent_testing.wires.server import HELLO

REQUEST = ModelRequest(SONNET, (Message.user("hi"),))
SCOPE = Scope("eu-west-1", "bedrock")


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*KEYS, *SETTINGS, "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield
    for thread in threading.enumerate():  # who waits for credentials goes on a moment before the search ends
        if thread.name == "pluggent-aws-credentials":
            thread.join(20)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(ConverseWire(), 10.0, 1_000_000) as running:
        yield running


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def provider_at(server: WireServer, **settings: Any) -> AsyncIterator[Converse]:
    plugin = Bedrock(Settings(**{"base_url": server.url, "region": "eu-west-1", **settings}))
    (provider,) = plugin.provide_providers(ProvideEvent())
    assert isinstance(provider, Converse)
    try:
        yield provider
    finally:
        await provider.close()


async def refusal(provider: Converse, request: ModelRequest = REQUEST) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.complete(request)
    return caught.value


# ---- keys and signatures ------------------------------------------------------------------


async def test_a_key_is_sent_before_anything_is_signed(server, keys, monkeypatch):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    async with provider_at(server) as provider:
        await provider.complete(REQUEST)

    (asked,) = server.requests
    assert asked.headers["authorization"] == "Bearer bedrock-key"
    assert "x-amz-date" not in asked.headers


async def test_without_a_key_requests_are_signed_as_they_are_sent(server, keys):
    async with provider_at(server, headers={"x-own": "a  b"}) as provider:
        await provider.complete(REQUEST)

    (asked,) = server.requests
    assert asked.headers["x-amz-security-token"] == KEYS["AWS_SESSION_TOKEN"]
    assert asked.headers["authorization"] == signed_again(asked, server.origin, SCOPE)


@pytest.mark.parametrize(
    "model", ["us.amazon.nova-micro-v1:0", "arn:aws:bedrock:us-east-1:1:application-inference-profile/mi1d", "a b~c"]
)
async def test_the_id_of_a_model_is_encoded_in_the_path_and_signed_so(server, keys, model):
    async with provider_at(server) as provider:
        await provider.complete(ModelRequest(model, (Message.user("hi"),)))

    (asked,) = server.requests
    assert server.wire.names_model(asked, model)
    assert asked.path.count("/") == 3
    assert asked.headers["authorization"] == signed_again(asked, server.origin, SCOPE)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auth": "bearer"}, "env:AWS_BEARER_TOKEN_BEDROCK"),
        ({"auth": "bearer", "api_key": None}, "there is no api_key"),
        ({"auth": "sigv4", "api_key": Secret.of("unused")}, "found no AWS credentials"),
        ({"profile": "mine"}, "profile 'mine' in ~/.aws has no credentials"),
    ],
)
async def test_without_key_and_credentials_it_says_what_is_missing(server, settings, words):
    async with provider_at(server, **settings) as provider:
        error = await refusal(provider)

    assert (error.kind, server.requests) == (Kind.AUTHENTICATION, [])
    assert words in str(error)


async def test_a_refusal_shows_no_secret_and_names_what_to_look_at(server, keys):
    said = f'{{"message": "not {KEYS["AWS_SECRET_ACCESS_KEY"]} nor {KEYS["AWS_SESSION_TOKEN"]}"}}'.encode()
    server.will(answer(said, 403, {"x-amzn-errortype": "AccessDeniedException", "x-amzn-requestid": "req-7"}))
    async with provider_at(server) as provider:
        error = await refusal(provider)

    assert "check the AWS credentials" in str(error)
    assert "request req-7" in str(error)
    assert not [value for name, value in KEYS.items() if name != "AWS_ACCESS_KEY_ID" and value in str(error)]


async def test_a_clock_that_is_off_by_ten_minutes_costs_one_refusal(server, keys):
    server_now = time.time() + 600
    said = b'{"message": "Signature expired"}'
    date = {"date": formatdate(server_now, usegmt=True), "x-amzn-errortype": "InvalidSignatureException"}
    server.will(answer(said, 403, date))
    async with provider_at(server) as provider:
        error = await refusal(provider)
        await provider.complete(REQUEST)

    assert error.retryable
    assert "this machine's clock is" in str(error)
    moment = datetime.strptime(f"{server.requests[1].headers['x-amz-date']}+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    assert abs(moment - server_now) < 60


async def test_the_id_of_a_request_comes_with_its_reply(server, keys):
    body = server.wire.whole(HELLO)
    server.will(answer(body, headers={"x-amzn-requestid": "req-7"}))
    async with provider_at(server, stream=False) as provider:
        reply = await provider.complete(REQUEST)

    assert reply.meta.request_id == "req-7"


# ---- regions --------------------------------------------------------------------------------


async def test_without_a_region_nothing_is_sent_and_it_says_where_to_set_one():
    (provider,) = Bedrock().provide_providers(ProvideEvent())
    assert isinstance(provider, Converse)

    error = await refusal(provider)

    assert error.kind is Kind.AUTHENTICATION
    assert "no region is set: set region, AWS_REGION, or region of the profile" in str(error)


async def test_a_signature_wants_a_region_a_key_does_not(server, keys):
    async with provider_at(server, region="") as provider:
        assert "set region, or AWS_REGION" in str(await refusal(provider))
    async with provider_at(server, region="", api_key=Secret.of("bedrock-key")) as provider:
        await provider.complete(REQUEST)


def target(**settings: Any) -> str:
    (provider,) = Bedrock(Settings(**settings)).provide_providers(ProvideEvent())
    return provider.target


def test_the_region_is_that_of_the_settings_the_environment_or_the_profile(clean_home, monkeypatch):
    (clean_home / ".aws").mkdir()
    (clean_home / ".aws" / "config").write_text("[default]\nregion = sa-east-1\n[profile a]\nregion = cn-north-1\n")

    assert target() == "https://bedrock-runtime.sa-east-1.amazonaws.com"
    assert target(profile="a") == "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert target(profile="a") == "https://bedrock-runtime.us-west-2.amazonaws.com"
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert target() == "https://bedrock-runtime.us-east-1.amazonaws.com"
    assert target(region="eu-west-1") == "https://bedrock-runtime.eu-west-1.amazonaws.com"
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:4566")
    assert target() == "http://127.0.0.1:4566"
    assert target(base_url="http://127.0.0.1:1") == "http://127.0.0.1:1"


def test_a_file_of_profiles_that_is_broken_does_not_keep_the_plugin_from_loading(clean_home):
    (clean_home / ".aws").mkdir()
    (clean_home / ".aws" / "config").write_text("oops\n")

    assert target() == "https://bedrock-runtime.no-region.invalid"


def test_settings_come_from_a_file_as_the_readme_shows_them():
    section = {
        "region": "eu-west-1",
        "cache": "1h",
        "guardrail": {"guardrailIdentifier": "g1", "guardrailVersion": "DRAFT"},
        "server_tools": ["nova_grounding"],
        "models": {"my-*": {"thinking": "none", "cache": "all"}},
        "servers": {"us": {"region": "us-east-1", "profile": "work", "auth": "sigv4"}},
    }

    (found,) = settings_for("pluggent-bedrock", Settings, section)

    assert found == Settings(
        region="eu-west-1",
        cache="1h",
        guardrail={"guardrailIdentifier": "g1", "guardrailVersion": "DRAFT"},
        server_tools=("nova_grounding",),
        models={"my-*": Model(thinking="none", cache="all")},
        servers={"us": Server(region="us-east-1", profile="work", auth="sigv4")},
    )


async def test_how_a_guardrail_looks_at_streams_is_said_of_streams_alone(server, keys):
    guardrail = {"guardrailIdentifier": "g1", "guardrailVersion": "1", "streamProcessingMode": "async"}
    for stream in (True, False):
        async with provider_at(server, guardrail=guardrail, stream=stream) as provider:
            await provider.complete(REQUEST)

    assert ["streamProcessingMode" in asked.json["guardrailConfig"] for asked in server.requests] == [True, False]


# ---- models ---------------------------------------------------------------------------------


def summary(name: str, modes: list[str], ways: list[str]) -> dict[str, Any]:
    return {"modelId": name, "modelName": name.title(), "outputModalities": modes, "inferenceTypesSupported": ways}


async def test_models_and_profiles_that_can_be_asked_are_listed_page_by_page(server, keys):
    models = [
        summary("acme.chat", ["TEXT"], ["ON_DEMAND"]),
        summary("acme.image", ["IMAGE"], ["ON_DEMAND"]),
        summary("acme.large", ["TEXT"], ["INFERENCE_PROFILE"]),
    ]
    profile = {"inferenceProfileId": "eu.acme.large", "inferenceProfileName": "EU", "createdAt": "2026-01-02T03:04:05Z"}
    server.will(
        answer(json.dumps({"modelSummaries": models}).encode()),
        answer(json.dumps({"inferenceProfileSummaries": [profile], "nextToken": "a/b="}).encode()),
        answer(json.dumps({"inferenceProfileSummaries": [{**profile, "inferenceProfileId": "us.x"}]}).encode()),
    )
    async with provider_at(server) as provider:
        listed = await provider.list_models()

    assert [(model.id, model.name, model.created) for model in listed] == [
        ("acme.chat", "Acme.Chat", None), ("eu.acme.large", "EU", 1767323045.0), ("us.x", "EU", 1767323045.0),
    ]  # fmt: skip
    assert [asked.path for asked in server.requests] == [
        "/foundation-models", "/inference-profiles?maxResults=1000",
        "/inference-profiles?maxResults=1000&nextToken=a%2Fb%3D",
    ]  # fmt: skip
    assert [asked.headers["authorization"] for asked in server.requests] == [
        signed_again(asked, server.origin, SCOPE) for asked in server.requests
    ]


async def test_a_list_without_an_end_is_ended(server, keys):
    page = answer(json.dumps({"inferenceProfileSummaries": [], "nextToken": "again"}).encode())
    server.will(answer(b'{"modelSummaries": []}'), *[page] * 30)
    async with provider_at(server) as provider:
        assert await provider.list_models() == []

    assert len(server.requests) == 21


# ---- counting -------------------------------------------------------------------------------


async def test_a_prompt_is_counted_before_it_is_sent(server, keys):
    server.will(answer(b'{"inputTokens": 375}'))
    async with provider_at(server) as provider:
        assert isinstance(provider, CountsTokens)
        assert await provider.count(ModelRequest(SONNET, (Message.user("hi"),), (ToolSpec("now"),))) == 375

    (asked,) = server.requests
    assert asked.path == f"/model/{SONNET.removeprefix('us.')}/count-tokens"
    assert set(asked.json["input"]["converse"]) == {"messages", "toolConfig"}
    assert asked.headers["authorization"] == signed_again(asked, server.origin, SCOPE)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"", Kind.PROTOCOL),
        (200, b'{"inputTokens": -1}', Kind.PROTOCOL),
        (200, b'{"inputTokens": "9"}', Kind.PROTOCOL),
        (200, b"[]", Kind.PROTOCOL),
        (400, b'{"message": "The provided model does not support counting"}', Kind.BAD_REQUEST),
        (429, b"", Kind.RATE_LIMITED),
    ],
)
async def test_what_is_no_count_is_an_error(server, keys, status, body, kind):
    server.will(answer(body, status))
    async with provider_at(server) as provider:
        with pytest.raises(ProviderError) as caught:
            await provider.count(REQUEST)

    assert caught.value.kind is kind


async def test_what_cannot_be_sent_cannot_be_counted(server, keys):
    async with provider_at(server) as provider:
        with pytest.raises(ProviderError, match="no message says anything"):
            await provider.count(ModelRequest(SONNET, ()))
