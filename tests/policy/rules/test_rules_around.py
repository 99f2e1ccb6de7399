"""The rule of around hooks, through an open host: rule 4."""

import contextlib
from typing import Any

import pytest
from attempts import hanging_once
from naming import shown
from pluggent_hookspecs import (
    ApprovalEvent,
    Ask,
    Deny,
    HookError,
    ProviderError,
    ProviderErrorKind,
    Respond,
    Role,
    ToolOutput,
    TurnEnded,
    hookimpl,
)
from pluggent_testing.fakes import call
from policy_rules import Twice, deciding, yes
from policy_stage import reach, stage

# ---- rule 4: around


async def test_an_around_that_answers_is_recorded_as_a_respond() -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            return ToolOutput("mine")

    seen = await reach("say", [Around()])

    assert seen.told == ("mine",)
    assert ("respond", "app:around") in [(made.verdict, made.by) for made in seen.decisions]


async def test_the_answer_of_an_around_passes_the_result_hooks() -> None:
    class Around:
        @hookimpl
        async def around_tool_call(self, event, call_next):
            await call_next()
            return ToolOutput("secret")

    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted")

    assert (await reach("say", [Around(), Redactor()])).told == ("redacted",)


@pytest.mark.parametrize("second", [Deny("no longer"), Ask("still?"), Respond("cached"), "no decision"], ids=shown)
async def test_a_retrier_gets_a_new_decision_when_the_old_one_is_stale(
    second: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)

    seen = await reach("say", [Twice(), deciding("decide_tool_call", None, second)])

    assert seen.ran == ("x",)


async def test_a_retrier_goes_on_when_the_new_decision_is_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)

    assert (await reach("say", [Twice(), deciding("decide_tool_call", None)])).ran == ("x", "x")


async def test_an_approval_holds_for_every_attempt_at_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)
    asked: list[ApprovalEvent] = []

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event)
        return True

    seen = await reach("say", [Twice(), deciding("decide_tool_call", Ask("may I?"))], approver=approve)

    assert (seen.ran, len(asked)) == (("x", "x"), 1)


async def test_a_new_ask_is_not_covered_by_the_old_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 11: an approval answers exactly the asks recorded."""
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)
    first = Ask("may I?")  # decided, decided again after the approval, and then for another attempt
    plugins = [Twice(), deciding("decide_tool_call", first, first, Ask("may I really?"))]

    assert (await reach("say", plugins, approver=yes)).ran == ("x",)


async def test_a_fresh_decision_is_not_repeated_for_a_retrier() -> None:
    assert (await reach("say", [Twice(), deciding("decide_tool_call", None, Deny("no longer"))])).ran == ("x", "x")


class RetriesTools:
    @hookimpl
    async def around_tool_call(self, event, call_next):
        output = await call_next()
        return await call_next() if output.is_error else output


async def test_a_retrier_does_not_repeat_a_call_of_unknown_outcome_unasked() -> None:
    """Rule 21: never twice without asking."""
    hang, ran = hanging_once(("shell",))

    async with stage(call("hang"), plugins=[RetriesTools()], tools=[hang]) as on:
        await on.session.say("go")

    assert ran == ["hang"]


@pytest.mark.parametrize("effects", [("network_read",), ()])
async def test_a_retrier_may_repeat_what_changes_nothing(effects: tuple[str, ...]) -> None:
    hang, ran = hanging_once(effects)

    async with stage(call("hang"), plugins=[RetriesTools()], tools=[hang]) as on:
        await on.session.say("go")

    assert ran == ["hang", "hang"]
    assert on.read_by_model() == ["done"]


@pytest.mark.parametrize("reply", ["one", ProviderError(ProviderErrorKind.REFUSED, "no")], ids=["replies", "fails"])
async def test_an_around_turn_that_answers_after_the_turn_adds_no_second_one(reply: Any) -> None:
    class Around:
        @hookimpl
        async def around_turn(self, event, call_next):
            with contextlib.suppress(ProviderError):
                await call_next()
            return "other words"

    async with stage(reply, plugins=[Around()]) as on:
        with pytest.raises(HookError, match="the result of a turn cannot be replaced"):
            await on.session.say("go")

    said = [message.text for message in on.session.history if message.role is Role.USER]
    assert said == ["go"]
    assert len(on.recorder.of(TurnEnded)) == 1
