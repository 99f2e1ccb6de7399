"""A turn that is watched: what the consumer sees, when, and what its leaving does."""

import asyncio

import pytest
from places import Again, hanging, only_this_task
from pluggent_hookspecs import (
    Deny,
    Message,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    SessionError,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import Reasoning, Refusal, Text
from pluggent_hookspecs.models import Finished, TextDelta, UsageDelta
from pluggent_hookspecs.observations import Discarded, ModelCalled, ReasoningShown, TextShown, ToolFinished, TurnEnded
from pluggent_host.settings import HostSettings
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, Live, assert_whole, seen, shape, talking, text


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# ---- the whole way ----------------------------------------------------------------------


async def test_text_comes_as_the_model_gives_it():
    live = Live()
    async with talking(model=live) as session, session.stream("go") as events:
        shown = (event.text async for event in events if isinstance(event, TextShown))
        for word in ("one ", "two "):
            live.queue.put_nowait((TextDelta(word),))
            assert await asyncio.wait_for(anext(shown), WAIT_S) == word
        live.queue.put_nowait((Finished(),))
        assert [word async for word in shown] == []
        assert events.result.text == "one two "


async def test_the_result_is_that_of_say():
    async with talking(call("add", a=1, b=2), "it is 3", tools=[add]) as session:
        async with session.stream("go") as events:
            assert await seen(events) == ["it ", "is ", "3"]

        assert (events.result.text, events.result.why) == ("it is 3", Why.COMPLETED)
        assert events.result.usage == Usage(input=20, output=10)
        assert shape(session.history) == ["user go", "assistant -> add", "tool 3", "assistant it is 3"]


async def test_the_consumer_sees_what_observers_see():
    recorder = Recorder()
    async with talking(call("add", a=1, b=2), "x", tools=[add], plugins=[recorder]) as session:
        before = len(recorder.events)
        async with session.stream("go") as events:
            assert [event async for event in events] == recorder.events[before:]


async def test_reasoning_and_refusals_are_shown_too():
    reply = ModelResponse(Message.assistant((Reasoning("hm"), Text("a"), Refusal("no"))))
    async with talking(reply) as session, session.stream("go") as events:
        shown = [event async for event in events if isinstance(event, TextShown | ReasoningShown)]

        assert [(type(event), event.text) for event in shown] == [
            (ReasoningShown, "hm"), (TextShown, "a"), (TextShown, "no"),
        ]  # fmt: skip
        assert events.result.text == "ano"


async def test_the_events_of_a_stream_end_with_the_turn():
    async with talking("x") as session, session.stream("go") as events:
        everything = [event async for event in events]

        assert isinstance(everything[-1], TurnEnded)
        assert [event async for event in events] == []


# ---- policies in between ----------------------------------------------------------------


class Polite:
    @hookimpl
    def transform_output(self, event):
        return Message.assistant(event.message.text.replace("damn", "darn"))


async def test_nothing_is_shown_before_the_output_policies_have_passed_it():
    async with talking("damn it", plugins=[Polite()]) as session, session.stream("go") as events:
        assert await seen(events) == ["darn it"]
        assert events.result.text == "darn it"


async def test_a_provisional_stream_takes_back_what_a_policy_changes():
    async with (
        talking("damn it", plugins=[Polite()], config=HostSettings(stream="provisional")) as session,
        session.stream("go") as events,
    ):
        shown = [event async for event in events if isinstance(event, TextShown | Discarded)]

        assert [getattr(event, "text", "!") for event in shown] == ["damn ", "it", "!", "darn it"]


async def test_a_provisional_stream_takes_back_what_a_policy_withholds():
    class No:
        @hookimpl
        def decide_output(self, event):
            return Deny("", tell_user="withheld")

    async with (
        talking("a secret", plugins=[No()], config=HostSettings(stream="provisional")) as session,
        session.stream("go") as events,
    ):
        shown = [event async for event in events if isinstance(event, TextShown | Discarded)]

        assert isinstance(shown[-1], Discarded)
        assert events.result.why is Why.DENIED
        assert "secret" not in repr(session.history)


# ---- leaving early ----------------------------------------------------------------------


async def test_leaving_early_cancels_the_turn_and_closes_the_providers_stream():
    live = Live(*text("one ", "two "))
    async with talking(model=live) as session:
        async with session.stream("go") as events:
            async for event in events:
                if isinstance(event, TextShown):
                    break

        assert live.streams == 0
        assert only_this_task()
        with pytest.raises(SessionError, match="no result"):
            _ = events.result


async def test_the_text_that_had_come_stays_in_the_conversation():
    live = Live(*text("one ", "two "))
    recorder = Recorder()
    async with talking(model=live, plugins=[recorder]) as session:
        async with session.stream("go") as events:
            shown = (event.text async for event in events if isinstance(event, TextShown))
            assert [await anext(shown), await anext(shown)] == ["one ", "two "]

        assert shape(session.history) == ["user go", "assistant one two "]
        assert session.usage.estimated
        assert session.usage.output == 2
        assert [event.error for event in recorder.of(ModelCalled)] == ["cancelled"]
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.CANCELLED]


@pytest.mark.parametrize("policy", ["transform_output", "transform_model_response", "decide_output"])
async def test_the_text_that_had_come_stays_under_policies_too(policy):
    async def wait_a_little(self, event):
        await asyncio.sleep(0)

    live = Live(*text("one ", "two "))
    plugin = type("Slow", (), {policy: hookimpl(wait_a_little)})()
    async with talking(model=live, plugins=[plugin]) as session:
        async with session.stream("go"):
            while live.given < 2:  # noqa: ASYNC110 (what was taken is no event of the fake)
                await asyncio.sleep(0)

        assert shape(session.history) == ["user go", "assistant one two "]


async def test_leaving_early_reaches_a_running_tool():
    hang, started, left = hanging()

    async with talking(call("hang"), "later", tools=[hang]) as session:
        async with session.stream("go"):
            await started.wait()

        assert left == [1]
        assert only_this_task()
        assert_whole(session.history)
        assert (await session.say("again")).text == "later"


async def test_an_error_of_the_consumer_ends_the_turn_and_comes_through():
    live = Live(*text("one"))
    async with talking(model=live) as session:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (it is raised by the consumer)
            async with session.stream("go") as events:
                async for _ in events:
                    raise ZeroDivisionError

        assert (live.streams, only_this_task()) == (0, True)


async def test_leaving_before_reading_anything_ends_the_turn():
    live = Live()
    async with talking(model=live) as session:
        async with session.stream("go"):
            pass

        assert (live.streams, only_this_task()) == (0, True)
        assert_whole(session.history)


async def test_a_cancelled_consumer_leaves_nothing_running():
    live = Live(*text("one"))
    reading = asyncio.Event()

    async def consume(session):
        async with session.stream("go") as events:
            async for _ in events:
                reading.set()

    async with talking(model=live) as session:
        task = asyncio.create_task(consume(session))
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (live.streams, only_this_task()) == (0, True)


async def test_closing_twice_is_fine():
    live = Live()
    async with talking(model=live) as session:
        async with session.stream("go") as events:
            await events.aclose()
            await events.aclose()

        assert only_this_task()


# ---- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ProviderErrorKind))
async def test_an_error_in_mid_stream_reaches_the_consumer_after_the_events(kind):
    live = Live(*text("one ", "two "), ProviderError(kind, "broken"))
    shown = []
    async with talking(model=live) as session:
        with pytest.raises(ProviderError, match="broken"):  # noqa: PT012 (it comes out of the iteration)
            async with session.stream("go") as events:
                async for event in events:
                    shown.append(event)  # noqa: PERF401 (what came before the error counts)

        assert [event.text for event in shown if isinstance(event, TextShown)] == ["one ", "two "]
        assert isinstance(shown[-1], TurnEnded)
        assert shown[-1].why == Why.FAILED
        assert live.streams == 0


@pytest.mark.parametrize("kind", list(ProviderErrorKind))
async def test_what_was_shown_before_the_stream_broke_stays_in_the_conversation(kind):
    live = Live(*text("one ", "two "), ProviderError(kind, "broken"))
    async with talking(model=live) as session:
        with pytest.raises(ProviderError, match="broken"):
            async with session.stream("go") as events:
                await seen(events)

        assert shape(session.history) == ["user go", "assistant one two "]
        assert session.usage == Usage(input=0, output=2, estimated=True)


async def test_usage_that_the_vendor_told_before_the_break_is_no_estimate():
    told = Usage(input=7, output=1)
    live = Live((TextDelta("one"), UsageDelta(told)), ProviderError(ProviderErrorKind.STREAM_BROKEN, "broken"))
    async with talking(model=live) as session:
        with pytest.raises(ProviderError, match="broken"):
            async with session.stream("go") as events:
                await seen(events)

        assert session.usage == told


async def test_a_request_that_was_refused_before_any_text_costs_nothing():
    live = Live(ProviderError(ProviderErrorKind.AUTHENTICATION, "no key"))
    async with talking(model=live) as session:
        with pytest.raises(ProviderError, match="no key"):
            async with session.stream("a rather long question about many things") as events:
                await seen(events)

        assert session.usage == Usage()


async def test_a_stream_that_just_ends_is_broken():
    class Ends(Live):
        async def stream(self, request):
            yield (TextDelta("one"),)

    async with talking(model=Ends()) as session:
        with pytest.raises(ProviderError) as caught:
            async with session.stream("go") as events:
                await seen(events)

        assert caught.value.kind is ProviderErrorKind.STREAM_BROKEN
        assert shape(session.history) == ["user go", "assistant one"]


async def test_calls_of_a_broken_stream_are_not_run_and_not_kept():
    model = ScriptedModel(ModelResponse(Message.assistant("first", (call("add", a=1, b=2),))), cut=2)
    recorder = Recorder()
    async with talking(model=model, tools=[add], plugins=[recorder]) as session:
        with pytest.raises(ProviderError, match="cut"):
            async with session.stream("go") as events:
                await seen(events)

        assert shape(session.history) == ["user go", "assistant first"]
        assert recorder.of(ToolFinished) == []


async def test_what_the_consumer_is_left_with_after_a_retry_is_the_reply():
    broken = ProviderError(ProviderErrorKind.STREAM_BROKEN, "broken")
    live = Live(*text("one ", "two "), broken, *text("three "), (Finished(),))
    left = ""
    async with talking(model=live, plugins=[Again()]) as session, session.stream("go") as events:
        async for event in events:
            if isinstance(event, Discarded):
                left = ""
            if isinstance(event, TextShown):
                left += event.text

        assert (left, events.result.text) == ("three ", "three ")
        assert shape(session.history) == ["user go", "assistant three "]


# ---- misuse -----------------------------------------------------------------------------


async def test_a_stream_has_to_be_entered():
    async with talking("x") as session:
        stream = session.stream("go")

        with pytest.raises(SessionError, match="enter the stream first"):
            await anext(aiter(stream))
        with pytest.raises(SessionError, match="no result"):
            _ = stream.result
        await stream.aclose()


async def test_a_stream_is_used_once():
    async with talking("x") as session:
        stream = session.stream("go")
        async with stream as events:
            await seen(events)

        with pytest.raises(SessionError, match="used once"):
            async with stream:
                pass


async def test_a_second_turn_beside_a_stream_is_refused():
    live = Live()
    async with talking(model=live) as session, session.stream("go"):
        await asyncio.sleep(0)

        with pytest.raises(SessionError, match="in the middle of a turn"):
            await session.say("and?")


async def test_an_empty_message_is_refused_where_the_stream_is_read():
    async with talking("x") as session:
        with pytest.raises(SessionError, match="empty"):
            async with session.stream("") as events:
                await seen(events)
