"""Results of tools as people see them: the policies on outputs let them pass, or nothing shows them (rules 25, 40)."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from fake_plugins import Person, plugin
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
    thaw,
    tool,
)
from pluggent_host import Host
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from policy_stage import results, stage
from tool_sources import Brings

SECRET = "sk-123"
HIDDEN = "***"
VALUES: dict[str, Any] = {
    "tells": f"the key is {SECRET}",
    "fails": ValueError(f"the key is {SECRET}"),
    "facts": {"key": [SECRET], "town": "Oslo"},
    "beside": ToolOutput("it is in the data", data={"key": SECRET, "town": "Oslo"}),
    "dataonly": ToolOutput(data={"key": SECRET, "town": "Oslo"}),
    "pictures": (Text("first, "), Text(SECRET)),
    "shows": ToolOutput(SECRET, for_user="for you"),
    "harmless": {"town": "Oslo"},
}


def made(name: str, value: Any) -> Any:
    """Return a tool called *name* that returns *value*, or raises it."""

    @tool(name=name, effects=())
    async def run() -> Any:
        """Tell."""
        if isinstance(value, Exception):
            raise value
        return value

    return run


@tool(effects=())
async def below(context: ToolContext) -> str:
    """Say nothing of what another tool said."""
    await context.call_tool("tells", {})
    return "fine"


TOOLS = [*(made(*item) for item in VALUES.items()), below]
TELLING = ("tells", "fails", "facts", "beside", "dataonly", "pictures", "below")


def policy(hook: str, answer: Callable[[Any], Any]) -> object:
    """Return a policy whose *hook* gives *answer* on whatever has the secret in it."""
    return plugin(**{hook: lambda event: answer(event) if SECRET in event.message.text else None})


def _raises(event: Any) -> Any:
    raise RuntimeError("broken")


def _rewritten(event: Any) -> Message:
    content = tuple(attrs.evolve(part, text=part.text.replace(SECRET, HIDDEN)) for part in event.message.content)
    return attrs.evolve(event.message, content=content)


POLICIES = {
    "denies": policy("decide_output", lambda _: Deny("not that")),
    "asks": policy("decide_output", lambda _: Ask("show it?")),
    "fails": policy("decide_output", _raises),
    "answers rubbish": policy("decide_output", lambda _: object()),
    "rewrites": policy("transform_output", _rewritten),
    "fails to rewrite": policy("transform_output", _raises),
    "rewrites into rubbish": policy("transform_output", lambda _: object()),
}
DENIES = POLICIES["denies"]
every_policy = pytest.mark.parametrize("how", POLICIES)


def seen(events: Any) -> str:
    """Return what *events* say of results and words; a policy's reasons are its own."""
    return repr([each for each in events if not isinstance(each, DecisionMade | HookFailed)])


async def played(name: str, *plugins: object, **options: Any) -> tuple[Any, Any, ToolFinished]:
    """Have the model call the tool *name*; return the stage, the result of the turn, and the last event of a call."""
    async with stage(call(name), "done", tools=TOOLS, plugins=plugins, **options) as on:
        result = await on.session.say("go")
    return on, result, on.recorder.of(ToolFinished)[-1]


@every_policy
@pytest.mark.parametrize("name", TELLING)
async def test_a_result_that_a_person_may_not_see_is_in_no_event_and_ends_nothing(name: str, how: str) -> None:
    recorder, sunk = Recorder(), list[Any]()
    plugins = [POLICIES[how], plugin("Sink", write_record=sunk.append), recorder, ScriptedModel(call(name), "done")]
    async with (
        Host.open(model="scripted/m", plugins=plugins, tools=TOOLS, installed=False) as host,
        await host.session() as session,
        host.events() as of_host,
        session.events() as of_session,
        session.stream("go") as stream,
    ):
        streamed = [event async for event in stream]
    followed = [event async for event in of_host], [event async for event in of_session]

    assert (stream.result.why, stream.result.text) == ("completed", "done")
    for events in (streamed, recorder.events, sunk, *followed):
        assert any(isinstance(event, ToolFinished) for event in events)
        assert SECRET not in seen(events)
    finished = recorder.of(ToolFinished)[0]
    assert finished.withheld is (how != "rewrites")
    assert (HIDDEN in repr(finished.output)) is (how == "rewrites")
    if name not in ("below", "dataonly", "beside"):
        assert SECRET in repr(session.history)  # what the model reads is not what a person sees


async def test_a_policy_that_never_answers_withholds_a_result() -> None:
    async def never(event: Any) -> None:
        if SECRET in event.message.text:
            await asyncio.Event().wait()

    config = HostSettings(timeouts=Timeouts(hook_s=0.05))
    _, _, finished = await played("tells", plugin(decide_output=never), config=config)

    assert (finished.output, finished.withheld, finished.ran) == (ToolOutput(), True, True)


@pytest.mark.parametrize(
    ("hook", "answer", "recorded"),
    [
        ("transform_output", lambda _: None, []),
        ("transform_output", lambda event: event.message, ["allow"]),
        ("decide_output", lambda _: None, ["allow"]),
    ],
    ids=["no one decides", "changed", "no opinion"],
)
async def test_a_result_that_passes_has_a_decision_if_a_policy_votes_or_changes_it(
    hook: str, answer: Callable[[Any], Any], recorded: list[str]
) -> None:
    async with stage(call("harmless"), "done", tools=TOOLS, plugins=[plugin(**{hook: answer})]) as on:
        await on.session.call_tool("harmless", {})

    made = [event.verdict for event in on.recorder.of(DecisionMade) if event.operation == "output"]
    finished = on.recorder.of(ToolFinished)[0]
    assert made == recorded
    assert (finished.ran, finished.withheld, "Oslo" in repr(finished.output)) == (True, False, True)


@pytest.mark.parametrize("name", ["facts", "beside", "dataonly", "pictures", "harmless"])
async def test_a_result_that_passes_is_seen_whole(name: str) -> None:
    on, _, without = await played(name)
    assert [made for made in on.recorder.of(DecisionMade) if made.operation == "output"] == []
    assert not without.withheld
    assert SECRET in repr(without.output) or name == "harmless"

    quiet = policy("decide_output", lambda _: None)
    async with stage(call(name), "done", tools=TOOLS, plugins=[quiet]) as on:
        await on.session.say("go")
        called = await on.session.call_tool(name, {})

    assert on.recorder.of(ToolFinished)[0].output == called == without.output


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
    _, _, finished = await played(name, POLICIES["rewrites"])

    assert (finished.output.for_model, thaw(finished.output.data)) == (text, data)


async def test_data_that_a_policy_has_put_into_other_words_are_not_shown_as_data() -> None:
    _, _, finished = await played("facts", policy("transform_output", lambda _: Message.assistant("nothing to see")))

    assert finished.output == ToolOutput("nothing to see")


@pytest.mark.parametrize("name", ["tells", "below"])
async def test_no_person_is_asked_to_show_a_result_while_the_turn_runs_or_below_a_call_by_hand(name: str) -> None:
    person = Person(True)
    _, result, _ = await played(name, POLICIES["asks"], approver=person)
    async with stage(tools=TOOLS, plugins=[POLICIES["asks"]], approver=person) as on:
        await on.session.call_tool("below", {})

    assert (person.asked, result.why) == ([], "completed")


async def test_a_provisional_text_is_not_taken_back_because_a_result_is_withheld() -> None:
    config = HostSettings(stream="provisional")
    async with (
        stage(call("tells"), "done", tools=TOOLS, plugins=[DENIES], config=config) as on,
        on.session.stream("go") as stream,
    ):
        assert "Discarded" not in {type(event).__name__ async for event in stream}


async def test_what_is_for_the_person_is_shown_although_what_the_model_reads_is_not() -> None:
    on, _, _ = await played("shows", DENIES)

    assert [event.message.text for event in on.recorder.of(UserNotified)] == ["for you"]
    assert SECRET not in seen(on.recorder.events)


async def test_the_record_holds_what_came_out_of_the_hooks_on_results() -> None:
    """Policy 26: the transcript, and what is made of it, is no screen."""
    on, _, _ = await played("tells", DENIES)

    assert results(on.session.history) == [f"the key is {SECRET}"]
    assert SECRET in repr(on.session.records())
    assert [made.verdict for made in on.decisions("output")] == ["deny", "allow"]


async def test_a_call_whose_turn_is_cancelled_while_its_result_is_judged_has_its_event() -> None:
    judged = asyncio.Event()

    async def slow(event: Any) -> None:
        judged.set()
        await asyncio.Event().wait()

    async with stage(call("tells"), "done", tools=TOOLS, plugins=[plugin(decide_output=slow)]) as on:
        task = asyncio.create_task(on.session.say("go"))
        await judged.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (finished,) = on.recorder.of(ToolFinished)
    assert (finished.withheld, SECRET in repr(finished)) == (True, False)


# ---- called by hand: no text follows that could be withheld ----


@every_policy
@pytest.mark.parametrize("name", TELLING)
async def test_a_call_by_hand_returns_what_a_person_may_see(name: str, how: str) -> None:
    async with stage(tools=TOOLS, plugins=[POLICIES[how]]) as on:
        output = await on.session.call_tool(name, {})

    assert SECRET not in repr(output)
    assert SECRET not in seen(on.recorder.events)
    if name == "below":
        assert output.for_model == "fine"
    elif how == "rewrites":
        assert HIDDEN in repr(output)
        assert output.is_error is (name == "fails")
    else:
        assert (output.is_error, output.data) == (True, None)
        assert str(output.for_model).startswith("The result of this call was withheld: ")


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_person_is_asked_once_to_release_the_result_of_a_call_by_hand(agreed: bool) -> None:
    person = Person(agreed)
    async with stage(tools=TOOLS, plugins=[POLICIES["asks"]], approver=person) as on:
        output = await on.session.call_tool("tells", {})

    assert [event.operation for event in person.asked] == ["output"]
    assert (SECRET in str(output.for_model)) is agreed
    assert (SECRET in seen(on.recorder.events)) is agreed


async def test_a_command_of_a_plugin_gets_what_a_person_may_see() -> None:
    """The caller, such as a client of a server, sees it; no final text passes the host afterwards."""
    plugins = [DENIES, Brings(TOOLS[0]), ScriptedModel()]
    lent = CommandHost(lambda: Host.open(model="scripted/m", plugins=plugins, installed=False))
    try:
        done = await lent.call_tool("tells", {}, origin="mcp")
    finally:
        await lent.aclose()

    assert (done.output.for_model, done.outcome) == ("The result of this call was withheld: not that", "withheld")
