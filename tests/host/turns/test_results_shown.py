"""What those who watch a turn see of results of tools: what the policies on outputs let pass (rules 25 and 40)."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from pluggent_cli.command_host import CommandHost
from pluggent_hookspecs import (
    Ask,
    DecisionMade,
    Deny,
    HookFailed,
    Message,
    Text,
    ToolContext,
    ToolFinished,
    ToolOutput,
    UserNotified,
    hookimpl,
    thaw,
    tool,
)
from pluggent_host import Host, SyncHost
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from policy_stage import results, stage
from tool_sources import Brings

SECRET = "sk-123"
HIDDEN = "***"


@tool(effects=())
async def tells() -> str:
    """Tell the secret."""
    return f"the key is {SECRET}"


@tool(effects=())
async def fails() -> str:
    """Tell the secret in an error."""
    raise ValueError(f"the key is {SECRET}")


@tool(effects=())
def facts() -> dict[str, Any]:
    """Return structured data."""
    return {"key": [SECRET], "town": "Oslo"}


@tool(effects=())
async def beside() -> ToolOutput:
    """Say one thing in text and another in data."""
    return ToolOutput("it is in the data", data={"key": SECRET, "town": "Oslo"})


@tool(effects=())
async def dataonly() -> ToolOutput:
    """Say nothing but data."""
    return ToolOutput(data={"key": SECRET, "town": "Oslo"})


@tool(effects=())
async def pictures() -> tuple[Text, Text]:
    """Return several parts."""
    return Text("first, "), Text(SECRET)


@tool(effects=())
async def below(context: ToolContext) -> str:
    """Say nothing of what another tool said."""
    await context.call_tool("tells", {})
    return "fine"


@tool(effects=())
async def harmless() -> dict[str, Any]:
    """Return what no policy minds."""
    return {"town": "Oslo"}


TOOLS = [tells, fails, facts, beside, dataonly, pictures, below, harmless]
TELLING = ("tells", "fails", "facts", "beside", "dataonly", "pictures", "below")


def _about_secrets(answer: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def policy(self: object, event: Any) -> Any:
        return answer(event) if SECRET in event.message.text else None

    return policy


def _raises(event: Any) -> Any:
    raise RuntimeError("broken")


def _rewritten(event: Any) -> Message:
    content = tuple(attrs.evolve(part, text=part.text.replace(SECRET, HIDDEN)) for part in event.message.content)
    return attrs.evolve(event.message, content=content)


def policy(hook: str, answer: Callable[[Any], Any]) -> object:
    """Return a policy whose *hook* gives *answer* on whatever has the secret in it."""
    method = _about_secrets(answer)
    method.__name__ = hook
    return type("Policy", (), {hook: hookimpl(method)})()


POLICIES = {
    "denies": ("decide_output", lambda _: Deny("not that")),
    "asks": ("decide_output", lambda _: Ask("show it?")),
    "fails": ("decide_output", _raises),
    "answers rubbish": ("decide_output", lambda _: object()),
    "rewrites": ("transform_output", _rewritten),
    "fails to rewrite": ("transform_output", _raises),
    "rewrites into rubbish": ("transform_output", lambda _: object()),
}
every_policy = pytest.mark.parametrize("how", POLICIES)


def seen(events: Any) -> str:
    """Return what *events* say of results and words; a policy's reasons are its own."""
    return repr([each for each in events if not isinstance(each, DecisionMade | HookFailed)])


@every_policy
@pytest.mark.parametrize("name", TELLING)
async def test_a_result_that_a_person_may_not_see_is_in_no_event(name: str, how: str) -> None:
    recorder, sunk = Recorder(), []

    class Sink:
        @hookimpl
        def write_record(self, event: Any) -> None:
            sunk.append(event)

    plugins = [policy(*POLICIES[how]), Sink(), recorder, ScriptedModel(call(name), "done")]
    async with (
        Host.open(model="scripted/m", plugins=plugins, tools=TOOLS, installed=False) as host,
        await host.session() as session,
        host.events() as of_host,
        session.events() as of_session,
    ):
        async with session.stream("go") as stream:
            streamed = [event async for event in stream]
        history = session.history
    followed = [event async for event in of_host], [event async for event in of_session]

    for events in (streamed, recorder.events, sunk, *followed):
        assert any(isinstance(event, ToolFinished) for event in events)
        assert SECRET not in seen(events)
    finished = recorder.of(ToolFinished)[0]
    assert finished.withheld is (how != "rewrites")
    assert (HIDDEN in repr(finished.output)) is (how == "rewrites")
    if name not in ("below", "dataonly", "beside"):
        assert SECRET in repr(history)  # what the model reads is not what a person sees


async def test_a_policy_that_never_answers_withholds_a_result() -> None:
    class Never:
        @hookimpl
        async def decide_output(self, event: Any) -> None:
            if SECRET in event.message.text:
                await asyncio.Event().wait()

    config = HostSettings(timeouts=Timeouts(hook_s=0.05))
    async with stage(call("tells"), "done", tools=TOOLS, plugins=[Never()], config=config) as on:
        await on.session.say("go")

    (finished,) = on.recorder.of(ToolFinished)
    assert (finished.output, finished.withheld, finished.ran) == (ToolOutput(), True, True)


async def test_without_policies_on_outputs_events_carry_results_as_they_are() -> None:
    async with stage(call("beside"), "done", tools=TOOLS) as on:
        await on.session.say("go")

    (finished,) = on.recorder.of(ToolFinished)
    assert finished.output == ToolOutput("it is in the data", data={"key": SECRET, "town": "Oslo"})
    assert not finished.withheld
    assert [made for made in on.recorder.of(DecisionMade) if made.operation == "output"] == []


@pytest.mark.parametrize("name", ["facts", "beside", "dataonly", "pictures", "harmless"])
async def test_a_result_that_passes_is_seen_whole(name: str) -> None:
    async with stage(call(name), "done", tools=TOOLS) as on:
        await on.session.say("go")
    without = on.recorder.of(ToolFinished)[0].output

    quiet = policy("decide_output", lambda _: None)
    async with stage(call(name), "done", tools=TOOLS, plugins=[quiet]) as on:
        await on.session.say("go")
        called = await on.session.call_tool(name, {})

    assert on.recorder.of(ToolFinished)[0].output == without
    assert called == without


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("facts", '{"key":["***"],"town":"Oslo"}', {"key": [HIDDEN], "town": "Oslo"}),
        ("beside", "it is in the data", {"key": HIDDEN, "town": "Oslo"}),
        ("dataonly", "", {"key": HIDDEN, "town": "Oslo"}),
        ("pictures", (Text("first, "), Text(HIDDEN)), None),
    ],
)
async def test_what_a_policy_rewrites_keeps_its_form(name: str, text: Any, data: Any) -> None:
    async with stage(call(name), "done", tools=TOOLS, plugins=[policy(*POLICIES["rewrites"])]) as on:
        await on.session.say("go")

    (finished,) = on.recorder.of(ToolFinished)
    assert (finished.output.for_model, thaw(finished.output.data)) == (text, data)


async def test_data_that_a_policy_has_put_into_other_words_are_not_shown_as_data() -> None:
    blunt = policy("transform_output", lambda _: Message.assistant("nothing to see"))
    async with stage(call("facts"), "done", tools=TOOLS, plugins=[blunt]) as on:
        await on.session.say("go")

    (finished,) = on.recorder.of(ToolFinished)
    assert finished.output == ToolOutput("nothing to see")


@pytest.mark.parametrize("name", ["tells", "below"])
async def test_nobody_is_asked_to_show_a_result_while_the_turn_runs(name: str) -> None:
    asked = []

    def approver(event: Any) -> bool:
        asked.append(event.operation)
        return True

    plugins = [policy(*POLICIES["asks"])]
    async with stage(call(name), "done", tools=TOOLS, plugins=plugins, approver=approver) as on:
        result = await on.session.say("go")

    assert (asked, result.why) == ([], "completed")


@every_policy
async def test_a_result_that_nobody_may_see_ends_nothing_and_is_for_the_model(how: str) -> None:
    async with stage(call("tells"), "done", tools=TOOLS, plugins=[policy(*POLICIES[how])]) as on:
        result = await on.session.say("go")

    assert (result.why, result.text) == ("completed", "done")
    assert results(on.session.history) == [f"the key is {SECRET}"]


async def test_a_provisional_text_is_not_taken_back_because_a_result_is_withheld() -> None:
    config = HostSettings(stream="provisional")
    plugins = [policy(*POLICIES["denies"])]
    async with (
        stage(call("tells"), "done", tools=TOOLS, plugins=plugins, config=config) as on,
        on.session.stream("go") as stream,
    ):
        events = [event async for event in stream]

    assert "Discarded" not in {type(event).__name__ for event in events}


async def test_what_is_for_the_person_is_shown_although_what_the_model_reads_is_not() -> None:
    @tool(effects=())
    async def shows() -> ToolOutput:
        """Show something else."""
        return ToolOutput(SECRET, for_user="for you")

    async with stage(call("shows"), "done", tools=[shows], plugins=[policy(*POLICIES["denies"])]) as on:
        await on.session.say("go")

    assert [event.message.text for event in on.recorder.of(UserNotified)] == ["for you"]
    assert SECRET not in seen(on.recorder.events)


# ---- called by hand: no text follows that could be withheld ----


@every_policy
@pytest.mark.parametrize("name", [name for name in TELLING if name != "below"])
async def test_a_call_by_hand_returns_what_a_person_may_see(name: str, how: str) -> None:
    async with stage(tools=TOOLS, plugins=[policy(*POLICIES[how])]) as on:
        output = await on.session.call_tool(name, {})

    assert SECRET not in repr(output)
    assert SECRET not in seen(on.recorder.events)
    if how == "rewrites":
        assert HIDDEN in repr(output)
        assert output.is_error is (name == "fails")
    else:
        assert output.is_error
        assert str(output.for_model).startswith("The result of this call was withheld: ")
        assert output.data is None


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_person_is_asked_once_to_release_the_result_of_a_call_by_hand(agreed: bool) -> None:
    asked = []

    def approver(event: Any) -> bool:
        asked.append(event.operation)
        return agreed

    plugins = [policy(*POLICIES["asks"])]
    async with stage(tools=TOOLS, plugins=plugins, approver=approver) as on:
        output = await on.session.call_tool("tells", {})

    assert asked == ["output"]
    assert (SECRET in str(output.for_model)) is agreed
    assert (SECRET in seen(on.recorder.events)) is agreed


async def test_what_a_call_by_hand_calls_itself_is_seen_by_nobody_either() -> None:
    async with stage(tools=TOOLS, plugins=[policy(*POLICIES["denies"])]) as on:
        output = await on.session.call_tool("below", {})

    assert output.for_model == "fine"
    assert SECRET not in seen(on.recorder.events)


async def test_a_command_of_a_plugin_gets_what_a_person_may_see() -> None:
    """Whoever it works for, such as a client of a server, sees it; no final text passes the host afterwards."""

    def opened() -> Any:
        plugins = [policy(*POLICIES["denies"]), Brings(tells), ScriptedModel()]
        return Host.open(model="scripted/m", plugins=plugins, installed=False)

    lent = CommandHost(opened)
    try:
        done = await lent.call_tool("tells", {}, origin="mcp")
    finally:
        await lent.aclose()

    assert (done.output.for_model, done.outcome) == ("The result of this call was withheld: not that", "withheld")


def test_a_stream_without_a_loop_shows_no_result_that_is_denied() -> None:
    plugins = [ScriptedModel(call("tells"), "done"), policy(*POLICIES["denies"])]
    with (
        SyncHost.open(model="scripted/m", plugins=plugins, tools=TOOLS, installed=False) as host,
        host.session() as session,
        session.stream("go") as stream,
    ):
        events = list(stream)

    assert [event.withheld for event in events if isinstance(event, ToolFinished)] == [True]
    assert SECRET not in seen(events)


async def test_a_call_whose_turn_is_cancelled_while_its_result_is_judged_has_its_event() -> None:
    judged = asyncio.Event()

    class Slow:
        @hookimpl
        async def decide_output(self, event: Any) -> None:
            judged.set()
            await asyncio.Event().wait()

    async with stage(call("tells"), "done", tools=TOOLS, plugins=[Slow()]) as on:
        task = asyncio.create_task(on.session.say("go"))
        await judged.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (finished,) = on.recorder.of(ToolFinished)
    assert (finished.withheld, SECRET in repr(finished)) == (True, False)


async def test_the_record_holds_what_came_out_of_the_hooks_on_results() -> None:
    """Policy 26: the transcript, and what is made of it, is no screen."""
    async with stage(call("tells"), "done", tools=TOOLS, plugins=[policy(*POLICIES["denies"])]) as on:
        await on.session.say("go")
        records = on.session.records()

    assert SECRET in repr(records)
    verdicts = [made.verdict for made in on.recorder.of(DecisionMade) if made.operation == "output"]
    assert verdicts == ["deny", "allow"]
