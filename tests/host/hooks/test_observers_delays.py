"""Observers delay nothing: neither a turn nor, for longer than they may, the closing."""

import asyncio
import logging
import threading
import time

import pytest
from pluggent_hookspecs import TextShown, hookimpl
from pluggent_host.hooks import event_bus
from pluggent_host.settings import HostSettings, Timeouts
from policy_stage import stage
from talking import Told, shown

# ---- they delay nothing


@pytest.mark.parametrize("form", ["async", "blocking"])
async def test_an_observer_that_hangs_delays_no_turn(form: str) -> None:
    go_on = threading.Event()

    class Async:
        @hookimpl
        async def observe(self, event):
            await asyncio.Event().wait()

    class Blocking:
        @hookimpl(blocking=True)
        def observe(self, event):
            go_on.wait(5)

    config = HostSettings(timeouts=Timeouts(observe_s=0.05, close_s=0.05))
    turn_s = []

    try:
        async with stage("hello", plugins=[Async() if form == "async" else Blocking()], config=config) as on:
            started = time.perf_counter()
            await on.session.say("go")
            turn_s.append(time.perf_counter() - started)
    finally:
        go_on.set()
        for thread in threading.enumerate():
            if thread.name.startswith("pluggent-"):
                await asyncio.to_thread(thread.join, 2)

    assert turn_s[0] < 0.5


async def test_an_async_observer_has_a_deadline_for_each_event() -> None:
    begun: list[str] = []

    async def hang_on_the_first(event: TextShown) -> None:
        begun.append(event.text)
        if event.text == "0":
            await asyncio.Event().wait()

    told = Told(hang_on_the_first, observe_s=0.05)
    for number in range(3):
        told.observers.emit(shown(str(number)))
    await told.close()

    assert begun == ["0", "1", "2"]


async def test_a_slow_sync_observer_counts_as_failing() -> None:
    calls: list[object] = []

    def slow(event: object) -> None:
        calls.append(event)
        time.sleep(0.002)

    told = Told(slow, observe_s=0.001)
    for number in range(8):
        told.observers.emit(shown(str(number)))
    await told.close()

    assert len(calls) == 5


async def test_what_overflows_the_queue_is_dropped_counted_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 15: drops are recorded."""
    monkeypatch.setattr(event_bus, "OBSERVER_EVENTS", 3)
    caplog.set_level(logging.INFO, "pluggent")
    heard: list[str] = []

    async def listen(event: TextShown) -> None:
        heard.append(event.text)

    told = Told(listen)
    for number in range(10):
        told.observers.emit(shown(str(number)))
    await told.close()

    assert heard == ["0", "1", "2"]
    assert told.observers.dropped["plugin-0"] == 7
    assert "plugin-0" in caplog.text


# ---- closing


async def test_closing_lets_the_queues_run_empty() -> None:
    heard: list[str] = []

    async def listen(event: TextShown) -> None:
        await asyncio.sleep(0.001)
        heard.append(event.text)

    told = Told(listen)
    for number in range(20):
        told.observers.emit(shown(str(number)))
    await told.close()

    assert len(heard) == 20


async def test_closing_waits_no_longer_than_it_is_told() -> None:
    async def hang(event: object) -> None:
        await asyncio.Event().wait()

    told = Told(hang, observe_s=60)
    told.observers.emit(shown("a"))
    await asyncio.sleep(0)
    started = time.perf_counter()
    await told.close(0.05)

    assert time.perf_counter() - started < 1


async def test_closing_with_nobody_listening_is_nothing() -> None:
    told = Told()
    told.observers.emit(shown("a"))

    await told.close()

    assert not told.observers.dropped


async def test_what_is_told_after_closing_leaves_no_task_behind() -> None:
    async def listen(event: object) -> None: ...

    told = Told(listen)
    await told.close()
    before = asyncio.all_tasks()
    told.observers.emit(shown("late"))

    assert asyncio.all_tasks() == before
