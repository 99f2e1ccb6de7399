"""What a tool asks of the host: every bit of it an operation of its own, under the same policies."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from each_of import shown
from pluggent_hookspecs import (
    Allow,
    ApprovalEvent,
    Ask,
    Deny,
    Json,
    Respond,
    ToolContext,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    hookimpl,
    tool,
)
from pluggent_host.settings import Grants, HostSettings, Limits
from pluggent_testing.fakes import call
from policy_stage import Danger, either_way, results, run, stage, using

DANGER = "app:tools:tool/danger"
ASKS = HostSettings(effects={DANGER: ("shell",)})
both_orders = pytest.mark.parametrize("turned", [False, True])


def about(name: str, answer: object) -> object:
    """Return a policy that gives *answer* about the tool called *name*."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            return answer if event.tool.name == name else None

    return Policy()


def calls_danger(path: str = "x") -> Callable[[ToolContext], Awaitable[ToolOutput]]:
    return lambda context: context.call_tool("danger", {"path": path})


# ---- another tool


async def test_a_nested_call_returns_its_output_and_joins_no_conversation() -> None:
    danger = Danger()

    outcome, on = await run(calls_danger(), danger)

    assert (outcome, danger.ran) == ([ToolOutput("did x")], ["x"])
    assert results(on.session.history) == ["used"]


async def test_a_nested_call_is_decided_below_its_parent_with_an_id_of_its_own() -> None:
    _, on = await run(calls_danger(), Danger())

    outer, inner = on.decisions("tool_call")
    assert inner.scope.parent_id == outer.operation_id
    assert inner.operation_id != outer.operation_id
    assert inner.scope.origin == "tool"
    assert inner.call_id != outer.call_id


async def test_a_nested_call_keeps_the_principal_and_the_place() -> None:
    user, _ = using(calls_danger())

    async with stage(call("user"), tools=[*Danger().tools(), user], principal="ada", channel="c", chat_id="1") as on:
        await on.session.say("go")

    scopes = {(made.scope.principal, made.scope.channel, made.scope.chat_id) for made in on.decisions("tool_call")}
    assert scopes == {("ada", "c", "1")}


@both_orders
@pytest.mark.parametrize("answer", [Deny("no"), Ask("?"), True, ValueError], ids=shown)
async def test_a_denied_nested_call_is_not_run_and_the_tool_reads_why(answer: object, turned: bool) -> None:
    danger = Danger()
    plugins = either_way(about("danger", answer), about("user", Allow()), turned=turned)

    outcome, _ = await run(calls_danger(), danger, plugins=plugins)

    (output,) = outcome
    assert danger.ran == []
    assert output.is_error
    assert str(output.for_model).startswith("Denied:")


async def test_the_approval_of_the_outer_call_does_not_cover_the_inner_one() -> None:
    """Rule 19."""
    danger = Danger()
    asked: list[str] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event.capability)
        return event.capability != DANGER

    config = HostSettings(effects={DANGER: ("shell",), "app:tools:tool/user": ("shell",)})
    outcome, _ = await run(calls_danger(), danger, config=config, approver=approve)

    assert asked == ["app:tools:tool/user", DANGER]
    assert danger.ran == []
    assert outcome[0].is_error


async def test_an_ask_below_a_call_with_nobody_there_is_a_denial_and_never_a_pause() -> None:
    danger = Danger()

    outcome, on = await run(calls_danger(), danger, "and on", config=ASKS)

    assert danger.ran == []
    assert "nobody was there" in outcome[0].for_model
    assert len(on.model.requests) == 2


async def test_a_nested_call_that_a_person_refused_is_not_asked_again() -> None:
    """Rule 17."""
    danger = Danger()
    asked: list[ApprovalEvent] = []

    def refuse(event: ApprovalEvent) -> bool:
        asked.append(event)
        return False

    async def twice(context: ToolContext) -> None:
        await context.call_tool("danger", {"path": "x"})
        await context.call_tool("danger", {"path": "x"})

    _, _ = await run(twice, danger, call("danger", path="x"), config=ASKS, approver=refuse)

    assert len(asked) == 1
    assert danger.ran == []


async def test_what_a_person_refused_the_model_stays_refused_for_its_tools() -> None:
    danger = Danger()
    asked: list[ApprovalEvent] = []

    def refuse(event: ApprovalEvent) -> bool:
        asked.append(event)
        return False

    user, _ = using(calls_danger())
    async with stage(
        call("danger", path="x"), call("user"), tools=[*danger.tools(), user], config=ASKS, approver=refuse
    ) as on:
        await on.session.say("go")

    assert (len(asked), danger.ran) == (1, [])


async def test_a_tool_cannot_ask_a_person_without_end() -> None:
    """Rule 17: more than five asks end it."""
    danger = Danger()
    asked: list[ApprovalEvent] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event)
        return True

    async def many(context: ToolContext) -> None:
        for number in range(20):
            await context.call_tool("danger", {"path": str(number)})

    await run(many, danger, config=ASKS._replace(limits=Limits(asks=3)), approver=approve)

    assert len(asked) <= 4


async def test_the_outer_clock_stops_while_a_person_thinks() -> None:
    danger = Danger()

    async def think(event: ApprovalEvent) -> bool:
        await asyncio.sleep(0.15)
        return True

    outcome, on = await run(calls_danger(), danger, timeout_s=0.05, config=ASKS, approver=think)

    assert danger.ran == ["x"]
    assert outcome == [ToolOutput("did x")]
    assert on.read_by_model() == ["used"]


async def test_a_deny_below_a_tool_can_end_the_turn() -> None:
    _, on = await run(calls_danger(), Danger(), "never said", plugins=[about("danger", Deny("stop", ends_turn=True))])

    assert len(on.model.requests) == 1


@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 1}, {"path": "x", "more": 1}, {"path": float("nan")}, {"path": "\ud800"}, {"path": object()}, {1: 2}],
    ids=shown,
)
async def test_the_arguments_of_a_nested_call_are_checked_like_a_models(arguments: Any) -> None:
    danger = Danger()

    outcome, on = await run(lambda context: context.call_tool("danger", arguments), danger)

    assert danger.ran == []
    assert isinstance(outcome[0], Exception)
    assert len(on.decisions("tool_call")) == 1


async def test_arguments_cannot_be_edited_while_a_nested_call_is_decided() -> None:
    danger = Danger()
    arguments: dict[str, Json] = {"path": "x"}

    class Waits:
        @hookimpl
        async def decide_tool_call(self, event):
            if event.tool.name == "danger":
                arguments["path"] = "evil"
                await asyncio.sleep(0)

    await run(lambda context: context.call_tool("danger", arguments), danger, plugins=[Waits()])

    assert danger.ran == ["x"]


async def test_an_unknown_tool_is_an_error_with_the_nearest_name() -> None:
    outcome, _ = await run(lambda context: context.call_tool("dangr", {}), Danger())

    assert "danger" in str(outcome[0])


async def test_transforms_and_result_hooks_see_nested_calls_too() -> None:
    danger = Danger()

    class Hooks:
        @hookimpl
        def transform_tool_call(self, event):
            return {"path": "rewritten"} if event.tool.name == "danger" else None

        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted") if event.tool.name == "danger" else None

    outcome, on = await run(calls_danger(), danger, plugins=[Hooks()])

    assert (danger.ran, outcome) == (["rewritten"], [ToolOutput("redacted")])
    finished = {event.name: event.output.for_model for event in on.recorder.of(ToolFinished)}
    assert finished == {"danger": "redacted", "user": "used"}


async def test_a_nested_call_that_was_denied_is_told_as_denied_and_never_as_started() -> None:
    _, on = await run(calls_danger(), Danger(), plugins=[about("danger", Deny("no"))])

    assert [event.name for event in on.recorder.of(ToolStarted)] == ["user"]


async def test_delegation_has_a_depth() -> None:
    depths: list[int] = []

    @tool(effects=())
    async def again(depth: int, context: ToolContext) -> str:
        """Call itself."""
        depths.append(depth)
        await context.call_tool("again", {"depth": depth + 1})
        return "back"

    config = HostSettings(limits=Limits(delegation_depth=3))
    async with stage(call("again", depth=0), tools=[again], config=config) as on:
        await on.session.say("go")

    assert depths == [0, 1, 2, 3]


async def test_a_response_to_a_nested_call_needs_no_run() -> None:
    danger = Danger()

    outcome, _ = await run(calls_danger(), danger, plugins=[about("danger", Respond("cached"))])

    assert (outcome, danger.ran) == ([ToolOutput("cached")], [])


async def test_a_nested_effect_makes_the_decisions_on_its_siblings_old() -> None:
    """Rule 18: an effect is an effect, whoever caused it."""
    danger = Danger(("shell",))
    user, _ = using(calls_danger())
    late: list[str] = []

    @tool(name="late", effects=("shell",), exclusive=True)
    async def late_one() -> str:
        """Come late."""
        late.append("late")
        return "late"

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            return Deny("too late") if event.tool.name == "late" and danger.ran else None

    async with stage((call("user"), call("late")), tools=[*danger.tools(), user, late_one], plugins=[Policy()]) as on:
        await on.session.say("go")

    assert (danger.ran, late) == (["x"], [])


# ---- who else


async def test_a_granted_plugin_may_lift_the_hosts_ask_below_a_call_as_above() -> None:
    danger = Danger()
    config = ASKS._replace(grants=Grants(may_allow=("app:policy",)))

    await run(calls_danger(), danger, plugins=[about("danger", Allow())], config=config)

    assert danger.ran == ["x"]
