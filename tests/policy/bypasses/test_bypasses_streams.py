"""Attempts to show a person in a stream what a policy takes out of the reply (rules 24 and 25)."""

import asyncio
from typing import Any

import attrs
import pytest
from bypassing import both_forms, both_orders
from pluggent_hookspecs import (
    Deny,
    Discarded,
    Message,
    ModelResponse,
    ProviderError,
    Reasoning,
    ReasoningShown,
    Text,
    TextShown,
    ToolContext,
    ToolOutput,
    UserNotified,
    Window,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import ProviderErrorKind
from pluggent_host.settings import Grants, HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from policy_stage import Stage, either_way, stage

SECRET = "sk-123"
REPLY = f"the key is {SECRET} as you know"
PROVISIONAL = HostSettings(stream="provisional")
both_ways = pytest.mark.parametrize("config", [HostSettings(), PROVISIONAL], ids=["held", "provisional"])


def hidden(text: str) -> str:
    return text.replace(SECRET, "***")


async def streamed(on: Stage) -> list[Any]:
    async with on.session.stream("go") as events:
        return [event async for event in events]


async def read(on: Stage, events: list[Any]) -> None:
    """Put the events of a streamed turn into *events*, as far as they come."""
    async with on.session.stream("go") as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401 (what came before a failure is wanted)


def left_on_screen(events: list[Any]) -> str:
    """Return what a consumer is left with when the stream is over."""
    screen = ""
    for event in events:
        match event:
            case TextShown(text=text) | ReasoningShown(text=text):
                screen += text
            case Discarded():
                screen = ""
            case UserNotified(message=message):
                screen += message.text
            case _:
                pass
    return screen


class Redactor:
    """Hides the secret in whole replies."""

    @hookimpl
    def transform_model_response(self, event: Any) -> Any:
        parts = tuple(attrs.evolve(part, text=hidden(part.text)) for part in event.response.message.content)
        return attrs.evolve(event.response, message=attrs.evolve(event.response.message, content=parts))


class AsyncRedactor:
    @hookimpl
    async def transform_output(self, event: Any) -> Any:
        await asyncio.sleep(0)
        parts = tuple(attrs.evolve(part, text=hidden(part.text)) for part in event.message.content)
        return attrs.evolve(event.message, content=parts)


def redactor(*, is_async: bool) -> object:
    return AsyncRedactor() if is_async else Redactor()


class Chatty:
    """Says that it filters a stream as it comes, and shows whatever comes."""

    @hookimpl(incremental=8)
    def decide_output(self, event: Any) -> None:
        return None

    @hookimpl
    def transform_delta(self, event: Any) -> Window:
        return Window(event.text)


# ---- one plugin against another


@both_orders
@both_forms
async def test_a_plugin_that_filters_as_it_comes_opens_no_stream_that_another_holds(is_async: bool, turned: bool):
    plugins = either_way(Chatty(), redactor(is_async=is_async), turned=turned)
    async with stage(REPLY, plugins=plugins) as on:
        events = await streamed(on)

    assert SECRET not in repr((events, on.recorder.events, on.session.records()))


@both_orders
@both_forms
@both_ways
async def test_what_is_shown_too_early_is_taken_back(config: HostSettings, is_async: bool, turned: bool):
    class Leaky:
        """Says that it filters a stream as it comes, and does so at the end alone."""

        @hookimpl(incremental=8)
        def transform_model_response(self, event: Any) -> Any:
            return Redactor().transform_model_response(event)

        @hookimpl
        def transform_delta(self, event: Any) -> Window:
            return Window(event.text)

    class Quiet:
        @hookimpl
        def observe(self, event: Any) -> None:
            """Look on."""

    class AsyncQuiet:
        @hookimpl
        async def observe(self, event: Any) -> None:
            """Look on."""

    plugins = either_way(Leaky(), AsyncQuiet() if is_async else Quiet(), turned=turned)
    async with stage(REPLY, plugins=plugins, config=config) as on:
        events = await streamed(on)

    assert left_on_screen(events) == hidden(REPLY)
    assert SECRET not in repr((on.session.history, on.session.records()))


@both_orders
async def test_nobody_filters_behind_the_band_of_security(turned: bool):
    """A plugin that brings something back stands before those that take it away."""

    class Restores:
        @hookimpl(band="late")
        def transform_delta(self, event: Any) -> Window:
            return Window(event.text.replace("***", SECRET))

        @hookimpl(incremental=8)
        def decide_output(self, event: Any) -> None:
            return None

    class Secure:
        @hookimpl(band="security", incremental=8)
        def transform_model_response(self, event: Any) -> Any:
            return Redactor().transform_model_response(event)

        @hookimpl(band="security")
        def transform_delta(self, event: Any) -> Window:
            return Window(hidden(event.text))

    plugins = either_way(Restores(), Secure(), turned=turned)
    async with stage("the key is *** and *** again", plugins=plugins) as on:
        events = await streamed(on)

    shown = [event.text for event in events if isinstance(event, TextShown)]
    assert "".join(shown) == "the key is *** and *** again"


# ---- replies that were put together in other ways


@both_orders
@both_forms
@both_ways
async def test_what_an_around_puts_in_place_of_the_reply_takes_the_reply_back(
    config: HostSettings, is_async: bool, turned: bool
):
    class Replaces:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            await call_next()
            return ModelResponse(Message.assistant(f"no, it is {SECRET}{SECRET}"))

    plugins = either_way(Replaces(), redactor(is_async=is_async), turned=turned)
    async with stage("something else", plugins=plugins, config=config) as on:
        events = await streamed(on)

    assert left_on_screen(events) == "no, it is ******"


@both_forms
@both_ways
async def test_thoughts_are_under_the_policies_on_replies(config: HostSettings, is_async: bool):
    reply = ModelResponse(Message.assistant((Reasoning(f"hm, {SECRET}"), Text("fine"))))
    async with stage(reply, plugins=[redactor(is_async=is_async)], config=config) as on:
        events = await streamed(on)

    assert SECRET not in left_on_screen(events)
    assert SECRET not in repr(on.session.records())


@both_forms
@both_ways
@pytest.mark.parametrize("cut", [1, 3, 5])
async def test_what_came_of_a_broken_stream_is_under_the_policies_on_replies(
    cut: int, config: HostSettings, is_async: bool
):
    async with stage(plugins=[redactor(is_async=is_async), Cut(REPLY, cut=cut)], config=config, model="cut/m") as on:
        events: list[Any] = []
        with pytest.raises(ProviderError):
            await read(on, events)

    assert SECRET not in left_on_screen(events)
    assert SECRET not in repr(on.session.records())


class Cut(ScriptedModel):
    name = "cut"


@both_orders
@both_ways
async def test_what_a_retry_puts_in_place_of_a_broken_stream_is_under_them_too(config: HostSettings, turned: bool):
    class Retrier:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except ProviderError:
                call_next.discard("once more")
                return await call_next()

    broken = ProviderError(ProviderErrorKind.STREAM_BROKEN, "broken")
    plugins = either_way(Retrier(), Redactor(), turned=turned)
    async with stage(broken, REPLY, plugins=plugins, config=config) as on:
        events = await streamed(on)

    assert left_on_screen(events) == hidden(REPLY)


# ---- what tools show


@both_forms
@pytest.mark.parametrize("way", ["call", "below"])
async def test_what_a_tool_has_for_the_person_is_never_shown_past_the_policies_on_outputs(way: str, is_async: bool):
    class Policy:
        @hookimpl
        def decide_output(self, event: Any) -> Any:
            return Deny("not that") if SECRET in event.message.text else None

    class AsyncPolicy:
        @hookimpl
        async def decide_output(self, event: Any) -> Any:
            await asyncio.sleep(0)
            return Deny("not that") if SECRET in event.message.text else None

    @tool(effects=())
    def shows() -> ToolOutput:
        """Show something."""
        return ToolOutput("shown", for_user=SECRET, handled=True)

    @tool(effects=())
    async def below(context: ToolContext) -> ToolOutput:
        """Pass on what another tool has for the person."""
        output = await context.call_tool("shows", {})
        return attrs.evolve(output, silent=True)

    grants = Grants(handled=("app:tools:tool/shows", "app:tools:tool/below"))
    async with stage(
        call("shows" if way == "call" else "below"), plugins=[AsyncPolicy() if is_async else Policy()],
        tools=[shows, below], config=HostSettings(grants=grants),
    ) as on:  # fmt: skip
        events = await streamed(on)

    assert SECRET not in left_on_screen(events)
    assert SECRET not in repr([each for each in on.recorder.events if not hasattr(each, "votes")])


async def test_arguments_of_a_call_are_no_text_of_a_stream():
    """A policy on replies has not seen them yet when they come."""

    @tool(effects=())
    def look(at: str) -> str:
        """Look."""
        return "seen"

    async with stage(call("look", at=SECRET), "fine", tools=[look]) as on:
        events = await streamed(on)

    shown = [event for event in events if isinstance(event, TextShown | ReasoningShown)]
    assert [event.text for event in shown] == ["fine"]
