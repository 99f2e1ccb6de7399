"""How one implementation is called: whatever it does comes back as a value, in time."""

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pluggent_host.common.running import being_cancelled
from pluggent_host.common.threads import Threads
from pluggent_host.hooks.caller import Answer, Caller, Late
from pluggent_host.hooks.chains import Impl

SOON_S = 0.05
LATE = "was too late"


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    threads = Threads(name="calling")
    caller = Caller(threads)
    yield caller
    await caller.close(1)
    threads.close()


def impl(function: Callable[..., Any], **more: Any) -> Impl:
    return Impl("acme", function, is_async=asyncio.iscoroutinefunction(function), **more)


async def answer(caller: Caller, function: Callable[..., Any], within_s: float = 5.0, **more: Any) -> Answer:
    return await caller.call(impl(function, **more), "event", time.perf_counter() + within_s)


async def test_the_value_of_a_sync_async_or_blocking_implementation_comes_back(caller: Caller) -> None:
    def sync(event: str) -> str:
        return event

    async def eager(event: str) -> str:
        return event

    async def waits(event: str) -> str:
        await asyncio.sleep(0)
        return event

    found = [await answer(caller, sync), await answer(caller, eager), await answer(caller, waits)]
    found.append(await answer(caller, sync, blocking=True))

    assert [(item.value, item.problem) for item in found] == [("event", "")] * 4


async def test_a_sync_implementation_that_has_no_opinion_costs_no_trip_through_the_loop(caller: Caller) -> None:
    went_round = []
    asyncio.get_running_loop().call_soon(went_round.append, 1)

    found = await answer(caller, lambda _: None)

    assert (found.value, found.problem, went_round) == (None, "", [])


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("broken"),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopAsyncIteration(),
        Late(),
        UnprintableError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("form", ["sync", "async", "waiting", "blocking"])
async def test_whatever_is_raised_becomes_a_problem(error: BaseException, form: str, caller: Caller) -> None:
    def sync(event: object) -> None:
        raise error

    async def eager(event: object) -> None:
        raise error

    async def waiting(event: object) -> None:
        await asyncio.sleep(0)
        raise error

    function = {"sync": sync, "blocking": sync, "async": eager, "waiting": waiting}[form]

    found = await answer(caller, function, blocking=form == "blocking")

    assert found.value is None
    assert found.problem
    assert not being_cancelled()


async def test_a_problem_names_the_error_and_its_text(caller: Caller) -> None:
    def fail(event: object) -> None:
        raise ValueError("no such rule")

    assert (await answer(caller, fail)).problem == "raised ValueError: no such rule"


async def test_an_awaitable_from_a_sync_implementation_is_awaited(caller: Caller) -> None:
    class Awaitable:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "waited"

    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("future")

    assert (await answer(caller, lambda _: Awaitable())).value == "waited"
    assert (await answer(caller, lambda _: future)).value == "future"


async def test_what_waits_for_ever_is_given_up_at_the_deadline(caller: Caller) -> None:
    ended = asyncio.Event()

    async def hang(event: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    started = time.perf_counter()
    found = await answer(caller, hang, SOON_S)

    assert found.problem == LATE
    assert time.perf_counter() - started < 1
    async with asyncio.timeout(1):
        await ended.wait()  # it was cancelled, not forgotten


async def test_what_swallows_its_cancellation_holds_nobody_up_and_its_answer_does_not_count(caller: Caller) -> None:
    async def stubborn(event: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "consent"
        return "never"

    found = await answer(caller, stubborn, SOON_S)

    assert (found.value, found.problem) == (None, LATE)


async def test_a_sync_implementation_that_returns_too_late_is_late(caller: Caller) -> None:
    def slow(event: object) -> str:
        time.sleep(SOON_S)
        return "consent"

    assert (await answer(caller, slow, SOON_S / 2)).problem == LATE


@pytest.mark.parametrize("value", [None, "consent"])
async def test_late_is_late_whatever_came(value: object, caller: Caller) -> None:
    async def at_once(event: object) -> object:
        return value

    assert (await answer(caller, lambda _: value, -1)).problem == LATE
    assert (await answer(caller, at_once, -1)).problem == LATE


async def test_a_blocking_implementation_that_hangs_is_given_up(caller: Caller) -> None:
    go_on, ended = threading.Event(), threading.Event()

    def hang(event: object) -> None:
        go_on.wait(5)
        ended.set()

    found = await answer(caller, hang, SOON_S, blocking=True)
    go_on.set()

    assert found.problem == LATE
    assert await asyncio.to_thread(ended.wait, 5)


async def test_a_blocking_implementation_runs_in_a_thread_with_the_callers_context(caller: Caller) -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("somebody")

    def look(event: object) -> tuple[str, bool]:
        return who.get(), threading.current_thread() is threading.main_thread()

    assert (await answer(caller, look, blocking=True)).value == ("somebody", False)


async def test_a_cancellation_of_the_caller_passes_through_and_reaches_the_implementation(caller: Caller) -> None:
    waiting, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(event: object) -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(answer(caller, hang))
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(1):
        await cancelled.wait()


async def test_a_cancellation_that_the_implementation_swallows_still_passes_through(caller: Caller) -> None:
    waiting = asyncio.Event()

    async def stubborn(event: object) -> str:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "consent"
        return "never"

    task = asyncio.create_task(answer(caller, stubborn))
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_without_end_is_possible(caller: Caller) -> None:
    async def soon(event: object) -> str:
        await asyncio.sleep(0)
        return "in the end"

    assert (await answer(caller, soon, float("inf"))).value == "in the end"


async def test_elapsed_time_is_kept(caller: Caller) -> None:
    async def takes(event: object) -> str:
        await asyncio.sleep(0.02)
        return "done"

    found = await answer(caller, takes)

    assert 0.01 < found.elapsed_s < 1


async def test_closing_ends_what_was_given_up() -> None:
    threads = Threads(name="calling")
    caller = Caller(threads)
    ended = asyncio.Event()

    async def stubborn_once(event: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    await answer(caller, stubborn_once, SOON_S)
    await caller.close(1)
    threads.close()

    assert ended.is_set()


async def test_closing_waits_no_longer_than_it_is_told() -> None:
    threads = Threads(name="calling")
    caller = Caller(threads)
    go_on = asyncio.Event()

    async def never_stops(event: object) -> None:
        for _ in range(3):
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    await answer(caller, never_stops, SOON_S)
    started = time.perf_counter()
    await caller.close(SOON_S)
    took = time.perf_counter() - started
    go_on.set()
    threads.close()

    assert took < 1


async def test_what_was_given_up_is_not_kept_for_ever(caller: Caller) -> None:
    class Big:
        pass

    alive: list[Any] = []

    async def hang(event: object) -> None:
        big = Big()
        alive.append(id(big))
        await asyncio.Event().wait()

    for _ in range(3):
        await answer(caller, hang, 0.01)
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()

    assert not [item for item in gc.get_objects() if isinstance(item, Big)]


async def test_holding_the_loop_is_logged_with_the_plugins_name(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    def hold(event: object) -> None:
        time.sleep(0.06)

    await answer(caller, hold)

    assert "acme" in caplog.text
    assert "held the event loop" in caplog.text
