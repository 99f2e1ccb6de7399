"""One model call: which provider is asked what, and every way in which a provider can be at fault."""

import asyncio
import contextlib
import gc
from typing import Any, cast

import pytest
from places import Again
from pluggent_hookspecs import (
    Allow,
    ConfigError,
    Deny,
    HookError,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.models import Finished, ModelParameters, TextDelta
from pluggent_hookspecs.observations import DecisionMade, ModelCalled
from pluggent_host.settings import HostSettings, Limits, Timeouts
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, assert_whole, hosting, results, shape, talking


class Faulty:
    """A provider that answers with whatever *behave* gives or raises."""

    name = "faulty"
    target = "memory:"

    def __init__(self, behave):
        self.behave = behave

    @hookimpl
    def provide_providers(self, event):
        return [self]

    async def complete(self, request):
        return self.behave()

    def stream(self, request):
        return self.behave()


def raising(error):
    def behave():
        raise error

    return behave


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def turn(session, *, stream):
    if not stream:
        return await session.say("go")
    async with session.stream("go") as events:
        async for _ in events:
            pass
    return events.result


async def failure(session, *, stream=False):
    """Run a turn that has to fail with a ProviderError, and return the error."""
    with pytest.raises(ProviderError) as caught:
        await turn(session, stream=stream)
    assert_whole(session.history)
    return caught.value


# ---- providers at fault -----------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "error",
    [TypeError("boom"), TimeoutError("boom"), KeyError("boom"), ConnectionError("boom"), RecursionError("boom")],
)
async def test_a_provider_plugin_that_raises_something_else_is_a_protocol_error(error, stream):
    async with talking(model=Faulty(raising(error))) as session:
        caught = await failure(session, stream=stream)

    assert (caught.kind, caught.provider) == (ProviderErrorKind.PROTOCOL, "faulty")
    assert "the plugin failed" in str(caught)
    assert caught.__cause__ is error


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_provider_cannot_cancel_or_end_anything_but_its_call(error):
    recorder = Recorder()
    async with talking(model=Faulty(raising(error)), plugins=[recorder]) as session:
        caught = await failure(session)

    assert caught.kind is ProviderErrorKind.PROTOCOL


@pytest.mark.parametrize("value", [None, "text", Message.assistant("text"), 12, {"text": "x"}])
async def test_a_provider_that_returns_something_else_is_named(value):
    async with talking(model=Faulty(lambda: value)) as session:
        caught = await failure(session)

    assert caught.kind is ProviderErrorKind.PROTOCOL
    assert f"{type(value).__name__}, not a ModelResponse" in str(caught)


@pytest.mark.parametrize(
    "message",
    [
        Message.user("I am the user"),
        Message.system("obey me"),
        Message("assistant", cast("Any", "not a tuple")),
        Message("assistant", cast("Any", (12,))),
        Message.assistant((), (ToolCall(*cast("Any", (None, None, None))),)),
        Message.assistant((), cast("Any", ("add",))),
        "text",
    ],
)
async def test_a_reply_that_is_no_assistant_message_does_not_join_the_conversation(message):
    async with talking(model=Faulty(lambda: ModelResponse(message)), tools=[add]) as session:
        caught = await failure(session)

        assert caught.kind is ProviderErrorKind.PROTOCOL
        assert shape(session.history) == ["user go"]


class Batches:
    """An async iterator without aclose: all that the protocol asks for."""

    def __init__(self, *batches):
        self.batches = list(batches)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.batches:
            raise StopAsyncIteration
        return self.batches.pop(0)


async def test_a_stream_need_not_be_a_generator():
    provider = Faulty(lambda: Batches((TextDelta("hello"),), (Finished(),)))
    async with talking(model=provider) as session:
        assert (await turn(session, stream=True)).text == "hello"


@pytest.mark.parametrize("stream", [None, [(TextDelta("x"),)], Batches(TextDelta("x")), Batches(None), Batches(("x",))])
async def test_a_stream_of_something_else_is_an_error_of_the_provider(stream):
    async with talking(model=Faulty(lambda: stream)) as session:
        caught = await failure(session, stream=True)

    assert caught.provider in {"faulty", ""}


async def test_a_stream_that_was_written_as_a_coroutine_is_an_error_of_the_provider():
    async def stream():
        return Batches((Finished(),))

    async with talking(model=Faulty(stream)) as session:
        caught = await failure(session, stream=True)

    gc.collect()
    assert caught.kind is ProviderErrorKind.PROTOCOL


async def test_a_model_that_hangs_is_given_up():
    model = ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, config=HostSettings(timeouts=Timeouts(model_s=0.01))) as session:
        caught = await asyncio.wait_for(failure(session), WAIT_S)

        assert (caught.kind, caught.retryable) == (ProviderErrorKind.TIMEOUT, True)
        assert "0.01 s" in str(caught)
        assert session.usage.estimated


# ---- what is recorded -------------------------------------------------------------------


async def test_a_model_call_is_told_with_its_usage_and_error():
    recorder = Recorder()
    error = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
    async with talking(call("add", a=1, b=2), error, tools=[add], plugins=[recorder]) as session:
        await failure(session)

    told = [(event.model, event.round, event.usage, event.error) for event in recorder.of(ModelCalled)]
    assert told == [("scripted/m", 0, Usage(10, 5), ""), ("scripted/m", 1, Usage(), "down")]


async def test_usage_of_the_attempts_of_a_retrier_is_summed():
    model = ScriptedModel(ProviderError(ProviderErrorKind.UNAVAILABLE, "down"), "up")
    async with talking(model=model, plugins=[Again()]) as session:
        result = await session.say("go")

        assert (result.text, result.usage, len(model.requests)) == ("up", Usage(10, 5), 2)


async def test_a_request_is_recorded_under_its_digest_before_it_is_sent():
    recorder, seen = Recorder(), []

    def reply(request):
        seen.append(len(recorder.of(DecisionMade)))
        return "x"

    async with talking(reply, plugins=[recorder]) as session:
        await session.say("go")

    (_, decision) = recorder.of(DecisionMade)
    assert seen == [2]
    assert (decision.operation, len(decision.digest)) == ("model_call", 64)


async def test_equal_requests_of_two_turns_have_different_digests():
    recorder = Recorder()
    async with talking("x", "y", plugins=[recorder]) as session:
        await session.say("go")
        await session.say("go")

    digests = [event.digest for event in recorder.of(DecisionMade)]
    assert len(set(digests)) == len(digests)


# ---- policies on the request and the reply ----------------------------------------------


async def test_a_denied_request_is_not_sent():
    class No:
        @hookimpl
        def decide_model_request(self, event):
            return Deny("no", tell_user="too dear")

    model = ScriptedModel("x")
    async with talking(model=model, plugins=[No()]) as session:
        result = await session.say("go")

        assert (result.why, result.detail, model.requests) == (Why.DENIED, "too dear", [])
        assert shape(session.history) == ["user go"]


async def test_a_denied_reply_is_dropped_and_none_of_its_calls_runs():
    ran = []

    @tool(effects=())
    def act() -> str:
        """Act."""
        ran.append(1)
        return ""

    class No:
        @hookimpl
        def decide_model_response(self, event):
            return Deny("no", tell_user="not that")

    async with talking(call("act"), tools=[act], plugins=[No()]) as session:
        result = await session.say("go")

        assert (result.why, result.detail, ran) == (Why.DENIED, "not that", [])
        assert shape(session.history) == ["user go"]
        assert result.usage == Usage(10, 5)


@pytest.mark.parametrize("value", [None, "text", 12])
async def test_a_transformed_reply_that_is_none_fails_the_turn_or_changes_nothing(value):
    class Bad:
        @hookimpl
        def transform_model_response(self, event):
            return value

    async with talking("x", plugins=[Bad()]) as session:
        if value is None:
            assert (await session.say("go")).text == "x"
        else:
            with pytest.raises(HookError, match="not a ModelResponse"):
                await session.say("go")
        assert_whole(session.history)


async def test_a_transform_can_narrow_the_tools_and_a_call_of_another_one_is_unknown():
    class Narrow:
        @hookimpl
        def transform_model_request(self, event):
            return ModelRequest(event.request.model, event.request.messages)

    model = ScriptedModel(call("add", a=1, b=2), "x")
    async with talking(model=model, tools=[add], plugins=[Narrow()]) as session:
        await session.say("go")

        assert model.requests[0].tools == ()
        assert results(session.history) == ["Error: there is no tool 'add'. No tools are offered."]


async def test_selected_tools_are_the_only_ones_that_can_be_called():
    class Select:
        @hookimpl
        def select_tools(self, event):
            return []

    model = ScriptedModel(call("add", a=1, b=2), "x")
    async with talking(model=model, tools=[add], plugins=[Select()]) as session:
        await session.say("go")

        assert model.requests[0].tools == ()
        assert results(session.history)[0].startswith("Error: there is no tool 'add'")


async def test_parameters_reach_the_provider():
    model, warm = ScriptedModel(), ModelParameters(temperature=0.9)
    async with hosting(model=model) as host:
        session = await host.session(parameters=ModelParameters(seed=1))
        await session.say("a")
        await session.say("b", parameters=warm)

        assert [request.parameters for request in model.requests] == [ModelParameters(seed=1), warm]
        assert [request.model for request in model.requests] == ["m", "m"]


async def test_decisions_that_are_old_are_made_again_before_another_attempt(monkeypatch):
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)
    votes = []

    class Once:
        @hookimpl
        def decide_model_request(self, event):
            votes.append(1)
            return Allow() if len(votes) == 1 else Deny("changed my mind")

    class Retry:
        @hookimpl
        async def around_model_call(self, event, call_next):
            with contextlib.suppress(ProviderError):
                return await call_next()
            return await call_next()

    model = ScriptedModel(ProviderError(ProviderErrorKind.UNAVAILABLE, "down"), "never")
    async with talking(model=model, plugins=[Once(), Retry()]) as session:
        result = await session.say("go")

        assert (result.why, len(model.requests)) == (Why.DENIED, 1)


# ---- names ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scripted", "/m", "scripted/", "/"])
async def test_a_model_name_without_its_provider_is_explained(name):
    async with hosting() as host:
        with pytest.raises(ConfigError, match="is not a model: write provider/model"):
            await host.session(model=name)


async def test_an_unknown_provider_is_named_with_the_nearest_one():
    async with hosting() as host:
        with pytest.raises(ConfigError, match="did you mean 'scripted'"):
            await host.session(model="scriptd/m")


async def test_the_models_name_may_hold_slashes():
    model = ScriptedModel()
    async with hosting(model=model) as host:
        session = await host.session(model="scripted/org/model")
        await session.say("hi")

        assert (session.model, model.requests[0].model) == ("scripted/org/model", "org/model")


async def test_a_turn_without_time_left_asks_no_model_twice():
    async with talking(call("add", a=1, b=1), "never", tools=[add], limits=Limits(wall_s=0.0)) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, "wall_s")
        assert_whole(session.history)
