"""Another request in place of one: from within around_model_call, by a retrier, decided anew."""

import asyncio
from typing import Any

import attrs
import pytest
from places import Again
from pluggent_hookspecs import (
    Ask,
    DecisionMade,
    Deny,
    Discarded,
    Message,
    ModelCalled,
    ModelRetried,
    TextShown,
    hookimpl,
)
from pluggent_hookspecs.errors import ConfigError, HookError, ProviderError, ProviderErrorKind as Kind
from pluggent_host import Grants, Host, HostSettings, Limits, Why
from pluggent_host.operations.around import Rest
from pluggent_testing.fakes import Recorder, ScriptedModel
from talking import WAIT_S, hosting, talking


class Other(ScriptedModel):
    name = "other"


class Fallback:
    def __init__(self, model: str = "other/small", times: int = 1) -> None:
        self.model = model
        self.times = times

    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            for _ in range(self.times - 1):
                await call_next.reissue(event.request, model=self.model)
            return await call_next.reissue(event.request, model=self.model)


async def test_another_model_answers_in_place_of_one_that_failed():
    first, second, recorder = ScriptedModel(ProviderError(Kind.UNAVAILABLE, "down")), Other("I am here"), Recorder()
    async with talking(model=first, plugins=[second, Fallback(), recorder]) as session:
        result = await session.say("hello")

    assert result.text == "I am here"
    assert (second.requests[0].model, second.requests[0].messages[-1].text) == ("small", "hello")
    assert result.usage.input == 10
    decisions = [event for event in recorder.of(DecisionMade) if event.operation == "model_call"]
    assert [event.operation_id for event in decisions] == ["t1.0", "t1.0.r1"]
    assert decisions[0].digest != decisions[1].digest
    assert [(event.model, event.usage.input, event.error) for event in recorder.of(ModelCalled)] == [
        ("scripted/m", None, "down"), ("other/small", 10, ""),
    ]  # fmt: skip
    assert [(event.model, event.attempt) for event in recorder.of(ModelRetried)] == [("other/small", 2)]


async def test_the_other_request_is_transformed_and_decided_like_any():
    class Policy:
        @hookimpl
        def transform_model_request(self, event: Any) -> Any:
            marked = Message.user(event.request.messages[-1].text + "!")
            return attrs.evolve(event.request, messages=(*event.request.messages[:-1], marked))

        @hookimpl
        def decide_model_request(self, event: Any) -> Deny | None:
            return Deny("not that vendor") if "other" in event.provider else None

    first, second = ScriptedModel(ProviderError(Kind.UNAVAILABLE, "down")), Other("never")
    async with hosting(model=first, plugins=[second, Fallback()], policies=[Policy()]) as host:
        session = await host.session()
        result = await session.say("hello")

    assert (result.why, result.detail) == (Why.DENIED, "not that vendor")
    assert second.requests == []
    assert first.requests[0].messages[-1].text == "hello!"


@pytest.mark.parametrize(("answer", "why"), [(True, Why.COMPLETED), (False, Why.DENIED), (None, Why.DENIED)])
async def test_it_needs_an_approval_of_its_own(answer: bool | None, why: Why):
    class Policy:
        @hookimpl
        def decide_model_request(self, event: Any) -> Ask | None:
            return Ask("another vendor") if "other" in event.provider else None

    first, second = ScriptedModel(ProviderError(Kind.UNAVAILABLE, "down")), Other("hi")
    plugins = [second, Fallback(), Policy()]
    async with talking(model=first, plugins=plugins, approver=lambda _: answer) as session:
        result = await session.say("hello")

    assert result.why is why
    assert len(second.requests) == (1 if answer else 0)


async def test_what_comes_back_passes_the_result_hooks_once():
    class Policy:
        def __init__(self) -> None:
            self.seen: list[str] = []

        @hookimpl
        def transform_model_response(self, event: Any) -> None:
            self.seen.append(event.response.message.text)

    policy = Policy()
    first, second = ScriptedModel(ProviderError(Kind.UNAVAILABLE, "down")), Other("I am here")
    async with talking(model=first, plugins=[second, Fallback(), policy]) as session:
        await session.say("hello")

    assert policy.seen == ["I am here"]


async def test_only_the_layers_below_see_the_other_request():
    seen: list[str] = []

    class Outer:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            seen.append(f"outer {event.request.model}")
            return await call_next()

    class Middle:
        @hookimpl(after=("app:outer",), before=("app:inner",))
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            return await call_next.reissue(event.request, model="other/small")

    class Inner:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            seen.append(f"inner {event.request.model}")
            return await call_next()

    async with hosting(model=ScriptedModel(), plugins=[Other("x"), Outer(), Middle(), Inner()]) as host:
        session = await host.session()
        await session.say("hello")

    assert seen == ["outer m", "inner small"]


async def test_three_times_is_the_limit():
    first, second = ScriptedModel(ProviderError(Kind.UNAVAILABLE, "down")), Other()
    async with talking(model=first, plugins=[second, Fallback(times=4)]) as session:
        with pytest.raises(Exception, match="reissues"):
            await session.say("hello")

    assert len(second.requests) == 3


async def test_it_needs_the_grant_of_a_retrier():
    nothing: Any = None
    rest: Rest[Any] = Rest(nothing, nothing, nothing, nothing, nothing, retries=False)

    with pytest.raises(RuntimeError, match=r"needs the operator's grant \[grants\] retriers"):
        await rest.reissue(None)


@pytest.mark.parametrize(
    ("wanted", "error"), [("nobody/x", ConfigError), ("nonsense", ConfigError), ("other/small", HookError)]
)
async def test_what_cannot_be_asked_is_told(wanted: str, error: type[Exception]):
    class Wrong(Fallback):
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            request = "no request" if wanted == "other/small" else event.request
            return await call_next.reissue(request, model=self.model)

    async with talking(model=ScriptedModel(), plugins=[Other(), Wrong(wanted)]) as session:
        with pytest.raises(Exception, match=r"nobody|nonsense|not a ModelRequest"):
            await session.say("hello")


async def test_a_tool_call_cannot_be_reissued():
    class Wrong:
        @hookimpl
        async def around_tool_call(self, event: Any, call_next: Any) -> Any:
            return await call_next.reissue({"a": 2})

    def add(a: int) -> int:
        """Add."""
        return a

    async with talking(tools=[add], plugins=[Wrong()]) as session:
        assert "only a model call can be reissued" in str((await session.call_tool("add", {"a": 1})).for_model)


async def test_another_attempt_is_told_with_what_went_wrong_before():
    recorder = Recorder()
    model = ScriptedModel(ProviderError(Kind.RATE_LIMITED, "slow down"), "fine")
    async with talking(model=model, plugins=[Again(), recorder]) as session:
        assert (await session.say("hello")).text == "fine"

    (retried,) = recorder.of(ModelRetried)
    assert (retried.model, retried.attempt) == ("scripted/m", 2)
    assert "slow down" in retried.error
    assert retried.wait_s >= 0


async def test_a_stream_that_another_model_finishes_shows_its_text_alone():
    first, second = ScriptedModel("one two three", cut=2), Other("four five")
    async with talking(model=first, plugins=[second, Fallback()]) as session, session.stream("go") as events:
        text = ""
        async for event in events:
            if isinstance(event, TextShown):
                text += event.text
            elif isinstance(event, Discarded):
                text = ""

    assert text == "four five"
    assert events.result.text == "four five"


async def test_a_dry_run_asks_nobody_about_it_either():
    class Policy:
        @hookimpl
        def decide_model_request(self, event: Any) -> Ask | None:
            return Ask("?") if "other" in event.provider else None

    def approve(event: Any) -> bool:
        raise AssertionError("nobody is asked")

    first = ScriptedModel(ProviderError(Kind.UNAVAILABLE, "down"))
    plugins = [Other(), Fallback(), Policy()]
    async with talking(model=first, plugins=plugins, approver=approve) as session:
        assert (await session.say("hello", dry_run=True)).why is Why.DENIED


async def test_grants_name_installed_retriers():
    settings = HostSettings(grants=Grants(retriers=("nobody",)))
    with pytest.raises(ConfigError, match="nobody"):
        async with Host.open(config=settings, installed=False):
            pass


async def test_the_time_of_a_turn_holds_for_all_attempts_together():
    class Again:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            for _ in range(5):
                try:
                    return await call_next()
                except ProviderError:
                    continue
            return await call_next()

    model = ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, plugins=[Again()], limits=Limits(wall_s=0.2)) as session:
        result = await asyncio.wait_for(session.say("hello"), WAIT_S)

    assert (result.why, result.limit) == (Why.LIMIT, "wall_s")
    assert result.usage.estimated


async def test_a_layer_that_waits_beyond_the_time_of_the_turn_ends_it_by_its_limit():
    class Waiting:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            await asyncio.Event().wait()

    async with talking(plugins=[Waiting()], limits=Limits(wall_s=0.1)) as session:
        result = await asyncio.wait_for(session.say("hello"), WAIT_S)

    assert (result.why, result.limit) == (Why.LIMIT, "wall_s")


async def test_another_attempt_can_be_told_before_it_begins():
    class Waiting:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except ProviderError:
                assert call_next.may_repeat
                call_next.retrying(12.5)
                told.extend(recorder.of(ModelRetried))
                return await call_next()

    told: list[ModelRetried] = []
    recorder = Recorder()
    replies = (ProviderError(Kind.RATE_LIMITED, "slow down"), "fine")
    async with talking(*replies, plugins=[Waiting(), recorder]) as session:
        await session.say("hello")

    assert [(event.attempt, event.wait_s) for event in told] == [(2, 12.5)]
    assert recorder.of(ModelRetried) == told, "told once"
