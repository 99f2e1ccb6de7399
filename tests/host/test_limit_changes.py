"""Limits given in code: all of them, or those that differ."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from pluggent_cli.config.keys import LIMIT_KINDS, TOOL_LIMIT_KINDS
from pluggent_hookspecs import tool
from pluggent_host import HostSettings, Limits, SyncHost, ToolLimits, Why
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.limits import LimitChanges, check_limits, limited
from talking import hosting, talking

STRICT = Limits(tool_rounds=1, tokens=1_000_000, per_tool={"work": ToolLimits(calls=1), "rest": ToolLimits(calls=0)})
OWN = HostSettings(limits=STRICT)


@tool(effects=())
def work(n: int) -> str:
    """Work."""
    return "worked"


@tool(effects=())
def rest() -> str:
    """Rest."""
    return "rested"


ROUNDS = tuple(call("work", str(n), n=n) for n in range(3))


async def test_of_a_mapping_only_what_is_in_it_differs() -> None:
    async with talking(*ROUNDS, "done", tools=[work, rest], config=OWN) as session:
        result = await session.say("go", limits={"tool_rounds": 3})

        assert [message.text for message in session.history if message.tool_call_id][1].startswith("Error: the calls")
    assert (result.why, result.text) == (Why.COMPLETED, "done")


async def test_of_a_mapping_the_limits_of_other_tools_stay() -> None:
    batch = (call("work", "w", n=1), call("work", "v", n=2), call("rest"))
    async with talking(batch, "done", tools=[work, rest], config=OWN) as session:
        await session.say("go", limits={"per_tool": {"work": ToolLimits(calls=2)}})

        told = [message.text for message in session.history if message.tool_call_id]
    assert told[0] == "worked"
    assert told[1].startswith("worked")
    assert told[2].startswith("Error: the calls of 'rest'")


async def test_a_whole_limits_takes_the_place_of_all() -> None:
    async with talking(*ROUNDS, "done", tools=[work, rest], config=OWN) as session:
        result = await session.say("go", limits=Limits())

        assert [message.text for message in session.history if message.tool_call_id] == ["worked"] * 3
    assert result.text == "done"


async def test_a_limit_of_a_turn_is_gone_with_it() -> None:
    async with talking(call("work", n=1), "one", call("work", n=2), tools=[work, rest], config=OWN) as session:
        await session.say("go", limits={"tool_rounds": 5})
        result = await session.say("on", limits={"tool_rounds": 0})

    assert (result.why, result.limit) == (Why.LIMIT, "tool_rounds")


async def test_a_session_and_a_host_take_them_too() -> None:
    async with hosting(*ROUNDS, "done", tools=[work, rest], config=OWN, limits={"tool_rounds": 2}) as host:
        session = await host.session(limits={"per_tool": {"work": ToolLimits(calls=9)}})
        result = await session.say("go")

    assert (result.why, result.limit, result.detail) == (Why.LIMIT, "tool_rounds", "limit 'tool_rounds' reached (2)")


def test_a_program_without_a_loop_gives_them_likewise() -> None:
    plugins = [ScriptedModel(call("work", n=1))]
    with SyncHost.open(model="scripted/m", plugins=plugins, tools=[work], installed=False) as host:
        result = host.session().say("go", limits={"tool_rounds": 0})

    assert result.limit == "tool_rounds"


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"tool_round": 3}, "limits: there is no limit 'tool_round'; did you mean 'tool_rounds'?"),
        ({"tool_rounds": "3"}, "limits.tool_rounds: expected a number of at least 0, got '3'"),
        ({"tool_rounds": None}, "limits.tool_rounds: expected a number of at least 0, got None"),
        ({"tool_rounds": True}, "limits.tool_rounds: expected a number of at least 0, got True"),
        ({"cost_usd": -1}, "limits.cost_usd: expected a number of at least 0, or None, got -1"),
        ({"per_tool": 3}, "limits.per_tool: expected a mapping of tool to ToolLimits(…), got int"),
        ({"per_tool": {"work": 3}}, "limits.per_tool['work']: expected ToolLimits(…) of numbers or None, got 3"),
        (3, "limits: expected Limits(…) or a mapping of those that differ, got int"),
        ([("tool_rounds", 3)], "limits: expected Limits(…) or a mapping of those that differ, got list"),
    ],
)
async def test_what_is_no_limit_is_refused_with_its_name(limits: Any, problem: str) -> None:
    async with talking("x", tools=[work]) as session:
        with pytest.raises(TypeError) as refused:
            await session.say("go", limits=limits)

    assert str(refused.value) == problem


NUMBERS = {name: st.integers(0, 99) for name in Limits._fields if name != "per_tool"}


@given(st.fixed_dictionaries({}, optional=NUMBERS))
def test_every_limit_that_is_given_counts_and_every_other_stays(changes: LimitChanges) -> None:
    check_limits(changes)

    made = limited(STRICT, changes)

    assert made._asdict() == {**STRICT._asdict(), **changes}


def test_every_limit_there_is_can_be_given_by_itself() -> None:
    assert set(LimitChanges.__annotations__) == {*LIMIT_KINDS, "per_tool"} == set(Limits._fields)
    assert tuple(TOOL_LIMIT_KINDS) == ToolLimits._fields
