"""What a ledger refuses below a running tool: the tool is told, in the words that are for models."""

from typing import Any

import pytest
from pluggent_hookspecs import Denied, Deny, ReserveEvent, SettleEvent, ToolContext, ToolFinished, ToolOutput, hookimpl
from pluggent_host import HostSettings, Limits, Why
from pluggent_host.settings import ToolLimits
from pluggent_host.transcript.entries import Settled
from pluggent_testing.fakes import call
from policy_stage import Danger, run, stage, using

SPENT = Deny("spent: go on without", tell_user="the account of acme is empty")
ENDING = Deny("spent: go on without", tell_user="the account of acme is empty", ends_turn=True)


class Ledger:
    """Refuses what is asked for below a tool."""

    def __init__(self, deny: Deny = SPENT) -> None:
        self.deny = deny

    @hookimpl
    def reserve(self, event: ReserveEvent) -> Any:
        return self.deny if event.scope.parent_id else None

    @hookimpl
    def settle(self, event: SettleEvent) -> None:
        """Nothing was reserved."""


async def ask_danger(context: ToolContext) -> ToolOutput:
    return await context.call_tool("danger", {"path": "x"})


@pytest.mark.parametrize("effects", [(), ("shell",)])
async def test_a_nested_tool_call_that_is_not_paid_for_is_a_denial_that_the_tool_reads(
    effects: tuple[str, ...],
) -> None:
    danger = Danger(effects)

    outcome, on = await run(ask_danger, danger, plugins=[Ledger()], approver=lambda _: True)

    assert outcome == [ToolOutput.error("Denied: spent: go on without")]
    assert danger.ran == []
    assert [(event.name, event.ran) for event in on.recorder.of(ToolFinished)] == [("danger", False), ("user", True)]


async def test_what_was_not_paid_for_is_settled_as_denied_and_not_as_uncertain() -> None:
    danger = Danger(("shell",))
    user, _ = using(ask_danger)
    options: dict[str, Any] = {"plugins": [Ledger()], "approver": lambda _: True}

    async with stage(call("user"), tools=[*danger.tools(), user], **options) as on:
        await on.session.say("go")
        settled = [entry.outcome for entry in on.session.records() if isinstance(entry, Settled)]

    assert settled == ["denied", ""]


async def test_what_was_not_paid_for_does_not_count_as_a_call_of_the_tool() -> None:
    class Once(Ledger):
        refusals = 1

        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            if event.scope.parent_id and self.refusals:
                self.refusals -= 1
                return self.deny
            return None

    async def twice(context: ToolContext) -> list[str]:
        return [str((await ask_danger(context)).for_model) for _ in range(2)]

    config = HostSettings(limits=Limits(per_tool={"danger": ToolLimits(calls=1)}))
    outcome, _ = await run(twice, Danger(()), plugins=[Once()], config=config)

    assert outcome == [["Denied: spent: go on without", "did x"]]


async def test_a_nested_model_call_that_is_not_paid_for_says_nothing_that_is_for_the_person() -> None:
    outcome, on = await run(lambda context: context.call_model("a question"), Danger(), plugins=[Ledger()])

    (denied,) = outcome
    assert isinstance(denied, Denied)
    assert (denied.reason, denied.tell_model) == ("spent: go on without", "spent: go on without")
    assert "acme" not in str(denied)
    assert len(on.model.requests) == 2


@pytest.mark.parametrize("below", [ask_danger, lambda context: context.call_model("a question")], ids=["tool", "model"])
async def test_a_ledger_that_ends_the_turn_below_a_tool_ends_it_after_the_batch(below: Any) -> None:
    user, _ = using(below)

    async with stage(call("user"), tools=[*Danger(()).tools(), user], plugins=[Ledger(ENDING)]) as on:
        result = await on.session.say("go")

    assert (result.why, len(on.model.requests)) == (Why.DENIED, 1)


@pytest.mark.parametrize("hook", ["decide_model_request", "decide_model_response"])
async def test_a_policy_that_ends_the_turn_about_a_nested_model_call_ends_it_too(hook: str) -> None:
    class Policy:
        def _deny(self, event: Any) -> Any:
            return ENDING if event.scope.origin == "tool" else None

    setattr(Policy, hook, hookimpl(lambda self, event: self._deny(event)))
    user, outcome = using(lambda context: context.call_model("a question"))

    async with stage(call("user"), "an answer", tools=[user], plugins=[Policy()]) as on:
        result = await on.session.say("go")

    assert "acme" not in str(outcome[0])
    assert (result.why, isinstance(outcome[0], Denied)) == (Why.DENIED, True)
