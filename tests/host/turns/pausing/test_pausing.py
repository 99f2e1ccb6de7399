"""An ask without an answer now waits, whichever kind of operation it is about: the turn is durable, and resumed."""

from pathlib import Path
from typing import Any

import pytest
from edges_asking import PAUSING, STAGES, Shared
from fake_plugins import plugin
from pluggent_hookspecs import DecisionMade, Deny, InputEvent, ModelParameters, ToolContext, tool
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.observations import TurnStarted
from pluggent_host import Approval, HostSettings, Limits, SyncHost, ToolLimits, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import assert_whole, results, shape

WRITE = call("write", "1", text="a")
IDS = {"input": "t1", "model_call": "t1.0", "tool_call": "1"}
WORDS = {"input": "it is said", "model_call": "it goes out", "tool_call": "it writes"}
PARAMETERS = ModelParameters(temperature=0.5, max_output_tokens=9)


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shared(stage: str, tmp_path: Path) -> Shared:
    return Shared(tmp_path, STAGES[stage].anew())


@pytest.fixture
def before(stage: str) -> list[Any]:
    """Return what the model says before the turn waits."""
    return [WRITE] if stage == "tool_call" else []


@pytest.fixture
def yes(stage: str) -> dict[str, bool]:
    return {IDS[stage]: True}


async def test_what_waits_is_resumed_in_another_process_as_it_was_frozen(
    shared: Shared, stage: str, before: list[Any], yes: dict[str, bool]
):
    asked = [*before, "fine"]
    async with shared.session(*before, system="be brief") as session:
        paused = await session.say("the secret word", parameters=PARAMETERS)

        (pending,) = paused.pending
        name = {"input": "input", "model_call": "m", "tool_call": "write"}[stage]
        assert (paused.why, paused.detail) == (Why.PAUSED, f"'{name}' needs approval: app:edges: {WORDS[stage]}")
        assert session.pending == paused.pending
        waiting = session.history
        said = ["user the [1] word", *["assistant -> write" for _ in before]]
        assert shape(waiting) == ([] if stage == "input" else said)
        assert len(shared.asked()) == len(before)
    assert (pending.kind, pending.call_id) == (stage, IDS[stage])
    assert pending.reach == ("always" if stage == "tool_call" else "once")
    frozen = {"input": "the [1] word", "model_call": "request 1", "tool_call": '"text":"a"'}[stage]
    assert frozen in pending.arguments_json.decode()
    assert frozen.replace(":", ": ") in pending.rendered or stage == "model_call"

    async with shared.session(*asked[len(before) :], system="be brief") as session:
        assert (session.pending, session.history) == ((pending,), waiting)
        result = await session.resume(yes)

        assert (result.why, result.text, result.turn_id) == (Why.COMPLETED, "fine", "t1")
        assert shape(session.history) == [*said, *["tool wrote a" for _ in before], "assistant fine"]
        assert session.pending == ()
    assert shared.done == ["a" for _ in before]
    assert shared.edges.transformed == ["input", *["request" for _ in asked]]
    assert shared.asked() == [f"request {len(asked)}"]
    assert shared.model.requests[0].parameters == PARAMETERS


@pytest.mark.parametrize("still_asked", [True, False])
async def test_a_refusal_is_final_whatever_policies_say_by_now(
    shared: Shared, stage: str, before: list[Any], still_asked: bool
):
    async with shared.session(*before, "hello") as session:
        await session.say("go")
        shared.edges.asks = still_asked
        result = await session.resume({IDS[stage]: Approval(agreed=False, reason="not today")})

        if stage == "tool_call":  # a result, which the model reads
            assert (result.why, result.text) == (Why.COMPLETED, "hello")
            assert results(session.history) == ["Denied: a person refused this: not today"]
        else:
            assert (result.why, result.detail) == (Why.DENIED, "refused by application: not today")
            assert (shared.asked(), session.paused) == ([], False)
            assert shape(session.history) == (["user go"] if stage == "model_call" else [])
            shared.edges.asks = False
            assert (await session.say("hi")).text == "hello"
        history = session.history
    async with shared.session() as session:
        assert (session.history, shared.done) == (history, [])


async def test_calls_that_were_counted_before_the_pause_count_after_it(tmp_path: Path):
    shared = Shared(tmp_path, STAGES["tool_call"].anew())
    once = Limits(per_tool={"look": ToolLimits(calls=1)})
    async with shared.session((call("look", "0"), WRITE), limits=once) as session:
        assert (await session.say("go")).why is Why.PAUSED
    async with shared.session(call("look", "2"), "fine", limits=once) as session:
        result = await session.resume({"1": True})

        assert (result.why, shared.done) == (Why.COMPLETED, ["look", "a"])
        assert "used up" in results(session.history)[-1]


async def test_without_answers_it_stays_as_it_is_however_often_it_is_resumed(
    shared: Shared, before: list[Any], yes: dict[str, bool]
):
    async with shared.session(*before) as session:
        first = await session.say("go")
        for _ in range(7):
            again = await session.resume()
            assert (again.why, again.pending, shared.done) == (Why.PAUSED, first.pending, [])
    async with shared.session("done") as session:
        assert (await session.resume(yes)).text == "done"
    assert shared.done == ["a" for _ in before]


async def test_saying_something_else_withdraws_it(shared: Shared, stage: str, before: list[Any]):
    async with shared.session(*before, "yes?") as session:
        await session.say("go")
        shared.edges.asks = False

        assert (await session.say("or not")).text == "yes?"
        assert session.pending == ()
        assert_whole(session.history)
        assert shape(session.history)[-2:] == ["user or not", "assistant yes?"]
        assert len(session.history) == {"input": 2, "model_call": 3, "tool_call": 5}[stage]
        with pytest.raises(SessionError, match="no turn that waits"):
            await session.resume()
        history = session.history
    async with shared.session() as session:
        assert (session.history, session.pending, shared.done) == (history, (), [])


async def test_another_ask_is_asked_again_and_a_deny_wins_over_the_approval(
    shared: Shared, stage: str, before: list[Any], yes: dict[str, bool]
):
    async with shared.session(*before, "ok") as session:
        await session.say("go")
        shared.edges.more = " on a Sunday"
        again = await session.resume(yes)

        assert (again.why, again.pending[0].asks) == (Why.PAUSED, (("app:edges", f"{WORDS[stage]} on a Sunday"),))
        shared.edges.deny = "no longer"
        result = await session.resume(yes)

        if stage == "tool_call":
            assert results(session.history) == ["Denied: no longer"]
        else:
            assert (result.why, result.detail, shared.asked()) == (Why.DENIED, "no longer", [])
    assert shared.done == []


async def test_the_other_ask_can_be_approved(shared: Shared, before: list[Any], yes: dict[str, bool]):
    async with shared.session(*before, "ok") as session:
        await session.say("go")
        shared.edges.more = " on a Sunday"
        await session.resume(yes)

        assert (await session.resume(yes)).text == "ok"


async def test_an_answer_to_what_does_not_wait_is_an_error(shared: Shared, stage: str, before: list[Any]):
    async with shared.session(*before) as session:
        with pytest.raises(SessionError, match="has no turn that waits for a person"):
            await session.resume()
        await session.say("go")
        with pytest.raises(SessionError, match=f"no call waits under 'x'; these do: {IDS[stage]}"):
            await session.resume({"x": True})
        with pytest.raises(SessionError, match="waits for a person"):
            await session.call_tool("look", {})
    assert shared.done == []


async def test_the_turn_is_entered_anew_and_its_decisions_are_on_record(
    shared: Shared, stage: str, before: list[Any], yes: dict[str, bool]
):
    """Policy 20."""
    seen, recorder = list[tuple[bool, str]](), Recorder()

    async def around(event: InputEvent, call_next: Any) -> Any:
        result = await call_next()
        seen.append((event.resumed, str(result.why)))
        return result

    async with shared.session(*before, "ok", plugins=(plugin(around_turn=around), recorder)) as session:
        await session.say("go")
        await session.resume(yes)

    assert seen == [*[(False, "paused")] * (stage != "input"), (True, "completed")]
    told = [event.verdict for event in recorder.of(DecisionMade) if event.operation == stage]
    assert told[:3] == ["ask", "ask", "approved"]
    assert len(recorder.of(TurnStarted)) == 1


async def test_a_live_approver_is_asked_first_and_on_resume(shared: Shared, before: list[Any]):
    answers = [None, True]
    async with shared.session(*before, "ok", approver=lambda _: answers.pop(0)) as session:
        assert (await session.say("go")).why is Why.PAUSED
        assert (await session.resume()).text == "ok"


async def test_a_dry_run_never_pauses_and_neither_does_a_host_that_denies(
    shared: Shared, stage: str, before: list[Any]
):
    async with shared.session(*before) as session:
        dry = await session.say("go", dry_run=True)
    async with shared.session(*before, config=HostSettings()) as session:
        denied = await session.say("go")

    assert (dry.why, denied.why) == (Why.COMPLETED if stage == "tool_call" else Why.DENIED, Why.DENIED)
    assert shared.done == []


async def test_undoing_takes_back_what_waits_and_nothing_before_it(shared: Shared, before: list[Any]):
    shared.edges.asks = False
    async with shared.session("hello", *before) as session:
        await session.say("hi")
        shared.edges.asks = True
        await session.say("go")
        exchange = await session.undo()

        assert exchange is not None
        assert (exchange.turn_id, exchange.message.text, session.paused) == ("t2", "go", False)
        assert shape(session.history) == ["user hi", "assistant hello"]
    async with shared.session() as session:
        assert (shape(session.history), session.paused) == (["user hi", "assistant hello"], False)


@pytest.mark.parametrize("stage", ["model_call", "tool_call"], indirect=True)
async def test_usage_and_limits_go_on_from_where_the_turn_was(shared: Shared, stage: str):
    shared.edges.rounds = (1,) if stage == "model_call" else ()
    first = call("look", "1") if stage == "model_call" else WRITE
    answers = {{"model_call": "t1.1", "tool_call": "1"}[stage]: True}
    async with shared.session(first, "ok") as session:
        paused = await session.say("go")
        result = await session.resume(answers)

        assert (paused.usage.input, result.usage.input, session.usage.input) == (10, 20, 20)
    name = {"model_call": "model_calls", "tool_call": "tool_rounds"}[stage]
    limits = {"model_calls": Limits(model_calls=2), "tool_rounds": Limits(tool_rounds=1)}[name]
    second = call(first.name, "2", text="b") if stage == "tool_call" else call("look", "2")
    async with shared.session(first, second, name="t", limits=limits) as session:
        assert session.usage.input in (None, 0)
        await session.say("go")
        result = await session.resume(answers)

        assert (result.why, result.limit) == (Why.LIMIT, name)
        assert_whole(session.history)
    async with shared.session() as session:
        assert session.usage.input == 20


def test_a_program_without_a_loop_pauses_and_goes_on(tmp_path: Path):
    plugins = [ScriptedModel("ok"), STAGES["input"].anew()]
    with SyncHost.open(
        model="scripted/m", plugins=plugins, installed=False, config=PAUSING, state_dir=tmp_path
    ) as host:
        session = host.session()
        assert session.say("go").pending == session.pending
        assert session.resume({"t1": True}).text == "ok"


# ---- calls


@pytest.fixture
def writing(tmp_path: Path) -> Shared:
    return Shared(tmp_path, STAGES["tool_call"].anew())


async def test_one_pause_carries_all_asks_and_each_answer_stands(writing: Shared):
    """Policy 18."""
    calls = (WRITE, call("look"), call("write", "2", text="b"), call("write", "3", text="c"))
    async with writing.session(calls) as session:
        paused = await session.say("go")
        assert [each.call_id for each in paused.pending] == ["1", "2", "3"]
        still = await session.resume({"1": True, "2": False})
        assert (still.why, [each.call_id for each in session.pending]) == (Why.PAUSED, ["3"])
    assert writing.done == ["look", "a"]
    async with writing.session("done") as session:
        await session.resume({"3": True})

        assert results(session.history) == ["wrote a", "seen", "Denied: a person refused this", "wrote c"]
    assert writing.done == ["look", "a", "c"]


async def test_asks_before_the_pause_count_after_it(writing: Shared):
    """Policy 17."""
    async with writing.session(WRITE, call("write", "2", text="b"), "never", limits=Limits(asks=1)) as session:
        await session.say("go")
        result = await session.resume({"1": True})

        assert (result.why, result.limit, writing.done) == (Why.LIMIT, "asks", ["a"])


async def test_nothing_overtakes_an_exclusive_call_that_waits(writing: Shared):
    """Policy 18."""
    async with writing.session((call("look", "1"), call("write_alone", "2", text="a"), call("look", "3"))) as session:
        paused = await session.say("go")
        assert [(each.call_id, bool(each.asks)) for each in paused.pending] == [("2", True), ("3", False)]
        assert [each.call_id for each in session.pending] == ["2"]
    assert writing.done == ["look"]
    async with writing.session("done") as session:
        assert (await session.resume({"2": True})).text == "done"
        assert_whole(session.history)
    assert writing.done == ["look", "a", "look"]


async def test_an_approval_for_the_session_answers_the_same_ask_later(writing: Shared):
    async with writing.session(WRITE, "one", call("write", "2", text="b"), "two") as session:
        await session.say("go")
        await session.resume({"1": Approval(agreed=True, reach="session")})
        assert (await session.say("again")).text == "two"
    async with writing.session(call("write", "3", text="c"), "three") as session:
        assert (await session.say("and again")).text == "three"
    assert writing.done == ["a", "b", "c"]
    async with writing.session(call("write", "5", text="e"), name="other") as session:
        assert (await session.say("elsewhere")).why is Why.PAUSED
    writing.edges.more = "?"
    async with writing.session(call("write", "4", text="d")) as session:
        assert (await session.say("once more")).why is Why.PAUSED


async def test_a_policy_on_input_can_end_it_on_resume(writing: Shared):
    denials: list[Deny] = []
    curfew = plugin(decide_input=lambda _: denials[-1] if denials else None)
    async with writing.session(WRITE, plugins=(curfew,)) as session:
        await session.say("go")
        denials.append(Deny("it is late"))
        result = await session.resume({"1": True})

        assert (result.why, result.detail, session.pending) == (Why.DENIED, "it is late", ())
        assert_whole(session.history)
    assert writing.done == []


async def test_an_ask_below_a_running_call_is_never_a_pause(writing: Shared):
    """Policy 19."""

    @tool(effects=())
    async def outer(context: ToolContext) -> str:
        """Write below."""
        return str((await context.call_tool("write", {"text": "a"})).for_model)

    @tool(effects=())
    async def think(context: ToolContext) -> str:
        """Ask the model below."""
        return (await context.call_model("well?", ask="it thinks")).message.text

    writing.more = [outer, think]
    async with writing.session((call("outer"), call("think")), "ok") as session:
        assert (await session.say("go")).why is Why.COMPLETED

        written, thought = session.history[2:4]
        assert written.text.startswith("Denied: this needs a person's approval")
        assert thought.is_error
    assert (writing.done, len(writing.asked())) == ([], 2)
