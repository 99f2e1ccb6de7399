"""Attempts at one model call, through an open host."""

import asyncio
import importlib
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fake_distributions import importable, install
from pluggent_hookspecs import (
    Deny,
    Discarded,
    HookError,
    ModelCalled,
    ModelRetried,
    ProviderError,
    ProviderErrorKind as Kind,
    SessionError,
    TextShown,
    ToolContext,
    TurnEnded,
    Usage,
    hookimpl,
    tool,
)
from pluggent_host import Host
from pluggent_host.settings import Grants, HostSettings, Timeouts
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import ScriptedModel, call
from retrying import Time, failure, retrying


async def shown_by(events: Any) -> list[str | None]:
    """Return the text of a stream as it was shown, None where it was taken back."""
    return [
        event.text if isinstance(event, TextShown) else None
        async for event in events
        if isinstance(event, TextShown | Discarded)
    ]


async def test_a_call_that_fails_and_then_works_is_a_reply() -> None:
    async with retrying(failure(), failure(Kind.TIMEOUT), "Hello.") as at:
        result = await at.session.say("hello")

    assert result.text == "Hello."
    assert at.time.waits == [0.5, 1.0]
    assert len(at.model.requests) == 3
    assert len({id(request) for request in at.model.requests}) == 1, "the same request each time"


async def test_observers_are_told_of_each_further_attempt() -> None:
    async with retrying(failure(message="one"), failure(message="two"), "Hello.") as at:
        await at.session.say("hello")

    told = [(event.model, event.attempt, event.error) for event in at.recorder.of(ModelRetried)]
    assert told == [("scripted/m", 2, "scripted: one"), ("scripted/m", 3, "scripted: two")]


async def test_the_last_failure_is_raised_with_the_number_of_attempts() -> None:
    async with retrying(*[failure(message="busy", status=503)] * 9) as at:
        with pytest.raises(ProviderError) as caught:
            await at.session.say("hello")

    assert str(caught.value) == "scripted: busy; tried 4 times in 3.5 s"
    assert (caught.value.kind, caught.value.status) == (Kind.UNAVAILABLE, 503)
    assert isinstance(caught.value.__cause__, ProviderError)
    assert len(at.model.requests) == 4
    assert [ended.why for ended in at.recorder.of(TurnEnded)] == ["failed"]


@pytest.mark.parametrize("kind", [kind for kind in Kind if not ProviderError(kind, "").retryable])
async def test_what_does_not_pass_is_not_tried_again(kind: Kind) -> None:
    error = failure(kind)
    async with retrying(error, "Hello.") as at:
        with pytest.raises(ProviderError) as caught:
            await at.session.say("hello")

    assert caught.value is error
    assert at.time.waits == []


async def test_a_plugin_that_breaks_is_not_tried_again() -> None:
    async with retrying(KeyError("x"), "Hello.") as at:
        with pytest.raises(ProviderError, match="the plugin failed"):
            await at.session.say("hello")

    assert len(at.model.requests) == 1


async def test_the_server_is_given_the_time_that_it_wants() -> None:
    async with retrying(failure(Kind.RATE_LIMITED, retry_after=7.0), "Hello.") as at:
        await at.session.say("hello")

    assert at.time.waits == [7.5]


async def test_a_server_that_wants_too_much_time_is_not_waited_for() -> None:
    async with retrying(failure(Kind.RATE_LIMITED, retry_after=61.0), "Hello.") as at:
        with pytest.raises(ProviderError, match="not tried again: the server wants 61 s of peace") as caught:
            await at.session.say("hello")

    assert caught.value.retry_after == 61.0
    assert at.time.waits == []


async def test_the_time_that_attempts_take_counts_towards_the_budget() -> None:
    time = Time()

    def slow(_: object) -> ProviderError:
        time.passed_s += 100.0
        return failure(Kind.TIMEOUT)

    async with retrying(slow, slow, "Hello.", time=time) as at:
        with pytest.raises(ProviderError, match="no attempt begins later than budget_s = 180 allows"):
            await at.session.say("hello")

    assert len(at.model.requests) == 2


async def test_every_call_of_a_turn_has_attempts_of_its_own() -> None:
    @tool(effects=())
    def look() -> str:
        """Look."""
        return "seen"

    async with retrying(failure(), call("look"), failure(), failure(), failure(), "Hello.") as at:
        session = await at.host.session(tools=[look])
        result = await session.say("hello")
        await session.aclose()

    assert result.text == "Hello."


async def test_a_call_that_a_tool_makes_is_tried_again_too() -> None:
    @tool(effects=())
    async def think(context: ToolContext) -> str:
        """Ask the model."""
        return (await context.call_model("what is it?")).message.text

    async with (
        retrying(call("think"), failure(), "It is.", "Done.") as at,
        await at.host.session(tools=[think]) as session,
    ):
        result = await session.say("hello")

    assert result.text == "Done."
    assert at.model.requests[-1].messages[-1].text == "It is."


async def test_the_tokens_of_failed_attempts_count() -> None:
    def broken(request: Any) -> Any:
        return "one two three four"

    async with (
        retrying(broken, "Hello.", cut=3, repeat_shown=True, attempts=1) as alone,
        alone.session.stream("hello") as events,
    ):
        with pytest.raises(ProviderError):
            [event async for event in events]
    lost = alone.recorder.of(ModelCalled)[0].usage
    async with (
        retrying(broken, "Hello.", cut=3, repeat_shown=True) as at,
        at.session.stream("hello") as events,
    ):
        await shown_by(events)

    assert lost.output
    assert at.recorder.of(ModelCalled)[0].usage == lost + Usage(10, 5)


# ---- streams


async def test_a_stream_that_breaks_before_its_first_word_is_repeated() -> None:
    async with (
        retrying(failure(Kind.STREAM_BROKEN), "Hello you.") as at,
        at.session.stream("hello") as events,
    ):
        shown = await shown_by(events)

    assert shown == ["Hello ", "you."]


async def test_nothing_is_repeated_after_text_was_shown() -> None:
    async with (
        retrying("one two three", "Hello.", cut=1) as at,
        at.session.stream("hello") as events,
    ):
        with pytest.raises(ProviderError, match=r"cut; not tried again, because .* shown \(repeat_shown = false\)"):
            [event async for event in events]

    assert len(at.model.requests) == 1
    assert [message.text for message in at.session.history] == ["hello", "one "]


async def test_where_it_is_set_shown_text_is_taken_back_and_another_attempt_made() -> None:
    async with (
        retrying("one two three", "Hello.", cut=2, repeat_shown=True) as at,
        at.session.stream("hello") as events,
    ):
        shown = await shown_by(events)

    assert shown == ["one ", "two ", None, "Hello."]
    assert [message.text for message in at.session.history] == ["hello", "Hello."]


async def test_shown_text_stays_until_the_next_attempt_begins() -> None:
    time = Time(hold=True)
    async with (
        retrying("one two three", "Hello.", cut=2, repeat_shown=True, time=time) as at,
        at.session.stream("hello"),
    ):
        await asyncio.wait_for(time.asleep.wait(), 10)
        assert at.recorder.of(TextShown)
        assert at.recorder.of(Discarded) == []


async def test_a_stream_that_a_policy_holds_back_is_repeated_without_a_word_of_it() -> None:
    class Reader:
        @hookimpl
        def decide_output(self, event):
            return None

    async with (
        retrying("one two three", "Hello.", cut=2, plugins=[Reader()]) as at,
        at.session.stream("hello") as events,
    ):
        shown = await shown_by(events)

    assert shown == ["Hello."]


# ---- cancellation


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_a_turn_ends_the_wait_at_once(*, stream: bool) -> None:
    time = Time(hold=True)
    async with retrying(failure(), "Hello.", time=time) as at:

        async def turn() -> None:
            if stream:
                async with at.session.stream("hello") as events:
                    [event async for event in events]
            else:
                await at.session.say("hello")

        running = asyncio.create_task(turn())
        await asyncio.wait_for(time.asleep.wait(), 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 10)

        assert len(at.model.requests) == 1
        assert [ended.why for ended in at.recorder.of(TurnEnded)] == ["cancelled"]
        assert (await asyncio.wait_for(at.session.say("again"), 10)).text == "Hello."


async def test_a_host_that_is_closed_while_a_call_waits_ends_it() -> None:
    time = Time(hold=True)
    async with retrying(failure(), time=time) as at:
        running = asyncio.create_task(at.session.say("hello"))
        await asyncio.wait_for(time.asleep.wait(), 10)

    with pytest.raises(SessionError, match="was closed in the middle of this turn"):
        await asyncio.wait_for(running, 10)


# ---- policies and grants


class Once:
    """A policy that has no objection, and then one."""

    def __init__(self) -> None:
        self.asked = 0

    @hookimpl
    def decide_model_request(self, event):
        self.asked += 1
        return Deny("no longer") if self.asked > 1 else None


async def test_policies_are_asked_again_when_their_decision_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)
    policy = Once()
    async with retrying(failure(), "Hello.", plugins=[policy]) as at:
        result = await at.session.say("hello")

    assert result.why == "denied"
    assert policy.asked == 2
    assert len(at.model.requests) == 1


async def test_policies_are_not_asked_again_within_five_seconds() -> None:
    policy = Once()
    async with retrying(failure(), "Hello.", plugins=[policy]) as at:
        result = await at.session.say("hello")

    assert (result.text, policy.asked) == ("Hello.", 1)


async def test_a_denial_and_a_failing_hook_below_are_not_tried_again() -> None:
    class Below:
        @hookimpl(band="late")
        async def around_model_call(self, event, call_next):
            await call_next()
            raise ValueError("bad")

    async with retrying("one", "two", plugins=[Below()]) as at:
        with pytest.raises(HookError, match="bad"):
            await at.session.say("hello")

    assert len(at.model.requests) == 1


FAST = {"pluggent-retry": {"base_s": 0.0}}


@pytest.mark.parametrize("granted", [False, True])
async def test_an_installed_plugin_calls_again_only_if_the_operator_lists_it(*, granted: bool) -> None:
    grants = Grants() if granted else Grants(retriers=())
    model = ScriptedModel(failure(message="busy"), "Hello.")
    config = HostSettings(grants=grants, timeouts=Timeouts(hook_s=60.0))
    async with (
        Host.open(model="scripted/m", plugins=[model], config=config, settings=FAST) as host,
        await host.session() as session,
    ):
        if granted:
            assert (await session.say("hello")).text == "Hello."
        else:
            with pytest.raises(ProviderError) as caught:
                await session.say("hello")
            assert str(caught.value) == (
                'scripted: busy; not tried again; to have that, write [grants] retriers = ["pluggent-retry"]'
            )


async def test_without_the_grant_it_does_not_wait_in_vain(tmp_path: Path) -> None:
    source = """
    from pluggent_retry.plugin import Retry
    from retrying import Time
    TIME = Time()

    def make():
        return Retry(clock=TIME.clock, draw=lambda: 0.5)
    """
    install(tmp_path, "acme-retry", {"hooks/retry": "acme_retry:make"}, modules={"acme_retry": dedent(source)})
    model = ScriptedModel(failure(), failure(), failure())
    with importable(tmp_path):
        async with (
            Host.open(model="scripted/m", plugins=[model], installed=discover([str(tmp_path)])) as host,
            await host.session() as session,
        ):
            for _ in range(3):
                with pytest.raises(ProviderError, match="not tried again; to have that, write"):
                    await session.say("hello")
            waits = importlib.import_module("acme_retry").TIME.waits

    assert waits == []
