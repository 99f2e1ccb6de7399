"""Observers delay and fail nothing; records of decisions are written before anything is executed (rule 15)."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from pluggent_hookspecs import Observation, hookimpl, tool
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import PluginLoadError
from pluggent_hookspecs.observations import (
    DecisionMade,
    HookFailed,
    ModelCalled,
    PluginStateChanged,
    SessionClosed,
    SessionOpened,
    TextShown,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from pluggent_host import Why
from pluggent_host.hooks import event_bus
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from policy_stage import in_order, reach, stage
from talking import Told, hosting, shown, talking


async def emitted(told: Told, count: int) -> None:
    """Emit texts from ``0`` on to *told* and close it."""
    for number in range(count):
        told.observers.emit(shown(str(number)))
    await told.close()


def observer(function: Any, **options: Any) -> object:
    """Return a plugin that observes with *function*, which takes the event alone."""

    async def later(self: object, event: object) -> object:
        return await function(event)

    def observe(self: object, event: object) -> object:
        return function(event)

    chosen = later if asyncio.iscoroutinefunction(function) else observe
    chosen.__name__ = "observe"
    return type("Observer", (), {"observe": hookimpl(**options)(chosen)})()


async def test_all_observers_are_given_all_events_in_order() -> None:
    first: list[Any] = []
    second: list[Any] = []
    third: list[Any] = []

    async def later(event: object) -> None:
        await asyncio.sleep(0)
        second.append(event)

    await emitted(Told(first.append, later), 50)
    await emitted(Told(third.append, blocking=True), 50)

    assert first == second == third == [shown(str(number)) for number in range(50)]


async def test_an_observer_is_given_what_it_subscribed_to_and_nothing_else() -> None:
    events: list[object] = []

    await reach("say", [observer(events.append, events=(ToolFinished, TurnEnded))])

    assert [type(event) for event in events] == [ToolFinished, TurnEnded]


async def test_a_turn_is_observed_from_its_beginning_to_its_end() -> None:
    """An async observer too gets the end of the session before the host is closed."""
    slowly: list[Any] = []

    async def observe(event: object) -> None:
        await asyncio.sleep(0)
        slowly.append(type(event))

    async with stage("hello", plugins=[observer(observe)]) as on:
        await on.session.say("go")
    kinds = [type(event) for event in on.recorder.events]

    wanted = [SessionOpened, TurnStarted, TextShown, TurnEnded, SessionClosed]
    assert [kind for kind in kinds if kind in wanted] == wanted == [kind for kind in slowly if kind in wanted]
    assert kinds.index(DecisionMade) < kinds.index(TurnStarted)
    states = [(event.plugin, event.state) for event in on.recorder.of(PluginStateChanged)]
    assert ("app:recorder", "active") in states


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ERRORS = [ValueError("broken"), asyncio.CancelledError(), SystemExit(1), GeneratorExit(), UnprintableError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("form", ["sync", "async", "blocking"])
async def test_an_observer_never_fails_a_turn(error: BaseException, form: str) -> None:
    """Rule 15: breakers exist for observers only and are themselves recorded."""

    def fail(event: object) -> None:
        raise error

    async def fail_later(event: object) -> None:
        raise error

    healthy = Recorder()
    failing = observer(fail_later if form == "async" else fail, blocking=form == "blocking")

    started = time.perf_counter()
    seen = await reach("say", in_order(failing, healthy))

    assert seen.ran == ("x",)
    assert healthy.of(TurnEnded)
    assert time.perf_counter() - started < 2
    known = [event for event in healthy.events if isinstance(event, HookFailed | PluginStateChanged)]
    assert [event for event in known if event.plugin == "app:a_observer" and "observe" in repr(event)]


async def test_an_observer_cannot_veto() -> None:
    assert (await reach("say", [observer(lambda _: Deny("no"))])).ran == ("x",)


async def test_a_coroutine_from_a_sync_observer_is_a_failure_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    async def later() -> None: ...

    await emitted(Told(lambda _: later()), 1)

    assert "async def observe" in caplog.text


@pytest.mark.parametrize(
    ("fails", "is_async", "calls"),
    [(lambda _: True, False, 5), (lambda _: True, True, 5), (lambda n: n % 5, False, 20), (lambda n: n % 5, True, 20)],
)
async def test_an_observer_is_off_after_five_failures_in_a_row(
    fails: Any, is_async: bool, calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[object] = []
    others: list[object] = []

    def fail(event: TextShown) -> None:
        called.append(event)
        if fails(int(event.text)):
            raise ValueError("broken")

    async def fail_later(event: TextShown) -> None:
        fail(event)

    await emitted(Told(fail_later if is_async else fail, others.append), 20)

    assert len(called) == calls
    assert len([event for event in others if isinstance(event, TextShown)]) == 20
    assert any(record.message.endswith("gets no more events") for record in caplog.records) == (calls == 5)


@pytest.mark.parametrize("form", ["async", "blocking"])
async def test_an_observer_that_hangs_delays_no_turn(form: str) -> None:
    go_on = threading.Event()

    async def hang(event: object) -> None:
        await asyncio.Event().wait()

    hanging = observer(hang) if form == "async" else observer(lambda _: go_on.wait(5), blocking=True)
    config = HostSettings(timeouts=Timeouts(observe_s=0.05, close_s=0.05))

    try:
        async with stage("hello", plugins=[hanging], config=config) as on:
            started = time.perf_counter()
            await on.session.say("go")
            turn_s = time.perf_counter() - started
    finally:
        go_on.set()
        for thread in threading.enumerate():
            if thread.name.startswith("pluggent-"):
                await asyncio.to_thread(thread.join, 2)

    assert turn_s < 0.5


async def test_an_async_observer_has_a_deadline_for_each_event() -> None:
    begun: list[str] = []

    async def hang_on_the_first(event: TextShown) -> None:
        begun.append(event.text)
        if event.text == "0":
            await asyncio.Event().wait()

    await emitted(Told(hang_on_the_first, observe_s=0.05), 3)

    assert begun == ["0", "1", "2"]


async def test_a_slow_sync_observer_counts_as_failing() -> None:
    calls: list[object] = []

    def slow(event: object) -> None:
        calls.append(event)
        time.sleep(0.002)

    await emitted(Told(slow, observe_s=0.001), 8)

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
    await emitted(told, 10)

    assert heard == ["0", "1", "2"]
    assert told.observers.dropped["plugin-0"] == 7
    assert "plugin-0" in caplog.text


async def test_closing_lets_the_queues_run_empty_and_nothing_runs_after_it() -> None:
    heard: list[str] = []

    async def listen(event: TextShown) -> None:
        await asyncio.sleep(0.001)
        heard.append(event.text)

    told = Told(listen)
    await emitted(told, 20)
    before = asyncio.all_tasks()
    told.observers.emit(shown("late"))

    assert asyncio.all_tasks() == before
    assert len(heard) == 20


async def test_closing_waits_no_longer_than_it_may() -> None:
    async def hang(event: object) -> None:
        await asyncio.Event().wait()

    told = Told(hang, observe_s=60)
    told.observers.emit(shown("a"))
    await asyncio.sleep(0)
    started = time.perf_counter()
    await told.close(0.05)

    assert time.perf_counter() - started < 1


async def test_closing_without_observers_is_nothing() -> None:
    told = Told()
    await emitted(told, 1)

    assert not told.observers.dropped


class Sink:
    def __init__(self) -> None:
        self.events: list[Observation] = []
        self.full = False

    @hookimpl
    def write_record(self, event: Observation) -> None:
        if self.full:
            raise OSError("no space left on the disk")
        self.events.append(event)


async def test_everything_that_matters_is_kept_in_order_and_no_text_of_a_stream() -> None:
    sink = Sink()
    decided: list[str] = []

    @tool(effects=())
    def look() -> None:
        """Look."""
        decided.extend(event.call_id for event in sink.events if isinstance(event, DecisionMade))

    talk = talking(call("look", "c1"), "three", tools=[look], plugins=[sink])
    async with talk as session, session.stream("go") as events:
        async for _ in events:
            pass

    assert [type(event) for event in sink.events if not isinstance(event, PluginStateChanged)] == [
        SessionOpened, DecisionMade, TurnStarted, DecisionMade, ModelCalled, DecisionMade, ToolStarted, ToolFinished,
        DecisionMade, ModelCalled, TurnEnded, SessionClosed,
    ]  # fmt: skip
    assert "c1" in decided, "the decision is kept before the call is made"


async def test_what_cannot_be_recorded_is_not_done() -> None:
    sink, recorder, model = Sink(), Recorder(), ScriptedModel()
    async with talking(model=model, plugins=[sink, recorder]) as session:
        sink.full = True
        result = await session.say("go")
        sink.full = False
        again = await session.say("go")

    assert (result.why, again.why, len(model.requests)) == (Why.DENIED, Why.COMPLETED, 1)
    assert "'app:sink' raised OSError: no space left on the disk" in result.detail
    assert {event.hook for event in recorder.of(HookFailed)} == {"write_record"}


async def test_a_tool_call_in_the_middle_of_a_turn_is_denied_too() -> None:
    sink = Sink()
    ran: list[int] = []

    @tool(effects=())
    def work() -> None:
        """Work."""
        ran.append(1)

    def fills_up(request: Any) -> Any:
        sink.full = True
        return call("work")

    async with talking(fills_up, tools=[work], plugins=[sink]) as session:
        result = await session.say("go")

        assert session.history[2].text.startswith("Denied: the decision could not be recorded")
    assert (ran, result.why) == ([], Why.DENIED)


class Odd:
    @hookimpl
    def write_record(self, event: Observation) -> Any:
        return "kept"


class Later:
    @hookimpl
    async def write_record(self, event: Observation) -> None: ...


class Threaded:
    @hookimpl(blocking=True)
    def write_record(self, event: Observation) -> None: ...


async def test_a_sink_that_returns_something_has_failed_and_one_that_waits_is_refused() -> None:
    async with talking(plugins=[Odd()]) as session:
        assert "returned something" in (await session.say("go")).detail
    for sink in (Later(), Threaded()):
        with pytest.raises(PluginLoadError, match="write_record: "):
            async with hosting(plugins=[sink]):
                pass
