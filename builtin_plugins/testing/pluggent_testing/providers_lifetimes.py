"""What a provider promises about time: side by side, given up, cancelled, in another event loop."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from pluggent_hookspecs import ModelResponse, Provider

from pluggent_testing.providers_asking import (
    Ask,
    Tell,
    both,
    new_tasks,
    no_more_sockets_than,
    provided,
    sockets,
    streamed,
    tasks,
    whole,
)
from pluggent_testing.providers_suite import Maker, Suite
from pluggent_testing.providers_values import calls_of, check_reply

MANY = 24
TURNS_OF_THE_LOOP = (0, 1, 2, 3, 5, 8, 20)
"""When a call is cancelled: after so many turns of the event loop."""


class Lifetimes(Suite):
    """Nothing is mixed up, nothing is left behind."""

    @both
    def test_requests_side_by_side_are_not_mixed_up(self, told: Tell, ask: Ask) -> None:
        wanted = [("weather", {"city": f"Town {number}"}) for number in range(MANY)]
        requests = [self.request_for_calls([each]) for each in wanted]

        async def story(provider: Provider) -> None:
            replies = await asyncio.gather(*(ask(provider, request) for request in requests))
            assert [calls_of(reply) for reply in replies] == [[each] for each in wanted]

        told(story)

    def test_whole_and_streamed_requests_run_side_by_side(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            asks = (whole, streamed) * 4
            for reply in await asyncio.gather(*(ask(provider, self.request()) for ask in asks)):
                check_reply(reply)

        told(story)

    @both
    def test_a_call_leaves_no_task_behind(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await ask(provider, self.request())
            before = tasks()
            await ask(provider, self.request())
            assert await new_tasks(before) == []

        told(story)

    def test_a_closed_provider_leaves_no_task_behind(self, maker: Maker) -> None:
        async def story() -> None:
            before = tasks()
            async with provided(maker()) as provider:
                await provider.complete(self.request())
                await streamed(provider, self.request())
            assert await new_tasks(before) == []

        asyncio.run(asyncio.wait_for(story(), self.limit_s))

    def test_a_stream_that_is_closed_early_leaves_nothing_behind(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            await streamed(provider, self.request())
            before, open_before = tasks(), sockets()
            for batches in (0, 1, 2):
                stream = provider.stream(self.request())
                for _ in range(batches):
                    await anext(stream, None)
                await stream.aclose()
            assert await new_tasks(before) == []
            assert await no_more_sockets_than(open_before), "a stream that was closed has left its socket open"
            check_reply(await streamed(provider, self.request()))

        told(story)

    def test_a_stream_can_be_closed_twice(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            stream = provider.stream(self.request())
            await anext(stream)
            await stream.aclose()
            await stream.aclose()

        told(story)

    @both
    def test_a_cancelled_call_is_cancelled_and_leaves_nothing_behind(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await ask(provider, self.request())
            before, open_before = tasks(), sockets()
            for turns in TURNS_OF_THE_LOOP:
                await cancelled_after(turns, provider, ask, self)
            assert await new_tasks(before) == []
            assert await no_more_sockets_than(open_before), "a call that was cancelled has left its socket open"
            check_reply(await ask(provider, self.request()))

        told(story)

    def test_a_provider_works_in_a_second_event_loop(self, maker: Maker) -> None:
        if not self.many_loops:
            pytest.skip("this provider belongs to one event loop")
        made = maker()

        async def story() -> None:
            async with provided(made) as provider:
                for ask in (whole, streamed):
                    check_reply(await asyncio.wait_for(ask(provider, self.request()), self.limit_s))

        asyncio.run(story())
        if asyncio.iscoroutine(made):
            pytest.skip("make_provider is async: each loop gets a provider of its own")
        asyncio.run(story())


async def cancelled_after(turns: int, provider: Provider, ask: Ask, suite: Suite) -> None:
    """Cancel a call after some turns of the loop; fail if it does not take note of that."""

    async def run() -> ModelResponse:
        return await ask(provider, suite.request())

    call = asyncio.create_task(run())
    for _ in range(turns):
        await asyncio.sleep(0)
    if not call.cancel():
        await call
        return
    with contextlib.suppress(asyncio.CancelledError):
        await call
    assert call.cancelled(), f"a call that was cancelled after {turns} turns of the loop has not ended so"
