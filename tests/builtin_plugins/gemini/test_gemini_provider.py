"""The provider over real connections: where requests go, what carries the key, answers that go on, Vertex AI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any, TypeAlias

import attrs
import pytest
from gemini_server import ASKED, MODEL, call, event, signed, sse, text
from odd_server import OddServer, answer, deltas_of, error_of, json_answer, stream_answer
from pluggent_gemini.generate.provider import GenerateContent
from pluggent_gemini.plugin import Gemini
from pluggent_gemini.settings import Server, Settings, url_of
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    Message,
    ModelInfo,
    ModelParameters,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    Text,
    Usage,
    UsageDelta,
)
from pluggent_provider_http.google.credentials import GoogleTokens, Token

KEY = "key-7f3a-0123456789"
HELLO = stream_answer(sse(event(text("Hello"))), sse(event(text("."), ends="STOP")))
PROJECT = "/v1/projects/acme-7/locations/global/publishers/google"


Maker: TypeAlias = "Callable[..., GenerateContent]"


@pytest.fixture
async def provider_at() -> AsyncIterator[Maker]:
    """Return what makes a provider that asks at a URL; its connections are closed at the end."""
    made: list[GenerateContent] = []

    def make(url: str, **settings: Any) -> GenerateContent:
        given = {"base_url": url, "api_key": Secret.of(KEY), **settings}
        (found,) = Gemini(Settings(**given)).provide_providers(ProvideEvent())
        assert isinstance(found, GenerateContent)
        made.append(found)
        return found

    yield make
    for each in made:
        await each.close()


def counted(prompt: int, made: int) -> dict[str, int]:
    return {"promptTokenCount": prompt, "candidatesTokenCount": made, "totalTokenCount": prompt + made}


# ---- where and with what --------------------------------------------------------------------


async def test_a_stream_is_asked_for_with_the_key_in_its_header(provider_at: Maker) -> None:
    async with OddServer(HELLO) as server:
        reply = await provider_at(server.url).complete(ASKED)

    (asked,) = server.requests
    assert asked.line == f"POST /v1/models/{MODEL}:streamGenerateContent?alt=sse HTTP/1.1"
    assert (asked.headers["x-goog-api-key"], "authorization" in asked.headers) == (KEY, False)
    assert reply.message.text == "Hello."


async def test_a_whole_reply_is_asked_for_where_streams_are_off(provider_at: Maker) -> None:
    async with OddServer(json_answer(event(text("Hello."), ends="STOP"))) as server:
        reply = await provider_at(server.url, stream=False).complete(ASKED)

    assert server.requests[0].line == f"POST /v1/models/{MODEL}:generateContent HTTP/1.1"
    assert reply.message.text == "Hello."


async def test_a_token_is_a_bearer(provider_at: Maker) -> None:
    async with OddServer(HELLO) as server:
        await provider_at(server.url, auth="bearer").complete(ASKED)

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "x-goog-api-key" not in server.requests[0].headers


@pytest.mark.parametrize("model", ["", ".", "..", "models/.."])
async def test_a_model_that_cannot_stand_in_a_path_is_refused(provider_at: Maker, model: str) -> None:
    error = await error_of(provider_at("http://127.0.0.1:1"), attrs.evolve(ASKED, model=model), stream=True)

    assert (error.kind, "in the path" in str(error)) == (Kind.BAD_REQUEST, True)


async def test_a_query_of_the_base_url_is_kept(provider_at: Maker) -> None:
    async with OddServer(HELLO) as server:
        await provider_at(f"{server.url}?tenant=7").complete(attrs.evolve(ASKED, model="models/a b"))

    assert server.requests[0].line == "POST /v1/models/a%20b:streamGenerateContent?tenant=7&alt=sse HTTP/1.1"


def test_the_default_key_is_the_one_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def key_of() -> Secret | None:
        (found,) = Gemini().provide_providers(ProvideEvent())
        assert isinstance(found, GenerateContent)
        return found.server.api_key

    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert repr(key_of()) == "Secret('env:GEMINI_API_KEY')"
    monkeypatch.setenv("GOOGLE_API_KEY", "a")
    assert repr(key_of()) == "Secret('env:GOOGLE_API_KEY')"
    monkeypatch.setenv("GEMINI_API_KEY", "b")
    assert repr(key_of()) == "Secret('env:GEMINI_API_KEY')"


async def test_models_are_listed_page_by_page(provider_at: Maker) -> None:
    first = {"name": "models/a", "displayName": "A", "inputTokenLimit": 7, "outputTokenLimit": 3, "thinking": True}
    pages = (json_answer({"models": [first], "nextPageToken": "t&2"}), json_answer({"models": [{"name": "models/b"}]}))
    async with OddServer(*pages) as server:
        found = await provider_at(server.url).list_models()

    assert found == [ModelInfo("a", "A", None, 7, 3, {"thinking": True}), ModelInfo("b")]
    assert [asked.line.split()[1] for asked in server.requests] == [
        "/v1/models?pageSize=1000", "/v1/models?pageSize=1000&pageToken=t%262",
    ]  # fmt: skip


# ---- replies in several answers ---------------------------------------------------------------


def part_of_it(words: str, token: str, made: int) -> bytes:
    more = event(text(words), ends="CONTINUATION", usage=counted(100, made), continuationToken=token)
    return sse(more)


async def test_a_long_reply_goes_on_in_further_answers_and_is_one(provider_at: Maker) -> None:
    last = sse(event(signed(text("c"), "eA=="), call(a=1), ends="STOP", usage=counted(100, 7)))
    answers = (stream_answer(part_of_it("a", "t1", 5)), stream_answer(part_of_it("b", "t2", 6)), stream_answer(last))
    request = attrs.evolve(ASKED, parameters=ModelParameters(max_output_tokens=99))
    async with OddServer(*answers) as server:
        deltas = await deltas_of(provider_at(server.url), request)

    first, *others = [asked.json for asked in server.requests]
    assert others == [{**first, "continuationToken": token} for token in ("t1", "t2")]
    assert [delta for delta in deltas if isinstance(delta, UsageDelta)][-1] == UsageDelta(Usage(input=200, output=11))
    (end,) = [delta for delta in deltas if isinstance(delta, Finished)]
    assert (end.reason, end.usage) == (FinishReason.TOOL_CALLS, Usage(input=300, output=18))


async def test_a_whole_reply_goes_on_too(provider_at: Maker) -> None:
    first = event(text("a"), ends="CONTINUATION", usage=counted(9, 1), continuationToken="t")
    last = event(text("b"), ends="STOP", usage=counted(9, 1))
    async with OddServer(json_answer(first), json_answer(last)) as server:
        reply = await provider_at(server.url, stream=False).complete(ASKED)

    assert (reply.message.content, reply.usage) == ((Text("ab"),), Usage(input=18, output=2))


async def test_an_answer_that_fails_on_the_way_keeps_what_came(provider_at: Maker) -> None:
    async with OddServer(stream_answer(part_of_it("a", "t1", 5)), json_answer({"error": {"code": 503}}, 503)) as server:
        found: list[Any] = []
        with pytest.raises(ProviderError) as caught:
            await _listen(provider_at(server.url), found)

    assert caught.value.kind is Kind.UNAVAILABLE
    assert "".join(delta.text for delta in found if hasattr(delta, "text")) == "a"
    assert not any(isinstance(delta, Finished) for delta in found)


async def _listen(provider: GenerateContent, found: list[Any]) -> None:
    async for batch in provider.stream(ASKED):
        found += batch


async def test_a_reply_without_an_end_is_an_error(provider_at: Maker) -> None:
    async with OddServer(*[stream_answer(part_of_it("a", "t", 1))] * 64) as server:
        error = await error_of(provider_at(server.url), ASKED, stream=True)

    assert (error.kind, len(server.requests)) == (Kind.PROTOCOL, 64)


async def test_a_reply_that_cannot_go_on_is_cut(provider_at: Maker) -> None:
    async with OddServer(stream_answer(sse(event(text("a"), ends="CONTINUATION")))) as server:
        reply = await provider_at(server.url).complete(ASKED)

    assert reply.finish_reason is FinishReason.LENGTH


# ---- Vertex AI --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "url"),
    [
        (Server(), "https://generativelanguage.googleapis.com/v1beta"),
        (
            Server(project="acme-7"),
            "https://aiplatform.googleapis.com/v1beta1/projects/acme-7/locations/global/publishers/google",
        ),
        (Server(base_url="http://127.0.0.1:8000", project="acme-7"), "http://127.0.0.1:8000"),
    ],
)
def test_requests_go_where_the_settings_say(server: Server, url: str) -> None:
    assert url_of(server) == url


def test_the_environment_may_say_where_the_gemini_api_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:8000/v1beta")

    found = [provider.target for provider in Gemini(Settings()).provide_providers(ProvideEvent())]
    given = [provider.target for provider in Gemini(Settings(project="acme-7")).provide_providers(ProvideEvent())]

    assert (found, given) == (["http://127.0.0.1:8000/v1beta"], [url_of(Server(project="acme-7"))])


@pytest.mark.parametrize("wrong", [{"project": "../x"}, {"location": "a/b"}, {"project": "A b"}])
def test_a_project_that_cannot_stand_in_a_url_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Server(**wrong)  # type: ignore[arg-type]


async def test_credentials_of_google_are_awaited_and_carried(
    provider_at: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def renew(tokens: GoogleTokens, _: object) -> None:
        tokens.token = Token("ya29-token-7f3a", 1e12, 0.0, "pays-7")

    monkeypatch.setattr(GoogleTokens, "renew", renew)
    async with OddServer(HELLO) as server:
        origin = server.url.removesuffix("/v1")
        await provider_at(f"{origin}{PROJECT}", auth="google", project="acme-7").complete(ASKED)

    (asked,) = server.requests
    assert asked.line == f"POST {PROJECT}/models/{MODEL}:streamGenerateContent?alt=sse HTTP/1.1"
    assert asked.headers["authorization"] == "Bearer ya29-token-7f3a"
    assert asked.headers["x-goog-user-project"] == "pays-7"


async def test_an_answer_that_follows_has_a_token_of_its_own(
    monkeypatch: pytest.MonkeyPatch, provider_at: Maker
) -> None:
    tokens_given = iter(("ya29-first-7f3a", "ya29-second-7f3a"))

    async def renew(tokens: GoogleTokens, _: object) -> None:
        tokens.token = Token(next(tokens_given), 1e12, 0.0)

    monkeypatch.setattr(GoogleTokens, "renew", renew)
    broken = json_answer({"error": {"code": 500, "message": "no ya29-second-7f3a"}}, 500)
    async with OddServer(stream_answer(part_of_it("a", "t1", 5)), broken) as server:
        error = await error_of(provider_at(server.url, auth="google", project="acme-7"), ASKED, stream=True)

    sent = [asked.headers["authorization"] for asked in server.requests]
    assert sent == ["Bearer ya29-first-7f3a", "Bearer ya29-second-7f3a"]
    assert "ya29" not in str(error)


@pytest.mark.parametrize(("age_s", "again"), [(3000.0, True), (0.0, False)])
async def test_a_token_that_is_refused_is_not_used_again(
    provider_at: Maker, monkeypatch: pytest.MonkeyPatch, age_s: float, *, again: bool
) -> None:
    async def renew(tokens: GoogleTokens, _: object) -> None:
        tokens.token = tokens.token or Token("ya29-token-7f3a", 1e12, monotonic() - age_s)

    monkeypatch.setattr(GoogleTokens, "renew", renew)
    refusal = {"error": {"code": 401, "message": "bad ya29-token-7f3a", "status": "UNAUTHENTICATED"}}
    async with OddServer(json_answer(refusal, 401)) as server:
        vertex = provider_at(server.url, auth="google", project="acme-7")
        error = await error_of(vertex, ASKED, stream=True)

    assert (error.kind, error.retryable) == (Kind.AUTHENTICATION, again)
    assert "ya29" not in str(error)
    tokens = vertex.access.identity
    assert isinstance(tokens, GoogleTokens)
    assert tokens.token is None


async def test_labels_are_for_vertex_alone(provider_at: Maker) -> None:
    request = attrs.evolve(ASKED, parameters=ModelParameters(metadata={"team": "a"}))
    async with OddServer(HELLO) as server:
        await provider_at(server.url, project="acme-7").complete(request)
        error = await error_of(provider_at(server.url), request, stream=True)

    assert server.requests[0].json["labels"] == {"team": "a"}
    assert "parameters.metadata" in str(error)


async def test_the_web_page_of_a_proxy_is_an_error(provider_at: Maker) -> None:
    async with OddServer(answer("<html>sign in</html>", kind="text/html")) as server:
        error = await error_of(provider_at(server.url), ASKED, stream=True)

    assert error.kind is Kind.PROTOCOL


async def test_the_words_of_the_system_stand_apart(provider_at: Maker) -> None:
    history = (Message.system("Be brief."), Message.user("hi"), Message.system("Be kind."), Message.user("go on"))
    async with OddServer(HELLO) as server:
        await provider_at(server.url).complete(attrs.evolve(ASKED, messages=history))

    sent = server.requests[0].json
    assert sent["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    said = [part["text"] for part in sent["contents"][0]["parts"]]
    assert said == ["hi", "<system>\nBe kind.\n</system>", "go on"]
