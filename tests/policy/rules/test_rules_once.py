"""The rule of effects that happen once: rule 21."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from places import hanging_once
from pluggent_hookspecs import ApprovalEvent, Deny, ToolContext, tool
from pluggent_testing.fakes import call
from pluggent_transcript.entries import Settled
from policy_rules import agreeing, hooked, twice
from policy_stage import said, stage


def keeping() -> tuple[Any, list[str]]:
    """Return a tool ``key``, and the idempotency keys of its calls."""
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> None:
        """Keep the key."""
        keys.append(context.idempotency_key)

    return key, keys


async def test_a_key_is_the_same_for_every_attempt_and_another_for_every_call():
    key, keys = keeping()

    plugins = [hooked(around_tool_call=twice)]
    async with stage((call("key", "a"), call("key", "b")), call("key", "c"), tools=[key], plugins=plugins) as on:
        await on.session.say("go")
        await on.session.call_tool("key", {})

    assert list(Counter(keys).values()) == [2, 2, 2, 2]


async def test_a_key_is_never_given_twice_even_after_reopening(tmp_path: Path):
    key, keys = keeping()
    policy = hooked(decide_input=lambda event: Deny("no") if event.message.text == "bad" else None)

    for texts in (["bad", "good"], ["good"], ["bad", "bad", "good"], ["good"]):
        async with stage(call("key"), plugins=[policy], tools=[key], state_dir=tmp_path, id="one") as on:
            for text in texts:
                await on.session.say(text)

    assert len(set(keys)) == len(keys) == 4


@pytest.mark.parametrize(("idempotent", "agreed", "runs"), [(False, None, 1), (True, None, 3), (False, True, 3)])
async def test_a_call_of_unknown_outcome_asks_before_it_runs_again_unless_it_is_idempotent(
    idempotent: bool, agreed: bool | None, runs: int
):
    hang, ran = hanging_once(None, idempotent=idempotent)
    asked: list[ApprovalEvent] = []

    calls = [call("hang", id) for id in ("one", "two", "three")]
    await said(*calls, tools=[hang], approver=agreeing(asked, agreed) if agreed else None)

    assert len(ran) == runs
    assert len(asked) == (1 if agreed else 0)
    assert all("may already have taken effect" in question for event in asked for _, question in event.asks)


async def test_a_plugin_around_a_call_that_fails_ends_no_doubt_about_it():
    hang, ran = hanging_once(None)

    async def fail(event: Any, call_next: Any) -> Any:
        await call_next()
        raise ValueError("broken")

    broken = hooked(around_tool_call=fail)
    on, _ = await said(call("hang", "one"), call("hang", "two"), tools=[hang], plugins=[broken])

    assert ran == ["hang"]
    assert [each.outcome for each in on.session.records() if isinstance(each, Settled)] == ["outcome_unknown", "denied"]
    assert on.read_by_model()[0].startswith("Error: this call failed in a plugin around it")


async def test_a_call_that_ran_and_failed_in_a_plugin_around_it_has_failed():
    key, keys = keeping()

    async def fail(event: Any, call_next: Any) -> Any:
        await call_next()
        raise ValueError("broken")

    on, _ = await said(call("key"), tools=[key], plugins=[hooked(around_tool_call=fail)])

    assert len(keys) == 1
    assert [each.outcome for each in on.session.records() if isinstance(each, Settled)] == ["failed"]


async def test_an_interrupted_call_asks_before_it_runs_again():
    ran, started = list[str](), asyncio.Event()

    @tool
    async def hang() -> None:
        """Hang, the first time."""
        ran.append("hang")
        started.set()
        if len(ran) == 1:
            await asyncio.Event().wait()

    async with stage(call("hang", "one"), call("hang", "two"), tools=[hang]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await started.wait()
        turn.cancel()
        await asyncio.wait((turn,))
        result = await on.session.say("again")

    assert (ran, result.why) == (["hang"], "denied")


async def test_a_failed_call_is_known_and_may_be_made_again():
    ran: list[str] = []

    @tool
    async def fail() -> None:
        """Fail."""
        ran.append("fail")
        raise ValueError("no")

    await said(call("fail", "one"), call("fail", "two"), tools=[fail])

    assert len(ran) == 2
