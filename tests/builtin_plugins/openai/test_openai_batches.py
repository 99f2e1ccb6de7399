"""Batches at OpenAI: limits that are refused by name, results of both files, lines that are damaged."""

from contextlib import asynccontextmanager
from typing import Any

import attrs
import pluggent_openai.batches
import pytest
from pluggent_hookspecs import Message, ModelParameters, ModelRequest, ProviderError, Secret
from pluggent_openai.provider import OpenAIProvider
from pluggent_openai.settings import Server
from pluggent_testing.later.batch_servers import SECRET, OpenAIBatchServer
from pluggent_testing.later.batches import REQUESTS, BatchConformance, read


@asynccontextmanager
async def asking(vendor, **settings):
    known = {"base_url": vendor.url(), "api_key": Secret("env:OPENAI_BATCH_KEY"), "api": "responses"}
    provider = OpenAIProvider("openai", Server(**known | settings))
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_BATCH_KEY", SECRET)


class TestOpenAIBatches(BatchConformance):
    def make_vendor(self) -> Any:
        return OpenAIBatchServer()

    def make_provider(self, vendor):
        return asking(vendor)


async def test_chat_completions_are_sent_as_a_batch_too():
    with OpenAIBatchServer() as vendor:
        async with asking(vendor, api="chat") as provider:
            ticket = await provider.submit_batch(REQUESTS, "k")
            vendor.end()
            found = await read(provider, ticket, REQUESTS)
    assert {id: result.response and result.response.message.text for id, result in found.items()} == {
        id: id for id in REQUESTS
    }


async def test_what_is_too_much_for_one_batch_is_refused_by_name_before_anything_is_sent(monkeypatch):
    background = attrs.evolve(REQUESTS["one"], parameters=ModelParameters(background=True))
    seeded = ModelRequest("m", (Message.user("x"),), parameters=ModelParameters(seed=1))
    mixed = {"a": REQUESTS["one"], "b": seeded}
    monkeypatch.setattr(pluggent_openai.batches, "MOST_BYTES", 400)
    with OpenAIBatchServer() as vendor:
        async with asking(vendor, api="auto", compat={"like": "openai"}) as provider:
            for requests, problem in (
                (dict.fromkeys(map(str, range(50_001)), REQUESTS["one"]), "50,001 requests are more than the 50,000"),
                (REQUESTS, "up to 'three-3_x' have more than the 400 bytes of a batch; make two of it"),
                ({"a": background}, "leave out background"),
            ):
                with pytest.raises(ProviderError, match=problem):
                    await provider.submit_batch(requests, "k")
        async with asking(vendor, apis={"r": "responses"}, api="chat") as provider:
            mixed = {"a": REQUESTS["one"], "b": ModelRequest("r", REQUESTS["one"].messages)}
            with pytest.raises(ProviderError, match="'a' is for /v1/chat/completions and 'b' for /v1/responses"):
                await provider.submit_batch(mixed, "k")
        assert vendor.account.files == {}


async def test_a_line_that_is_no_result_is_an_error_that_shows_it(monkeypatch):
    with OpenAIBatchServer() as vendor:
        monkeypatch.setattr(vendor, "_lines", lambda _, **__: [b'{"custom_id": "one", "resp'])
        async with asking(vendor) as provider:
            ticket = await provider.submit_batch(REQUESTS, "k")
            vendor.end()
            with pytest.raises(ProviderError, match=r"no result: .*\"resp"):
                await read(provider, ticket, REQUESTS)
