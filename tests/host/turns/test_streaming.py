"""A turn that is watched, begun or resumed: what the consumer sees, when, and what its leaving does."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from fake_plugins import plugin
from places import Again, hanging, only_this_task
from pluggent_hookspecs import (
    Ask,
    DecisionMade,
    Message,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    SessionError,
    ToolStarted,
    Usage,
    tool,
)
from pluggent_hookspecs.messages import Reasoning, Refusal, Text
from pluggent_hookspecs.models import Finished, TextDelta, UsageDelta
from pluggent_hookspecs.observations import Discarded, ModelCalled, ReasoningShown, TextShown, ToolFinished, TurnEnded
from pluggent_host.settings import HostSettings
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, Live, assert_whole, hosting, results, seen, shape, talking, text

PROVISIONAL = HostSettings(stream="provisional")
POLITE = plugin(transform_output=lambda event: Message.assistant(event.message.text.replace("damn", "darn")))
ADD = call("add", a=1, b=2)
BROKEN = ProviderError(ProviderErrorKind.STREAM_BROKEN, "broken")


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def shown(events):
    return [event async for event in events if isinstance(event, TextShown | ReasoningShown | Discarded)]


async def broken(session):
    """Watch a turn that has to fail with a ProviderError; return the error and what was seen before it."""
    told: list[Any] = []
    with pytest.raises(ProviderError) as caught:  # noqa: PT012 (it comes out of the iteration)
        async with session.stream("a rather long question about many things") as events:
            async for event in events:
                told.append(event)  # noqa: PERF401 (what came before the error counts)
    return caught.value, told


# ---- the whole way ----------------------------------------------------------------------


async def test_text_comes_as_the_model_gives_it():
    live = Live()
    async with talking(model=live) as session, session.stream("go") as events:
        words = (event.text async for event in events if isinstance(event, TextShown))
        for word in ("one ", "two "):
            live.queue.put_nowait((TextDelta(word),))
            assert await asyncio.wait_for(anext(words), WAIT_S) == word
        live.queue.put_nowait((Finished(),))
        assert [word async for word in words] == []
        assert events.result.text == "one two "


async def test_the_consumer_sees_what_observers_see_and_the_result_is_that_of_say():
    recorder = Recorder()
    async with talking(ADD, "it is 3", tools=[add], plugins=[recorder]) as session:
        before = len(recorder.events)
        async with session.stream("go") as events:
            told = [event async for event in events]
            assert [event async for event in events] == [], "they end with the turn"
        assert told == recorder.events[before:]

    assert [event.text for event in told if isinstance(event, TextShown)] == ["it ", "is ", "3"]
    assert isinstance(told[-1], TurnEnded)
    result = events.result
    assert (result.text, result.why, result.usage) == ("it is 3", Why.COMPLETED, Usage(input=20, output=10))
    assert shape(session.history) == ["user go", "assistant -> add", "tool 3", "assistant it is 3"]


async def test_reasoning_and_refusals_are_shown_too():
    reply = ModelResponse(Message.assistant((Reasoning("hm"), Text("a"), Refusal("no"))))
    async with talking(reply) as session, session.stream("go") as events:
        assert [(type(event), getattr(event, "text", "")) for event in await shown(events)] == [
            (ReasoningShown, "hm"), (TextShown, "a"), (TextShown, "no"),
        ]  # fmt: skip
        assert events.result.text == "ano"


# ---- policies in between ----------------------------------------------------------------


# ---- leaving early ----------------------------------------------------------------------


async def test_leaving_early_cancels_the_turn_and_keeps_the_text_that_had_come():
    live, recorder = Live(*text("one ", "two ")), Recorder()
    async with talking(model=live, plugins=[recorder]) as session:
        async with session.stream("go") as events:
            words = (event.text async for event in events if isinstance(event, TextShown))
            assert [await anext(words), await anext(words)] == ["one ", "two "]

        assert (live.streams, only_this_task()) == (0, True)
        with pytest.raises(SessionError, match="no result"):
            _ = events.result
        assert shape(session.history) == ["user go", "assistant one two "]
        assert (session.usage.estimated, session.usage.output) == (True, 2)
        assert [event.error for event in recorder.of(ModelCalled)] == ["cancelled"]
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.CANCELLED]


@pytest.mark.parametrize("policy", ["transform_output", "transform_model_response", "decide_output"])
async def test_the_text_that_had_come_stays_under_policies_too(policy):
    async def wait_a_little(event):
        await asyncio.sleep(0)

    live = Live(*text("one ", "two "))
    async with talking(model=live, plugins=[plugin(**{policy: wait_a_little})]) as session:
        async with session.stream("go"):
            while live.given < 2:  # noqa: ASYNC110 (what was taken is no event of the fake)
                await asyncio.sleep(0)

        assert shape(session.history) == ["user go", "assistant one two "]


async def test_leaving_early_reaches_a_running_tool():
    hang, started, left = hanging()

    async with talking(call("hang"), "later", tools=[hang]) as session:
        async with session.stream("go"):
            await started.wait()

        assert (left, only_this_task()) == ([1], True)
        assert_whole(session.history)
        assert (await session.say("again")).text == "later"


@pytest.mark.parametrize("how", ["raises", "reads nothing", "is cancelled", "closes twice"])
async def test_however_the_consumer_leaves_nothing_is_left_running(how):
    live, reading = Live(*text("one")), asyncio.Event()

    async def consume(session):
        async with session.stream("go") as events:
            if how == "closes twice":
                await events.aclose()
                await events.aclose()
            elif how != "reads nothing":
                async for _ in events:
                    if how == "raises":
                        raise ZeroDivisionError
                    reading.set()

    async with talking(model=live) as session:
        task = asyncio.create_task(consume(session))
        if how == "is cancelled":
            await reading.wait()
            task.cancel()
        expected = {"raises": ZeroDivisionError, "is cancelled": asyncio.CancelledError}.get(how)
        with pytest.raises(expected) if expected else contextlib.nullcontext():
            await task

        assert (live.streams, only_this_task()) == (0, True)
        assert_whole(session.history)


# ---- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ProviderErrorKind))
async def test_an_error_in_mid_stream_comes_after_the_events_and_what_was_shown_stays(kind):
    live = Live(*text("one ", "two "), ProviderError(kind, "broken"))
    async with talking(model=live) as session:
        error, told = await broken(session)

        assert error.kind is kind
        assert [event.text for event in told if isinstance(event, TextShown)] == ["one ", "two "]
        assert isinstance(told[-1], TurnEnded)
        assert (told[-1].why, live.streams) == (Why.FAILED, 0)
        assert shape(session.history)[1:] == ["assistant one two "]
        assert (session.usage.output, session.usage.estimated) == (2, True)


@pytest.mark.parametrize(
    ("live", "usage"),
    [
        (Live((TextDelta("one"), UsageDelta(Usage(input=7, output=1))), BROKEN), Usage(input=7, output=1)),
        (Live(ProviderError(ProviderErrorKind.AUTHENTICATION, "no key")), Usage()),
    ],
    ids=["what the vendor told is no estimate", "what was refused before any text costs nothing"],
)
async def test_usage_of_a_broken_stream(live, usage):
    async with talking(model=live) as session:
        await broken(session)

        assert session.usage == usage


async def test_a_stream_that_just_ends_is_broken():
    class Ends(Live):
        async def stream(self, request):
            yield (TextDelta("one"),)

    async with talking(model=Ends()) as session:
        error, _ = await broken(session)

        assert error.kind is ProviderErrorKind.STREAM_BROKEN
        assert shape(session.history)[1:] == ["assistant one"]


async def test_calls_of_a_broken_stream_are_not_run_and_not_kept():
    model = ScriptedModel(ModelResponse(Message.assistant("first", (ADD,))), cut=2)
    async with talking(model=model, tools=[add]) as session:
        _, told = await broken(session)

        assert shape(session.history)[1:] == ["assistant first"]
        assert not any(isinstance(event, ToolFinished) for event in told)


async def test_what_the_consumer_is_left_with_after_a_retry_is_the_reply():
    live = Live(*text("one ", "two "), BROKEN, *text("three "), (Finished(),))
    async with talking(model=live, plugins=[Again()]) as session, session.stream("go") as events:
        words = "".join(getattr(event, "text", "!") for event in await shown(events))

    assert words.rpartition("!")[1:] == ("!", "three ")
    assert events.result.text == "three "
    assert shape(session.history) == ["user go", "assistant three "]


# ---- misuse -----------------------------------------------------------------------------


async def test_a_stream_is_entered_first_and_used_once():
    async with talking("x") as session:
        stream = session.stream("go")
        with pytest.raises(SessionError, match="enter the stream first"):
            await anext(aiter(stream))
        with pytest.raises(SessionError, match="no result"):
            _ = stream.result
        async with stream as events:
            await seen(events)
        with pytest.raises(SessionError, match="used once"):
            async with stream:
                pass
        await session.stream("never entered").aclose()


async def test_a_second_turn_beside_a_stream_is_refused():
    async with talking(model=Live()) as session, session.stream("go"):
        await asyncio.sleep(0)

        with pytest.raises(SessionError, match="in the middle of a turn"):
            await session.say("and?")


async def test_an_empty_message_is_refused_where_the_stream_is_read():
    async with talking("x") as session:
        with pytest.raises(SessionError, match="empty"):
            async with session.stream("") as events:
                await seen(events)


# ---- a turn that is resumed -------------------------------------------------------------

PAUSES: dict[str, Any] = {
    "tools": [add], "plugins": [plugin(decide_tool_call=Ask("may I?"))], "config": HostSettings(on_ask="pause"),
}  # fmt: skip
TWO = (call("add", "1", a=1, b=2), call("add", "2", a=1, b=3))
YES = {"1": True}


async def resumed(session, answers=None):
    async with session.stream_resume(answers) as events:
        return [event async for event in events], events


async def test_a_resumed_turn_is_watched_as_it_goes_on_in_another_process(tmp_path: Path):
    async with hosting(TWO[0], **PAUSES, state_dir=tmp_path) as host, await host.session("s") as session:
        await session.say("go")
    async with hosting("one two three", **PAUSES, state_dir=tmp_path) as host, await host.session("s") as session:
        told, events = await resumed(session, YES)

    assert [event.text for event in told if isinstance(event, TextShown)] == ["one ", "two ", "three"]
    names = [type(event) for event in told if isinstance(event, DecisionMade | ToolStarted | ToolFinished | TurnEnded)]
    assert names.index(ToolStarted) < names.index(ToolFinished) < names.index(TurnEnded) == len(names) - 1
    assert {event.scope.origin for event in told} == {"resume"}
    assert (events.result.why, events.result.text) == (Why.COMPLETED, "one two three")
    assert results(session.history) == ["3"]


async def test_a_turn_that_pauses_again_has_the_pause_as_its_result():
    async with talking(TWO, "ok", **PAUSES) as session:
        await session.say("go")
        _, paused = await resumed(session, YES)
        _, done = await resumed(session, {"2": True})

    assert_whole(session.history)
    assert (paused.result.why, [each.call_id for each in paused.result.pending]) == (Why.PAUSED, ["2"])
    assert done.result.text == "ok"


async def test_what_does_not_wait_is_an_error_of_the_stream():
    async with talking(TWO[0], **PAUSES) as session:
        with pytest.raises(SessionError, match="no turn that waits"):
            await resumed(session)
        await session.say("go")
        with pytest.raises(SessionError, match="no call waits under 'x'"):
            await resumed(session, {"x": True})

        assert session.paused


async def test_leaving_a_resumed_turn_early_cancels_it_and_no_other_begins_before():
    async with talking(TWO[0], "one two three " * 100, **PAUSES) as session:
        await session.say("go")
        async with session.stream_resume(YES) as events:
            async for event in events:
                with pytest.raises(SessionError, match="in the middle of a turn"):
                    await session.resume()
                if isinstance(event, TextShown):
                    break

        assert_whole(session.history)
        assert (session.paused, shape(session.history)[2]) == (False, "tool 3")
        assert (await session.say("still there?")).why is Why.COMPLETED


async def test_a_resumed_turn_that_fails_raises_at_the_end_of_its_events():
    async with talking(TWO[0], BROKEN, **PAUSES) as session:
        await session.say("go")
        with pytest.raises(ProviderError, match="broken"):
            await resumed(session, YES)

    assert_whole(session.history)
