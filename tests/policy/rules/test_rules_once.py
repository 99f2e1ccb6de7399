"""The rule of effects that happen once: rule 21."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from attempts import hanging_once
from pluggent_hookspecs import ApprovalEvent, Deny, ToolContext, hookimpl, tool
from pluggent_testing.fakes import call
from policy_rules import Twice
from policy_stage import stage

# ---- rule 21: effects once


async def test_a_key_is_the_same_for_every_attempt_and_another_for_every_call() -> None:
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        keys.append(context.idempotency_key)
        return "k"

    async with stage((call("key", "a"), call("key", "b")), call("key", "c"), tools=[key], plugins=[Twice()]) as on:
        await on.session.say("go")
        await on.session.call_tool("key", {})

    assert list(Counter(keys).values()) == [2, 2, 2, 2]


async def test_a_key_is_never_given_twice_even_after_reopening(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        keys.append(context.idempotency_key)
        return "k"

    class Policy:
        @hookimpl
        def decide_input(self, event):
            return Deny("no") if event.message.text == "bad" else None

    for said in (["bad", "good"], ["good"], ["bad", "bad", "good"], ["good"]):
        async with stage(call("key"), plugins=[Policy()], tools=[key], state_dir=tmp_path, id="one") as on:
            for text in said:
                await on.session.say(text)

    assert len(set(keys)) == len(keys) == 4


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_of_unknown_outcome_asks_before_it_runs_again_unless_it_is_idempotent(idempotent: bool) -> None:
    hang, ran = hanging_once(("shell",), idempotent=idempotent)

    async with stage(call("hang", "one"), call("hang", "two"), tools=[hang]) as on:
        await on.session.say("go")

    assert len(ran) == (2 if idempotent else 1)


async def test_a_call_of_unknown_outcome_runs_again_when_a_person_agrees() -> None:
    hang, ran = hanging_once(("shell",))
    asked: list[str] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.extend(question for _, question in event.asks)
        return True

    calls = [call("hang", "one"), call("hang", "two"), call("hang", "three")]
    async with stage(*calls, tools=[hang], approver=approve) as on:
        await on.session.say("go")

    assert len(ran) == 3
    assert len(asked) == 1
    assert "may already have taken effect" in asked[0]


async def test_an_interrupted_call_asks_before_it_runs_again() -> None:
    ran: list[str] = []
    started = asyncio.Event()

    @tool(effects=("shell",))
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        started.set()
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    async with stage(call("hang", "one"), call("hang", "two"), tools=[hang]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await started.wait()
        turn.cancel()
        await asyncio.wait((turn,))
        result = await on.session.say("again")

    assert ran == ["hang"]
    assert result.why == "denied"


async def test_a_failed_call_is_known_and_may_be_made_again() -> None:
    ran: list[str] = []

    @tool(effects=("shell",))
    async def fail() -> str:
        """Fail."""
        ran.append("fail")
        raise ValueError("no")

    async with stage(call("fail", "one"), call("fail", "two"), tools=[fail]) as on:
        await on.session.say("go")

    assert len(ran) == 2
