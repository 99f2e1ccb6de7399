"""Observers are told what happened; they can neither delay nor fail anything."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pluggent_hookspecs import (
    DecisionMade,
    Deny,
    HookFailed,
    PluginStateChanged,
    Scope,
    SessionClosed,
    SessionOpened,
    TextShown,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    hookimpl,
)
from pluggent_host import observers as room
from pluggent_host.calling import Caller
from pluggent_host.chains import Impl
from pluggent_host.observers import Observers
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_host.testing.fakes import Recorder
from pluggent_host.threads import Threads
from policy_stage import in_order, reach, stage

SCOPE = Scope("s", "t")


def shown(text: str) -> TextShown:
    return TextShown(SCOPE, text)


class Told:
    """Observers over some functions, without a host around them."""

    def __init__(self, *functions: Callable[[Any], Any], observe_s: float = 0.5, **more: Any) -> None:
        self.threads = Threads(name="observing")
        chain = tuple(
            Impl(f"plugin-{number}", function, is_async=asyncio.iscoroutinefunction(function), **more)
            for number, function in enumerate(functions)
        )
        self.observers = Observers(chain, Caller(self.threads), observe_s)

    async def close(self, timeout_s: float = 1) -> None:
        await self.observers.close(timeout_s)
        self.threads.close()


# ---- what they are told


async def test_everybody_is_told_everything_in_order() -> None:
    first: list[Any] = []
    second: list[Any] = []
    third: list[Any] = []

    async def later(event: object) -> None:
        await asyncio.sleep(0)
        second.append(event)

    told = Told(first.append, later)
    blocking = Told(third.append, blocking=True)
    events = [shown(str(number)) for number in range(50)]
    for event in events:
        told.observers.tell(event)
        blocking.observers.tell(event)
    await told.close()
    await blocking.close()

    assert first == second == third == events


async def test_an_observer_is_told_what_it_subscribed_to_and_nothing_else() -> None:
    class Picky(Recorder):
        @hookimpl(events=(ToolFinished, TurnEnded))
        def observe(self, event):
            self.events.append(event)

    picky = Picky()

    await reach("say", [picky])

    assert [type(event) for event in picky.events] == [ToolFinished, TurnEnded]


async def test_a_turn_is_told_from_its_beginning_to_its_end() -> None:
    async with stage("hello") as on:
        await on.session.say("go")
    kinds = [type(event) for event in on.recorder.events]

    wanted = [SessionOpened, TurnStarted, TextShown, TurnEnded, SessionClosed]
    assert [kind for kind in kinds if kind in wanted] == wanted
    assert kinds.index(DecisionMade) < kinds.index(TurnStarted)


async def test_states_of_plugins_are_told_from_the_opening_to_the_closing() -> None:
    async with stage() as on:
        pass

    states = [(event.plugin, event.state) for event in on.recorder.of(PluginStateChanged)]
    assert ("app:recorder", "active") in states


async def test_an_async_observer_hears_the_end_of_the_session_before_the_host_is_closed() -> None:
    heard: list[Any] = []

    class Slow:
        @hookimpl
        async def observe(self, event):
            await asyncio.sleep(0)
            heard.append(type(event))

    async with stage("hello", plugins=[Slow()]) as on:
        await on.session.say("go")

    assert SessionClosed in heard


# ---- they fail nothing


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ERRORS = [ValueError("broken"), asyncio.CancelledError(), SystemExit(1), GeneratorExit(), UnprintableError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("form", ["sync", "async", "blocking"])
async def test_an_observer_never_fails_a_turn(error: BaseException, form: str) -> None:
    class Sync:
        @hookimpl
        def observe(self, event):
            raise error

    class Async:
        @hookimpl
        async def observe(self, event):
            raise error

    class Blocking:
        @hookimpl(blocking=True)
        def observe(self, event):
            raise error

    healthy = Recorder()
    failing = {"sync": Sync, "async": Async, "blocking": Blocking}[form]()

    started = time.perf_counter()
    seen = await reach("say", in_order(failing, healthy))

    assert seen.ran == ("x",)
    assert healthy.of(TurnEnded)
    assert time.perf_counter() - started < 2


async def test_an_observer_cannot_veto() -> None:
    class Eager:
        @hookimpl
        def observe(self, event):
            return Deny("no")

    assert (await reach("say", [Eager()])).ran == ("x",)


async def test_a_coroutine_from_a_sync_observer_is_a_failure_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    async def later() -> None: ...

    told = Told(lambda _: later())
    told.observers.tell(shown("a"))
    await told.close()

    assert "async def observe" in caplog.text


async def test_an_observer_is_off_after_five_failures_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[object] = []

    def fail(event: object) -> None:
        calls.append(event)
        raise ValueError("broken")

    told = Told(fail)
    for number in range(8):
        told.observers.tell(shown(str(number)))
    await told.close()

    assert len(calls) == 5
    assert [record.message for record in caplog.records][-1].endswith("is no longer told")


@pytest.mark.parametrize("is_async", [False, True])
async def test_only_failures_in_a_row_count(is_async: bool) -> None:
    calls: list[object] = []

    def sometimes(event: TextShown) -> None:
        calls.append(event)
        if int(event.text) % 5:
            raise ValueError("broken")

    async def sometimes_later(event: TextShown) -> None:
        await asyncio.sleep(0)
        sometimes(event)

    told = Told(sometimes_later if is_async else sometimes)
    for number in range(20):
        told.observers.tell(shown(str(number)))
    await told.close()

    assert len(calls) == 20


async def test_an_async_observer_is_off_after_five_failures_too() -> None:
    calls: list[object] = []

    async def fail(event: object) -> None:
        calls.append(event)
        raise ValueError("broken")

    told = Told(fail)
    for number in range(20):
        told.observers.tell(shown(str(number)))
    await told.close()

    assert len(calls) == 5


async def test_one_observer_that_is_off_silences_no_other() -> None:
    heard: list[object] = []

    def fail(event: object) -> None:
        raise ValueError("broken")

    told = Told(fail, heard.append)
    for number in range(8):
        told.observers.tell(shown(str(number)))
    await told.close()

    assert len([event for event in heard if isinstance(event, TextShown)]) == 8


async def test_that_an_observer_is_off_is_known_to_the_others() -> None:
    """Rule 15: breakers exist for observers only and are themselves recorded."""

    class Failing:
        @hookimpl
        def observe(self, event):
            raise ValueError("broken")

    healthy = Recorder()

    await reach("say", in_order(Failing(), healthy))

    told = [event for event in healthy.events if isinstance(event, HookFailed | PluginStateChanged)]
    assert [event for event in told if event.plugin.endswith("failing") and "observe" in repr(event)]


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
        told.observers.tell(shown(str(number)))
    await told.close()

    assert begun == ["0", "1", "2"]


async def test_a_slow_sync_observer_counts_as_failing() -> None:
    calls: list[object] = []

    def slow(event: object) -> None:
        calls.append(event)
        time.sleep(0.002)

    told = Told(slow, observe_s=0.001)
    for number in range(8):
        told.observers.tell(shown(str(number)))
    await told.close()

    assert len(calls) == 5


async def test_what_overflows_the_queue_is_dropped_counted_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 15: drops are recorded."""
    monkeypatch.setattr(room, "WAITING_EVENTS", 3)
    caplog.set_level(logging.INFO, "pluggent")
    heard: list[str] = []

    async def listen(event: TextShown) -> None:
        heard.append(event.text)

    told = Told(listen)
    for number in range(10):
        told.observers.tell(shown(str(number)))
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
        told.observers.tell(shown(str(number)))
    await told.close()

    assert len(heard) == 20


async def test_closing_waits_no_longer_than_it_is_told() -> None:
    async def hang(event: object) -> None:
        await asyncio.Event().wait()

    told = Told(hang, observe_s=60)
    told.observers.tell(shown("a"))
    await asyncio.sleep(0)
    started = time.perf_counter()
    await told.close(0.05)

    assert time.perf_counter() - started < 1


async def test_closing_with_nobody_listening_is_nothing() -> None:
    told = Told()
    told.observers.tell(shown("a"))

    await told.close()

    assert not told.observers.anybody


async def test_what_is_told_after_closing_leaves_no_task_behind() -> None:
    async def listen(event: object) -> None: ...

    told = Told(listen)
    await told.close()
    before = asyncio.all_tasks()
    told.observers.tell(shown("late"))

    assert asyncio.all_tasks() == before
