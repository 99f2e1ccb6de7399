"""What every provider that runs requests in the background has to do, as tests to be inherited.

    class TestMine(TicketConformance):
        def make_vendor(self):
            return MyVendor()

        def make_provider(self, vendor):
            return opened(MyPlugin(base_url=vendor.url))

The vendor is a server of the suite's or a fake; it counts what is paid for. Each test runs a story in an event loop of
its own.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing
from typing import Any, Protocol, TypeAlias, cast

import attrs
import pytest
from pluggent_contract_values.as_json import from_json, to_json
from pluggent_hookspecs import (
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderError,
    RunsLater,
    SubmissionInDoubt,
    Ticket,
    collect,
)

__all__ = ["RunVendor", "TicketConformance"]

PATIENCE_S = 60.0
"""How long one story may take before it counts as hanging."""
REQUEST = ModelRequest("m", (Message.user("hello"),), parameters=ModelParameters(background=True))


class RunVendor(AbstractContextManager[Any], Protocol):
    """The vendor at the other end. What it is told holds for the next request, or stream, alone."""

    reply: ModelResponse
    """What it answers."""
    secret: str
    """The key that it is asked with."""

    @property
    def paid(self) -> int:
        """How many runs it has begun."""
        ...

    @property
    def cancelled(self) -> int:
        """How many runs were cancelled."""
        ...

    @property
    def events(self) -> int:
        """How many events a whole reply has; 0 where it has no streams."""
        ...

    def cut(self, *events: int) -> None:
        """End each of the next answers behind so many events."""
        ...

    def lose(self) -> None:
        """Take the next submission and hang up without an answer."""
        ...

    def refuse(self) -> None:
        """Refuse the next submission."""
        ...

    def forget(self) -> None:
        """Keep no run any more."""
        ...


def content(reply: ModelResponse) -> tuple[object, ...]:
    """Return what of *reply* every vendor can carry."""
    return reply.message.content, reply.message.tool_calls, reply.finish_reason


Story: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, None]]


class TicketConformance(ABC):
    """The promises of ``pluggent_hookspecs.RunsLater``. Inherit, and say how vendor and provider are made."""

    @abstractmethod
    def make_vendor(self) -> RunVendor:
        """Return the vendor of a test."""

    @abstractmethod
    def make_provider(self, vendor: Any) -> AbstractAsyncContextManager[Provider]:
        """Return what opens a provider that asks *vendor*, and closes it."""

    def told(self, story: Story) -> None:
        """Tell *story* of a provider and its vendor, in an event loop of its own."""

        async def tell() -> None:
            with self.make_vendor() as vendor:
                async with asyncio.timeout(PATIENCE_S), self.make_provider(vendor) as provider:
                    assert isinstance(provider, RunsLater)
                    await story(provider, vendor)

        asyncio.run(tell())

    # ---- the tests -----------------------------------------------------------------------

    def test_a_run_is_submitted_attached_to_and_paid_for_once(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            ticket = await provider.submit(REQUEST)
            reply = await collect(provider.attach(ticket, REQUEST))
            again = await collect(provider.attach(ticket, REQUEST))
            assert content(reply) == content(again) == content(vendor.reply)
            assert reply.usage == again.usage == vendor.reply.usage
            assert vendor.paid == 1

        self.told(story)

    def test_a_ticket_is_json_in_both_directions_and_holds_no_secret(self) -> None:
        async def story(provider: Any, vendor: RunVendor) -> None:
            ticket = await provider.submit(REQUEST)
            data = to_json(ticket)
            assert from_json(data, Ticket) == ticket
            assert vendor.secret not in data.decode() + repr(ticket)
            assert (ticket.provider, ticket.target, ticket.model) == (provider.name, provider.target, "m")

        self.told(story)

    def test_another_process_attaches_with_the_ticket_alone(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            ticket = from_json(to_json(await provider.submit(REQUEST)), Ticket)
            async with self.make_provider(vendor) as other:
                reply = await collect(cast("RunsLater", other).attach(ticket, REQUEST))
            assert content(reply) == content(vendor.reply)
            assert vendor.paid == 1

        self.told(story)

    def test_a_reply_goes_on_wherever_its_connection_was_lost(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            for place in range(1, vendor.events):
                vendor.cut(place)
                ticket = await provider.submit(REQUEST)
                vendor.cut(1, 0, 2)
                assert content(await collect(provider.attach(ticket, REQUEST))) == content(vendor.reply), place
            assert vendor.paid == max(0, vendor.events - 1)

        self.told(story)

    def test_leaving_a_reply_ends_nothing_at_the_vendor(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            ticket = await provider.submit(REQUEST)
            async with aclosing(provider.attach(ticket, REQUEST)) as batches:
                async for _ in batches:
                    break
            assert content(await collect(provider.attach(ticket, REQUEST))) == content(vendor.reply)
            assert (vendor.paid, vendor.cancelled) == (1, 0)

        self.told(story)

    def test_a_cancelled_run_is_over_and_cancelling_again_changes_nothing(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            ticket = await provider.submit(REQUEST)
            await provider.cancel(ticket)
            await provider.cancel(ticket)
            with pytest.raises(ProviderError) as caught:
                await collect(provider.attach(ticket, REQUEST))
            assert not caught.value.retryable
            assert vendor.cancelled

        self.told(story)

    def test_a_run_that_the_vendor_does_not_know_is_an_error_that_says_what_to_do(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            ticket = await provider.submit(REQUEST)
            vendor.forget()
            for each in (ticket, attrs.evolve(ticket, id="../run 7")):
                async with self.make_provider(vendor) as other:
                    with pytest.raises(ProviderError, match="ask again") as caught:
                        await collect(cast("RunsLater", other).attach(each, REQUEST))
                    assert not caught.value.retryable
                    await cast("RunsLater", other).cancel(each)

        self.told(story)

    def test_a_submission_without_an_answer_is_in_doubt_and_a_refused_one_is_not(self) -> None:
        async def story(provider: RunsLater, vendor: RunVendor) -> None:
            vendor.lose()
            with pytest.raises(SubmissionInDoubt):
                await provider.submit(REQUEST)
            assert vendor.paid == 1
            vendor.refuse()
            with pytest.raises(ProviderError) as caught:
                await provider.submit(REQUEST)
            assert not isinstance(caught.value, SubmissionInDoubt)
            assert vendor.paid == 1

        self.told(story)
