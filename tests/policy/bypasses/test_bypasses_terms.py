"""Attempts to have a turn go on under other terms than it was begun with, and to ask a person too often (rule 17)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from attacks import PAUSING, Asks, Workplace, answers, look, write, writer
from pluggent_hookspecs import ApprovalEvent, Ask, Deny, Message, ToolContext, ToolOutput, errors, tool
from pluggent_host import Limits, Why
from pluggent_testing.fakes import call
from policy_rules import agreeing, hooked
from policy_stage import Stage, Store, said, stage
from talking import assert_whole


@asynccontextmanager
async def paused(
    *replies: Any, plugins: Any = (), terms: Any = MappingProxyType({}), **options: Any
) -> AsyncGenerator[Stage]:
    """Open a stage on which a call of ``write`` waits in a turn of *terms*."""
    async with stage(*replies, plugins=[Asks(), *plugins], tools=[write, look], config=PAUSING, **options) as on:
        assert (await on.session.say("go", **terms)).why is Why.PAUSED
        yield on


async def test_the_form_of_an_answer_is_asked_for_when_the_turn_is_resumed():
    async with paused(call("write"), "no list", "no list", terms={"output": list[int]}) as on:
        assert (await on.session.resume(answers(on))).why is Why.INVALID_OUTPUT


@pytest.mark.parametrize(("limit", "names"), [(2, ["look", "write", "write"]), (9, ["look", "write", "write", "look"])])
async def test_policies_know_the_message_and_the_metadata_of_the_turn_when_it_is_resumed(limit: int, names: list[str]):
    """They judge what the person said and not the note of the host that a limit is near."""
    inputs, calls, guest = list[Any](), list[Any](), {"user": "guest"}

    policy = hooked(
        decide_input=lambda event: inputs.append((event.message.text, event.resumed)),
        decide_tool_call=lambda event: calls.append((event.tool.name, dict(event.scope.metadata))),
    )
    terms = {"metadata": guest, "limits": Limits(model_calls=limit)}
    async with paused(call("look"), call("write"), call("look"), plugins=(policy,), terms=terms) as on:
        await on.session.resume(answers(on))

    assert inputs == [("go", False), ("go", True)]
    assert calls == [(name, guest) for name in names]


async def test_what_a_plugin_answers_in_place_of_a_resumed_turn_passes_the_output_policies():
    """Rules 20 and 25."""

    async def around(event: Any, call_next: Any) -> Any:
        return Message.assistant("the secret") if event.resumed else await call_next()

    def censor(event: Any) -> Any:
        return Deny("nothing of that") if "secret" in event.message.text else None

    async with paused(call("write"), plugins=(hooked(around_turn=around, decide_output=censor),)) as on:
        result = await on.session.resume(answers(on))

        assert (result.why, "secret" in repr(result)) == (Why.DENIED, False)
        assert_whole(on.session.history)


async def test_what_a_plugin_answers_in_place_of_a_resumed_turn_follows_a_result_for_each_call():
    """Rule 20."""

    async def around(event: Any, call_next: Any) -> Any:
        return Message.assistant("not today") if event.resumed else await call_next()

    async with paused(call("write"), plugins=(hooked(around_turn=around),)) as on:
        result = await on.session.resume(answers(on))

        assert (result.why, result.text, on.session.paused) == (Why.COMPLETED, "not today", False)
        assert_whole(on.session.history)
        assert on.session.history[-1].text == "not today"


async def test_a_busy_session_takes_no_answers():
    entered, go = asyncio.Event(), asyncio.Event()

    async def slow(event: Any) -> None:
        if event.resumed:
            entered.set()
            await go.wait()

    async with paused(call("write"), "fine", plugins=(hooked(decide_input=slow),)) as on:
        given = answers(on)
        first = asyncio.create_task(on.session.resume())
        await entered.wait()
        with pytest.raises(errors.SessionError, match="in the middle of a turn"):
            await on.session.resume(given)
        go.set()
        await first
        recorded = [type(entry).__name__ for entry in on.session.records()]

    assert "Resolved" not in recorded


# ---- how often a person is asked


async def test_what_a_person_refused_stays_refused_for_the_turn_although_no_policy_asks_any_more():
    done, asks = list[str](), Asks()

    def refuse(event: object) -> bool:
        asks.words = None
        return False

    await said(call("write", "1"), call("write", "2"), plugins=[asks], tools=[writer(done)], approver=refuse)

    assert done == []


async def test_a_person_is_asked_no_more_often_than_the_limit_says_in_several_pauses(tmp_path: Path):
    asked: list[ApprovalEvent] = []
    calls = [call("write", str(n), text=str(n)) for n in range(6)]
    async with Workplace(tmp_path).open(*calls, limits=Limits(asks=2), approver=agreeing(asked, None)) as on:
        result = await on.session.say("go")
        while result.why is Why.PAUSED:
            result = await on.session.resume(answers(on))

    assert (result.why, result.limit, len({event.digest for event in asked})) == (Why.LIMIT, "asks", 2)


async def test_a_person_is_asked_no_more_often_about_outputs_and_below_a_tool_than_the_limit_says():
    asked, outcome = list[ApprovalEvent](), list[object]()

    @tool(effects=())
    def show(text: str) -> ToolOutput:
        """Show *text*."""
        return ToolOutput("shown", for_user=text)

    @tool(effects=())
    async def recall(context: ToolContext) -> None:
        """Read three notes."""
        for key in "abc":
            try:
                outcome.append(await context.memory().get("notes", key))
            except errors.Denied as denied:
                outcome.append(denied.reason)

    plugins = [hooked(decide_output=Ask("show it?"), decide_memory_read=Ask("read it?")), Store()]
    given: dict[str, Any] = {"plugins": plugins, "limits": Limits(asks=2), "approver": agreeing(asked)}
    shows = [call("show", str(n), text=str(n)) for n in range(4)]
    _, result = await said(*shows, "done", tools=[show], **given)
    await said(call("recall"), "done", tools=[recall], **given)

    assert result.why is Why.DENIED
    assert [event.operation for event in asked] == ["output", "output", "memory_read", "memory_read"]
    assert outcome == [None, None, "this turn has asked a person too often"]
