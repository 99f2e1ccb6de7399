"""What users and programs do that nobody planned: odd types, late streams, forks, blocked approvers."""

import asyncio
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    Ask,
    DecisionMade,
    Deny,
    Discarded,
    File,
    FinishReason,
    Message,
    ModelCalled,
    ModelResponse,
    ProviderErrorKind as Kind,
    Refusal,
    ReserveEvent,
    SettleEvent,
    Text,
    TextShown,
    ToolContext,
    ToolOutput,
    TurnEnded,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import ConfigError, HookError, ProviderError, SessionError
from pluggent_host import Host, Limits, ToolLimits, Why
from pluggent_host.transcript.entries import Decided
from pluggent_host.turns.structured_output import output_form
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, hosting, talking


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Other(ScriptedModel):
    name = "other"


class Fallback:
    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next.reissue(event.request, model="other/small")


async def watched(stream: Any, shown: list[str]) -> None:
    async with stream as events:
        async for event in events:
            shown += [event.text] if isinstance(event, TextShown) else []
            shown += ["taken back"] if isinstance(event, Discarded) else []


DOWN = ProviderError(Kind.UNAVAILABLE, "down")


# ---- types of options -------------------------------------------------------------------


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
        ({"output": [1]}, "output: [1] is no type"),
        ({"output": {"type": "object", "properties": 3}}, "output: the tool's own schema is invalid"),
    ],
)
async def test_a_wrong_option_is_told_before_anything_runs(options: dict[str, Any], problem: str):
    model = ScriptedModel()
    async with talking(model=model) as session:
        with pytest.raises(TypeError) as caught:
            await session.say("go", **options)

        assert str(caught.value).startswith(problem)
        assert session.history == ()
        assert len(session.records()) == 1
    assert model.requests == []


@pytest.mark.parametrize(
    "options", [{"model": 3}, {"system": 3}, {"parameters": "x"}, {"dry_run": "yes"}, {"history": [3]}]
)
async def test_a_wrong_option_of_a_session_is_told(options: dict[str, Any]):
    async with hosting() as host:
        with pytest.raises(TypeError, match="expected"):
            await host.session(**options)


async def test_metadata_of_session_and_turn_are_counted_together():
    async with hosting() as host:
        session = await host.session(metadata={"a": "x" * 4000})
        with pytest.raises(SessionError, match="too long"):
            await session.say("x", metadata={"b": "x" * 200})


# ---- streams of events ------------------------------------------------------------------


async def test_a_kind_of_event_that_is_no_class_is_refused_at_once():
    async with hosting("fine") as host:
        with pytest.raises(TypeError, match="expected classes of events, such as TurnEnded, got 'TurnEnded'"):
            host.events("TurnEnded")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
        session = await host.session()
        assert (await session.say("x")).text == "fine"


async def test_events_of_what_is_closed_end_at_once():
    async with hosting() as host:
        session = await host.session()
        before, of_host = session.events(), host.events(TurnEnded)
        await session.aclose()
        with pytest.raises(SessionError, match="is closed"):
            session.events()
    for stream in (before, of_host):
        async with asyncio.timeout(WAIT_S), stream as events:
            assert [event async for event in events] == []


# ---- structured output ------------------------------------------------------------------


@attrs.frozen
class Nothing:
    note: str = ""


@pytest.mark.parametrize("reply", ["", "  \n", ModelResponse(Message.assistant(Refusal("I will not")))])
async def test_neither_silence_nor_a_refusal_is_a_value(reply: Any):
    async with talking(reply, reply) as session:
        result = await session.say("go", output=Nothing)

    assert (result.why, result.has_output) == (Why.INVALID_OUTPUT, False)


async def test_a_rejected_beginning_does_not_spoil_the_corrected_answer():
    paused = ModelResponse(Message.assistant('{"val'), FinishReason.PAUSED)
    async with talking(paused, "no", '{"value": 1}') as session:
        result = await session.say("go", output=int)

    assert (result.output, result.text) == (1, '{"value": 1}')


def test_a_schema_is_checked_when_it_is_given():
    with pytest.raises(TypeError, match="schema is invalid"):
        output_form({"type": "object", "required": 3})


# ---- accounts ---------------------------------------------------------------------------


async def test_a_refused_second_attempt_is_not_booked_with_the_first():
    settled: list[SettleEvent] = []

    class First:
        @hookimpl
        def reserve(self, event: ReserveEvent) -> str:
            return "held"

        @hookimpl
        def settle(self, event: SettleEvent) -> None:
            settled.append(event)

    class Second:
        @hookimpl
        def reserve(self, event: ReserveEvent) -> Deny | None:
            return Deny("once only") if event.attempt > 1 else None

        @hookimpl
        def settle(self, event: SettleEvent) -> None:
            raise AssertionError

    class Again:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            await call_next()
            return await call_next()

    async with talking(plugins=[First(), Second(), Again()]) as session:
        await session.say("go")

    assert [event.usage.total for event in settled] == [15, 0]


async def test_a_failure_that_a_fallback_mended_is_on_the_books_and_policies_see_who_answered():
    class Policy:
        def __init__(self) -> None:
            self.seen: list[tuple[str, str]] = []

        @hookimpl
        def decide_model_response(self, event: Any) -> None:
            self.seen.append((event.provider, event.request.model))

    policy, recorder = Policy(), Recorder()
    async with talking(DOWN, plugins=[Other("hi"), Fallback(), policy, recorder]) as session:
        await session.say("go")

    assert [(event.model, event.error) for event in recorder.of(ModelCalled)] == [
        ("scripted/m", "down"), ("other/small", ""),
    ]  # fmt: skip
    assert policy.seen == [("app:other:provider/other", "small")]


async def test_models_asked_below_a_tool_are_told_with_their_failures():
    @tool(effects=())
    async def ask(context: ToolContext) -> str:
        """Ask the model."""
        return (await context.call_model("inner")).message.text

    recorder = Recorder()
    async with talking(call("ask"), DOWN, "ok", tools=[ask], plugins=[recorder]) as session:
        await session.say("go")

    assert [event.error for event in recorder.of(ModelCalled)] == ["", "down", ""]


async def test_a_decision_that_a_sink_lost_is_a_deny_in_the_transcript_too():
    class Sink:
        @hookimpl
        def write_record(self, event: Any) -> None:
            if isinstance(event, DecisionMade) and event.operation == "model_call":
                raise OSError("full")

    async with talking(plugins=[Sink()]) as session:
        await session.say("go")
        verdicts = [
            entry.decision.verdict
            for entry in session.records()
            if isinstance(entry, Decided) and entry.decision.operation == "model_call"
        ]

    assert verdicts == ["allow", "deny"]


async def test_text_of_a_call_whose_fallback_is_unknown_is_taken_back():
    class Wrong:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except ProviderError:
                return await call_next.reissue(event.request, model="nobody/x")

    shown: list[str] = []
    async with talking(model=ScriptedModel("one two three", cut=2), plugins=[Wrong()]) as session:
        with pytest.raises(ConfigError, match="nobody"):
            await watched(session.stream("go"), shown)

    assert shown[-1] == "taken back"


async def test_a_withheld_result_has_happened_all_the_same():
    @tool(effects=("network_write",))
    def send(text: str) -> str:
        """Send."""
        return text

    class Policy:
        @hookimpl
        def decide_tool_result(self, event: Any) -> Deny:
            return Deny("not for you")

    async with talking(call("send", text="x"), "ok", tools=[send], plugins=[Policy()]) as session:
        await session.say("go")
        exchange = await session.undo()

    assert exchange is not None
    assert exchange.effects == ("app:tools:tool/send",)


async def test_a_call_left_behind_an_exclusive_one_does_not_count():
    @tool(effects=(), exclusive=True)
    def alone() -> None:
        """Run alone."""

    class Asks:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Ask | None:
            return Ask("?") if event.tool.name == "alone" else None

    limits = Limits(per_tool={"add": ToolLimits(calls=1)})
    replies = ((call("alone"), call("add", a=1, b=1)), (call("add", "again", a=1, b=1),))
    async with talking(*replies, tools=[alone, add], plugins=[Asks()], limits=limits) as session:
        await session.say("go")

        assert session.history[3].text == "This call was not run: one before it was not approved."


async def test_a_dry_run_asks_nobody_to_release_a_result():
    class Policy:
        @hookimpl
        def decide_tool_result(self, event: Any) -> Ask:
            return Ask("look at it first")

    def approve(event: Any) -> bool:
        raise AssertionError("nobody is asked")

    async with talking(call("add", a=1, b=1), tools=[add], plugins=[Policy()], approver=approve) as session:
        assert (await session.say("go", dry_run=True)).why is Why.COMPLETED


@pytest.mark.parametrize("what", ["exception", "part", "denial", "reply"])
async def test_half_a_character_from_anywhere_does_not_poison_a_session(what: str, tmp_path: Any):
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


async def test_a_turn_that_fails_at_its_beginning_is_over_all_the_same():
    class Broken:
        @hookimpl
        def transform_input(self, event: Any) -> None:
            raise ValueError("broken")

    recorder = Recorder()
    async with talking(plugins=[Broken(), recorder]) as session:
        with pytest.raises(HookError):
            await session.say("go")
        assert type(session.records()[-1]).__name__ == "TurnOver"
    assert [event.why for event in recorder.of(TurnEnded)] == ["failed"]


async def test_what_a_direct_call_asks_of_a_model_is_on_the_bill_of_the_session():
    @tool(effects=())
    async def ask(context: ToolContext) -> str:
        """Ask."""
        return (await context.call_model("inner")).message.text

    async with talking("answer", tools=[ask]) as session:
        await session.call_tool("ask", {})

        assert session.usage.total == 15


async def test_two_attempts_at_once_are_refused():
    class Hedge:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            return (await asyncio.gather(call_next(), call_next()))[0]

    hold = asyncio.Event()
    async with talking(model=ScriptedModel(hold=hold), plugins=[Hedge()]) as session:
        with pytest.raises(HookError, match="one attempt at a time"):
            await session.say("go")
        hold.set()


async def test_a_provider_is_the_same_capability_by_whatever_name_it_is_asked_for():
    class Policy:
        def __init__(self) -> None:
            self.seen: list[str] = []

        @hookimpl
        def decide_model_request(self, event: Any) -> None:
            self.seen.append(event.provider)

    policy = Policy()
    async with Host.open(plugins=[policy]) as host:
        for name in ("offline/demo", "pluggent-offline/demo"):
            await (await host.session(model=name)).say("hello")

    assert policy.seen == ["pluggent-offline:provider/offline"] * 2
