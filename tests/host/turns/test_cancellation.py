"""A turn cancelled at each place where it can wait: nothing runs on, nothing is left open."""

import asyncio
import contextlib
import threading

import pytest
from places import Place, hanging_hook, only_this_task
from pluggent_hookspecs import ToolContext, hookimpl, tool
from pluggent_hookspecs.observations import DecisionMade, ToolStarted, TurnEnded
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_host.transcript.entries import Dispatched, Settled, TurnOver
from pluggent_host.transcript.rebuild import rebuild
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, assert_whole, results, shape, talking


@tool(effects=("shell",))
async def write(n: int = 0) -> str:
    """Write."""
    return f"written {n}"


async def cancelled(session, place, text="go"):
    """Run a turn, cancel it when *place* is reached, and wait for the end."""
    saying = asyncio.create_task(session.say(text))
    await asyncio.wait_for(place.reached.wait(), WAIT_S)
    saying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(saying, WAIT_S)
    place.hangs = False


HOOKS = [
    "transform_model_request",
    "decide_model_request",
    "around_model_call",
    "transform_model_response",
    "decide_model_response",
    "select_tools",
    "transform_tool_call",
    "decide_tool_call",
    "around_tool_call",
    "transform_tool_result",
    "decide_tool_result",
    "transform_output",
    "decide_output",
]


@pytest.mark.parametrize("name", HOOKS)
async def test_a_turn_cancelled_in_a_hook_is_closed_and_the_session_goes_on(name):
    place, recorder = Place(), Recorder()
    async with talking(
        call("write"), "later", "later", tools=[write], plugins=[hanging_hook(place, name), recorder]
    ) as session:
        await cancelled(session, place)

        assert place.left
        assert only_this_task()
        assert_whole(session.history)
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.CANCELLED]
        assert [entry.why for entry in session.records() if isinstance(entry, TurnOver)] == [Why.CANCELLED]
        assert (await session.say("again")).why is Why.COMPLETED
        assert_whole(session.history)


@pytest.mark.parametrize("name", ["transform_input", "decide_input", "around_turn"])
async def test_a_turn_cancelled_before_it_began_leaves_no_trace_in_the_conversation(name):
    place = Place()
    async with talking("hello", plugins=[hanging_hook(place, name)]) as session:
        await cancelled(session, place)

        assert only_this_task()
        assert session.history == ()
        assert (await session.say("again")).text == "hello"


async def test_a_turn_cancelled_in_a_model_call_keeps_what_the_person_said():
    hold = asyncio.Event()
    model = ScriptedModel("never", "later", hold=hold)
    place = Place(model.asked)
    async with talking(model=model) as session:
        await cancelled(session, place)
        hold.set()

        assert only_this_task()
        assert shape(session.history) == ["user go"]
        assert session.usage.estimated
        await session.say("again")
        assert shape(model.requests[-1].messages) == ["user go", "user again"]


def hanging(place, **marks):
    @tool(name="hang", **marks)
    async def run(n: int = 0) -> str:
        """Hang."""
        await place.hang()
        return f"ran {n}"

    return run


@pytest.mark.parametrize("marks", [{"effects": ()}, {"effects": ("shell",)}, {"effects": (), "exclusive": True}])
async def test_a_turn_cancelled_in_a_tool_gives_every_call_one_result(marks):
    place, recorder = Place(), Recorder()
    calls = (call("write", "a"), call("hang", "b"), call("hang", "c", n=1))
    async with talking(calls, "later", tools=[write, hanging(place, **marks)], plugins=[recorder]) as session:
        await cancelled(session, place)

        assert place.left
        assert only_this_task()
        assert_whole(session.history)
        assert len(results(session.history)) == 3
        assert results(session.history)[0] == "written 0"
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.CANCELLED]
        assert (await session.say("again")).text == "later"


async def test_what_the_session_remembers_is_what_its_transcript_says():
    place = Place()
    calls = (call("write", "a"), call("hang", "b"), call("hang", "c"))
    async with talking(calls, "later", tools=[write, hanging(place, effects=())]) as session:
        await cancelled(session, place)

        settled = [entry.message for entry in session.records() if isinstance(entry, Settled)]
        assert sorted(map(repr, settled)) == sorted(repr(m) for m in session.history if m.role == "tool")


async def test_a_cancelled_call_with_effects_is_asked_about_before_it_runs_again():
    place, asked = Place(), []

    async def approver(event):
        asked.append(event.asks)
        return True

    async with talking(
        call("hang"), call("hang"), "x", tools=[hanging(place, effects=("shell",))], approver=approver
    ) as session:
        await cancelled(session, place)
        await session.say("again")

        assert asked == [(("host:doubt", "the same call was interrupted before and may already have taken effect"),)]
        assert results(session.history)[-1] == "ran 0"


async def test_a_cancelled_call_that_only_reads_may_simply_run_again():
    place = Place()
    async with talking(call("hang"), call("hang"), "x", tools=[hanging(place, effects=())]) as session:
        await cancelled(session, place)
        await session.say("again")

        assert results(session.history)[-1] == "ran 0"


async def test_a_nested_call_with_effects_that_was_cancelled_is_asked_about_too():
    place, asked = Place(), []

    async def approver(event):
        asked.append(event.asks)
        return False

    @tool(effects=())
    async def delegate(context: ToolContext) -> str:
        """Delegate."""
        return str((await context.call_tool("hang", {})).for_model)

    tools = [delegate, hanging(place, effects=("shell",))]
    async with talking(call("delegate"), call("delegate"), "x", tools=tools, approver=approver) as session:
        await cancelled(session, place)
        await session.say("again")

        assert len(asked) == 1
        assert_whole(session.history)


async def test_what_a_session_doubts_is_what_its_transcript_doubts():
    """Here the cancellation comes between the announcement of a call and its start."""
    asked, turns = [], []

    class CancelsBelow:
        @hookimpl
        def observe(self, event):
            if isinstance(event, DecisionMade) and event.scope.parent_id and not turns[0].done():
                turns[0].cancel()

    async def approver(event):
        asked.append(event)
        return True

    @tool(effects=())
    async def delegate(context: ToolContext) -> str:
        """Delegate."""
        return str((await context.call_tool("write", {})).for_model)

    replies = [call("delegate"), call("delegate"), "x"]
    async with talking(*replies, tools=[delegate, write], plugins=[CancelsBelow()], approver=approver) as session:
        turns.append(asyncio.create_task(session.say("go")))
        with pytest.raises(asyncio.CancelledError):
            await turns[0]

        doubts = len(rebuild(session.records()).unsure)
        await session.say("again")
        assert len(asked) == doubts


async def test_a_blocking_tool_learns_that_the_turn_was_cancelled():
    started, saw = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool(effects=())
    def poll(context: ToolContext) -> str:
        """Poll."""
        loop.call_soon_threadsafe(started.set)
        pause = threading.Event()
        for _ in range(1000):
            if context.cancelled:
                saw.set()
                break
            pause.wait(0.005)
        return ""

    place = Place(started)
    async with talking(call("poll"), "later", tools=[poll]) as session:
        await cancelled(session, place)

        assert await asyncio.to_thread(saw.wait, 2)
        assert_whole(session.history)


async def test_a_blocking_tool_that_heeds_nothing_is_left_behind_and_asks():
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    asked = []

    async def approver(event):
        asked.append(event.asks)
        return False

    @tool(effects=("shell",))
    def stuck(n: int) -> str:
        """Hang."""
        loop.call_soon_threadsafe(started.set)
        release.wait(WAIT_S)
        return ""

    place = Place(started)
    try:
        async with talking(call("stuck", n=1), call("stuck", n=2), "x", tools=[stuck], approver=approver) as session:
            await cancelled(session, place)
            await session.say("again")

            assert asked == [(("host:doubt", "an earlier call of it was given up but is still running"),)]
            assert_whole(session.history)
    finally:
        release.set()
        for thread in threading.enumerate():
            if thread.name.startswith("pluggent-"):
                await asyncio.to_thread(thread.join, WAIT_S)


async def test_a_turn_cancelled_while_a_person_thinks_closes_the_call():
    place = Place()

    async def approver(event):
        await place.hang()
        return True

    async with talking(
        (call("write", "a"), call("write", "b")), "later", tools=[write], approver=approver,
        config=HostSettings(strict=True),
    ) as session:  # fmt: skip
        await cancelled(session, place)

        assert place.left
        assert only_this_task()
        assert_whole(session.history)
        assert not any(isinstance(entry, Dispatched) for entry in session.records())
        assert (await session.say("again")).text == "later"


async def test_a_tool_that_swallows_its_cancellation_is_left_behind_after_its_grace():
    reached, release, swallowed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(effects=("shell",))
    async def deaf() -> str:
        """Do not listen."""
        reached.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                swallowed.set()
        return "done after all"

    place = Place(reached)
    async with talking(
        call("deaf"), "later", tools=[deaf], config=HostSettings(timeouts=Timeouts(close_s=0.01))
    ) as session:
        await cancelled(session, place)

        assert swallowed.is_set()
        assert_whole(session.history)
        assert (await session.say("again")).text == "later"
        release.set()


@pytest.mark.parametrize("name", ["decide_tool_call", "decide_model_request", "transform_tool_call"])
async def test_a_hook_that_swallows_the_cancellation_gives_no_consent(name):
    reached, ran = asyncio.Event(), []

    async def deaf(self, event):
        if not reached.is_set():
            reached.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    @tool(effects=("shell",))
    async def act() -> str:
        """Act."""
        ran.append(1)
        return ""

    model, place, recorder = ScriptedModel(call("act"), "x"), Place(reached), Recorder()
    plugin = type("Deaf", (), {name: hookimpl(deaf)})()
    async with talking(model=model, tools=[act], plugins=[plugin, recorder]) as session:
        await cancelled(session, place)

        assert (ran, recorder.of(ToolStarted)) == ([], [])
        assert len(model.requests) == (0 if name == "decide_model_request" else 1)
        assert_whole(session.history)


async def test_a_deadline_from_outside_ends_a_turn():
    place = Place()
    async with talking(call("hang"), "later", tools=[hanging(place, effects=())]) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await session.say("go")
        place.hangs = False

        assert only_this_task()
        assert_whole(session.history)
        assert (await session.say("again")).text == "later"


async def test_a_second_cancellation_does_not_leave_the_history_open():
    place = Place()

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


async def test_a_direct_call_that_is_cancelled_is_asked_about_before_it_runs_again():
    place, asked = Place(), []

    async def approver(event):
        asked.append(event.asks)
        return False

    async with talking(tools=[hanging(place, effects=("shell",))], approver=approver) as session:
        calling = asyncio.create_task(session.call_tool("hang", {}))
        await place.reached.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        assert (await session.call_tool("hang", {})).is_error
        assert len(asked) == 1
        assert session.history == ()
