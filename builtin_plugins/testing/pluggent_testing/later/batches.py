"""What every provider that sends batches has to do, as tests to be inherited.

    class TestMine(BatchConformance):
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
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from time import time
from typing import Any, Protocol, TypeAlias, cast

import attrs
import pytest
from pluggent_contract_values.as_json import from_json, to_json
from pluggent_hookspecs import (
    Batches,
    BatchResult,
    BatchTicket,
    Message,
    ModelParameters,
    ModelRequest,
    Provider,
    ProviderError,
    SubmissionInDoubt,
)

__all__ = ["BatchConformance", "BatchVendor"]

PATIENCE_S = 60.0
"""How long one story may take before it counts as hanging."""
REQUESTS: Mapping[str, ModelRequest] = {
    name: ModelRequest("m", (Message.user(f"say {name}"),), parameters=ModelParameters(max_output_tokens=100))
    for name in ("one", "two", "three-3_x")
}


class BatchVendor(AbstractContextManager[Any], Protocol):
    """The vendor at the other end. It answers ``say X`` with ``X``, and refuses what says ``fail``."""

    secret: str
    """The key that it is asked with."""
    finds: bool
    """Whether a batch that has not ended can be told from others."""

    @property
    def paid(self) -> int:
        """How many batches it has begun."""
        ...

    @property
    def cancelled(self) -> int:
        """How many batches were cancelled."""
        ...

    def lose(self) -> None:
        """Take the next batch and hang up without an answer."""
        ...

    def refuse(self) -> None:
        """Refuse every request."""
        ...

    def end(self) -> None:
        """End every batch."""
        ...


Story: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, None]]


class BatchConformance(ABC):
    """The promises of ``pluggent_hookspecs.Batches``. Inherit, and say how vendor and provider are made."""

    @abstractmethod
    def make_vendor(self) -> BatchVendor:
        """Return the vendor of a test."""

    @abstractmethod
    def make_provider(self, vendor: Any) -> AbstractAsyncContextManager[Provider]:
        """Return what opens a provider that asks *vendor*, and closes it."""

    def told(self, story: Story) -> None:
        """Tell *story* of a provider and its vendor, in an event loop of its own."""

        async def tell() -> None:
            with self.make_vendor() as vendor:
                async with asyncio.timeout(PATIENCE_S), self.make_provider(vendor) as provider:
                    assert isinstance(provider, Batches)
                    await story(provider, vendor)

        asyncio.run(tell())

    # ---- the tests -----------------------------------------------------------------------

    def test_every_request_has_its_result_under_its_id_and_a_refused_one_is_an_error(self) -> None:
        async def story(provider: Batches, vendor: BatchVendor) -> None:
            requests = {**REQUESTS, "bad": ModelRequest("m", (Message.user("fail"),), parameters=PARAMETERS)}
            ticket = await provider.submit_batch(requests, "k1")
            vendor.end()
            state = await provider.batch_state(ticket)
            found = await read(provider, ticket, requests)
            assert state.ended
            assert {id: result.outcome for id, result in found.items()} == {
                **dict.fromkeys(REQUESTS, "done"),
                "bad": "failed",
            }
            for id in REQUESTS:
                response = found[id].response
                assert response is not None
                assert response.message.text == id
                assert response.usage.total > 0
            assert found["bad"].message
            assert vendor.paid == 1

        self.told(story)

    def test_results_are_read_again_by_another_process_with_the_ticket_alone(self) -> None:
        async def story(provider: Any, vendor: BatchVendor) -> None:
            ticket = await provider.submit_batch(REQUESTS, "k1")
            vendor.end()
            data = to_json(ticket)
            assert vendor.secret not in data.decode() + repr(ticket)
            assert (ticket.provider, ticket.target, ticket.key) == (provider.name, provider.target, "k1")
            async with self.make_provider(vendor) as other:
                again = await read(cast("Batches", other), from_json(data, BatchTicket), REQUESTS)
            assert again == await read(provider, ticket, REQUESTS)
            assert vendor.paid == 1

        self.told(story)

    def test_a_batch_that_runs_has_not_ended_and_shows_no_result_that_is_none(self) -> None:
        async def story(provider: Batches, _: BatchVendor) -> None:
            ticket = await provider.submit_batch(REQUESTS, "k1")
            assert not (await provider.batch_state(ticket)).ended
            early = await read(provider, ticket, REQUESTS)
            assert all(result.outcome == "done" for result in early.values())

        self.told(story)

    def test_a_batch_is_found_by_its_key_and_none_that_was_not_sent(self) -> None:
        async def story(provider: Batches, vendor: BatchVendor) -> None:
            began = time()
            assert await provider.find_batch("k1", REQUESTS, began) is None
            await provider.submit_batch(REQUESTS, "k0")
            vendor.lose()
            with pytest.raises(SubmissionInDoubt):
                await provider.submit_batch(REQUESTS, "k1")
            paid = vendor.paid
            if not vendor.finds:
                with pytest.raises(SubmissionInDoubt):
                    await provider.find_batch("k1", REQUESTS, began)
            vendor.end()
            ticket = await provider.find_batch("k1", REQUESTS, began)
            assert ticket is not None
            assert ticket.key == "k1"
            assert set(await read(provider, ticket, REQUESTS)) == set(REQUESTS)
            assert vendor.paid == paid

        self.told(story)

    def test_a_refused_batch_is_no_doubt(self) -> None:
        async def story(provider: Batches, vendor: BatchVendor) -> None:
            vendor.refuse()
            with pytest.raises(ProviderError) as caught:
                await provider.submit_batch(REQUESTS, "k1")
            assert not isinstance(caught.value, SubmissionInDoubt)
            assert vendor.paid == 0

        self.told(story)

    def test_a_cancelled_batch_has_a_result_for_every_request(self) -> None:
        async def story(provider: Batches, vendor: BatchVendor) -> None:
            ticket = await provider.submit_batch(REQUESTS, "k1")
            await provider.cancel_batch(ticket)
            await provider.cancel_batch(ticket)
            assert vendor.cancelled
            assert (await provider.batch_state(ticket)).ended
            found = await read(provider, ticket, REQUESTS)
            assert {result.outcome for result in found.values()} == {"cancelled"}
            assert set(found) == set(REQUESTS)

        self.told(story)

    def test_a_batch_that_the_vendor_does_not_know_is_an_error_that_says_what_to_do(self) -> None:
        async def story(provider: Batches, _: BatchVendor) -> None:
            ticket = attrs.evolve(await provider.submit_batch(REQUESTS, "k1"), id="no/such batch")
            for asked in (provider.batch_state(ticket), read(provider, ticket, REQUESTS)):
                with pytest.raises(ProviderError, match="submit it again") as caught:
                    await asked
                assert not caught.value.retryable

        self.told(story)


PARAMETERS = ModelParameters(max_output_tokens=100)


async def read(provider: Batches, ticket: BatchTicket, requests: Mapping[str, ModelRequest]) -> dict[str, BatchResult]:
    """Return all results by their ids; an id that comes twice fails the test."""
    found: dict[str, BatchResult] = {}
    async for page in provider.batch_results(ticket, requests):
        for result in page:
            assert result.id not in found
            found[result.id] = result
    return found
