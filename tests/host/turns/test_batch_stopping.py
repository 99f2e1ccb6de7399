"""A failure stops the calls behind it, where the tool or the operator wants it so."""

import asyncio
from typing import Any

import pytest
from places import BATCH, SKIPPED, BatchTools, Log, about_gate
from pluggent_hookspecs import (
    ApprovalEvent,
    Ask,
    Deny,
    Respond,
    ToolCall,
    ToolOutput,
    hookimpl,
    tool,
)
from pluggent_host import HostSettings, Limits, Why
from pluggent_host.settings import ToolLimits
from pluggent_host.transcript.entries import Dispatched
from pluggent_testing.fakes import call
from talking import WAIT_S, assert_whole, results, talking

# ---- what stops


@pytest.mark.parametrize(
    "does", [ValueError("no"), ToolOutput.error("no"), object()], ids=["raises", "says", "unusable"]
)
async def test_nothing_behind_a_call_that_failed_is_run(does: object) -> None:
    tools = BatchTools(does)

    async with talking(BATCH, "ok", tools=tools.all()) as session:
        result = await session.say("go")

        assert results(session.history)[0] == "before"
        assert results(session.history)[2] == SKIPPED.format("failed")
        assert_whole(session.history)
    assert (result.why, tools.ran) == (Why.COMPLETED, ["before", "gate"])


async def test_nothing_behind_a_call_that_was_denied_is_run() -> None:
    tools = BatchTools()

    async with talking(BATCH, "ok", tools=tools.all(), plugins=[about_gate(Deny("no"))]) as session:
        await session.say("go")

        assert results(session.history) == ["before", "Denied: no", SKIPPED.format("was denied")]
    assert tools.ran == ["before"]


async def test_nothing_behind_a_call_that_a_person_refused_is_run() -> None:
    tools = BatchTools()

    async with talking(
        BATCH, "ok", tools=tools.all(), plugins=[about_gate(Ask("may I?"))], approver=lambda _: False
    ) as session:
        await session.say("go")

        assert results(session.history)[2] == SKIPPED.format("was denied")
    assert tools.ran == ["before"]


async def test_nothing_behind_a_call_that_nobody_approved_is_run_and_the_turn_ends() -> None:
    tools = BatchTools()

    async with talking(BATCH, "never", tools=tools.all(), plugins=[about_gate(Ask("may I?"))]) as session:
        result = await session.say("go")

        assert results(session.history)[2] == SKIPPED.format("was denied")
    assert (result.why, tools.ran) == (Why.DENIED, ["before"])


async def test_nothing_behind_a_call_that_timed_out_is_run() -> None:
    hang = asyncio.Event()
    tools = BatchTools()

    @tool(effects=(), stops_batch=True, timeout_s=0.01)
    async def gate() -> None:
        """Hang."""
        await hang.wait()

    before, _, behind = tools.all()
    async with talking(BATCH, "ok", tools=[before, gate, behind]) as session:
        await session.say("go")

        assert results(session.history)[2] == SKIPPED.format("failed")
    assert tools.ran == ["before"]


async def test_nothing_behind_a_call_with_invalid_arguments_is_run() -> None:
    tools = BatchTools()
    batch = (call("before"), ToolCall("c", "gate", '{"more": 1}'), call("behind"))

    async with talking(batch, "ok", tools=tools.all()) as session:
        await session.say("go")

        assert results(session.history)[2] == SKIPPED.format("failed")
    assert tools.ran == ["before"]


async def test_nothing_behind_a_call_above_its_limit_is_run() -> None:
    tools = BatchTools()
    limits = Limits(per_tool={"gate": ToolLimits(calls=0)})

    async with talking(BATCH, "ok", tools=tools.all(), config=HostSettings(limits=limits)) as session:
        await session.say("go")

        assert results(session.history)[2] == SKIPPED.format("failed")
    assert tools.ran == ["before"]


async def test_a_result_that_a_policy_withholds_stops_too() -> None:
    class Withholds:
        @hookimpl
        def decide_tool_result(self, event: Any) -> Any:
            return Deny("secret") if event.tool.name == "gate" else None

    tools = BatchTools("fine")
    async with talking(BATCH, "ok", tools=tools.all(), plugins=[Withholds()]) as session:
        await session.say("go")

    assert tools.ran == ["before", "gate"]


async def test_a_ledger_that_refuses_stops_too() -> None:
    class Ledger:
        @hookimpl
        def reserve(self, event: Any) -> Any:
            return Deny("spent") if event.capability.endswith("gate") else None

        @hookimpl
        def settle(self, event: Any) -> None:
            """Nothing was reserved."""

    tools = BatchTools()
    async with talking(BATCH, "ok", tools=tools.all(), plugins=[Ledger()]) as session:
        await session.say("go")

    assert tools.ran == ["before"]


# ---- what does not


@pytest.mark.parametrize("does", ["fine", None, ToolOutput("fine", for_user="look")])
async def test_a_call_that_succeeds_lets_the_others_run(does: object) -> None:
    tools = BatchTools(does)

    async with talking(BATCH, "ok", tools=tools.all()) as session:
        await session.say("go")

    assert tools.ran == ["before", "gate", "behind"]


async def test_an_answer_of_a_policy_is_a_success() -> None:
    tools = BatchTools()

    async with talking(BATCH, "ok", tools=tools.all(), plugins=[about_gate(Respond("cached"))]) as session:
        await session.say("go")

    assert tools.ran == ["before", "behind"]


async def test_in_a_dry_run_what_was_not_run_counts_as_a_success() -> None:
    tools = BatchTools(effects=("shell",))

    async with talking(BATCH, "ok", tools=tools.all()) as session:
        await session.say("go", dry_run=True)

        assert all("not run" in text for text in results(session.history)[1:])
        assert not any("Look at that result" in text for text in results(session.history))


async def test_a_failure_of_another_call_stops_nothing() -> None:
    tools = BatchTools()
    before, gate, behind = tools.all()

    async with talking((call("nothing"), *BATCH), "ok", tools=[before, gate, behind]) as session:
        await session.say("go")

    assert tools.ran == ["before", "gate", "behind"]


async def test_the_next_reply_is_another_batch() -> None:
    tools = BatchTools(ValueError("no"))

    async with talking((call("gate"),), (call("behind"),), "ok", tools=tools.all()) as session:
        await session.say("go")

    assert tools.ran == ["gate", "behind"]


# ---- the promise


async def test_nothing_behind_it_begins_or_is_dispatched_before_it_has_succeeded() -> None:
    dispatched: list[str] = []
    log = Log()

    @tool(effects=("shell",), concurrent=True, stops_batch=True)
    async def gate() -> str:
        """Look what is dispatched while it runs."""
        entries = session.records()
        dispatched.extend(id for entry in entries if isinstance(entry, Dispatched) for id, _, _ in entry.calls)
        return "done"

    tools = [gate, log.tool("w", effects=("shell",), concurrent=True), log.tool("r", effects=())]
    batch = (call("gate", "g"), call("w", "w1", n=1), call("r", "r1", n=1))
    async with talking(batch, "ok", tools=tools) as session:
        await session.say("go")

        assert results(session.history) == ["done", "w1", "r1"]
    assert dispatched == ["g"]


async def test_calls_before_it_run_beside_it_and_go_on_to_their_end() -> None:
    gone = asyncio.Event()

    @tool(effects=())
    async def slow() -> str:
        """End after the gate has failed."""
        await asyncio.wait_for(gone.wait(), WAIT_S)
        return "slow"

    @tool(effects=(), stops_batch=True)
    async def gate() -> None:
        """Fail while the other one runs."""
        gone.set()
        raise ValueError("no")

    async with talking((call("slow"), call("gate"), call("slow", "again")), "ok", tools=[slow, gate]) as session:
        await session.say("go")

        assert results(session.history) == ["slow", "Error: 'gate' failed: ValueError: no", SKIPPED.format("failed")]


async def test_a_call_behind_it_that_is_refused_on_its_own_account_says_so() -> None:
    tools = BatchTools(ValueError("no"))

    async with talking((call("gate"), call("nothing"), call("behind")), "ok", tools=tools.all()) as session:
        await session.say("go")

        assert results(session.history)[1].startswith("Error: there is no tool 'nothing'")
        assert results(session.history)[2] == SKIPPED.format("failed")


async def test_nobody_is_asked_about_a_call_that_will_not_run() -> None:
    asked: list[ApprovalEvent] = []
    tools = BatchTools(ValueError("no"))

    async with talking(
        BATCH, "ok", tools=tools.all(), approver=asked.append, config=HostSettings(strict=True, effects={
            "app:tools:tool/before": (), "app:tools:tool/gate": (),
        }),
    ) as session:  # fmt: skip
        await session.say("go")

    assert (tools.ran, asked) == (["before", "gate"], [])


async def test_it_is_asked_about_in_its_place_after_what_is_before_it() -> None:
    tools = BatchTools()
    ran_when_asked: list[list[str]] = []

    def approve(event: ApprovalEvent) -> bool:
        ran_when_asked.append(list(tools.ran))
        return True

    async with talking(BATCH, "ok", tools=tools.all(), plugins=[about_gate(Ask("?"))], approver=approve) as session:
        await session.say("go")

    assert ran_when_asked == [["before"]]
    assert tools.ran == ["before", "gate", "behind"]


async def test_an_exclusive_call_that_is_asked_about_only_when_its_turn_comes_is_overtaken_by_nobody() -> None:
    tools = BatchTools(stops_batch=False, exclusive=True)

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Any:
            return Ask("?") if event.tool.name == "gate" and tools.ran else None

    first, gate, behind = tools.all()
    batch = (call("behind", "1"), call("gate"), call("before"))
    async with talking(
        batch, "ok", tools=[first, gate, behind], plugins=[Policy()], approver=lambda _: True
    ) as session:
        await session.say("go")

    assert tools.ran == ["behind", "gate", "before"]
