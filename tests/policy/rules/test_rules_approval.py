"""The rules of batches, of asking, and of the time that each call has: rules 17 and 18."""

import asyncio
from typing import Any

import pytest
from pluggent_hookspecs import ApprovalEvent, Ask, Decision, Deny, Respond, Role, ToolCall, tool
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_testing.fakes import call
from pluggent_transcript.limits import Limits
from policy_rules import ASKS, agreeing, hooked
from policy_stage import Danger, said

# ---- rule 18: batches


class Diary:
    """Tools with effects that write down that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tool(self, name: str, effects: tuple[str, ...] | None = None, **more: Any) -> Any:
        async def run() -> str:
            """Run."""
            self.ran.append(name)
            return name

        return tool(name=name, effects=effects, **more)(run)


STRICT = HostSettings(strict=True)
TOO_LATE = ["first", "Denied: too late"]


@pytest.mark.parametrize(
    ("before", "then", "read", "more"),
    [
        (None, Deny("too late"), TOO_LATE, {}),
        (Ask("may I?"), Deny("too late"), TOO_LATE, {}),
        (None, Deny("too late"), TOO_LATE, {"config": STRICT}),
        (None, Deny("too late"), TOO_LATE, {"first": {"concurrent": True}, "late": {"exclusive": True}}),
        (Respond("cached"), Deny("too late"), TOO_LATE, {"late": {"exclusive": True}}),
        (None, Ask("still?"), ["first", "Denied: a person refused this"], {"answer": False}),
    ],
    ids=["a call", "before its approval", "an approved sibling", "a concurrent sibling", "an answer", "an ask"],
)
async def test_a_decision_is_repeated_after_an_effect_of_a_sibling(
    before: Decision | None, then: Decision, read: list[str], more: dict[str, Any]
):
    diary, asked, settings = Diary(), list[ApprovalEvent](), more.get("config", HostSettings())

    def decide(event: Any) -> Decision | None:
        return None if event.tool.name != "late" else then if "first" in diary.ran else before

    on, _ = await said(
        (call("first"), call("late")), plugins=[hooked(decide_tool_call=decide)], config=settings,
        tools=[diary.tool(name, **more.get(name, {})) for name in ("first", "late")],
        approver=agreeing(asked, more.get("answer", True)),
    )  # fmt: skip

    assert diary.ran == ["first"]
    assert on.read_by_model() == read
    assert "answer" not in more or len(asked) == 1


async def test_calls_that_need_no_approval_run_before_anybody_is_asked():
    diary, asked_after = Diary(), list[list[str]]()

    def approve(event: ApprovalEvent) -> bool:
        asked_after.append([*diary.ran])
        return True

    tools = [diary.tool("asked"), diary.tool("free", ())]
    config = HostSettings(effects={"app:tools:tool/asked": ("shell",)})
    on, _ = await said((call("asked"), call("free")), tools=tools, config=config, approver=approve)

    assert (asked_after, diary.ran, on.read_by_model()) == ([["free"]], ["free", "asked"], ["asked", "free"])


async def test_every_call_has_exactly_one_result_before_the_model_is_asked_again():
    danger = Danger()
    calls = (
        call("danger", "a", path="x"), call("nothing", "b"), ToolCall("c", "danger", "not json"), call("quiet", "d"),
        call("danger", "e", path="y"),
    )  # fmt: skip

    on, _ = await said(calls, tools=danger.tools(), config=ASKS, approver=lambda event: "y" in event.rendered)

    told = [message.tool_call_id for message in on.model.requests[1].messages if message.role is Role.TOOL]
    assert told == ["a", "b", "c", "d", "e"]


async def test_every_call_of_a_batch_is_decided():
    danger, asked = Danger(effects=()), list[str]()

    def decide(event: Any) -> Decision | None:
        asked.append(event.arguments["path"])
        return Deny("odd") if int(event.arguments["path"]) % 2 else None

    calls = tuple(call("danger", f"c{number}", path=str(number)) for number in range(6))
    on, _ = await said(calls, plugins=[hooked(is_async=True, decide_tool_call=decide)], tools=danger.tools())

    assert asked == ["0", "1", "2", "3", "4", "5"]
    assert danger.ran == ["0", "2", "4"]
    assert on.read_by_model() == ["did 0", "Denied: odd", "did 2", "Denied: odd", "did 4", "Denied: odd"]


async def test_each_call_has_the_whole_time_of_its_hooks():
    danger, slow = Danger(effects=()), hooked(decide_tool_call=lambda _: asyncio.sleep(0.02))
    calls = tuple(call("danger", f"c{number}", path=str(number)) for number in range(4))

    await said(calls, tools=danger.tools(), plugins=[slow], config=HostSettings(timeouts=Timeouts(hook_s=0.06)))

    assert danger.ran == ["0", "1", "2", "3"]


# ---- rule 17: how often a person is asked


async def test_a_refused_call_stays_refused_for_the_turn():
    danger, asked = Danger(), list[ApprovalEvent]()

    calls = [call("danger", "one", path="x"), call("danger", "two", path="x"), call("danger", "three", path="y")]
    await said(*calls, tools=danger.tools(), config=ASKS, approver=agreeing(asked, answer=False))

    assert (len(asked), danger.ran) == (2, [])


@pytest.mark.parametrize(("limits", "limit"), [(Limits(asks=2), "asks"), (Limits(denials=2, asks=99), "denials")])
async def test_too_many_asks_or_denials_end_the_turn(limits: Limits, limit: str):
    calls = [call("danger", f"c{number}", path=str(number)) for number in range(9)]

    config = ASKS._replace(limits=limits)
    on, result = await said(*calls, tools=Danger().tools(), config=config, approver=lambda _: limit == "asks")

    assert (result.why, result.limit) == ("limit", limit)
    assert len(on.model.requests) == 3
