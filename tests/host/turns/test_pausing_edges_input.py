"""What somebody says waits for an approval before anything of it is said (policy 8, 11, 16-20)."""

from pathlib import Path
from typing import Any

import pytest
from edges_asking import Edges, Shared
from pluggent_hookspecs import DecisionMade, InputEvent, hookimpl
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.observations import TurnStarted
from pluggent_host import Approval, HostSettings, Limits, SyncHost, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import assert_whole, shape


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path, Edges(said="a person shall see this"))


async def test_what_is_said_waits_and_goes_on_in_another_process_as_it_was_frozen(shared: Shared):
    async with shared.host() as host, await host.session("s") as session:
        paused = await session.say("the secret word")

        assert (paused.why, paused.detail) == (
            Why.PAUSED, "'input' needs approval: app:edges: a person shall see this",
        )  # fmt: skip
        (pending,) = paused.pending
        assert session.pending == paused.pending
        assert session.history == ()
        assert shared.asked() == []
    assert (pending.kind, pending.call_id, pending.reach) == ("input", "t1", "once")
    assert b"the [1] word" in pending.arguments_json
    assert "the [1] word" in pending.rendered

    async with shared.host("fine") as host, await host.session("s") as session:
        assert session.pending == (pending,)
        result = await session.resume({"t1": True})

        assert (result.why, result.text, result.turn_id) == (Why.COMPLETED, "fine", "t1")
        assert shape(session.history) == ["user the [1] word", "assistant fine"]
        assert session.pending == ()
    assert shared.edges.transformed == ["input", "request"]


async def test_a_refusal_ends_the_turn_and_nothing_was_said(shared: Shared):
    async with shared.host("hello") as host, await host.session("s") as session:
        await session.say("go")
        result = await session.resume({"t1": Approval(agreed=False, reason="not today")})

        assert (result.why, result.detail) == (Why.DENIED, "refused by application: not today")
        assert (session.history, session.paused) == ((), False)
        shared.edges.said = ""
        assert (await session.say("hi")).text == "hello"
    async with shared.host() as host, await host.session("s") as session:
        assert shape(session.history) == ["user hi", "assistant hello"]


async def test_a_refusal_is_final_whatever_policies_say_by_now(shared: Shared):
    async with shared.host("hello") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.said = ""
        assert (await session.resume({"t1": False})).why is Why.DENIED
        assert shared.asked() == []


async def test_without_answers_it_stays_as_it_is_however_often_it_is_resumed(shared: Shared):
    async with shared.host("fine") as host, await host.session("s") as session:
        first = await session.say("go")
        for _ in range(7):
            again = await session.resume()
            assert (again.why, again.pending) == (Why.PAUSED, first.pending)
        assert (await session.resume({"t1": True})).text == "fine"


async def test_saying_something_else_withdraws_it(shared: Shared):
    async with shared.host("yes?") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.said = ""
        assert (await session.say("or not")).text == "yes?"
        assert (shape(session.history), session.pending) == (["user or not", "assistant yes?"], ())
        with pytest.raises(SessionError, match="no turn that waits"):
            await session.resume()
    async with shared.host() as host, await host.session("s") as session:
        assert shape(session.history) == ["user or not", "assistant yes?"]


async def test_a_deny_wins_over_the_approval(shared: Shared):
    async with shared.host("fine") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.deny = "no longer"
        result = await session.resume({"t1": True})

        assert (result.why, result.detail, session.history) == (Why.DENIED, "no longer", ())


async def test_another_ask_is_asked_again(shared: Shared):
    async with shared.host("fine") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.said = "two persons shall see this"
        again = await session.resume({"t1": True})

        assert again.why is Why.PAUSED
        assert again.pending[0].asks == (("app:edges", "two persons shall see this"),)
        assert session.history == ()
        assert (await session.resume({"t1": True})).text == "fine"


async def test_an_approval_is_good_for_once_whatever_was_given(shared: Shared):
    async with shared.host("one") as host, await host.session("s") as session:
        await session.say("go")
        await session.resume({"t1": Approval(agreed=True, reach="always")})

        assert (await session.say("go")).why is Why.PAUSED
        assert [pending.call_id for pending in session.pending] == ["t2"]


async def test_two_pauses_in_one_turn_ask_about_what_is_said_once(shared: Shared):
    shared.edges.tools = ("write",)
    async with shared.host(call("write", "1", text="a")) as host, await host.session("s") as session:
        await session.say("go")
        paused = await session.resume({"t1": True})
        assert [each.call_id for each in paused.pending] == ["1"]
    async with shared.host("done") as host, await host.session("s") as session:
        result = await session.resume({"1": True})

        assert (result.why, result.text, result.turn_id) == (Why.COMPLETED, "done", "t1")
        assert_whole(session.history)
    assert shared.done == ["a"]


async def test_an_approval_by_somebody_there_holds_for_the_whole_turn_too(shared: Shared):
    shared.edges.tools = ("write",)
    answers: list[bool | None] = [True, None]
    async with shared.host(call("write", "1", text="a"), approver=lambda _: answers.pop(0)) as host:
        session = await host.session("s")
        assert [each.call_id for each in (await session.say("go")).pending] == ["1"]
    async with shared.host("done") as host, await host.session("s") as session:
        assert (await session.resume({"1": True})).text == "done"


async def test_what_is_asked_anew_about_it_at_a_later_pause_waits_beside_the_calls(shared: Shared):
    shared.edges.said, shared.edges.tools = "", ("write",)
    calls = (call("write", "t1", text="a"), call("look", "2"))
    async with shared.host(calls) as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.said = "who said that?"
        both = await session.resume({"t1": True})

        assert (both.why, [each.kind for each in both.pending]) == (Why.PAUSED, ["input", "tool_call"])
        assert [each.kind for each in session.pending] == ["input"]
        mine = session.pending[0].call_id
        assert mine != "t1"
    assert shared.done == ["look"]
    async with shared.host("done") as host, await host.session("s") as session:
        assert [each.call_id for each in session.pending] == [mine]
        assert (await session.resume({mine: True})).text == "done"
        assert_whole(session.history)
    assert shared.done == ["look", "a"]


async def test_a_live_approver_is_asked_first_and_on_resume(shared: Shared):
    answers = [None, True]
    async with shared.host("ok", approver=lambda _: answers.pop(0)) as host:
        session = await host.session("s")
        assert (await session.say("go")).why is Why.PAUSED
        assert (await session.resume()).text == "ok"


async def test_a_dry_run_never_pauses_and_neither_does_a_host_that_denies(shared: Shared):
    async with shared.host() as host, await host.session("s") as session:
        assert (await session.say("go", dry_run=True)).why is Why.DENIED
    async with shared.host(config=HostSettings()) as host, await host.session("s") as session:
        assert (await session.say("go")).why is Why.DENIED


async def test_asks_of_a_turn_are_counted(shared: Shared):
    async with shared.host(limits=Limits(asks=0)) as host, await host.session("s") as session:
        result = await session.say("go")
        assert (result.why, result.detail) == (Why.DENIED, "this turn has asked a person too often")
    shared.edges.rounds = (0,)
    async with shared.host("ok", limits=Limits(asks=1)) as host, await host.session("s") as session:
        await session.say("go")
        result = await session.resume({"t2": True})
        assert (result.why, result.detail) == (Why.DENIED, "this turn has asked a person too often")


async def test_undoing_takes_back_what_waits_and_nothing_before_it(shared: Shared):
    shared.edges.said = ""
    async with shared.host("hello") as host, await host.session("s") as session:
        await session.say("hi")
        shared.edges.said = "hm"
        await session.say("go")
        exchange = await session.undo()

        assert exchange is not None
        assert (exchange.turn_id, exchange.message.text) == ("t2", "go")
        assert shape(session.history) == ["user hi", "assistant hello"]
        assert not session.paused
    async with shared.host() as host, await host.session("s") as session:
        assert shape(session.history) == ["user hi", "assistant hello"]
        assert not session.paused


async def test_around_turn_is_entered_when_it_goes_on_and_told_so(shared: Shared):
    class Around:
        def __init__(self) -> None:
            self.seen: list[tuple[bool, str]] = []

        @hookimpl
        async def around_turn(self, event: InputEvent, call_next: Any) -> Any:
            result = await call_next()
            self.seen.append((event.resumed, str(result.why)))
            return result

    around, recorder = Around(), Recorder()
    async with shared.host("ok", plugins=(around, recorder)) as host, await host.session("s") as session:
        await session.say("go")
        await session.resume({"t1": True})

    assert around.seen == [(True, "completed")]
    decided = [event.verdict for event in recorder.of(DecisionMade) if event.operation == "input"]
    assert decided == ["ask", "ask", "approved"]
    assert len(recorder.of(TurnStarted)) == 1


async def test_it_is_watched_and_has_the_form_that_was_asked_for(shared: Shared):
    async with shared.host() as host, await host.session("s") as session:
        async with session.stream("how many?", output=list[int]) as events:
            assert [event async for event in events]
        assert events.result.why is Why.PAUSED
    async with shared.host('{"value": [1, 2]}', "[1, 2]") as host, await host.session("s") as session:
        async with session.stream_resume({"t1": True}, output=list[int]) as events:
            assert any(isinstance(event, TurnStarted) for event in [event async for event in events])

        assert (events.result.why, events.result.output) == (Why.COMPLETED, [1, 2])


def test_a_program_without_a_loop_pauses_and_goes_on(tmp_path: Path):
    plugins = [ScriptedModel("ok"), Edges(said="hm")]
    with SyncHost.open(
        model="scripted/m", plugins=plugins, installed=False, config=HostSettings(on_ask="pause"), state_dir=tmp_path
    ) as host:
        session = host.session()
        assert session.say("go").pending == session.pending
        assert session.resume({"t1": True}).text == "ok"
