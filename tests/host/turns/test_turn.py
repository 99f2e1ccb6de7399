"""Turns through the public door: what joins the conversation, how they end, what they cost."""

import asyncio
import contextlib

import pytest
from pluggent_hookspecs import (
    Deny,
    HookError,
    Message,
    ProviderError,
    ProviderErrorKind,
    Respond,
    SessionError,
    ToolOutput,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import Image, Role, Text
from pluggent_hookspecs.observations import TurnEnded, UserNotified
from pluggent_host import Limits
from pluggent_host.settings import Grants, HostSettings
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import assert_whole, hosting, results, shape, talking


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def again(request):
    """Call the next number, for ever: a model that never stops."""
    return call("add", f"c{len(request.messages)}", a=len(request.messages), b=1)


# ---- what joins the conversation --------------------------------------------------------


async def test_one_tool_round_gives_user_call_result_and_answer():
    async with talking(call("add", a=1, b=2), "it is 3", tools=[add]) as session:
        result = await session.say("1+2?")

        assert shape(session.history) == ["user 1+2?", "assistant -> add", "tool 3", "assistant it is 3"]
        assert (result.text, result.why) == ("it is 3", Why.COMPLETED)


async def test_three_tool_rounds_give_eight_messages():
    replies = [call("add", a=n, b=2) for n in range(3)]
    async with talking(*replies, "done", tools=[add]) as session:
        await session.say("go")

        assert len(session.history) == 8
        assert_whole(session.history)


async def test_an_answer_without_calls_needs_one_request():
    model = ScriptedModel("hello")
    async with talking(model=model, tools=[add]) as session:
        await session.say("hi")

        assert len(model.requests) == 1
        assert [spec.name for spec in model.requests[0].tools] == ["add"]


async def test_later_turns_see_the_earlier_ones():
    model = ScriptedModel("one", call("add", a=1, b=1), "two", "three")
    async with talking(model=model, tools=[add]) as session:
        for text in "abc":
            await session.say(text)

        assert shape(model.requests[-1].messages) == [
            "user a", "assistant one", "user b", "assistant -> add", "tool 2", "assistant two", "user c",
        ]  # fmt: skip
        assert session.history[:-1] == model.requests[-1].messages


async def test_sessions_do_not_see_each_other():
    model = ScriptedModel("one", "two")
    async with hosting(model=model) as host, await host.session() as first, await host.session() as second:
        await first.say("a")
        await second.say("b")

        assert first.id != second.id
        assert shape(model.requests[-1].messages) == ["user b"]
        assert shape(first.history) == ["user a", "assistant one"]


async def test_two_hosts_in_one_process_share_nothing():
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    async with talking(call("add", a=1, b=2), tools=[add]) as one, talking(call("add", a=1, b=2), tools=[shout]) as two:
        await asyncio.gather(one.say("a"), two.say("b"))

        assert results(one.history) == ["3"]
        assert results(two.history)[0].startswith("Error: there is no tool 'add'")


async def test_every_session_has_its_own_tools():
    model = ScriptedModel(call("add", a=1, b=2), "x", call("add", a=1, b=2), "y")
    async with hosting(model=model, tools=[add]) as host:
        with_tools, without = await host.session(), await host.session(tools=[])
        await with_tools.say("a")
        await without.say("b")

        assert results(with_tools.history) == ["3"]
        assert results(without.history) == ["Error: there is no tool 'add'. No tools are offered."]


async def test_the_system_prompt_is_sent_first_and_never_stored():
    model = ScriptedModel(call("add", a=1, b=2), "x")
    async with talking(model=model, tools=[add], system="be short") as session:
        await session.say("a")

        assert [shape(request.messages)[0] for request in model.requests] == ["system be short"] * 2
        assert "system" not in {message.role for message in session.history}


async def test_usage_is_summed_over_rounds_and_turns():
    async with talking(call("add", a=1, b=2), "x", "y", tools=[add]) as session:
        first = await session.say("a")
        await session.say("b")

        assert first.usage == Usage(input=20, output=10)
        assert session.usage == Usage(input=30, output=15)


async def test_parts_that_are_no_text_reach_the_model():
    model = ScriptedModel("a cat")
    picture = Image(data="aGk=")
    async with talking(model=model) as session:
        await session.say((Text("what is it?"), picture))

        assert model.requests[0].messages[0].content == (Text("what is it?"), picture)


# ---- how a turn ends --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "name", "calls"),
    [
        (Limits(tool_rounds=2), "tool_rounds", 3),
        (Limits(model_calls=2), "model_calls", 2),
        (Limits(tokens=20), "tokens", 2),
    ],
)
async def test_a_model_that_never_stops_is_stopped_with_its_history_whole(limits, name, calls):
    async with talking(*[again] * 60, tools=[add], limits=limits) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, name)
        assert [message.role for message in session.history].count(Role.ASSISTANT) == calls
        assert_whole(session.history)


async def test_limits_of_one_turn_stand_above_those_of_the_session():
    async with talking(*[again] * 60, tools=[add]) as session:
        assert (await session.say("go", limits=Limits(tool_rounds=1))).limit == "tool_rounds"
        assert results(session.history) == ["2", "This call was not run: the turn ended before."]


async def test_the_same_call_over_and_over_ends_the_turn():
    async with talking(*[call("add", a=1, b=2)] * 9, tools=[add]) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, "repeats")
        assert results(session.history) == ["3"] * 3
        assert_whole(session.history)


async def test_a_session_goes_on_after_a_limit():
    async with talking(*[again] * 2, "better now", tools=[add], limits=Limits(tool_rounds=1)) as session:
        await session.say("go")

        assert (await session.say("and?")).text == "better now"
        assert_whole(session.history)


async def test_wall_time_ends_a_turn_in_the_middle_of_a_model_call():
    model = ScriptedModel("never", hold=asyncio.Event())
    async with talking(model=model, limits=Limits(wall_s=0.02)) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, "wall_s")
        assert_whole(session.history)


async def test_wall_time_ends_a_turn_in_the_middle_of_a_tool_call():
    @tool(effects=())
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    async with talking(call("hang"), tools=[hang], limits=Limits(wall_s=0.02)) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, "wall_s")
        assert_whole(session.history)


def asking(**fields):
    """Return a tool whose output has *fields*."""

    @tool(effects=())
    def ask() -> ToolOutput:
        """Ask."""
        return ToolOutput("asked", **fields)

    return ask


async def test_a_tool_can_pause_the_turn_for_the_person():
    async with talking(call("ask"), "thanks", tools=[asking(pause_for_input=True, for_user="Which one?")]) as session:
        result = await session.say("go")

        assert (result.why, result.text) == (Why.WAITING, "Which one?")
        assert shape(session.history) == ["user go", "assistant -> ask", "tool asked"]
        assert (await session.say("that one")).text == "thanks"


GRANTED = HostSettings(grants=Grants(handled=("app:tools:tool/ask",)))


async def test_a_granted_tool_ends_the_turn_when_it_has_served_the_person():
    async with talking(call("ask"), tools=[asking(handled=True, for_user="here")], config=GRANTED) as session:
        result = await session.say("go")

        assert (result.why, result.text) == (Why.HANDLED, "here")


async def test_a_tool_without_the_grant_cannot_end_the_turn():
    async with talking(call("ask"), "model speaks", tools=[asking(handled=True, for_user="here")]) as session:
        result = await session.say("go")

        assert (result.why, result.text) == (Why.COMPLETED, "model speaks")


@pytest.mark.parametrize(("config", "shown"), [(GRANTED, []), (None, ["psst"])])
async def test_only_a_granted_tool_can_be_silent(config, shown):
    recorder = Recorder()
    ask = asking(silent=True, for_user="psst")
    async with talking(call("ask"), "x", tools=[ask], plugins=[recorder], config=config) as session:
        await session.say("go")

        assert [event.message.text for event in recorder.of(UserNotified)] == shown


async def test_what_a_tool_has_for_the_person_is_shown_with_its_media_and_not_to_the_model():
    recorder, picture = Recorder(), Image(data="aGk=")
    ask = asking(for_user="look", media=(picture,))
    async with talking(call("ask"), "x", tools=[ask], plugins=[recorder]) as session:
        await session.say("go")

        (event,) = recorder.of(UserNotified)
        assert (event.message.content, event.source) == ((Text("look"), picture), "app:tools:tool/ask")
        assert results(session.history) == ["asked"]


# ---- what goes wrong --------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ProviderErrorKind))
async def test_a_provider_error_is_raised_and_leaves_the_history_whole(kind):
    recorder = Recorder()
    error = ProviderError(kind, "no", retry_after=2.0, status=418)
    async with talking(call("add", a=1, b=2), error, "fine", tools=[add], plugins=[recorder]) as session:
        with pytest.raises(ProviderError) as caught:
            await session.say("go")

        assert caught.value is error
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.FAILED]
        assert_whole(session.history)
        assert (await session.say("again")).text == "fine"


@pytest.mark.parametrize("hook", ["transform_model_request", "transform_input", "around_model_call", "around_turn"])
async def test_a_hook_that_may_not_fail_raises_and_leaves_the_history_whole(hook):
    async def around(self, event, call_next):
        raise ZeroDivisionError("oops")

    def transform(self, event):
        raise ZeroDivisionError("oops")

    broken = type("Broken", (), {hook: hookimpl(around if hook.startswith("around") else transform)})()
    async with talking("x", plugins=[broken]) as session:
        with pytest.raises(HookError, match="ZeroDivisionError: oops") as caught:
            await session.say("go")

        assert (caught.value.plugin, caught.value.hook) == ("app:broken", hook)
        assert_whole(session.history)


@pytest.mark.parametrize("value", [12, b"bytes", Message.user("not an answer"), None])
@pytest.mark.parametrize("hook", ["decide_input", "decide_model_request"])
async def test_an_answer_that_answers_nothing_counts_as_a_denial(hook, value):
    def answers(self, event):
        return Respond(value)

    bad = type("Bad", (), {hook: hookimpl(answers)})()
    async with talking("x", plugins=[bad]) as session:
        result = await session.say("go")

        assert result.why is Why.DENIED
        assert_whole(session.history)


async def test_a_policy_can_answer_in_place_of_the_model():
    class Cache:
        @hookimpl
        def decide_input(self, event):
            return Respond("from the cache")

    model = ScriptedModel("x")
    async with talking(model=model, plugins=[Cache()]) as session:
        result = await session.say("go")

        assert (result.text, result.why, model.requests) == ("from the cache", Why.COMPLETED, [])
        assert shape(session.history) == ["user go", "assistant from the cache"]


async def test_a_denied_input_asks_no_model_and_joins_no_conversation():
    class No:
        @hookimpl
        def decide_input(self, event):
            return Deny("model reads", tell_user="not today")

    model = ScriptedModel("x")
    async with talking(model=model, plugins=[No()]) as session:
        result = await session.say("go")

        assert (result.why, result.detail) == (Why.DENIED, "not today")
        assert (model.requests, session.history) == ([], ())


async def test_a_denied_output_is_neither_shown_nor_kept():
    class No:
        @hookimpl
        def decide_output(self, event):
            return Deny("", tell_user="withheld") if "secret" in event.message.text else None

    async with talking("a secret", "fine", plugins=[No()]) as session:
        result = await session.say("go")

        assert (result.why, result.text) == (Why.DENIED, "withheld")
        assert "secret" not in repr(session.history)
        assert (await session.say("again")).text == "fine"


async def test_an_around_that_replaces_the_result_of_a_turn_fails_and_repeats_nothing():
    class Polish:
        @hookimpl
        async def around_turn(self, event, call_next):
            await call_next()
            return "polished"

    async with talking("raw", plugins=[Polish()]) as session:
        with pytest.raises(HookError, match="cannot be replaced"):
            await session.say("go")

        assert shape(session.history) == ["user go", "assistant raw"]


async def test_an_around_that_runs_a_turn_twice_repeats_nothing():
    class Twice:
        @hookimpl
        async def around_turn(self, event, call_next):
            await call_next()
            return await call_next()

    async with talking("one", "two", plugins=[Twice()]) as session:
        with contextlib.suppress(HookError, SessionError):
            await session.say("go")

        assert [message.text for message in session.history if message.role == "user"] == ["go"]


async def test_an_observer_that_raises_anything_does_not_disturb_a_turn():
    class Rude:
        @hookimpl
        def observe(self, event):
            raise asyncio.CancelledError

    async with talking("x", plugins=[Rude()]) as session:
        assert (await session.say("go")).text == "x"
