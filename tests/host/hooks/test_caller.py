"""How one implementation is called: its value or its problem comes back in time."""

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pluggent_host.common.running import Threads, being_cancelled
from pluggent_host.hooks.caller import Answer, Caller, Deadline, Late
from pluggent_host.hooks.order import Impl

SOON_S = 0.05
LONG_S = 60.0
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


class Hanging:
    """An implementation that hangs and swallows *cancellations* of it, to answer ``consent`` in the end."""

    def __init__(self, cancellations: int = 0) -> None:
        self.cancellations = cancellations
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, event: object) -> str:
        self.begun.set()
        try:
            for _ in range(self.cancellations):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
            if not self.cancellations:
                await asyncio.Event().wait()
        finally:
            self.ended.set()
        return "consent"


def test_a_deadline_that_was_stopped_has_left_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline(10.0)
    began_s = time.perf_counter()
    now_s = began_s + 4.0
    monkeypatch.setattr("pluggent_host.hooks.caller.perf_counter", lambda: now_s)
    deadline.stop()
    now_s += 100.0
    deadline.stop()
    deadline.start()

    assert deadline.left() == float("inf"), "it was stopped twice"
    deadline.start()
    assert deadline.left() == pytest.approx(6.0, abs=1.0)
    now_s += 7.0
    assert deadline.left() == 0.0


async def test_the_value_of_a_sync_async_or_blocking_implementation_comes_back(caller: Caller) -> None:
    class Awaitable:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "event"

    def sync(event: str) -> str:
        return event

    async def eager(event: str) -> str:
        return event

    async def waits(event: str) -> str:
        await asyncio.sleep(0)
        return event

    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("event")
    functions = [sync, eager, waits, lambda _: Awaitable(), lambda _: future]

    found = [await answer(caller, function) for function in functions]
    found.append(await answer(caller, sync, blocking=True))
    found.append(await answer(caller, waits, float("inf")))

    assert [(item.value, item.problem) for item in found] == [("event", "")] * 7


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
    assert type(error).__name__ in found.problem or isinstance(error, (asyncio.CancelledError, Late))
    assert found.problem == "raised ValueError: broken" or not isinstance(error, ValueError)
    assert not being_cancelled()


@pytest.mark.parametrize("cancellations", [0, 1])
async def test_what_hangs_is_cancelled_at_the_deadline_and_its_answer_does_not_count(
    caller: Caller, cancellations: int
) -> None:
    hanging = Hanging(cancellations)
    started = time.perf_counter()

    found = await caller.call(Impl("acme", hanging, is_async=True), "event", started + SOON_S)

    assert (found.value, found.problem) == (None, LATE)
    assert time.perf_counter() - started < 1
    async with asyncio.timeout(1):
        await hanging.ended.wait()  # it was cancelled, not forgotten


@pytest.mark.parametrize("value", [None, "consent"])
async def test_late_is_late_whatever_came(value: object, caller: Caller) -> None:
    async def at_once(event: object) -> object:
        return value

    assert (await answer(caller, lambda _: value, -1)).problem == LATE
    assert (await answer(caller, at_once, -1)).problem == LATE
    assert (await answer(caller, lambda _: time.sleep(SOON_S) or value, SOON_S / 2)).problem == LATE


async def test_a_blocking_implementation_runs_in_a_thread_with_the_callers_context(caller: Caller) -> None:
    who = contextvars.ContextVar("who", default="unset")
    who.set("caller")

    def look(event: object) -> tuple[str, bool]:
        return who.get(), threading.current_thread() is threading.main_thread()

    assert (await answer(caller, look, blocking=True)).value == ("caller", False)


@pytest.mark.parametrize("cancellations", [0, 1])
async def test_a_cancellation_of_the_caller_passes_through_and_reaches_the_implementation(
    caller: Caller, cancellations: int
) -> None:
    hanging = Hanging(cancellations)
    task = asyncio.create_task(caller.call(Impl("acme", hanging, is_async=True), "event", time.perf_counter() + 5))
    await hanging.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(1):
        await hanging.ended.wait()


async def test_elapsed_time_is_kept(caller: Caller) -> None:
    async def takes(event: object) -> str:
        await asyncio.sleep(0.02)
        return "done"

    found = await answer(caller, takes)

    assert 0.01 < found.elapsed_s < 1


@pytest.mark.parametrize(("cancellations", "ends"), [(1, True), (2, True), (9, False)])
async def test_closing_ends_what_was_given_up_and_waits_no_longer_than_it_may(cancellations: int, ends: bool) -> None:
    threads = Threads(name="calling")
    caller, hanging = Caller(threads), Hanging(cancellations)
    await caller.call(Impl("acme", hanging, is_async=True), "event", time.perf_counter() + SOON_S)
    started = time.perf_counter()

    await caller.close(SOON_S)

    assert time.perf_counter() - started < 1
    assert hanging.ended.is_set() == ends
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
    threads.close()


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

    assert not [item for item in gc.get_objects() if type(item) is Big]


@pytest.mark.parametrize(("felt_s", "level"), [(0.05, "WARNING"), (60.0, "INFO")])
async def test_holding_the_loop_is_logged_and_a_warning_when_a_person_feels_it(
    caller: Caller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, felt_s: float, level: str
) -> None:
    monkeypatch.setattr("pluggent_host.hooks.caller.FELT_S", felt_s)
    caplog.set_level("INFO", "pluggent.hooks")

    def hold(event: object) -> None:
        time.sleep(0.06)

    await answer(caller, hold)

    (record,) = caplog.records
    assert record.levelname == level
    assert "plugin acme held the event loop for" in record.getMessage()
    assert "in hold, and nothing else ran" in record.getMessage()
    assert record.getMessage().endswith("mark the hook with blocking=True; to leave it out: pluggent --without acme")


async def ended(awaitable: Any) -> Any:
    """Return the result of *awaitable*; it takes a moment, never as long as a limit is believed."""
    async with asyncio.timeout(0.9):
        return await awaitable


async def test_a_value_or_an_error_that_comes_later_is_handed_on(caller: Caller) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "value"

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    assert await ended(caller.bounded(later(), lambda: LONG_S)) == "value"
    with pytest.raises(LookupError, match="gone"):
        await ended(caller.bounded(fails(), lambda: LONG_S))


async def test_a_task_that_cancels_itself_wakes_the_caller(caller: Caller) -> None:
    async def own() -> None:
        own_task = asyncio.current_task()
        assert own_task is not None
        asyncio.get_running_loop().call_soon(own_task.cancel)
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await ended(caller.bounded(own(), lambda: LONG_S))


async def test_a_task_that_is_cancelled_from_outside_at_once_wakes_the_caller(caller: Caller) -> None:
    me = asyncio.current_task()

    def cancel_others() -> None:
        for task in asyncio.all_tasks() - {me}:  # where tasks do not start eagerly, before its first step
            task.cancel()

    asyncio.get_running_loop().call_soon(cancel_others)
    with pytest.raises(asyncio.CancelledError):
        await ended(caller.bounded(Hanging()("event"), lambda: LONG_S))


async def test_what_is_late_is_cancelled_and_left(caller: Caller) -> None:
    hanging = Hanging()

    with pytest.raises(Late):
        await ended(caller.bounded(hanging("event"), iter((0.01, 0.0)).__next__))
    await ended(hanging.ended.wait())
