"""What a server echoes of headers and of the URL is not repeated."""

import asyncio

import httpx2
import pytest
from pluggent_hookspecs import Message, ModelRequest, ProviderError
from pluggent_openai.plugin import OpenAI
from pluggent_openai.settings import Settings

HEADER, QUERY = "sk-header0123456789", "sk-query0123456789"


async def echo(asked: httpx2.Request) -> httpx2.Response:
    word = asked.headers["authorization"].split()[1]
    return httpx2.Response(401, json={"error": {"message": f"wrong key {word} for {asked.url}"}})


def test_no_word_of_a_header_and_no_value_of_the_query_is_shown() -> None:
    settings = Settings(
        base_url=f"http://one.test/v1?key={QUERY}", api_key=None, headers={"Authorization": f"Bearer {HEADER}"}
    )
    plugin = OpenAI(settings, transport=httpx2.MockTransport(echo))
    (provider,) = plugin.provide_providers(None)  # type: ignore[arg-type] # the event is not looked at

    async def ask() -> None:
        async with plugin.open(None):  # type: ignore[arg-type] # nor is the context
            await provider.complete(ModelRequest("m", (Message.user("hi"),)))

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())

    assert "wrong key [secret]" in str(caught.value)
    assert HEADER not in str(caught.value)
    assert QUERY not in str(caught.value)
