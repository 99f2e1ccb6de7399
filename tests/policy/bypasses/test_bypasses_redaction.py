"""Attempts to hide from auditors, and to show what was denied."""

import asyncio
from collections.abc import Callable

import pytest
from bypassing import both_forms, both_orders, policy
from pluggent_hookspecs import Allow, Ask, Decision, Deny, Respond, ToolFinished, ToolOutput, hookimpl
from pluggent_host import Host
from pluggent_testing.fakes import Recorder, ScriptedModel
from policy_stage import either_way, in_order, reach, stage

# ---- redactors and auditors


@both_orders
@both_forms
async def test_a_redactor_silences_no_auditor_and_is_passed_by_none(is_async: bool, turned: bool) -> None:
    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted")

    class AsyncRedactor:
        @hookimpl
        async def transform_tool_result(self, event):
            await asyncio.sleep(0)
            return ToolOutput("redacted")

    audited: list[object] = []

    class Auditor:
        @hookimpl
        def decide_tool_call(self, event):
            audited.append("call")

        @hookimpl
        def transform_tool_result(self, event):
            audited.append("transform")

        @hookimpl
        async def decide_tool_result(self, event):
            audited.append(event.output.for_model)

        @hookimpl(events=(ToolFinished,))
        def observe(self, event):
            audited.append(event.output.for_model)

    redactor = AsyncRedactor() if is_async else Redactor()

    seen = await reach("say", either_way(Auditor(), redactor, turned=turned))

    assert seen.told == ("redacted",)
    assert audited == ["call", "transform", "redacted", "redacted"]


@pytest.mark.parametrize("position", range(4))
@both_forms
async def test_a_deny_in_any_position_wins_and_everybody_is_heard(position: int, is_async: bool) -> None:
    answers: list[Callable[[], object]] = [Allow, lambda: Ask("may I?"), lambda: Respond("cached")]
    answers.insert(position, lambda: Deny("no"))

    seen = await reach("say", in_order(*(policy(answer, is_async=is_async) for answer in answers)))

    assert seen.ran == ()
    assert seen.told == ("Denied: no",)
    assert [vote.verdict for vote in seen.votes].count("deny") == 1
    assert {"allow", "ask", "respond", "deny"} <= {vote.verdict for vote in seen.votes}


# ---- the model and the person


def denying(hook: str, *, is_async: bool) -> object:
    """Return a policy that denies in *hook*."""

    async def deny_late(self: object, event: object) -> Decision:
        await asyncio.sleep(0)
        return Deny("no")

    def deny(self: object, event: object) -> Decision:
        return Deny("no")

    chosen = deny_late if is_async else deny
    chosen.__name__ = hook
    return type("Policy", (), {hook: hookimpl(chosen)})()


@both_orders
@both_forms
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("hook", ["decide_input", "decide_model_request"])
async def test_a_denied_message_or_request_never_reaches_the_model(
    hook: str, streamed: bool, is_async: bool, turned: bool
) -> None:
    class Eager:
        @hookimpl
        def decide_input(self, event):
            return Allow()

        @hookimpl
        def decide_model_request(self, event):
            return Allow()

    async with stage("hello", plugins=either_way(denying(hook, is_async=is_async), Eager(), turned=turned)) as on:
        if streamed:
            async with on.session.stream("go") as events:
                shown = [event async for event in events]
            result = events.result
        else:
            result = await on.session.say("go")
            shown = on.recorder.events

    assert on.model.requests == []
    assert result.why == "denied"
    assert "hello" not in repr(shown)


@both_orders
@both_forms
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("hook", ["decide_model_response", "decide_output"])
async def test_a_denied_reply_is_seen_by_nobody(hook: str, streamed: bool, is_async: bool, turned: bool) -> None:
    class Recording(Recorder):
        pass

    async with stage(
        "very private words", plugins=either_way(denying(hook, is_async=is_async), Recording(), turned=turned)
    ) as on:
        if streamed:
            async with on.session.stream("go") as events:
                _ = [event async for event in events]
            result = events.result
        else:
            result = await on.session.say("go")

    assert result.why == "denied"
    assert "private" not in repr((result, on.recorder.events, on.session.history, on.session.records()))


async def test_run_sync_is_under_the_same_policies_for_input_too() -> None:
    class Policy:
        @hookimpl
        def decide_input(self, event):
            return Deny("not today")

    model = ScriptedModel("hello")

    result = await asyncio.to_thread(
        lambda: Host.run_sync("go", model="scripted/m", plugins=[Policy(), model], installed=False)
    )

    assert (result.why, result.detail, model.requests) == ("denied", "not today", [])
