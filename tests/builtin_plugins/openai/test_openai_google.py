"""OpenAI's APIs with a token of Google in place of a key, as at Vertex AI."""

from __future__ import annotations

from time import monotonic

import pytest
from pluggent_hookspecs import (
    EmbeddingRequest,
    Message,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    ProviderErrorKind as Kind,
)
from pluggent_openai.embedder import OpenAIEmbedder
from pluggent_openai.plugin import OpenAI, OpenAIEmbedders
from pluggent_openai.provider import OpenAIProvider
from pluggent_provider_http.google.credentials import GoogleTokens, Token
from pluggent_testing.wires import OpenAIWire, WireServer
from pluggent_testing.wires.http_server import answer

ASKED = ModelRequest("google/gemini-3", (Message.user("hi"),))


async def test_requests_carry_a_token_that_is_renewed_once_it_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    async def renew(tokens: GoogleTokens, _: object) -> None:
        if tokens.token is None:
            made.append(f"ya29-token-{len(made)}")
            tokens.token = Token(made[-1], 1e12, monotonic() - 3000)

    monkeypatch.setattr(GoogleTokens, "renew", renew)
    with WireServer(OpenAIWire(), 10.0, 1_000_000) as server:
        settings = OpenAI.Settings(base_url=server.url, auth="google")
        (provider,) = OpenAI(settings).provide_providers(ProvideEvent())
        (embedder,) = OpenAIEmbedders(settings).provide_embedders(ProvideEvent())
        assert isinstance(provider, OpenAIProvider)
        assert isinstance(embedder, OpenAIEmbedder)
        await provider.complete(ASKED)
        server.will(answer(b'{"error": {"code": 401, "message": "bad ya29-token-0"}}', 401))
        with pytest.raises(ProviderError) as caught:
            await provider.complete(ASKED)
        await provider.complete(ASKED)
        server.will(answer(b'{"data": [{"index": 0, "embedding": [1.0]}]}'))
        await embedder.embed(EmbeddingRequest("e", ("hi",)))
        await provider.close()
        await embedder.close()

    assert [asked.headers["authorization"].rpartition("-")[2] for asked in server.requests] == ["0", "0", "1", "2"]
    assert (caught.value.kind, caught.value.retryable) == (Kind.AUTHENTICATION, True)
    assert "ya29" not in str(caught.value)
    assert "check the credentials of Google" in str(caught.value)
