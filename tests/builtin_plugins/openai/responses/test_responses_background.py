"""Replies in the background: streamed again from where they broke off, polled, queued, refused by name."""

from contextlib import asynccontextmanager

import attrs
import pytest
from pluggent_hookspecs import Message, ModelParameters, ModelRequest, ProviderError, ProviderErrorKind, Secret, collect
from pluggent_openai.provider import OpenAIProvider
from pluggent_openai.settings import Server
from pluggent_testing.later.responses_server import ResponsesVendor
from pluggent_testing.later.tickets import REQUEST, TicketConformance, content


@asynccontextmanager
async def asking(vendor, **settings):
    key = {"api_key": Secret("env:OPENAI_BACKGROUND_KEY"), "compat": {"like": "openai"}, "api": "responses"}
    provider = OpenAIProvider("openai", Server(**{"base_url": vendor.url(), **key, **settings}))
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_BACKGROUND_KEY", ResponsesVendor.secret)


class TestResponsesBackground(TicketConformance):
    def make_vendor(self):
        return ResponsesVendor()

    def make_provider(self, vendor):
        return asking(vendor)


class PolledVendor(ResponsesVendor):
    """A server without streams, whose replies are whole when they were asked about twice."""

    def __init__(self):
        super().__init__()
        self.account.plain = 3

    def cut(self, *events):
        """There are no streams."""


class TestResponsesPolled(TicketConformance):
    def make_vendor(self):
        return PolledVendor()

    def make_provider(self, vendor):
        return asking(vendor)


async def test_a_reply_that_is_never_begun_is_told_within_its_time_and_may_be_looked_at_again():
    for plain in (0, 3):
        with ResponsesVendor() as vendor:
            vendor.account.queued, vendor.account.plain = True, plain
            async with asking(vendor, queued_s=0.05, silence_s=0.1) as provider:
                ticket = await provider.submit(REQUEST)

                with pytest.raises(ProviderError, match="still queued: look again later, or cancel it") as caught:
                    await collect(provider.attach(ticket, REQUEST))

                assert (caught.value.kind, caught.value.retryable) == (ProviderErrorKind.TIMEOUT, True)
                vendor.account.queued = False
                vendor.account.plain = min(plain, 1)
                assert content(await collect(provider.attach(ticket, REQUEST))) == content(vendor.reply)


async def test_a_missing_event_is_made_good_by_the_whole_item_at_the_end():
    with ResponsesVendor() as vendor:
        vendor.account.gap = 5
        async with asking(vendor) as provider:
            ticket = await provider.submit(REQUEST)
            assert content(await collect(provider.attach(ticket, REQUEST))) == content(vendor.reply)


async def test_a_server_that_is_away_for_long_leaves_the_run_to_be_attached_to_later():
    with ResponsesVendor() as vendor:
        async with asking(vendor) as provider:
            vendor.cut(2)
            ticket = await provider.submit(REQUEST)
            vendor.account.status = 503
            with pytest.raises(ProviderError) as caught:
                await collect(provider.attach(ticket, REQUEST))
            assert caught.value.retryable
            vendor.account.status = 0
            assert content(await collect(provider.attach(ticket, REQUEST))) == content(vendor.reply)
    assert vendor.paid == 1


async def test_what_cannot_run_in_the_background_is_refused_before_it_is_sent():
    unstored = attrs.evolve(REQUEST, parameters=ModelParameters(background=True, extra={"store": False}))
    for request, settings, problem in (
        (REQUEST, {"api": "chat"}, "through chat completions; see the setting api"),
        (REQUEST, {"compat": {}}, r"compat = \{ background = true \}"),
        (unstored, {}, "leave out 'store'"),
    ):
        with ResponsesVendor() as vendor:
            async with asking(vendor, **settings) as provider:
                with pytest.raises(ProviderError, match=problem):
                    await provider.submit(request)
            assert vendor.requests == []


async def test_a_request_in_the_background_is_not_asked_like_others():
    request = ModelRequest("m", (Message.user("hi"),), parameters=ModelParameters(background=True))
    with ResponsesVendor() as vendor:
        for api in ("responses", "chat"):
            async with asking(vendor, api=api) as provider:
                with pytest.raises(ProviderError, match="such a request is submitted"):
                    await provider.complete(request)
                with pytest.raises(ProviderError, match="such a request is submitted"):
                    await collect(provider.stream(request))
