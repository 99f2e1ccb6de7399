"""The rules of what a person is shown: rules 24 and 25."""

import asyncio
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    Ask,
    Deny,
    Discarded,
    FinishReason,
    HookError,
    Image,
    Message,
    ModelResponse,
    ProviderError,
    Reasoning,
    ReasoningShown,
    Text,
    TextShown,
    ToolOutput,
    UserNotified,
    hookimpl,
    tool,
)
from pluggent_host import Host
from pluggent_host.session import Session
from pluggent_host.settings import Grants, HostSettings
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from policy_rules import deciding
from policy_stage import Danger, Stage, stage

# ---- rule 24: streams


async def streamed(on: Stage, text: str = "go") -> list[Any]:
    async with on.session.stream(text) as events:
        return [event async for event in events]


async def read(session: Session, events: list[Any]) -> None:
    """Put the events of a streamed turn into *events*, as far as they come."""
    async with session.stream("go") as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401 (what came before a failure is wanted)


def on_screen(events: list[Any]) -> str:
    """Return what a consumer has on the screen after *events*."""
    screen = ""
    for event in events:
        if isinstance(event, TextShown | ReasoningShown):
            screen += event.text
        elif isinstance(event, Discarded):
            screen = ""
    return screen


class Upper:
    @hookimpl
    def transform_model_response(self, event):
        return attrs.evolve(event.response, message=Message.assistant(event.response.message.text.upper()))


class UpperOutput:
    @hookimpl(band="security")
    async def transform_output(self, event):
        await asyncio.sleep(0)
        return Message.assistant(event.message.text.upper())


RESULT_HOOKS = [Upper, UpperOutput]


@pytest.mark.parametrize("plugin", RESULT_HOOKS)
async def test_nothing_of_a_stream_is_shown_before_the_result_hooks_have_decided(plugin: type) -> None:
    async with stage("some private words", plugins=[plugin()]) as on:
        events = await streamed(on)

    texts = [event.text for event in events if isinstance(event, TextShown)]
    assert texts == ["SOME PRIVATE WORDS"]
    assert "private" not in repr((events, on.recorder.events, on.session.records()))


async def test_without_result_hooks_a_stream_is_shown_as_it_comes() -> None:
    async with stage("some public words") as on:
        events = await streamed(on)

    assert [event.text for event in events if isinstance(event, TextShown)] == ["some ", "public ", "words"]


@pytest.mark.parametrize("plugin", RESULT_HOOKS)
async def test_provisional_text_is_discarded_when_a_result_hook_changes_it(plugin: type) -> None:
    async with stage("some words", plugins=[plugin()], config=HostSettings(stream="provisional")) as on:
        events = await streamed(on)

    assert any(isinstance(event, Discarded) for event in events)
    assert on_screen(events) == "SOME WORDS"


@pytest.mark.parametrize("hook", ["decide_model_response", "decide_output"])
@pytest.mark.parametrize("reasoning", [False, True], ids=["text", "reasoning"])
async def test_provisional_text_is_discarded_when_the_reply_is_denied(hook: str, reasoning: bool) -> None:
    reply: Any = "private words"
    if reasoning:
        reply = ModelResponse(Message.assistant((Reasoning("private thoughts"),)), FinishReason.STOP)
    config = HostSettings(stream="provisional")

    async with stage(reply, plugins=[deciding(hook, Deny("no"))], config=config) as on:
        events = await streamed(on)

    assert on_screen(events) == ""


@pytest.mark.parametrize("hook", ["transform_model_response", "transform_output"])
async def test_provisional_text_is_discarded_when_a_result_hook_fails(hook: str) -> None:
    def fail(self: object, event: object) -> None:
        raise ValueError("broken")

    fail.__name__ = hook
    plugin = type("Broken", (), {hook: hookimpl(fail)})()
    events: list[Any] = []

    async with stage("private words", plugins=[plugin], config=HostSettings(stream="provisional")) as on:
        with pytest.raises(HookError):
            await read(on.session, events)

    assert on_screen(events) == ""
    assert "private" not in repr(on.session.history)


async def test_a_result_hook_that_fails_shows_nothing_of_a_held_stream() -> None:
    class Broken:
        @hookimpl
        def transform_model_response(self, event):
            raise ValueError("broken")

    async with stage("private words", plugins=[Broken()]) as on:
        with pytest.raises(HookError, match="app:broken"):
            await streamed(on)

    assert "private" not in repr((on.recorder.events, on.session.history, on.session.records()))


async def test_what_came_of_a_broken_stream_passes_the_result_hooks() -> None:
    model = ScriptedModel("some private words", cut=2)
    recorder = Recorder()

    async with Host.open(model="scripted/m", plugins=[model, recorder, Upper()], installed=False) as host:
        session = await host.session()
        with pytest.raises(ProviderError):
            await read(session, [])

    assert "private" not in repr((recorder.events, session.history, session.records()))


async def test_what_came_of_a_broken_stream_is_withheld_when_it_is_denied() -> None:
    model, recorder = ScriptedModel("some private words", cut=2), Recorder()
    plugins = [model, recorder, deciding("decide_model_response", Deny("no"))]

    async with Host.open(model="scripted/m", plugins=plugins, installed=False) as host:
        session = await host.session()
        with pytest.raises(ProviderError):
            await read(session, [])

    assert "private" not in repr((recorder.events, session.history, session.records()))


# ---- rule 25: everything a person sees


def serving(**more: Any) -> Any:
    @tool(effects=())
    async def serve() -> ToolOutput:
        """Serve the person."""
        return ToolOutput("for the model", for_user="private words", media=(Image(url="private.png"),), **more)

    return serve


SERVE = "app:tools:tool/serve"


async def test_what_a_tool_has_for_the_person_passes_the_output_hooks() -> None:
    class Redactor:
        @hookimpl
        def transform_output(self, event):
            return Message.assistant("redacted") if event.source == SERVE else None

    async with stage(call("serve"), tools=[serving()], plugins=[Redactor()]) as on:
        await on.session.say("go")

    (told,) = on.recorder.of(UserNotified)
    assert (told.message.text, told.message.content, told.source) == ("redacted", (Text("redacted"),), SERVE)


@pytest.mark.parametrize("answer", [Deny("no"), Ask("may I?"), True])
async def test_what_a_tool_has_for_the_person_can_be_denied(answer: object) -> None:
    class Decider:
        @hookimpl
        def decide_output(self, event):
            return answer if event.message.text == "private words" else None

    async with stage(call("serve"), tools=[serving()], plugins=[Decider()]) as on:
        await on.session.say("go")

    assert on.recorder.of(UserNotified) == []


@pytest.mark.parametrize("granted", [False, True])
async def test_handled_counts_only_with_the_operators_grant(granted: bool) -> None:
    config = HostSettings(grants=Grants(handled=(SERVE,) if granted else ()))

    async with stage(call("serve"), "after", tools=[serving(handled=True)], config=config) as on:
        result = await on.session.say("go")

    assert result.why == ("handled" if granted else "completed")
    assert len(on.model.requests) == (1 if granted else 2)


@pytest.mark.parametrize("granted", [False, True])
async def test_silent_counts_only_with_the_operators_grant(granted: bool) -> None:
    config = HostSettings(grants=Grants(handled=(SERVE,) if granted else ()))

    async with stage(call("serve"), "after", tools=[serving(silent=True)], config=config) as on:
        await on.session.say("go")

    assert bool(on.recorder.of(UserNotified)) is not granted


async def test_a_handled_output_passes_the_output_hooks_although_no_model_call_follows() -> None:
    config = HostSettings(grants=Grants(handled=(SERVE,)))
    plugins = [deciding("decide_output", Deny("not for people"))]

    async with stage(call("serve"), tools=[serving(handled=True)], config=config, plugins=plugins) as on:
        result = await on.session.say("go")

    assert on.recorder.of(UserNotified) == []
    assert "private" not in result.text


async def test_the_words_beside_a_tool_call_pass_the_output_hooks_too() -> None:
    reply = ModelResponse(Message.assistant("private words", (call("quiet"),)), FinishReason.TOOL_CALLS)

    async with stage(reply, "fine words", tools=Danger().tools(), plugins=[UpperOutput()]) as on:
        await on.session.say("go")

    assert [said.text for said in on.recorder.of(TextShown)] == ["PRIVATE WORDS", "FINE WORDS"]
