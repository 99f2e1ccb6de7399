"""The rules of what a failure, a cancellation and a missing record leave: rules 13 and 15."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import PluggentError, TurnEnded, tool
from pluggent_testing.fakes import call
from policy_rules import full_disk, hooked
from policy_stage import Danger, results, stage

# ---- rule 13: a policy that is late or fails is in test_bypasses_failing; here what a cancellation leaves


async def test_a_turn_cancelled_while_a_policy_decides_dispatches_nothing_and_closes_the_call():
    danger, waiting = Danger(), asyncio.Event()

    async def hangs(event: object) -> None:
        waiting.set()
        await asyncio.Event().wait()

    plugins = [hooked(decide_tool_call=hangs)]
    async with stage(call("danger", path="x"), "and on", tools=danger.tools(), plugins=plugins) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await waiting.wait()
        turn.cancel()
        await asyncio.wait((turn,))

        assert [ended.why for ended in on.recorder.of(TurnEnded)] == ["cancelled"]
        assert results(on.session.history) == ["This call was not run: the turn ended before."]
        assert danger.ran == []


# ---- rule 15: the record comes first


@pytest.mark.parametrize("way", ["say", "call_tool"])
async def test_a_decision_that_cannot_be_recorded_is_a_denial(way: str, tmp_path: Path):
    danger, decided = Danger(("shell",)), list[Any]()

    with full_disk() as fill:
        plugins = [hooked(decide_tool_call=lambda event: [decided.append(event), fill(0)][1])]
        async with stage(
            call("danger", path="x"), "on", plugins=plugins, tools=danger.tools(), state_dir=tmp_path
        ) as on:
            with pytest.raises(PluggentError):
                await (on.session.say("go") if way == "say" else on.session.call_tool("danger", {"path": "x"}))

    assert (danger.ran, len(decided)) == ([], 1)


async def test_the_decision_is_recorded_before_the_call_is_dispatched():
    order: list[str] = []

    @tool
    async def look() -> None:
        """Look what is recorded already."""
        order.extend(type(entry).__name__ for entry in on.session.records())

    async with stage(call("look"), tools=[look]) as on:
        await on.session.say("go")

    assert order.index("Dispatched") > max(place for place, name in enumerate(order) if name == "Decided")
