"""Turns through the public API: what joins the conversation, how they end, what they cost."""

import asyncio
import contextlib

import pytest
from fake_plugins import plugin
from pluggent_hookspecs import (
    Deny,
    HookError,
    ProviderError,
    ProviderErrorKind,
    SessionError,
    ToolOutput,
    Usage,
    tool,
)
from pluggent_hookspecs.messages import Image, Role, Text
from pluggent_hookspecs.observations import TurnEnded, UserNotified
from pluggent_host import Limits
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import assert_whole, hosting, results, said, shape, talking


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=())
async def hang() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return ""


ADD = call("add", a=1, b=2)


def again(request):
    """Call the next number, for ever: a model that never stops."""
    return call("add", f"c{len(request.messages)}", a=len(request.messages), b=1)


# ---- what joins the conversation --------------------------------------------------------


async def test_later_turns_see_the_earlier_ones_and_usage_is_summed():
    model = ScriptedModel("one", ADD, "two", "three")
    async with talking(model=model, tools=[add]) as session:
        turns = [await session.say(text) for text in "abc"]

    assert [(turn.text, turn.why, turn.usage) for turn in turns] == [
        ("one", Why.COMPLETED, Usage(10, 5)), ("two", Why.COMPLETED, Usage(20, 10)),
        ("three", Why.COMPLETED, Usage(10, 5)),
    ]  # fmt: skip
    assert session.usage == Usage(input=40, output=20)
    assert [spec.name for spec in model.requests[0].tools] == ["add"]
    assert shape(model.requests[-1].messages) == [
        "user a", "assistant one", "user b", "assistant -> add", "tool 3", "assistant two", "user c",
    ]  # fmt: skip
    assert session.history[:-1] == model.requests[-1].messages


async def test_three_tool_rounds_give_eight_messages():
    _, session = await said(*[call("add", a=n, b=2) for n in range(3)], tools=[add])

    assert len(session.history) == 8


async def test_sessions_and_hosts_see_nothing_of_each_other():
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    model = ScriptedModel("one", "two", ADD, "three", ADD)
    async with (
        hosting(model=model, tools=[add]) as host,
        await host.session() as first,
        await host.session(tools=[]) as second,
        talking(ADD, tools=[shout]) as other,
    ):
        await first.say("a")
        await second.say("b")

        assert first.id != second.id
        assert shape(model.requests[-1].messages) == ["user b"]
        assert shape(first.history) == ["user a", "assistant one"]
        await first.say("c")
        await asyncio.gather(second.say("d"), other.say("e"))
        assert results(first.history) == ["3"]
        assert results(second.history) == ["Error: there is no tool 'add'. No tools are offered."]
        assert results(other.history)[0].startswith("Error: there is no tool 'add'")


async def test_the_system_prompt_is_sent_first_and_never_stored():
    model = ScriptedModel(ADD)
    _, session = await said(model=model, tools=[add], system="be short")

    assert [shape(request.messages)[0] for request in model.requests] == ["system be short"] * 2
    assert "system" not in {message.role for message in session.history}


async def test_parts_that_are_no_text_reach_the_model():
    model, content = ScriptedModel("a cat"), (Text("what is it?"), Image(data="aGk="))
    async with talking(model=model) as session:
        await session.say(content)

    assert model.requests[0].messages[0].content == content


# ---- how a turn ends --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "name", "calls"),
    [
        (Limits(tool_rounds=2), "tool_rounds", 3),
        (Limits(model_calls=2), "model_calls", 2),
        (Limits(tokens=20), "tokens", 2),
        (Limits(wall_s=0.0), "wall_s", 1),
    ],
)
async def test_a_model_that_never_stops_is_stopped_and_the_session_goes_on(limits, name, calls):
    async with talking(*[again] * calls, "better now", tools=[add], limits=limits) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, name)
        assert [message.role for message in session.history].count(Role.ASSISTANT) == calls
        assert_whole(session.history)
        assert (await session.say("and?")).text == "better now"
        assert_whole(session.history)


async def test_limits_of_one_turn_stand_above_those_of_the_session():
    async with talking(*[again] * 60, tools=[add]) as session:
        assert (await session.say("go", limits=Limits(tool_rounds=1))).limit == "tool_rounds"

    assert results(session.history) == ["2", "This call was not run: the turn ended before."]


async def test_the_same_call_over_and_over_ends_the_turn():
    result, session = await said(*[ADD] * 9, tools=[add])

    assert (result.why, result.limit, results(session.history)) == (Why.LIMIT, "repeats", ["3"] * 3)


@pytest.mark.parametrize("model", [ScriptedModel("never", hold=asyncio.Event()), ScriptedModel(call("hang"))])
async def test_wall_time_ends_a_turn_in_the_middle_of_a_call_of_the_model_or_a_tool(model):
    result, _ = await said(model=model, tools=[hang], limits=Limits(wall_s=0.02))

    assert (result.why, result.limit) == (Why.LIMIT, "wall_s")


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


async def test_what_a_tool_has_for_the_person_is_shown_with_its_media_and_not_to_the_model():
    recorder, picture = Recorder(), Image(data="aGk=")
    _, session = await said(call("ask"), tools=[asking(for_user="look", media=(picture,))], plugins=[recorder])

    (event,) = recorder.of(UserNotified)
    assert (event.message.content, event.source) == ((Text("look"), picture), "app:tools:tool/ask")
    assert results(session.history) == ["asked"]


# ---- what goes wrong --------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ProviderErrorKind))
async def test_a_provider_error_is_raised_and_leaves_the_history_whole(kind):
    recorder, error = Recorder(), ProviderError(kind, "no", retry_after=2.0, status=418)
    async with talking(ADD, error, "fine", tools=[add], plugins=[recorder]) as session:
        with pytest.raises(ProviderError) as caught:
            await session.say("go")

        assert caught.value is error
        assert [event.why for event in recorder.of(TurnEnded)] == [Why.FAILED]
        assert_whole(session.history)
        assert (await session.say("again")).text == "fine"


@pytest.mark.parametrize("hook", ["transform_model_request", "transform_input", "around_model_call", "around_turn"])
async def test_a_hook_that_may_not_fail_raises_and_leaves_the_history_whole(hook):
    async def around(event, call_next):
        raise ZeroDivisionError("oops")

    answer = around if hook.startswith("around") else ZeroDivisionError("oops")
    recorder = Recorder()
    async with talking("x", plugins=[plugin("Broken", **{hook: answer}), recorder]) as session:
        with pytest.raises(HookError, match="ZeroDivisionError: oops") as caught:
            await session.say("go")
        assert type(session.records()[-1]).__name__ == "TurnOver"

    assert (caught.value.plugin, caught.value.hook) == ("app:broken", hook)
    assert [event.why for event in recorder.of(TurnEnded)] == [Why.FAILED]
    assert_whole(session.history)


async def test_a_denied_output_is_neither_shown_nor_kept():
    no = plugin(decide_output=lambda e: Deny("", tell_user="withheld") if "secret" in e.message.text else None)
    async with talking("a secret", "fine", plugins=[no]) as session:
        result = await session.say("go")

        assert (result.why, result.text) == (Why.DENIED, "withheld")
        assert "secret" not in repr(session.history)
        assert (await session.say("again")).text == "fine"


async def test_an_around_that_runs_a_turn_twice_repeats_nothing():
    async def twice(event, call_next):
        await call_next()
        return await call_next()

    async with talking("one", "two", plugins=[plugin(around_turn=twice)]) as session:
        with contextlib.suppress(HookError, SessionError):
            await session.say("go")

    assert [message.text for message in session.history if message.role == "user"] == ["go"]
