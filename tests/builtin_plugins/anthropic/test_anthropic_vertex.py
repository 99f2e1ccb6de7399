"""The Messages API at Vertex AI: the model in the path, the version in the body, a token of Google."""

from __future__ import annotations

from time import monotonic

import pytest
from anthropic_server import message, request, streamed, text
from odd_server import OddServer, json_answer
from pluggent_anthropic.plugin import Anthropic
from pluggent_anthropic.provider import Messages
from pluggent_anthropic.settings import Server, Settings, url_of
from pluggent_hookspecs import ProvideEvent, ProviderError, ProviderErrorKind as Kind, Secret
from pluggent_provider_http.google_credentials import GoogleTokens, Token

PLACE = "/v1/projects/acme-7/locations/global/publishers/anthropic"


@pytest.fixture(autouse=True)
def a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async def renew(tokens: GoogleTokens, _: object) -> None:
        tokens.token = tokens.token or Token("ya29-token-7f3a", 1e12, monotonic() - 3000)

    monkeypatch.setattr(GoogleTokens, "renew", renew)


def vertex_at(server: OddServer, **settings: object) -> Messages:
    at = server.url.removesuffix("/v1") + PLACE
    plugin = Anthropic(Settings(servers={"vertex": Server(base_url=at, auth="google", **settings)}))  # type: ignore[arg-type]
    _, found = plugin.provide_providers(ProvideEvent())
    assert isinstance(found, Messages)
    return found


def test_a_project_is_where_requests_go() -> None:
    vertex = Server(project="acme-7", location="europe-west1")

    at = "https://europe-west1-aiplatform.googleapis.com/v1/projects/acme-7/locations/europe-west1/publishers/anthropic"
    assert url_of(vertex) == at
    assert repr(Anthropic(Settings(project="acme-7"))) == f"<Anthropic anthropic at {url_of(Server(project='acme-7'))}>"
    with pytest.raises(ValueError, match="'other' has neither a base_url nor a project"):
        Settings(servers={"other": Server()})


async def test_a_stream_names_the_model_in_its_path_and_the_version_in_its_body() -> None:
    async with OddServer(streamed(text("Hello"))) as server:
        provider = vertex_at(server)
        reply = await provider.complete(request(model="sonnet-5@20260801"))
        await provider.close()

    (asked,) = server.requests
    assert reply.message.text == "Hello"
    assert asked.line == f"POST {PLACE}/models/sonnet-5@20260801:streamRawPredict HTTP/1.1"
    assert asked.headers["authorization"] == "Bearer ya29-token-7f3a"
    assert "x-api-key" not in asked.headers
    assert (asked.json["anthropic_version"], "model" in asked.json) == ("vertex-2023-10-16", False)


async def test_whole_replies_and_counts_have_paths_of_their_own() -> None:
    async with OddServer(json_answer(message(text("Hello"))), json_answer({"input_tokens": 7})) as server:
        provider = vertex_at(server, stream=False)
        await provider.complete(request(model="opus-5"))
        count = await provider.count(request(model="opus-5"))
        await provider.close()

    lines = [asked.line.split()[1].removeprefix(PLACE) for asked in server.requests]
    assert lines == ["/models/opus-5:rawPredict", "/models/count-tokens:rawPredict"]
    counted = server.requests[1].json
    assert (count, counted["model"], counted["anthropic_version"]) == (7, "opus-5", "vertex-2023-10-16")


async def test_a_token_that_is_refused_is_not_used_again() -> None:
    async with OddServer(json_answer({"error": {"code": 401, "message": "expired ya29-token-7f3a"}}, 401)) as server:
        provider = vertex_at(server)
        with pytest.raises(ProviderError) as caught:
            await provider.complete(request(model="opus-5"))
        await provider.close()

    assert (caught.value.kind, caught.value.retryable) == (Kind.AUTHENTICATION, True)
    assert "ya29" not in str(caught.value)


async def test_what_vertex_has_not_is_refused() -> None:
    async with OddServer() as server:
        provider = vertex_at(server)
        with pytest.raises(ProviderError, match="no list of Anthropic's models"):
            await provider.list_models()
        with pytest.raises(ProviderError, match="cannot stand in the path"):
            await provider.complete(request(model=".."))


def test_credentials_are_the_default_ones_unless_given() -> None:
    (found,) = Anthropic(Settings(project="acme-7", auth="google")).provide_providers(ProvideEvent())
    (given,) = Anthropic(Settings(auth="google", api_key=Secret("env:MINE"))).provide_providers(ProvideEvent())

    assert isinstance(found, Messages)
    assert isinstance(given, Messages)
    assert (found.server.api_key, repr(given.server.api_key)) == (None, "Secret('env:MINE')")
