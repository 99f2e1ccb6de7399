"""Inputs wait before they are said, and requests to the model before they are sent (policy 8, 11, 16-20)."""

from pathlib import Path
from typing import Any

import pytest
from edges_asking import Edges, Shared
from pluggent_hookspecs import tool
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.observations import TextShown, TurnStarted
from pluggent_host import Approval, Limits, Why
from pluggent_testing.fakes import call
from talking import assert_whole, shape

WRITE = call("write", "1", text="a")


@pytest.fixture
def said(tmp_path: Path) -> Shared:
    """Return a place where a policy asks about inputs."""
    return Shared(tmp_path, Edges(said="a person shall see this"))


@pytest.fixture
def sent(tmp_path: Path) -> Shared:
    """Return a place where a policy asks about the first request of a turn."""
    return Shared(tmp_path, Edges(rounds=(0,)))


def ids(pending: Any) -> list[str]:
    return [each.call_id for each in pending]


def kinds(pending: Any) -> list[tuple[str, str]]:
    return [(each.kind, each.call_id) for each in pending]


# ---- inputs


async def test_an_approval_is_good_for_once_whatever_was_given(said: Shared):
    async with said.session("one") as session:
        await session.say("go")
        await session.resume({"t1": Approval(agreed=True, reach="always")})

        assert (await session.say("go")).why is Why.PAUSED
        assert ids(session.pending) == ["t2"]


@pytest.mark.parametrize("live", [False, True])
async def test_two_pauses_in_one_turn_ask_about_what_is_said_once(said: Shared, live: bool):
    said.edges.tools = ("write",)
    answers = [True, None]
    async with said.session(WRITE, approver=(lambda _: answers.pop(0)) if live else None) as session:
        paused = await session.say("go")
        if not live:
            paused = await session.resume({"t1": True})
        assert ids(paused.pending) == ["1"]
    async with said.session("done") as session:
        result = await session.resume({"1": True})

        assert (result.why, result.text, result.turn_id) == (Why.COMPLETED, "done", "t1")
        assert_whole(session.history)
    assert said.done == ["a"]


async def test_what_is_asked_anew_about_it_at_a_later_pause_waits_beside_the_calls(said: Shared):
    said.edges.said, said.edges.tools = "", ("write",)
    async with said.session((call("write", "t1", text="a"), call("look", "2"))) as session:
        await session.say("go")
        said.edges.said = "who said that?"
        both = await session.resume({"t1": True})

        mine = both.pending[0].call_id
        assert (both.why, kinds(both.pending)) == (Why.PAUSED, [("input", mine), ("tool_call", "t1")])
        assert ids(session.pending) == [mine]
        assert mine != "t1"
    assert said.done == ["look"]
    async with said.session("done") as session:
        assert ids(session.pending) == [mine]
        assert (await session.resume({mine: True})).text == "done"
        assert_whole(session.history)
    assert said.done == ["look", "a"]


async def test_asks_of_a_turn_are_counted(said: Shared):
    too_often = (Why.DENIED, "this turn has asked a person too often")
    async with said.session(limits=Limits(asks=0)) as session:
        result = await session.say("go")
        assert (result.why, result.detail) == too_often
    said.edges.rounds = (0,)
    async with said.session("ok", limits=Limits(asks=1)) as session:
        await session.say("go")
        result = await session.resume({"t2": True})
        assert (result.why, result.detail) == too_often


async def test_it_is_watched_and_has_the_form_that_was_asked_for(said: Shared):
    async with said.session() as session:
        async with session.stream("how many?", output=list[int]) as events:
            assert [event async for event in events]
        assert events.result.why is Why.PAUSED
    async with said.session('{"value": [1, 2]}', "[1, 2]") as session:
        async with session.stream_resume({"t1": True}, output=list[int]) as events:
            assert any([isinstance(event, TurnStarted) async for event in events])

        assert (events.result.why, events.result.output) == (Why.COMPLETED, [1, 2])


# ---- requests to the model


@pytest.mark.parametrize("changed", ["model", "tools", "system"])
async def test_what_would_be_another_request_by_now_is_decided_and_asked_about_anew(sent: Shared, changed: str):
    async with sent.session() as session:
        (before,) = (await session.say("go")).pending

    @tool(effects=())
    def listen() -> str:
        """Listen."""
        return "heard"

    sent.more += [listen] if changed == "tools" else []
    model: dict[str, Any] = {"model": "scripted/n"} if changed == "model" else {}
    options: dict[str, Any] = {"system": "shout"} if changed == "system" else model
    async with sent.host("fine", **options) as host:
        session = await host.session("s", **model)
        again = await session.resume({"t1.0": True})

        assert (again.why, sent.asked()) == (Why.PAUSED, [])
        assert again.pending[0].digest != before.digest
        assert (await session.resume({"t1.0": True})).text == "fine"
    assert sent.asked() == ["request 2"]


async def test_a_later_round_waits_with_the_results_and_the_warning_before_a_limit(sent: Shared):
    sent.edges.rounds, limits = (1,), Limits(tool_rounds=1)
    async with sent.session(call("look"), limits=limits) as session:
        (pending,) = (await session.say("go")).pending
        before = session.history
    assert (pending.call_id, shape(before)) == ("t1.1", ["user go", "assistant -> look", "tool seen"])
    assert b"No more tool calls" in pending.arguments_json
    async with sent.session("done", limits=limits) as session:
        assert session.history == before
        assert (await session.resume({"t1.1": True})).text == "done"
        assert_whole(session.history)
    assert sent.done == ["look"]
    assert [m.text for m in sent.model.requests[0].messages[-2:]] == [
        "No more tool calls are possible in this turn. Answer now with what you have.", "request 2",
    ]  # fmt: skip


async def test_every_stage_of_a_turn_can_wait_each_in_its_process(tmp_path: Path):
    shared = Shared(tmp_path, Edges(said="hm", rounds=(0, 1), tools=("write",)))
    waits, ends, answers = [], list[Why](), dict[str, bool]()
    replies: list[tuple[Any, ...]] = [(), (), (WRITE,), (), ("done",)]
    for reply in replies:
        async with shared.session(*reply) as session:
            result = await (session.resume(answers) if session.paused else session.say("go"))
            waits.append(kinds(result.pending))
            answers = dict.fromkeys(ids(result.pending), True)
            ends.append(result.why)
            if not session.paused:
                assert_whole(session.history)

    assert waits == [[("input", "t1")], [("model_call", "t1.0")], [("tool_call", "1")], [("model_call", "t1.1")], []]
    assert (ends[-1], shared.done) == (Why.COMPLETED, ["a"])


async def test_an_answer_that_does_not_have_its_form_is_sent_back_after_another_approval(sent: Shared):
    sent.edges.rounds = (0, 1)
    async with sent.session("seven", "[7]") as session:
        await session.say("how many?", output=list[int])
        assert ids((await session.resume({"t1.0": True})).pending) == ["t1.1"]
    async with sent.session('{"value": [7]}', "[7]") as session:
        result = await session.resume({"t1.1": True}, output=list[int])

        assert (result.why, result.output) == (Why.COMPLETED, [7])


@pytest.mark.parametrize("agreed", [True, False])
async def test_what_is_asked_anew_about_what_was_said_waits_beside_it_and_the_answer_stays(sent: Shared, agreed: bool):
    async with sent.session() as session:
        await session.say("go")
        sent.edges.said = "who said that?"
        both = await session.resume({"t1.0": True})

        assert kinds(both.pending) == [("input", "t1"), ("model_call", "t1.0")]
        assert session.pending == both.pending[:1]
    async with sent.session("fine") as session:
        assert ids(session.pending) == ["t1"]
        result = await session.resume({"t1": agreed})

        assert (result.why, session.paused) == (Why.COMPLETED if agreed else Why.DENIED, False)
    assert sent.asked() == (["request 1"] if agreed else [])


async def test_an_approval_is_good_for_one_request_also_if_that_failed(sent: Shared):
    down = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
    async with sent.session(down, "ok") as session:
        await session.say("go")
        with pytest.raises(ProviderError, match="down"):
            await session.resume({"t1.0": True})
        assert not session.paused
        assert (await session.say("go")).why is Why.PAUSED


async def test_it_is_watched_and_cancelled_like_any_turn(sent: Shared):
    async with sent.session("one two three " * 100, "ok") as session:
        await session.say("go")
        async with session.stream_resume({"t1.0": True}) as events:
            async for event in events:
                if isinstance(event, TextShown):
                    break

        assert_whole(session.history)
        assert not session.paused
        sent.edges.rounds = ()
        assert (await session.say("still there?")).text == "ok"
