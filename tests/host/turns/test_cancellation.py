"""A turn cancelled at each place where it can wait: nothing runs on, nothing is left open."""

import asyncio
import contextlib
import threading

import pytest
from fake_plugins import Person, plugin
from places import Place, Stuck, hanging_hook, only_this_task
from pluggent_hookspecs import ToolContext, tool
from pluggent_hookspecs.observations import DecisionMade, ToolStarted, TurnEnded
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.entries import Dispatched, Settled, TurnOver
from pluggent_transcript.rebuild import rebuild
from talking import WAIT_S, assert_whole, results, shape, talking

DOUBT = (("host:doubt", "the same call was interrupted before and may already have taken effect"),)


@tool
async def write(n: int = 0) -> str:
    """Write."""
    return f"written {n}"


def hanging(place, **marks):
    @tool(name="hang", **marks)
    async def run(n: int = 0) -> str:
        """Hang."""
        await place.hang()
        return f"ran {n}"

    return run


def delegate_to(name):
    @tool(effects=())
    async def delegate(context: ToolContext) -> str:
        """Delegate."""
        return str((await context.call_tool(name, {})).for_model)

    return delegate


async def cancelled(session, place, *, by_hand=False):
    """Run a turn (or call a tool by hand), cancel it when *place* is reached, and wait for the end."""
    task = asyncio.create_task(session.call_tool("hang", {}) if by_hand else session.say("go"))
    await asyncio.wait_for(place.reached.wait(), WAIT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, WAIT_S)
    place.hangs = False
    assert_whole(session.history)


async def goes_on(session, text="later"):
    """Fail unless another turn completes with *text*, and nothing else runs."""
    assert only_this_task()
    assert (await session.say("again")).text == text
    assert_whole(session.history)


@pytest.fixture
def place():
    return Place()


HOOKS = [
    "transform_model_request", "decide_model_request", "around_model_call", "transform_model_response",
    "decide_model_response", "select_tools", "transform_tool_call", "decide_tool_call", "around_tool_call",
    "transform_tool_result", "decide_tool_result", "transform_output", "decide_output",
]  # fmt: skip


@pytest.mark.parametrize("name", HOOKS)
async def test_a_turn_cancelled_in_a_hook_is_closed_and_the_session_goes_on(name, place):
    recorder, model = Recorder(), ScriptedModel(call("write"), "later", "later")
    async with talking(model=model, tools=[write], plugins=[hanging_hook(place, name), recorder]) as session:
        await cancelled(session, place)

        assert place.left
        assert only_this_task()
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.CANCELLED]
        assert [entry.why for entry in session.records() if isinstance(entry, TurnOver)] == [Why.CANCELLED]
        assert (await session.say("again")).why is Why.COMPLETED
        assert_whole(session.history)


@pytest.mark.parametrize("name", ["transform_input", "decide_input", "around_turn"])
async def test_a_turn_cancelled_before_it_began_leaves_no_trace_in_the_conversation(name, place):
    async with talking("later", plugins=[hanging_hook(place, name)]) as session:
        await cancelled(session, place)

        assert session.history == ()
        await goes_on(session)


async def test_a_turn_cancelled_in_a_model_call_keeps_what_the_person_said():
    hold = asyncio.Event()
    model = ScriptedModel("never", "later", hold=hold)
    async with talking(model=model) as session:
        await cancelled(session, Place(model.asked))
        hold.set()

        assert shape(session.history) == ["user go"]
        assert session.usage.estimated
        await goes_on(session)
        assert shape(model.requests[-1].messages) == ["user go", "user again"]


@pytest.mark.parametrize("marks", [{"effects": ()}, {}, {"effects": (), "exclusive": True}])
async def test_a_turn_cancelled_in_a_tool_gives_every_call_one_result_which_is_on_record(marks, place):
    recorder = Recorder()
    calls = (call("write", "a"), call("hang", "b"), call("hang", "c", n=1))
    async with talking(calls, "later", tools=[write, hanging(place, **marks)], plugins=[recorder]) as session:
        await cancelled(session, place)

        assert place.left
        assert (len(results(session.history)), results(session.history)[0]) == (3, "written 0")
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.CANCELLED]
        settled = [entry.message for entry in session.records() if isinstance(entry, Settled)]
        assert sorted(map(repr, settled)) == sorted(repr(m) for m in session.history if m.role == "tool")
        await goes_on(session)


@pytest.mark.parametrize("effects", [None, ()])
async def test_a_cancelled_call_with_effects_is_asked_about_before_it_runs_again(effects, place):
    """Policy 21."""
    person = Person(True)
    async with talking(call("hang"), call("hang"), tools=[hanging(place, effects=effects)], approver=person) as session:
        await cancelled(session, place)
        await session.say("again")

    assert [event.asks for event in person.asked] == ([DOUBT] if effects is None else [])
    assert results(session.history)[-1] == "ran 0"


async def test_a_nested_call_with_effects_that_was_cancelled_is_asked_about_too(place):
    """Policy 21."""
    person, tools = Person(False), [delegate_to("hang"), hanging(place)]
    async with talking(call("delegate"), call("delegate"), tools=tools, approver=person) as session:
        await cancelled(session, place)
        await session.say("again")

    assert len(person.asked) == 1
    assert_whole(session.history)


async def test_a_direct_call_that_is_cancelled_is_asked_about_before_it_runs_again(place):
    """Policy 21."""
    person = Person(False)
    async with talking(tools=[hanging(place)], approver=person) as session:
        await cancelled(session, place, by_hand=True)

        assert (await session.call_tool("hang", {})).is_error
    assert (len(person.asked), session.history) == (1, ())


async def test_what_a_session_doubts_is_what_its_transcript_doubts():
    """Here the cancellation comes between the announcement of a call and its start."""
    person, turns = Person(True), []

    def cancel_below(event):
        if isinstance(event, DecisionMade) and event.scope.parent_id and not turns[0].done():
            turns[0].cancel()

    tools, plugins = [delegate_to("write"), write], [plugin(observe=cancel_below)]
    async with talking(call("delegate"), call("delegate"), tools=tools, plugins=plugins, approver=person) as session:
        turns.append(asyncio.create_task(session.say("go")))
        with pytest.raises(asyncio.CancelledError):
            await turns[0]

        doubts = len(rebuild(session.records()).unsure)
        await session.say("again")
    assert len(person.asked) == doubts


async def test_a_blocking_tool_learns_that_the_turn_was_cancelled(place):
    saw, loop = threading.Event(), asyncio.get_running_loop()

    @tool(effects=())
    def poll(context: ToolContext) -> str:
        """Poll."""
        loop.call_soon_threadsafe(place.reached.set)
        for _ in range(1000):
            if context.cancelled:
                saw.set()
                break
            threading.Event().wait(0.005)
        return ""

    async with talking(call("poll"), tools=[poll]) as session:
        await cancelled(session, place)

        assert await asyncio.to_thread(saw.wait, 2)


async def test_a_blocking_tool_that_heeds_nothing_is_left_behind_and_asks():
    person, stuck = Person(False), Stuck()
    tools = [stuck.tool()]
    with stuck.freed():
        async with talking(call("stuck", n=1), call("stuck", n=2), tools=tools, approver=person) as session:
            saying = asyncio.create_task(session.say("go"))
            while not stuck.contexts:  # noqa: ASYNC110 (a thread cannot set an event of the loop)
                await asyncio.sleep(0)
            saying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saying
            await session.say("again")

            asked = [event.asks for event in person.asked]
            assert asked == [(("host:doubt", "an earlier call of it was given up but is still running"),)]
            assert_whole(session.history)


async def test_a_turn_cancelled_while_a_person_thinks_closes_the_call(place):
    async def approver(event):
        await place.hang()

    calls, config = (call("write", "a"), call("write", "b")), HostSettings(strict=True)
    async with talking(calls, "later", tools=[write], approver=approver, config=config) as session:
        await cancelled(session, place)

        assert place.left
        assert not any(isinstance(entry, Dispatched) for entry in session.records())
        await goes_on(session)


async def test_a_tool_that_swallows_its_cancellation_is_left_behind_after_its_grace(place, monkeypatch):
    monkeypatch.setattr("pluggent_host.operations.tool_call.STOPPING_S", 0.01)
    release, swallowed = asyncio.Event(), asyncio.Event()

    @tool
    async def deaf() -> str:
        """Do not listen."""
        place.reached.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                swallowed.set()
        return "done after all"

    config = HostSettings(timeouts=Timeouts(close_s=0.01))
    async with talking(call("deaf"), "later", tools=[deaf], config=config) as session:
        await cancelled(session, place)

        assert swallowed.is_set()
        assert (await session.say("again")).text == "later"
        release.set()


@pytest.mark.parametrize("name", ["decide_tool_call", "decide_model_request", "transform_tool_call"])
async def test_a_hook_that_swallows_the_cancellation_gives_no_consent(name, place):
    """Policy 13."""

    async def deaf(event):
        if not place.reached.is_set():
            place.reached.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    model, recorder = ScriptedModel(call("write"), "x"), Recorder()
    async with talking(model=model, tools=[write], plugins=[plugin(**{name: deaf}), recorder]) as session:
        await cancelled(session, place)

    assert recorder.of(ToolStarted) == []
    assert len(model.requests) == (0 if name == "decide_model_request" else 1)


async def test_a_deadline_from_outside_ends_a_turn(place):
    async with talking(call("hang"), "later", tools=[hanging(place, effects=())]) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await session.say("go")

        assert_whole(session.history)
        await goes_on(session)


async def test_a_second_cancellation_does_not_leave_the_history_open(place):
    @tool(effects=())
    async def slow_to_leave() -> str:
        """Take a while to clean up."""
        try:
            await place.hang()
        finally:
            await asyncio.sleep(0.01)
        return ""

    async with talking(call("slow_to_leave"), "later", tools=[slow_to_leave]) as session:
        saying = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(place.reached.wait(), WAIT_S)
        saying.cancel()
        await asyncio.sleep(0)
        saying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saying

        assert_whole(session.history)
        assert (await session.say("again")).text == "later"
