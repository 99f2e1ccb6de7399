"""Observers are told what happened; they can neither delay nor fail anything."""

import asyncio
import time
from typing import Any

import pytest
from pluggent_hookspecs import (
    DecisionMade,
    Deny,
    HookFailed,
    PluginStateChanged,
    SessionClosed,
    SessionOpened,
    TextShown,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    hookimpl,
)
from pluggent_testing.fakes import Recorder
from policy_stage import in_order, reach, stage
from talking import Told, shown

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
        told.observers.emit(event)
        blocking.observers.emit(event)
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
    told.observers.emit(shown("a"))
    await told.close()

    assert "async def observe" in caplog.text


async def test_an_observer_is_off_after_five_failures_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[object] = []

    def fail(event: object) -> None:
        calls.append(event)
        raise ValueError("broken")

    told = Told(fail)
    for number in range(8):
        told.observers.emit(shown(str(number)))
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
        told.observers.emit(shown(str(number)))
    await told.close()

    assert len(calls) == 20


async def test_an_async_observer_is_off_after_five_failures_too() -> None:
    calls: list[object] = []

    async def fail(event: object) -> None:
        calls.append(event)
        raise ValueError("broken")

    told = Told(fail)
    for number in range(20):
        told.observers.emit(shown(str(number)))
    await told.close()

    assert len(calls) == 5


async def test_one_observer_that_is_off_silences_no_other() -> None:
    heard: list[object] = []

    def fail(event: object) -> None:
        raise ValueError("broken")

    told = Told(fail, heard.append)
    for number in range(8):
        told.observers.emit(shown(str(number)))
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
