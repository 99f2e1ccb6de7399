"""Attempts to show a person what a policy takes out, and to hide it from auditors (rules 24, 25 and 40)."""

from typing import Any

import attrs
from each_of import each_of
from pluggent_hookspecs import (
    Deny,
    Message,
    ModelResponse,
    ProviderError,
    Reasoning,
    Text,
    ToolContext,
    ToolOutput,
    Window,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import ProviderErrorKind
from pluggent_host.settings import Grants, HostSettings
from pluggent_testing.fakes import call
from policy_rules import both_forms, both_orders, hooked
from policy_stage import either_way, watched

SECRET = "sk-123"
REPLY = f"the key is {SECRET} as you know"
both_ways = each_of("config", [HostSettings(), HostSettings(stream="provisional")], ids=["held", "provisional"])


def hidden(text: str) -> str:
    return text.replace(SECRET, "***")


def without_secret(message: Message) -> Message:
    parts: Any = message.content
    return attrs.evolve(message, content=tuple(attrs.evolve(part, text=hidden(part.text)) for part in parts))


def redact(event: Any) -> Any:
    """Hide the secret in a whole reply."""
    return attrs.evolve(event.response, message=without_secret(event.response.message))


def redactor(*, is_async: bool = False) -> Any:
    if is_async:
        return hooked(name="Redactor", is_async=True, transform_output=lambda event: without_secret(event.message))
    return hooked(name="Redactor", transform_model_response=redact)


def shows_all(event: Any) -> Window:
    return Window(event.text)


class Chatty:
    """Says that it filters a stream as it comes, and shows all that comes."""

    @hookimpl(incremental=8)
    def decide_output(self, event: Any) -> None:
        return None

    @hookimpl
    def transform_delta(self, event: Any) -> Window:
        return shows_all(event)


# ---- one plugin against another


@both_orders
@both_forms
async def test_a_plugin_that_filters_as_it_comes_opens_no_stream_that_another_holds(is_async: bool, turned: bool):
    seen = await watched(REPLY, plugins=either_way(Chatty(), redactor(is_async=is_async), turned=turned))

    assert SECRET not in repr((seen.events, seen.on.recorder.events, seen.on.session.records()))


@both_orders
@both_forms
@both_ways
async def test_what_is_shown_too_early_is_taken_back(config: HostSettings, is_async: bool, turned: bool):
    class Leaky:
        """Says that it filters a stream as it comes, and does so at the end alone."""

        @hookimpl(incremental=8)
        def transform_model_response(self, event: Any) -> Any:
            return redact(event)

        @hookimpl
        def transform_delta(self, event: Any) -> Window:
            return shows_all(event)

    quiet = hooked(observe=None, is_async=is_async)
    seen = await watched(REPLY, plugins=either_way(Leaky(), quiet, turned=turned), config=config)

    assert seen.screen == hidden(REPLY)
    assert SECRET not in repr((seen.on.session.history, seen.on.session.records()))


@both_orders
async def test_nothing_filters_behind_the_band_of_security(turned: bool):
    """A plugin that brings something back comes before those that take it away."""

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
            return redact(event)

        @hookimpl(band="security")
        def transform_delta(self, event: Any) -> Window:
            return Window(hidden(event.text))

    text = "the key is *** and *** again"
    seen = await watched(text, plugins=either_way(Restores(), Secure(), turned=turned))

    assert "".join(seen.texts) == text


# ---- replies that were put together in other ways


@both_orders
@both_forms
@both_ways
async def test_what_an_around_puts_in_place_of_the_reply_takes_the_reply_back(
    config: HostSettings, is_async: bool, turned: bool
):
    async def replaces(event: object, call_next: Any) -> ModelResponse:
        await call_next()
        return ModelResponse(Message.assistant(f"no, it is {SECRET}{SECRET}"))

    plugins = either_way(hooked(around_model_call=replaces), redactor(is_async=is_async), turned=turned)

    assert (await watched("something else", plugins=plugins, config=config)).screen == "no, it is ******"


@both_forms
@both_ways
async def test_thoughts_are_under_the_policies_on_replies(config: HostSettings, is_async: bool):
    reply = ModelResponse(Message.assistant((Reasoning(f"hm, {SECRET}"), Text("fine"))))

    seen = await watched(reply, plugins=[redactor(is_async=is_async)], config=config)

    assert "fine" in seen.screen
    assert SECRET not in repr((seen.screen, seen.on.session.records()))


@both_orders
@both_ways
async def test_what_a_retry_puts_in_place_of_a_broken_stream_is_under_them_too(config: HostSettings, turned: bool):
    async def again(event: object, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            call_next.discard("once more")
            return await call_next()

    broken = ProviderError(ProviderErrorKind.STREAM_BROKEN, "broken")
    plugins = either_way(hooked(around_model_call=again), redactor(), turned=turned)

    assert (await watched(broken, REPLY, plugins=plugins, config=config)).screen == hidden(REPLY)


# ---- what is denied


# ---- what tools show


@both_forms
@each_of("name", ["shows", "below"])
async def test_what_a_tool_has_for_the_person_is_never_shown_past_the_policies_on_outputs(name: str, is_async: bool):
    def decide(event: Any) -> Any:
        return Deny("not that") if SECRET in event.message.text else None

    @tool(effects=())
    def shows() -> ToolOutput:
        """Show something."""
        return ToolOutput("shown", for_user=SECRET, handled=True)

    @tool(effects=())
    async def below(context: ToolContext) -> ToolOutput:
        """Pass on what another tool has for the person."""
        return attrs.evolve(await context.call_tool("shows", {}), silent=True)

    grants = Grants(handled=("app:tools:tool/shows", "app:tools:tool/below"))
    seen = await watched(
        call(name), plugins=[hooked(is_async=is_async, decide_output=decide)], tools=[shows, below],
        config=HostSettings(grants=grants),
    )  # fmt: skip

    assert SECRET not in seen.screen
    assert SECRET not in repr([each for each in seen.on.recorder.events if not hasattr(each, "votes")])


async def test_arguments_of_a_call_are_no_text_of_a_stream():
    """A policy on replies has not seen them yet when they come."""

    @tool(effects=())
    def look(at: str) -> str:
        """Look."""
        return "seen"

    seen = await watched(call("look", at=SECRET), "fine", tools=[look])

    assert (seen.texts, seen.screen) == (["fine"], "fine")
