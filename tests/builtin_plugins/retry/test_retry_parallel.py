"""The breaker of one host under many sessions at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
from pluggent_hookspecs import ProviderError
from pluggent_host import Host
from pluggent_host.session import Session
from pluggent_host.turns.result import TurnResult
from pluggent_retry.plugin import Retry
from pluggent_retry.settings import BreakerSettings
from retrying import Flaky, Time

SESSIONS = 50
BREAKER = BreakerSettings(failures=5, open_s=30.0)


@attrs.frozen(eq=False)
class Crowd:
    """A host with many sessions, all of which ask one provider."""

    sessions: tuple[Session, ...]
    flaky: Flaky
    time: Time

    def ask(self) -> "list[asyncio.Task[TurnResult]]":
        """Let every session say something, all at once."""
        return [asyncio.create_task(session.say("hello")) for session in self.sessions]

    async def asked(self) -> list[str]:
        """Let every session ask, and return what came of it: the text, or what was wrong."""
        async with asyncio.timeout(30):
            results = await asyncio.gather(*self.ask(), return_exceptions=True)
        return [result.text if isinstance(result, TurnResult) else str(result) for result in results]


@asynccontextmanager
async def crowd(attempts: int = 1) -> AsyncGenerator[Crowd]:
    time, flaky = Time(), Flaky()
    retry = Retry(Retry.Settings(attempts=attempts, breaker=BREAKER), clock=time.clock, draw=lambda: 0.5)
    async with (
        Host.open(model="flaky/m", plugins=[retry, flaky], installed=False) as host,
        AsyncExitStack() as stack,
    ):
        sessions = [await stack.enter_async_context(await host.session()) for _ in range(SESSIONS)]
        yield Crowd(tuple(sessions), flaky, time)


async def until_inside(flaky: Flaky, count: int) -> None:
    """Wait until *count* calls have been made, and everybody else has had a chance."""
    async with asyncio.timeout(10):
        while flaky.asked < count:
            flaky.arrived.clear()
            await flaky.arrived.wait()
    for _ in range(200):
        await asyncio.sleep(0)


async def test_one_call_at_a_time_tries_and_the_others_fail_fast() -> None:
    async with crowd() as all_of:
        await all_of.asked()
        opened = all_of.flaky.asked
        assert await all_of.asked() == [text for text in await all_of.asked() if "left alone" in text]
        assert all_of.flaky.asked == opened, "no request is made while it is open"

        all_of.time.passed_s += 30.0
        all_of.flaky.down, all_of.flaky.hold = False, asyncio.Event()
        running = all_of.ask()
        await until_inside(all_of.flaky, opened + 1)
        done = [task for task in running if task.done()]
        assert (all_of.flaky.inside, len(done)) == (1, SESSIONS - 1)
        assert all("one call is finding out" in str(task.exception()) for task in done)

        all_of.flaky.hold.set()
        results = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 10)
        assert sum(isinstance(result, TurnResult) for result in results) == 1
        assert await all_of.asked() == ["well"] * SESSIONS


async def test_a_trial_that_fails_shuts_it_for_as_long_again() -> None:
    async with crowd(attempts=4) as all_of:
        await all_of.asked()
        opened = all_of.flaky.asked
        all_of.time.passed_s += 30.0

        told = await all_of.asked()

        assert all_of.flaky.asked == opened + 1
        assert sum("not tried again" in text for text in told) == 1
        all_of.time.passed_s += 29.0
        assert all("left alone" in text for text in await all_of.asked())


async def test_a_trial_that_is_cancelled_lets_the_next_one_try() -> None:
    async with crowd() as all_of:
        await all_of.asked()
        opened = all_of.flaky.asked
        all_of.time.passed_s += 30.0
        all_of.flaky.hold = asyncio.Event()
        trial = asyncio.create_task(all_of.sessions[0].say("hello"))
        await until_inside(all_of.flaky, opened + 1)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(trial, 10)

        all_of.flaky.down, all_of.flaky.hold = False, None

        assert (await all_of.sessions[1].say("hello")).text == "well"
        assert await all_of.asked() == ["well"] * SESSIONS


async def test_a_break_of_some_seconds_is_left_to_the_back_off() -> None:
    async with crowd(attempts=4) as all_of:
        all_of.flaky.hold = asyncio.Event()
        running = all_of.ask()
        await until_inside(all_of.flaky, SESSIONS)

        all_of.flaky.hold.set()  # all of them fail once, at the same moment
        await asyncio.sleep(0)
        all_of.flaky.down = False
        results = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 10)

    texts = [result.text if isinstance(result, TurnResult) else str(result) for result in results]
    assert texts == ["well"] * SESSIONS


async def test_a_breaker_that_opens_while_calls_wait_ends_them_with_their_own_failure() -> None:
    async with crowd(attempts=4) as all_of:
        told = await all_of.asked()

    assert all(text.startswith("flaky: no; ") for text in told)
    assert all("not tried again: memory:flaky failed 5 calls" in text or "tried 4 times" in text for text in told)


async def test_a_call_that_hung_through_the_outage_does_not_open_it_again() -> None:
    async with crowd() as all_of:
        all_of.flaky.hold = hold = asyncio.Event()
        late = [asyncio.create_task(session.say("hello")) for session in all_of.sessions[:10]]
        await until_inside(all_of.flaky, 10)
        all_of.flaky.hold = None
        for session in all_of.sessions[10:16]:
            with pytest.raises(ProviderError):
                await session.say("hello")
        all_of.time.passed_s += 30.0
        all_of.flaky.down = False
        assert (await all_of.sessions[20].say("hello")).text == "well"

        all_of.flaky.down = True
        hold.set()
        results = await asyncio.wait_for(asyncio.gather(*late, return_exceptions=True), 10)
        assert all(isinstance(result, ProviderError) for result in results)
        all_of.flaky.down = False

        assert await all_of.asked() == ["well"] * SESSIONS
