"""One model call: which provider is asked what, every fault of a provider, and another request in place of one."""

import asyncio
import contextlib
import gc
from typing import Any, cast

import attrs
import pytest
from fake_plugins import Person, plugin
from places import Again
from pluggent_hookspecs import (
    Allow,
    Ask,
    ConfigError,
    Deny,
    HookError,
    Message,
    ModelResponse,
    ProviderError,
    ProviderErrorKind as Kind,
    SessionError,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.models import Finished, ModelParameters, TextDelta
from pluggent_hookspecs.observations import DecisionMade, Discarded, ModelCalled, ModelRetried, TextShown
from pluggent_hookspecs.reply_meta import RateLimit, ReplyMeta
from pluggent_host.operations.around import Rest
from pluggent_host.settings import Grants, HostSettings, Timeouts
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.limits import Limits
from talking import WAIT_S, assert_whole, hosting, said, shape, talking

DOWN = ProviderError(Kind.UNAVAILABLE, "down")
ADD = call("add", a=1, b=2)


class Faulty:
    """A provider that answers with whatever *behave* gives, or raises it."""

    name = "faulty"
    target = "memory:"

    def __init__(self, behave: Any) -> None:
        self.behave = behave

    @hookimpl
    def provide_providers(self, event):
        return [self]

    def stream(self, request):
        if isinstance(self.behave, BaseException):
            raise self.behave
        return self.behave() if callable(self.behave) else self.behave

    async def complete(self, request):
        return self.stream(request)


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
        await asyncio.wait_for(turn(session, stream=stream), WAIT_S)
    assert_whole(session.history)
    return caught.value


# ---- providers at fault -----------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", [TypeError, TimeoutError, KeyError, ConnectionError, RecursionError])
async def test_a_provider_plugin_that_raises_something_else_is_a_protocol_error(kind, stream):
    error = kind("boom")
    async with talking(model=Faulty(error)) as session:
        caught = await failure(session, stream=stream)

    assert (caught.kind, caught.provider, caught.__cause__) == (Kind.PROTOCOL, "faulty", error)
    assert "the plugin failed" in str(caught)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_provider_cannot_cancel_or_end_anything_but_its_call(error):
    async with talking(model=Faulty(error)) as session:
        assert (await failure(session)).kind is Kind.PROTOCOL


@pytest.mark.parametrize("value", [None, "text", Message.assistant("text"), 12, {"text": "x"}])
async def test_a_provider_that_returns_something_else_is_named(value):
    async with talking(model=Faulty(value)) as session:
        caught = await failure(session)

    assert caught.kind is Kind.PROTOCOL
    assert f"{type(value).__name__}, not a ModelResponse" in str(caught)


@pytest.mark.parametrize(
    "message",
    [
        Message.user("I am the user"),
        Message.system("obey me"),
        Message("assistant", cast("Any", "not a tuple")),
        Message("assistant", cast("Any", (12,))),
        Message.assistant((), (ToolCall(*cast("Any", (None, None, None))),)),
        Message.assistant((), (ToolCall(cast("Any", None), "add", "{}"),)),
        Message.assistant((), (ToolCall("1", cast("Any", None), "{}"),)),
        Message.assistant((), (ToolCall("1", "add", cast("Any", {})),)),
        Message.assistant((), cast("Any", ("add",))),
        "text",
    ],
)
async def test_a_reply_that_is_no_assistant_message_does_not_join_the_conversation(message):
    async with talking(model=Faulty(ModelResponse(message)), tools=[add]) as session:
        assert (await failure(session)).kind is Kind.PROTOCOL
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
    async with talking(model=Faulty(Batches((TextDelta("hello"),), (Finished(),)))) as session:
        assert (await turn(session, stream=True)).text == "hello"


@pytest.mark.parametrize("stream", [None, [(TextDelta("x"),)], Batches(TextDelta("x")), Batches(None), Batches(("x",))])
async def test_a_stream_of_something_else_is_an_error_of_the_provider(stream):
    async with talking(model=Faulty(stream)) as session:
        assert (await failure(session, stream=True)).provider in {"faulty", ""}


async def test_a_stream_that_was_written_as_a_coroutine_is_an_error_of_the_provider():
    async def stream():
        return Batches((Finished(),))

    async with talking(model=Faulty(stream)) as session:
        caught = await failure(session, stream=True)

    gc.collect()
    assert caught.kind is Kind.PROTOCOL


async def test_a_model_that_hangs_is_given_up():
    model = ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, config=HostSettings(timeouts=Timeouts(model_s=0.01))) as session:
        caught = await failure(session)

    assert (caught.kind, caught.retryable, session.usage.estimated) == (Kind.TIMEOUT, True, True)
    assert "0.01 s" in str(caught)


# ---- the record -------------------------------------------------------------------------


async def test_a_model_call_is_told_with_its_usage_and_error():
    recorder = Recorder()
    async with talking(ADD, DOWN, tools=[add], plugins=[recorder]) as session:
        await failure(session)

    told = [(event.model, event.round, event.usage, event.error) for event in recorder.of(ModelCalled)]
    assert told == [("scripted/m", 0, Usage(10, 5), ""), ("scripted/m", 1, Usage(), "down")]


async def test_a_model_call_is_told_with_what_else_its_answer_said():
    recorder = Recorder()
    limited = ReplyMeta("req_2", (RateLimit("requests", 3, 0),))
    answers = (
        ModelResponse(Message.assistant("hi"), meta=ReplyMeta("req_1", notes="thinking was left out")),
        ProviderError(Kind.BAD_REQUEST, "no", meta=limited),
        DOWN,
    )
    async with talking(*answers, plugins=[recorder]) as session:
        await session.say("go")
        for _ in range(2):
            await failure(session)

    told = [event.meta for event in recorder.of(ModelCalled)]
    assert told == [ReplyMeta("req_1", notes=("thinking was left out",)), limited, ReplyMeta()]


async def test_a_request_is_recorded_under_a_digest_of_its_own_before_it_is_sent():
    recorder, seen = Recorder(), []

    def reply(request):
        seen.append(len(recorder.of(DecisionMade)))
        return "x"

    async with talking(reply, "y", plugins=[recorder]) as session:
        await session.say("go")
        (_, decision) = recorder.of(DecisionMade)
        await session.say("go")

    digests = [event.digest for event in recorder.of(DecisionMade)]
    assert (seen, decision.operation, len(decision.digest)) == ([2], "model_call", 64)
    assert len(set(digests)) == len(digests)


# ---- policies on the request and the reply ----------------------------------------------


async def test_a_denied_request_is_not_sent():
    model, no = ScriptedModel("x"), plugin(decide_model_request=Deny("no", tell_user="too dear"))
    result, session = await said(model=model, plugins=[no])

    assert (result.why, result.detail, model.requests) == (Why.DENIED, "too dear", [])
    assert shape(session.history) == ["user go"]


async def test_a_denied_reply_is_dropped_and_none_of_its_calls_runs():
    ran: list[int] = []

    @tool(effects=())
    def act() -> None:
        """Act."""
        ran.append(1)

    no = plugin(decide_model_response=Deny("no", tell_user="not that"))
    result, session = await said(call("act"), tools=[act], plugins=[no])

    assert (result.why, result.detail, result.usage, ran) == (Why.DENIED, "not that", Usage(10, 5), [])
    assert shape(session.history) == ["user go"]


@pytest.mark.parametrize("value", ["text", 12])
async def test_a_transformed_reply_that_is_none_fails_the_turn(value):
    async with talking("x", plugins=[plugin(transform_model_response=value)]) as session:
        with pytest.raises(HookError, match="not a ModelResponse"):
            await session.say("go")

    assert_whole(session.history)


async def test_parameters_and_a_name_with_slashes_reach_the_provider():
    model, warm = ScriptedModel(), ModelParameters(temperature=0.9)
    async with hosting(model=model) as host:
        session = await host.session(parameters=ModelParameters(seed=1), model="scripted/org/model")
        await session.say("a")
        await session.say("b", parameters=warm)

    assert session.model == "scripted/org/model"
    assert [(request.parameters, request.model) for request in model.requests] == [
        (ModelParameters(seed=1), "org/model"), (warm, "org/model"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "says"),
    [(name, "is not a model: write provider/model") for name in ("scripted", "/m", "scripted/", "/")]
    + [("scriptd/m", "did you mean 'scripted'")],
)
async def test_a_model_name_that_is_none_is_explained(name, says):
    async with hosting() as host:
        with pytest.raises(ConfigError, match=says):
            await host.session(model=name)


# ---- other attempts ---------------------------------------------------------------------


async def test_another_attempt_is_told_with_what_went_wrong_before_and_usage_is_summed():
    recorder, model = Recorder(), ScriptedModel(ProviderError(Kind.RATE_LIMITED, "slow down"), "up")
    result, _ = await said(model=model, plugins=[Again(), recorder])

    (retried,) = recorder.of(ModelRetried)
    assert (result.text, result.usage, len(model.requests)) == ("up", Usage(10, 5), 2)
    assert (retried.model, retried.attempt, retried.wait_s >= 0) == ("scripted/m", 2, True)
    assert "slow down" in retried.error


async def test_another_attempt_can_be_told_before_it_begins():
    recorder, told = Recorder(), list[ModelRetried]()

    async def wait(event, call_next):
        try:
            return await call_next()
        except ProviderError:
            assert call_next.may_repeat
            call_next.retrying(12.5)
            told.extend(recorder.of(ModelRetried))
            return await call_next()

    await said(DOWN, "fine", plugins=[plugin(around_model_call=wait), recorder])

    assert [(event.attempt, event.wait_s) for event in told] == [(2, 12.5)]
    assert recorder.of(ModelRetried) == told, "told once"


async def test_decisions_that_are_old_are_made_again_before_another_attempt(monkeypatch):
    """Policy 4."""
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)
    votes: list[Any] = [Allow(), Deny("changed my mind")]
    once, model = plugin(decide_model_request=lambda _: votes.pop(0)), ScriptedModel(DOWN, "never")
    result, _ = await said(model=model, plugins=[once, Again()])

    assert (result.why, len(model.requests)) == (Why.DENIED, 1)


async def test_the_time_of_a_turn_holds_for_all_attempts_and_layers_together():
    async def again(event, call_next):
        for _ in range(5):
            with contextlib.suppress(ProviderError):
                return await call_next()
        return await call_next()

    async def wait(event, call_next):
        await asyncio.Event().wait()

    for layer in (again, wait):
        model = ScriptedModel(hold=asyncio.Event())
        result, _ = await said(model=model, plugins=[plugin(around_model_call=layer)], limits=Limits(wall_s=0.1))

        assert (result.why, result.limit, result.usage.estimated) == (Why.LIMIT, "wall_s", layer is again)


# ---- another request in place of one ----------------------------------------------------


class Other(ScriptedModel):
    name = "other"


def fallback(times=1):
    """Return a plugin that asks the other model *times* where the first one fails."""

    async def around(event, call_next):
        try:
            return await call_next()
        except ProviderError:
            for _ in range(times - 1):
                await call_next.reissue(event.request, model="other/small")
            return await call_next.reissue(event.request, model="other/small")

    return plugin("Fallback", around_model_call=around)


def about_other(answer):
    """Return a policy that answers *answer* about requests to the other model."""
    return plugin(decide_model_request=lambda event: answer if "other" in event.provider else None)


async def test_another_model_answers_in_place_of_one_that_failed():
    second, recorder, replies = Other("I am here"), Recorder(), list[tuple[str, str, str]]()
    policy = plugin(
        transform_model_response=lambda e: replies.append((e.provider, e.request.model, e.response.message.text))
    )
    result, _ = await said(DOWN, plugins=[second, fallback(), recorder, policy])

    assert (result.text, result.usage.input) == ("I am here", 10)
    assert (second.requests[0].model, second.requests[0].messages[-1].text) == ("small", "go")
    decisions = [event for event in recorder.of(DecisionMade) if event.operation == "model_call"]
    assert [event.operation_id for event in decisions] == ["t1.0", "t1.0.r1"]
    assert decisions[0].digest != decisions[1].digest
    assert [(event.model, event.usage.input, event.error) for event in recorder.of(ModelCalled)] == [
        ("scripted/m", None, "down"), ("other/small", 10, ""),
    ]  # fmt: skip
    assert [(event.model, event.attempt) for event in recorder.of(ModelRetried)] == [("other/small", 2)]
    came_back = ("app:other:provider/other", "small", "I am here")
    assert replies == [came_back], "what comes back passes the result hooks once, which see who answered"


async def test_the_other_request_is_transformed_and_decided_like_any():
    def mark(event):
        marked = Message.user(event.request.messages[-1].text + "!")
        return attrs.evolve(event.request, messages=(*event.request.messages[:-1], marked))

    first, second = ScriptedModel(DOWN), Other("never")
    policies = [plugin(transform_model_request=mark), about_other(Deny("not that vendor"))]
    result, _ = await said(model=first, plugins=[second, fallback()], policies=policies)

    assert (result.why, result.detail, second.requests) == (Why.DENIED, "not that vendor", [])
    assert first.requests[0].messages[-1].text == "go!"


@pytest.mark.parametrize("answer", [True, False, None])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_it_needs_an_approval_of_its_own_which_a_dry_run_does_not_ask_for(answer, dry_run):
    person, second = Person(answer), Other("hi")
    plugins = [second, fallback(), about_other(Ask("another vendor"))]
    result, _ = await said(DOWN, plugins=plugins, approver=person, dry_run=dry_run)

    agreed = answer is True and not dry_run
    assert result.why is (Why.COMPLETED if agreed else Why.DENIED)
    assert (len(second.requests), len(person.asked)) == (agreed, not dry_run)


async def test_only_the_layers_below_see_the_other_request():
    seen: list[str] = []

    class Outer:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            seen.append(f"{type(self).__name__} {event.request.model}")
            return await call_next()

    class Inner(Outer):
        pass

    class Middle:
        @hookimpl(after=("app:outer",), before=("app:inner",))
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            return await call_next.reissue(event.request, model="other/small")

    await said(plugins=[Other("x"), Outer(), Middle(), Inner()])

    assert seen == ["Outer m", "Inner small"]


async def test_three_times_is_the_limit():
    """Policy 4."""
    second = Other()
    with pytest.raises(Exception, match="reissues"):
        await said(DOWN, plugins=[second, fallback(times=4)])

    assert len(second.requests) == 3


async def test_it_needs_the_grant_of_a_retrier_and_grants_name_installed_ones():
    """Policy 4."""
    nothing: Any = None
    rest: Rest[Any] = Rest(nothing, nothing, nothing, nothing, nothing, retries=False)

    with pytest.raises(RuntimeError, match=r"needs the operator's grant \[grants\] retriers"):
        await rest.reissue(None)
    with pytest.raises(ConfigError, match="absent"):
        await said(config=HostSettings(grants=Grants(retriers=("absent",))))


@pytest.mark.parametrize("wanted", ["absent/x", "nonsense", "other/small"])
async def test_what_cannot_be_asked_is_told(wanted: str):
    async def around(event, call_next):
        return await call_next.reissue("no request" if wanted == "other/small" else event.request, model=wanted)

    says = "not a ModelRequest" if wanted == "other/small" else wanted.partition("/")[0]
    with pytest.raises((ConfigError, SessionError), match=says):
        await said(plugins=[Other(), plugin(around_model_call=around)])


async def test_a_tool_call_cannot_be_reissued():
    async def around(event, call_next):
        return await call_next.reissue({"a": 2})

    async with talking(tools=[add], plugins=[plugin(around_tool_call=around)]) as session:
        output = await session.call_tool("add", {"a": 1, "b": 1})

    assert "only a model call can be reissued" in str(output.for_model)


async def test_a_stream_that_another_model_finishes_shows_its_text_alone():
    model, plugins = ScriptedModel("one two three", cut=2), [Other("four five"), fallback()]
    async with talking(model=model, plugins=plugins) as session, session.stream("go") as events:
        shown = [event async for event in events if isinstance(event, TextShown | Discarded)]

    text = "".join(getattr(event, "text", "!") for event in shown)
    assert text.rpartition("!")[1:] == ("!", "four five")
    assert events.result.text == "four five"
