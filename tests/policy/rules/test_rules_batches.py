"""The rule of batches, and the time that each call of one has: rule 18."""

import asyncio
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import ApprovalEvent, Ask, Decision, Deny, Respond, Role, ToolCall, hookimpl, tool
from pluggent_host.settings import HostSettings, Limits, Timeouts
from pluggent_testing.fakes import call
from policy_rules import ASKS, yes
from policy_stage import Danger, stage

# ---- rule 18: batches


@attrs.define
class Diary:
    """Tools with effects that write down that they ran."""

    ran: list[str] = attrs.field(factory=list)

    def tool(self, name: str, effects: tuple[str, ...] = ("shell",), **more: Any) -> Any:
        async def run() -> str:
            """Run."""
            self.ran.append(name)
            return name

        return tool(name=name, effects=effects, **more)(run)


def once_ran(diary: Diary, name: str, then: Decision, before: Decision | None = None) -> object:
    """Return a policy that answers *then* about ``late`` as soon as *name* has run."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            if event.tool.name != "late":
                return None
            return then if name in diary.ran else before

    return Policy()


async def test_a_decision_is_repeated_after_an_effect_of_a_sibling() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late")]

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Deny("too late"))]
    ) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]
    assert on.read_by_model() == ["first", "Denied: too late"]


async def test_a_decision_is_repeated_when_a_sibling_had_an_effect_before_the_approval() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late")]
    plugins = [once_ran(diary, "first", Deny("too late"), Ask("may I?"))]

    async with stage((call("first"), call("late")), tools=tools, plugins=plugins, approver=yes) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]


async def test_a_decision_is_repeated_when_an_approved_sibling_had_an_effect() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late")]
    config = HostSettings(strict=True)

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Deny("too late"))],
        approver=yes, config=config,
    ) as on:  # fmt: skip
        await on.session.say("go")

    assert diary.ran == ["first"]


async def test_a_decision_is_repeated_after_an_effect_of_a_concurrent_sibling() -> None:
    diary = Diary()
    tools = [diary.tool("first", concurrent=True), diary.tool("late", exclusive=True)]

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Deny("too late"))]
    ) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]


async def test_an_answer_too_is_decided_again_after_an_effect() -> None:
    diary = Diary()
    tools = [diary.tool("first"), diary.tool("late", exclusive=True)]
    plugins = [once_ran(diary, "first", Deny("too late"), Respond("cached"))]

    async with stage((call("first"), call("late")), tools=tools, plugins=plugins) as on:
        await on.session.say("go")

    assert on.read_by_model() == ["first", "Denied: too late"]


async def test_an_ask_that_comes_up_in_the_second_decision_is_put_to_a_person() -> None:
    diary = Diary()
    asked: list[ApprovalEvent] = []
    tools = [diary.tool("first"), diary.tool("late")]

    def refuse(event: ApprovalEvent) -> bool:
        asked.append(event)
        return False

    async with stage(
        (call("first"), call("late")), tools=tools, plugins=[once_ran(diary, "first", Ask("still?"))], approver=refuse
    ) as on:
        await on.session.say("go")

    assert diary.ran == ["first"]
    assert len(asked) == 1


async def test_calls_that_need_no_approval_run_before_anybody_is_asked() -> None:
    diary = Diary()
    asked_after: list[list[str]] = []
    tools = [diary.tool("asked"), diary.tool("free", ())]
    config = HostSettings(effects={"app:tools:tool/asked": ("shell",)})

    def approve(event: ApprovalEvent) -> bool:
        asked_after.append(list(diary.ran))
        return True

    async with stage((call("asked"), call("free")), tools=tools, config=config, approver=approve) as on:
        await on.session.say("go")

    assert asked_after == [["free"]]
    assert diary.ran == ["free", "asked"]
    assert on.read_by_model() == ["asked", "free"]


async def test_a_refused_call_stays_refused_for_the_turn() -> None:
    """Rule 17."""
    asked: list[ApprovalEvent] = []
    danger = Danger()

    def refuse(event: ApprovalEvent) -> bool:
        asked.append(event)
        return False

    calls = [call("danger", "one", path="x"), call("danger", "two", path="x"), call("danger", "three", path="y")]
    async with stage(*calls, tools=danger.tools(), config=ASKS, approver=refuse) as on:
        await on.session.say("go")

    assert len(asked) == 2
    assert danger.ran == []


@pytest.mark.parametrize(("limits", "limit"), [(Limits(asks=2), "asks"), (Limits(denials=2, asks=99), "denials")])
async def test_too_many_asks_or_denials_end_the_turn(limits: Limits, limit: str) -> None:
    """Rule 17."""
    danger = Danger()
    calls = [call("danger", f"c{number}", path=str(number)) for number in range(9)]
    config = ASKS._replace(limits=limits)

    async with stage(*calls, tools=danger.tools(), config=config, approver=lambda _: limit == "asks") as on:
        result = await on.session.say("go")

    assert (result.why, result.limit) == ("limit", limit)
    assert len(on.model.requests) == 3


async def test_every_call_has_exactly_one_result_before_the_model_is_asked_again() -> None:
    danger = Danger()
    calls = (
        call("danger", "a", path="x"),
        call("nothing", "b"),
        ToolCall("c", "danger", "not json"),
        call("quiet", "d"),
        call("danger", "e", path="y"),
    )

    async with stage(calls, tools=danger.tools(), config=ASKS, approver=lambda event: "y" in event.rendered) as on:
        await on.session.say("go")

    told = [message.tool_call_id for message in on.model.requests[1].messages if message.role is Role.TOOL]
    assert told == ["a", "b", "c", "d", "e"]


# ---- timeouts of the policies do not depend on how many calls there are


async def test_each_call_has_the_whole_time_of_its_hooks() -> None:
    class Slow:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0.02)

    danger = Danger(effects=())
    calls = tuple(call("danger", f"c{number}", path=str(number)) for number in range(4))
    config = HostSettings(timeouts=Timeouts(hook_s=0.06))

    async with stage(calls, tools=danger.tools(), plugins=[Slow()], config=config) as on:
        await on.session.say("go")

    assert danger.ran == ["0", "1", "2", "3"]
