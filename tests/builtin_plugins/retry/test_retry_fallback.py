"""Other models that are asked when the first one has failed finally."""

import contextlib

import pytest
from pluggent_hookspecs import (
    ConfigError,
    DecisionMade,
    Deny,
    Discarded,
    HookError,
    ModelCalled,
    ModelRequest,
    ProviderError,
    ProviderErrorKind as Kind,
    TextShown,
    Usage,
    hookimpl,
    tool,
)
from pluggent_retry.settings import BreakerSettings
from pluggent_testing.fakes import call
from retrying import Other, failure, retrying


async def test_the_next_model_answers_when_the_first_has_failed_finally() -> None:
    other = Other("other", "Hello from the other.")
    async with retrying(*[failure()] * 4, plugins=[other], fallback=("other/big",)) as at:
        result = await at.session.say("hello")

    assert result.text == "Hello from the other."
    assert len(at.model.requests) == 4
    assert [request.model for request in other.requests] == ["big"]
    assert other.requests[0].messages == at.model.requests[0].messages


async def test_models_are_asked_in_the_order_of_the_list_and_once_each() -> None:
    asked: list[str] = []

    def noting(name: str, error: ProviderError | None):
        def reply(request: ModelRequest):
            asked.append(f"{name}/{request.model}")
            return error or "Hello."

        return reply

    one = Other("one", noting("one", failure(Kind.TIMEOUT)), noting("one", failure(Kind.RATE_LIMITED)))
    two = Other("two", noting("two", None))
    wanted = ("one/a", "one/b", "two/c")
    async with retrying(*[failure()] * 4, plugins=[one, two], fallback=wanted) as at:
        result = await at.session.say("hello")

    assert result.text == "Hello."
    assert tuple(asked) == wanted


async def test_when_all_fail_the_first_failure_is_told_with_the_fate_of_each() -> None:
    other = Other("other", failure(Kind.BAD_REQUEST, "what is a seed?"))
    models = ("other/a", "scripted/m")
    async with retrying(failure(message="down", status=503), plugins=[other], attempts=1, fallback=models) as at:
        with pytest.raises(ProviderError) as caught:
            await at.session.say("hello")

    assert (caught.value.kind, caught.value.status) == (Kind.UNAVAILABLE, 503)
    assert str(caught.value) == "scripted: down; other/a: scripted: what is a seed?"
    assert len(at.model.requests) == 1, "the model that has just failed is not its own fallback"


async def test_a_fallback_without_a_provider_is_named_when_the_host_opens() -> None:
    with pytest.raises(ConfigError, match="fallback: there is no provider 'absent'"):
        async with retrying("Hello.", fallback=("absent/b",)):
            pass


@pytest.mark.parametrize(
    ("kind", "answered"), [(Kind.CONTEXT_LENGTH, True), (Kind.UNAVAILABLE, False), (Kind.REFUSED, False)]
)
async def test_the_kinds_of_failure_can_be_chosen(kind: Kind, *, answered: bool) -> None:
    other = Other("other", "Hello.")
    settings = {"fallback": ("other/a",), "fallback_on": ("context_length",), "attempts": 1}
    async with retrying(failure(kind), plugins=[other], **settings) as at:
        if answered:
            assert (await at.session.say("hello")).text == "Hello."
        else:
            with pytest.raises(ProviderError):
                await at.session.say("hello")

    assert len(other.requests) == answered


async def test_a_fallback_is_decided_about_like_every_call() -> None:
    other = Other("other", "Hello.")
    async with retrying(failure(), plugins=[other], attempts=1, fallback=("other/a",)) as at:
        await at.session.say("hello")

    decided = [event for event in at.recorder.of(DecisionMade) if event.operation == "model_call"]
    assert [event.capability for event in decided] == [
        "app:scriptedmodel:provider/scripted",
        "app:other:provider/other",
    ]
    assert len({event.digest for event in decided}) == 2


async def test_a_policy_that_denies_a_fallback_ends_the_turn_and_no_further_model_is_asked() -> None:
    class NotThere:
        @hookimpl
        def decide_model_request(self, event):
            return Deny("nothing goes to the other") if event.provider.endswith("/other") else None

    other, third = Other("other", "Hello."), Other("third", "Hello.")
    fallback = ("other/a", "third/b")
    async with retrying(failure(), plugins=[other, third, NotThere()], attempts=1, fallback=fallback) as at:
        result = await at.session.say("hello")

    assert (result.why, result.detail) == ("denied", "nothing goes to the other")
    assert (other.requests, third.requests) == ([], [])


async def test_a_transform_that_fails_on_a_fallback_ends_it() -> None:
    class Picky:
        @hookimpl
        def transform_model_request(self, event):
            if event.provider.endswith("/other"):
                raise ValueError("not for this one")

    other, third = Other("other", "Hello."), Other("third", "Hello.")
    fallback = ("other/a", "third/b")
    async with retrying(failure(), plugins=[other, third, Picky()], attempts=1, fallback=fallback) as at:
        with pytest.raises(HookError, match="not for this one"):
            await at.session.say("hello")

    assert third.requests == []


async def test_result_hooks_see_the_reply_of_a_fallback_once() -> None:
    seen: list[str] = []

    class Reader:
        @hookimpl
        def decide_model_response(self, event):
            seen.append(event.response.message.text)

    async with retrying(
        failure(), plugins=[Other("other", "Hello."), Reader()], attempts=1, fallback=("other/a",)
    ) as at:
        await at.session.say("hello")

    assert seen == ["Hello."]


async def test_tool_calls_of_a_fallback_run_and_the_next_round_begins_with_the_first_model() -> None:
    @tool(effects=())
    def look() -> str:
        """Look."""
        return "seen"

    other = Other("other", call("look"))
    async with (
        retrying(failure(), "Done.", plugins=[other], attempts=1, fallback=("other/a",)) as at,
        await at.host.session(tools=[look]) as session,
    ):
        result = await session.say("hello")

    assert result.text == "Done."
    assert at.model.requests[1].messages[-1].text == "seen"


async def test_the_tokens_of_a_fallback_count() -> None:
    other = Other("other", "Hello.")
    async with retrying(failure(), plugins=[other], attempts=1, fallback=("other/a",)) as at:
        result = await at.session.say("hello")

    assert result.usage == Usage(10, 5)
    assert sum((event.usage for event in at.recorder.of(ModelCalled)), Usage()) == Usage(10, 5)


async def test_a_fallback_is_streamed() -> None:
    other = Other("other", "Hello you.")
    async with (
        retrying(failure(), plugins=[other], attempts=1, fallback=("other/a",)) as at,
        at.session.stream("hello") as events,
    ):
        shown = [event.text async for event in events if isinstance(event, TextShown)]

    assert shown == ["Hello ", "you."]


async def test_no_other_model_is_asked_after_text_was_shown() -> None:
    other = Other("other", "Hello.")
    async with (
        retrying("one two", plugins=[other], cut=1, fallback=("other/a",)) as at,
        at.session.stream("hello") as events,
    ):
        with pytest.raises(ProviderError):
            [event async for event in events]

    assert other.requests == []


async def test_where_it_is_set_shown_text_is_taken_back_before_the_other_model_answers() -> None:
    other = Other("other", "Hello.")
    settings = {"repeat_shown": True, "attempts": 1, "fallback": ("other/a",)}
    async with (
        retrying("one two", plugins=[other], cut=1, **settings) as at,
        at.session.stream("hello") as events,
    ):
        shown = [event async for event in events if isinstance(event, TextShown | Discarded)]

    assert [getattr(event, "text", None) for event in shown] == ["one ", None, "Hello."]


@pytest.mark.parametrize("repeat_shown", [False, True])
async def test_text_of_a_fallback_that_breaks_off_is_never_glued_to_the_next(*, repeat_shown: bool) -> None:
    other, third = Other("other", "half of it", cut=1), Other("third", "Hello.")
    settings = {"repeat_shown": repeat_shown, "attempts": 1, "fallback": ("other/a", "third/b")}
    shown: list[TextShown | Discarded] = []
    async with retrying(failure(), plugins=[other, third], **settings) as at:
        with contextlib.suppress(ProviderError):
            async with at.session.stream("hello") as events:
                async for event in events:
                    shown += [event] if isinstance(event, TextShown | Discarded) else []

    texts = [getattr(event, "text", None) for event in shown]
    assert texts == (["half ", None, "Hello."] if repeat_shown else ["half "])
    assert [message.text for message in at.session.history][1:] == (["Hello."] if repeat_shown else ["half "])


async def test_a_fallback_whose_server_is_down_is_left_alone_too() -> None:
    other = Other("other", *[failure()] * 9)
    settings = {"attempts": 1, "fallback": ("other/a",), "breaker": BreakerSettings(failures=2)}
    async with retrying(*[failure()] * 9, plugins=[other], **settings) as at:
        for _ in range(2):
            with pytest.raises(ProviderError):
                await at.session.say("hello")
        with pytest.raises(ProviderError, match="other/a: other: it failed 2 calls in a row and is left alone"):
            await at.session.say("hello")

    assert len(other.requests) == 2
