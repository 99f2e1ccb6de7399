"""Batches of messages: limits that are refused by name, and a batch that is known by its results alone."""

from contextlib import asynccontextmanager

import attrs
import pluggent_anthropic.batches
import pytest
from pluggent_anthropic.provider import Messages
from pluggent_anthropic.settings import Server
from pluggent_hookspecs import ModelParameters, ProviderError, Secret
from pluggent_testing.later.batch_servers import SECRET, AnthropicBatchServer
from pluggent_testing.later.batches import REQUESTS, BatchConformance


@asynccontextmanager
async def asking(vendor, **settings):
    known = {"base_url": vendor.url(), "api_key": Secret("env:ANTHROPIC_BATCH_KEY")}
    provider = Messages("anthropic", Server(**known | settings))
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BATCH_KEY", SECRET)


class TestAnthropicBatches(BatchConformance):
    def make_vendor(self):
        return AnthropicBatchServer()

    def make_provider(self, vendor):
        return asking(vendor)


async def test_what_is_too_much_for_one_batch_is_refused_by_name_before_anything_is_sent(monkeypatch):
    background = attrs.evolve(REQUESTS["one"], parameters=ModelParameters(background=True))
    monkeypatch.setattr(pluggent_anthropic.batches, "MOST_BYTES", 300)
    with AnthropicBatchServer() as vendor:
        async with asking(vendor) as provider:
            for requests, problem in (
                (
                    dict.fromkeys(map(str, range(100_001)), REQUESTS["one"]),
                    "100,001 requests are more than the 100,000",
                ),
                (REQUESTS, "have more than 300 bytes; make two batches of it"),
                ({"a": background}, "leave out background"),
            ):
                with pytest.raises(ProviderError, match=problem):
                    await provider.submit_batch(requests, "k")
        assert vendor.paid == 0


async def test_a_batch_that_runs_and_may_be_the_one_is_named():
    with AnthropicBatchServer() as vendor:
        async with asking(vendor) as provider:
            await provider.submit_batch(REQUESTS, "k")
            with pytest.raises(ProviderError, match=r"msgbatch_1; wait until they have ended"):
                await provider.find_batch("k", REQUESTS, 0.0)
            assert await provider.find_batch("k", {"one": REQUESTS["one"]}, 0.0) is None
