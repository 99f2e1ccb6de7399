"""Explicit caches: the beginning of requests is kept under a name, and paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from gemini_server import MODEL, event, sse, text
from odd_server import OddServer, deltas_of, json_answer, stream_answer
from pluggent_gemini.generate.provider import GenerateContent
from pluggent_gemini.plugin import Gemini
from pluggent_gemini.settings import Settings
from pluggent_hookspecs import (
    Finished,
    Message,
    ModelParameters,
    ModelRequest,
    ProvideEvent,
    ProviderError,
    Secret,
    Usage,
)
from pluggent_testing.providers.asking import TOOLS

HELLO = stream_answer(sse(event(text("Hello."), ends="STOP", usage={"promptTokenCount": 9, "candidatesTokenCount": 1})))
MADE = json_answer({"name": "cachedContents/c-1", "usageMetadata": {"totalTokenCount": 5000}})
ASKED = ModelRequest(MODEL, (Message.system("Be brief."), Message.user("hi")), TOOLS)


@asynccontextmanager
async def asking(server: OddServer, **settings: Any) -> AsyncIterator[GenerateContent]:
    given = {"base_url": server.url, "api_key": Secret.of("key-7f3a-0123"), "cache_ttl_s": 300.0, **settings}
    (found,) = Gemini(Settings(**given)).provide_providers(ProvideEvent())
    assert isinstance(found, GenerateContent)
    try:
        yield found
    finally:
        await found.close()


async def end_of(provider: GenerateContent, asked: ModelRequest = ASKED) -> Finished:
    (end,) = [delta for delta in await deltas_of(provider, asked) if isinstance(delta, Finished)]
    return end


async def test_the_beginning_of_requests_is_kept_and_named_instead() -> None:
    async with OddServer(MADE, HELLO, HELLO) as server, asking(server) as provider:
        first = await end_of(provider)
        again = await end_of(provider, attrs.evolve(ASKED, messages=(*ASKED.messages, Message.user("more"))))

    lines = [request.line.split()[1].partition("?")[0] for request in server.requests]
    assert lines == ["/v1/cachedContents", *[f"/v1/models/{MODEL}:streamGenerateContent"] * 2]
    made, sent, _ = [request.json for request in server.requests]
    assert (made["model"], made["ttl"]) == (f"models/{MODEL}", "300s")
    assert made["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert [tool["name"] for tool in made["tools"][0]["functionDeclarations"]] == [tool.name for tool in TOOLS]
    assert (sent["cachedContent"], {"tools", "systemInstruction", "toolConfig"} & set(sent)) == (
        "cachedContents/c-1",
        set(),
    )
    assert (first.usage, again.usage) == (Usage(input=5009, output=1, cache_write=5000), Usage(input=9, output=1))


async def test_at_vertex_a_cache_belongs_to_the_project() -> None:
    place = "/v1beta1/projects/acme-7/locations/global"
    async with OddServer(MADE, HELLO) as server:
        base_url = server.url.removesuffix("/v1") + f"{place}/publishers/google"
        async with asking(server, base_url=base_url, project="acme-7") as provider:
            await end_of(provider)

    made, sent = server.requests
    assert made.line == f"POST {place}/cachedContents HTTP/1.1"
    assert made.json["model"] == f"projects/acme-7/locations/global/publishers/google/models/{MODEL}"
    assert sent.line.startswith(f"POST {place}/publishers/google/models/{MODEL}:streamGenerateContent")


async def test_requests_at_once_keep_one_beginning() -> None:
    async with OddServer(MADE, HELLO) as server, asking(server) as provider:
        server._answers += [HELLO] * 4  # noqa: SLF001 (as many as there are requests)
        await asyncio.gather(*(end_of(provider) for _ in range(5)))

    assert sum("cachedContents " in request.line for request in server.requests) == 1


@pytest.mark.parametrize(("settings", "model"), [({"cache_ttl_s": 0.0}, MODEL), ({}, "gemini-4-argon")])
async def test_nothing_is_kept_where_that_is_not_wanted_or_not_possible(settings: dict[str, Any], model: str) -> None:
    async with OddServer(HELLO) as server, asking(server, **settings) as provider:
        await end_of(provider, attrs.evolve(ASKED, model=model))

    assert "tools" in server.requests[0].json


async def test_what_the_vendor_does_not_keep_is_sent_as_ever_and_the_meta_says_why() -> None:
    small = json_answer({"error": {"code": 400, "message": "Cached content is too small.", "status": "X"}}, 400)
    async with OddServer(small, HELLO, HELLO) as server, asking(server) as provider:
        first, again = await end_of(provider), await end_of(provider)

    assert [("tools" in request.json, "cachedContent" in request.json) for request in server.requests[1:]] == [
        (True, False), (True, False),
    ]  # fmt: skip
    assert "Cached content is too small." in first.meta.notes[0]
    assert again.meta.notes == first.meta.notes


async def test_a_cache_that_is_gone_is_made_again_with_the_next_try() -> None:
    gone = json_answer({"error": {"code": 403, "message": "CachedContent not found (or permission denied)"}}, 403)
    async with OddServer(MADE, gone, MADE, HELLO) as server, asking(server) as provider:
        with pytest.raises(ProviderError) as caught:
            await end_of(provider)
        await end_of(provider)

    assert caught.value.retryable
    assert sum("cachedContents " in request.line for request in server.requests) == 2


@pytest.mark.parametrize(
    ("wish", "ttl"), [("5m", "300s"), ("1h", "3600s"), ("90s", "90s"), ("auto", None), ("off", None)]
)
async def test_a_request_may_choose_for_how_long(wish: str, ttl: str | None) -> None:
    asked = attrs.evolve(ASKED, parameters=ModelParameters(cache=wish))
    async with OddServer(*((MADE, HELLO) if ttl else (HELLO,))) as server, asking(server, cache_ttl_s=0.0) as provider:
        await end_of(provider, asked)

    assert server.requests[0].json.get("ttl") == ttl


async def test_a_request_may_do_without_a_cache() -> None:
    async with OddServer(HELLO) as server, asking(server) as provider:
        await end_of(provider, attrs.evolve(ASKED, parameters=ModelParameters(cache="off")))

    assert "tools" in server.requests[0].json


@pytest.mark.parametrize("wish", ["5", "10s", "a day", "", "-5m"])
async def test_a_time_that_is_none_is_refused(wish: str) -> None:
    async with OddServer() as server, asking(server) as provider:
        with pytest.raises(ProviderError, match=r"parameters\.cache: expected off, auto, or a time such as 90s"):
            await end_of(provider, attrs.evolve(ASKED, parameters=ModelParameters(cache=wish)))


def test_too_short_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="cache_ttl_s: expected 0, or 60 and more"):
        Settings(cache_ttl_s=10)
