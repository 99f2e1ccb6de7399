"""A host from opening to closing, composed in code; options, events and replies that are odd."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_plugins import plugin
from places import hanging
from pluggent_hookspecs import hookimpl, tool
from pluggent_hookspecs.decisions import Ask, Deny
from pluggent_hookspecs.errors import ConfigError, ProviderError, ProviderErrorKind as Kind, SessionError
from pluggent_hookspecs.messages import File, Message, Refusal, Text
from pluggent_hookspecs.models import FinishReason, ModelResponse
from pluggent_hookspecs.observations import (
    DecisionMade,
    Discarded,
    ModelCalled,
    PluginStateChanged,
    TextShown,
    TurnEnded,
)
from pluggent_hookspecs.tools import ToolContext, ToolOutput
from pluggent_host import Host, HostSettings, Limits, ToolLimits, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.entries import Decided
from saved import add
from talking import WAIT_S, assert_whole, hosting, results, shape, talking

DOWN = ProviderError(Kind.UNAVAILABLE, "down")


@tool
def write() -> str:
    """Write."""
    return "written"


@tool(effects=())
async def ask(context: ToolContext) -> str:
    """Ask the model."""
    return (await context.call_model("inner")).message.text


def script() -> Any:
    return Host.run_sync("hi", model="scripted/m", plugins=[ScriptedModel("hello")], installed=False)


def test_a_script_needs_no_event_loop() -> None:
    assert script().text == "hello"


async def test_the_synchronous_way_is_refused_inside_a_loop() -> None:
    with pytest.raises(SessionError, match="inside a running event loop"):
        script()


async def test_a_closed_host_says_so_and_its_sessions_are_closed() -> None:
    async with hosting("x") as host:
        session = await host.session()

    with pytest.raises(SessionError, match="the host is closed"):
        await host.session()
    with pytest.raises(SessionError, match="is closed"):
        await session.say("hi")
    with pytest.raises(SessionError, match="the host is closed"):
        host.memory()


@pytest.mark.parametrize("runs", ["model", "tool"])
async def test_leaving_a_host_ends_the_turns_and_tools_that_still_run(runs: str) -> None:
    hang, started, left = hanging()
    model = ScriptedModel("never", hold=asyncio.Event()) if runs == "model" else ScriptedModel(call("hang"))
    async with hosting(model=model, tools=[hang]) as host:
        session = await host.session()
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(model.asked.wait() if runs == "model" else started.wait(), WAIT_S)

    await asyncio.wait((turn,), timeout=0.2)
    ended = turn.done()
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError, SessionError):
        await turn
    assert (ended, left) == (True, [1] if runs == "tool" else [])
    assert_whole(session.history)


async def test_a_host_leaves_no_thread_and_no_task_behind() -> None:
    @tool(effects=())
    def work() -> str:
        """Work in a thread."""
        return threading.current_thread().name

    async with talking(call("work"), "x", tools=[work]) as session:
        await session.say("go")
        assert results(session.history)[0].startswith("pluggent-")

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pluggent-")]


async def test_what_is_given_in_code_wins_over_the_settings() -> None:
    model = ScriptedModel("x")
    config = HostSettings(model="unknown/x", system="from settings", limits=Limits(model_calls=0))
    async with talking(model=model, config=config, system="from code", limits=Limits()) as session:
        assert (await session.say("hi")).why is Why.COMPLETED
        assert shape(model.requests[0].messages)[0] == "system from code"


async def test_settings_for_a_plugin_that_is_not_installed_are_an_error() -> None:
    with pytest.raises(ConfigError, match="'unknown', which is not installed"):
        async with hosting(settings={"unknown": {}}):
            pass


async def test_objects_of_one_class_are_plugins_of_their_own() -> None:
    recorders = Recorder(), Recorder()
    async with hosting(plugins=recorders):
        pass

    assert all(recorder.events for recorder in recorders)
    names = {event.plugin for event in recorders[0].of(PluginStateChanged)}
    assert {"app:recorder", "app:recorder-2"} <= names


async def test_a_host_without_plugins_has_empty_chains() -> None:
    async with hosting() as host:
        assert dict(host.chains.by_hook) == {}
        assert len(host.chains.digest) == 64


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limits": Limits(model_calls="x")}, "limits.model_calls: expected a number"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        ({"limits": Limits(tokens=-1)}, "limits.tokens: expected a number of at least 0"),
        ({"limits": Limits(per_tool={"a": 3})}, "limits.per_tool['a']: expected ToolLimits"),  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]
        ({"limits": Limits(per_tool={"a": ToolLimits("x")})}, "limits.per_tool['a']"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        ({"parameters": {"temperature": 1}}, "parameters: expected ModelParameters, got dict"),
        ({"dry_run": "no"}, "dry_run: expected bool, got str"),
        ({"origin": 3}, "origin: expected str, got int"),
        ({"output": [1]}, "output: [1] is not a type"),
        ({"output": {"type": "object", "properties": 3}}, "output: the tool's own schema is invalid"),
    ],
)
async def test_a_wrong_option_of_a_turn_is_named_before_anything_runs(options: dict[str, Any], problem: str) -> None:
    model = ScriptedModel()
    async with talking(model=model) as session:
        with pytest.raises(TypeError) as caught:
            await session.say("go", **options)

        assert str(caught.value).startswith(problem)
        assert session.history == ()
        assert len(session.records()) == 1
    assert model.requests == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tools": "weather"}, "write tools="),
        ({"private": "keys"}, "write private="),
        ({"private": Path("keys")}, "write private="),
        ({"limits": 3}, "expected Limits"),
        ({"limits": {"rounds": 3}}, "there is no limit 'rounds'"),
        ({"config": {"model": "a/b"}}, "expected HostSettings"),
        ({"settings": ["x"]}, "settings: expected"),
    ],
)
async def test_a_wrong_option_of_a_host_is_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        async with Host.open(installed=False, **options):
            pass


@pytest.mark.parametrize(
    "options",
    [{"model": 3}, {"system": 3}, {"parameters": "x"}, {"dry_run": "yes"}, {"history": [3]}, {"tools": "weather"}],
)
async def test_a_wrong_option_of_a_session_is_named(options: dict[str, Any]) -> None:
    async with hosting() as host:
        with pytest.raises(TypeError, match=r"expected|write tools="):
            await host.session(**options)


async def test_a_kind_of_event_that_is_not_a_class_is_refused_at_once() -> None:
    async with hosting("fine") as host:
        with pytest.raises(TypeError, match="expected classes of events, such as TurnEnded, got 'TurnEnded'"):
            host.events("TurnEnded")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
        session = await host.session()
        assert (await session.say("x")).text == "fine"


async def test_events_of_what_is_closed_end_at_once() -> None:
    async with hosting() as host:
        session = await host.session()
        before, of_host = session.events(), host.events(TurnEnded)
        await session.aclose()
        with pytest.raises(SessionError, match="is closed"):
            session.events()
    for stream in (before, of_host):
        async with asyncio.timeout(WAIT_S), stream as events:
            assert [event async for event in events] == []


@attrs.frozen
class Nothing:
    note: str = ""


@pytest.mark.parametrize("reply", ["", "  \n", ModelResponse(Message.assistant(Refusal("I will not")))])
async def test_neither_silence_nor_a_refusal_is_a_value(reply: Any) -> None:
    async with talking(reply, reply) as session:
        result = await session.say("go", output=Nothing)

    assert (result.why, result.has_output) == (Why.INVALID_OUTPUT, False)


async def test_a_rejected_beginning_does_not_spoil_the_corrected_answer() -> None:
    paused = ModelResponse(Message.assistant('{"val'), FinishReason.PAUSED)
    async with talking(paused, "no", '{"value": 1}') as session:
        result = await session.say("go", output=int)

    assert (result.output, result.text) == (1, '{"value": 1}')


class Fallback:
    """Asks another *model* when the first one fails."""

    def __init__(self, model: str = "other/small") -> None:
        self.model = model

    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next.reissue(event.request, model=self.model)


async def test_text_of_a_call_whose_fallback_is_unknown_is_taken_back() -> None:
    shown: list[object] = []
    async with talking(model=ScriptedModel("one two three", cut=2), plugins=[Fallback("unknown/x")]) as session:
        with pytest.raises(ConfigError, match="unknown"):  # noqa: PT012 (the stream raises it)
            async with session.stream("go") as events:
                async for event in events:
                    shown += [event] if isinstance(event, TextShown | Discarded) else []

    assert isinstance(shown[-1], Discarded)


async def test_models_asked_below_a_tool_are_observed_with_their_failures() -> None:
    recorder = Recorder()
    async with talking(call("ask"), DOWN, "ok", tools=[ask], plugins=[recorder]) as session:
        await session.say("go")

    assert [event.error for event in recorder.of(ModelCalled)] == ["", "down", ""]


async def test_what_a_direct_call_asks_of_a_model_is_in_the_usage_of_the_session() -> None:
    async with talking("answer", tools=[ask]) as session:
        await session.call_tool("ask", {})

        assert session.usage.total == 15


async def test_a_provider_is_the_same_capability_by_whatever_name_it_is_asked_for() -> None:
    asked: list[str] = []
    policy = plugin(decide_model_request=lambda event: asked.append(event.provider))
    async with Host.open(plugins=[policy]) as host:
        for name in ("offline/demo", "pluggent-offline/demo"):
            await (await host.session(model=name)).say("hello")

    assert asked == ["pluggent-offline:provider/offline"] * 2


async def test_a_decision_that_a_sink_lost_is_a_deny_in_the_transcript_too() -> None:
    class Sink:
        @hookimpl
        def write_record(self, event: Any) -> None:
            if isinstance(event, DecisionMade) and event.operation == "model_call":
                raise OSError("full")

    async with talking(plugins=[Sink()]) as session:
        await session.say("go")
        decided = [entry.decision for entry in session.records() if isinstance(entry, Decided)]

    assert [each.verdict for each in decided if each.operation == "model_call"] == ["allow", "deny"]


class Judges:
    """Decides *answer* on each result, or *exclusive* on calls of ``alone``."""

    def __init__(self, answer: Any = None, exclusive: Any = None) -> None:
        self.answer, self.exclusive = answer, exclusive

    @hookimpl
    def decide_tool_call(self, event: Any) -> Any:
        return self.exclusive if event.tool.name == "alone" else None

    @hookimpl
    def decide_tool_result(self, event: Any) -> Any:
        return self.answer


async def test_a_withheld_result_has_happened_all_the_same() -> None:
    plugins = [Judges(Deny("not for you"))]
    async with talking(call("write"), "ok", tools=[write], plugins=plugins) as session:
        await session.say("go")
        exchange = await session.undo()

    assert exchange is not None
    assert exchange.effects == ("app:tools:tool/write",)


async def test_a_call_left_behind_an_exclusive_one_does_not_count() -> None:
    @tool(effects=(), exclusive=True)
    def alone() -> None:
        """Run alone."""

    limits = Limits(per_tool={"add": ToolLimits(calls=1)})
    replies = ((call("alone"), call("add", a=1, b=1)), (call("add", "again", a=1, b=1),))
    plugins = [Judges(exclusive=Ask("?"))]
    async with talking(*replies, tools=[alone, add], plugins=plugins, limits=limits) as session:
        await session.say("go")

        assert session.history[3].text == "This call was not run: one before it was not approved."


async def test_a_dry_run_asks_for_no_release_of_a_result() -> None:
    def approve(event: Any) -> bool:
        raise AssertionError("it is asked")

    plugins = [Judges(Ask("look at it first"))]
    async with talking(call("add", a=1, b=1), tools=[add], plugins=plugins, approver=approve) as session:
        assert (await session.say("go", dry_run=True)).why is Why.COMPLETED


@pytest.mark.parametrize("what", ["exception", "part", "denial", "reply"])
async def test_a_lone_surrogate_from_anywhere_does_not_poison_a_session(what: str, tmp_path: Any) -> None:
    @tool(effects=())
    def odd() -> Any:
        """Be odd."""
        if what == "exception":
            raise ValueError("a file called \udcff")
        return ToolOutput((File(data="aGk=", filename="\udcff", media_type="\ud800"),))

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Deny | None:
            return Deny("never \ud800") if what == "denial" else None

    reply = ModelResponse(Message.assistant((Text("x"), File(file_id="\ud800")))) if what == "reply" else "ok"
    model = ScriptedModel(call("odd"), reply, "still here", "and here")
    options: Any = {"model": "scripted/m", "plugins": [model, Policy()], "tools": [odd], "installed": False}
    async with Host.open(**options, state_dir=tmp_path) as host:
        session = await host.session("s")
        await session.say("go")
        assert (await session.say("again")).text == "still here"
    async with Host.open(**options, state_dir=tmp_path) as host:
        assert (await (await host.session("s")).say("once more")).text == "and here"
