"""A request to the model waits for an approval before it is sent (policy 8, 11, 16-20)."""

from pathlib import Path
from typing import Any

import pytest
from edges_asking import Edges, Shared
from pluggent_hookspecs import ModelParameters, ToolContext, tool
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind, SessionError
from pluggent_hookspecs.observations import TextShown
from pluggent_host import Approval, Limits, Why
from pluggent_testing.fakes import call
from talking import assert_whole, shape


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path, Edges(rounds=(0,)))


async def test_the_model_is_not_asked_before_it_is_approved_and_gets_what_was_frozen(shared: Shared):
    async with shared.host(system="be brief") as host, await host.session("s") as session:
        paused = await session.say("go", parameters=ModelParameters(temperature=0.5, max_output_tokens=9))

        assert (paused.why, paused.detail) == (Why.PAUSED, "'m' needs approval: app:edges: it goes out")
        (pending,) = paused.pending
        assert shared.asked() == []
        assert shape(session.history) == ["user go"]
    assert (pending.kind, pending.call_id, pending.reach) == ("model_call", "t1.0", "once")
    assert b"request 1" in pending.arguments_json

    async with shared.host("fine", system="be brief") as host, await host.session("s") as session:
        assert session.pending == (pending,)
        assert shape(session.history) == ["user go"]
        result = await session.resume({"t1.0": True})

        assert (result.why, result.text, result.turn_id) == (Why.COMPLETED, "fine", "t1")
        assert shape(session.history) == ["user go", "assistant fine"]
    assert shared.asked() == ["request 1"]
    assert shared.model.requests[0].parameters == ModelParameters(temperature=0.5, max_output_tokens=9)
    assert shared.edges.transformed == ["input", "request"]


async def test_a_refusal_ends_the_turn(shared: Shared):
    async with shared.host("hello") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.rounds = ()
        result = await session.resume({"t1.0": Approval(agreed=False, reason="too dear")})

        assert (result.why, result.detail) == (Why.DENIED, "refused by application: too dear")
        assert not session.paused
        assert shared.asked() == []
        assert (await session.say("hi")).text == "hello"
    async with shared.host() as host, await host.session("s") as session:
        assert shape(session.history) == ["user go", "user hi", "assistant hello"]


async def test_without_answers_it_stays_as_it_is_and_is_not_changed_again(shared: Shared):
    async with shared.host("fine") as host, await host.session("s") as session:
        first = await session.say("go")
        for _ in range(7):
            again = await session.resume()
            assert (again.why, again.pending) == (Why.PAUSED, first.pending)
        assert (await session.resume({"t1.0": True})).text == "fine"
    assert shared.asked() == ["request 1"]


@pytest.mark.parametrize("changed", ["model", "tools", "system"])
async def test_what_would_be_another_request_by_now_is_decided_and_asked_about_anew(shared: Shared, changed: str):
    async with shared.host() as host, await host.session("s") as session:
        (before,) = (await session.say("go")).pending
    options: dict[str, Any] = {"model": {"model": "scripted/n"}, "tools": {}, "system": {"system": "shout"}}[changed]
    if changed == "tools":

        @tool(effects=())
        def listen() -> str:
            """Listen."""
            return "heard"

        shared.more.append(listen)
    async with shared.host("fine", **options) as host:
        session = await host.session("s", **({"model": "scripted/n"} if changed == "model" else {}))
        again = await session.resume({"t1.0": True})

        assert again.why is Why.PAUSED
        assert again.pending[0].digest != before.digest
        assert shared.asked() == []
        assert (await session.resume({"t1.0": True})).text == "fine"
    assert shared.asked() == ["request 2"]


async def test_a_later_round_waits_with_the_results_that_are_there(shared: Shared):
    shared.edges.rounds = (1,)
    async with shared.host(call("look")) as host, await host.session("s") as session:
        paused = await session.say("go")
        assert [each.call_id for each in paused.pending] == ["t1.1"]
        before = session.history
    async with shared.host("done") as host, await host.session("s") as session:
        assert session.history == before
        assert shape(before) == ["user go", "assistant -> look", "tool seen"]
        assert (await session.resume({"t1.1": True})).text == "done"
        assert_whole(session.history)
    assert shared.done == ["look"]


async def test_every_stage_of_a_turn_can_wait_each_in_its_process(shared: Shared):
    shared.edges.said, shared.edges.rounds, shared.edges.tools = "hm", (0, 1), ("write",)
    waits = []
    replies: list[tuple[Any, ...]] = [(), (), (call("write", "1", text="a"),), (), ("done",)]
    why, answers = None, {}
    for reply in replies:
        async with shared.host(*reply) as host, await host.session("s") as session:
            result = await (session.resume(answers) if session.paused else session.say("go"))
            waits.append([(each.kind, each.call_id) for each in result.pending])
            answers, why = {each.call_id: True for each in result.pending}, result.why
            if why is Why.COMPLETED:
                assert_whole(session.history)

    assert why is Why.COMPLETED
    assert waits == [[("input", "t1")], [("model_call", "t1.0")], [("tool_call", "1")], [("model_call", "t1.1")], []]
    assert shared.done == ["a"]


async def test_the_warning_before_a_limit_is_part_of_what_waits(shared: Shared):
    shared.edges.rounds = (1,)
    limits = Limits(tool_rounds=1)
    async with shared.host(call("look"), limits=limits) as host, await host.session("s") as session:
        (pending,) = (await session.say("go")).pending
    assert b"No more tool calls" in pending.arguments_json
    async with shared.host("done", limits=limits) as host, await host.session("s") as session:
        assert (await session.resume({"t1.1": True})).text == "done"
        assert shape(session.history)[-1] == "assistant done"
    assert [m.text for m in shared.model.requests[0].messages[-2:]] == [
        "No more tool calls are possible in this turn. Answer now with what you have.", "request 2",
    ]  # fmt: skip


async def test_an_answer_that_does_not_have_its_form_is_sent_back_after_another_approval(shared: Shared):
    shared.edges.rounds = (0, 1)
    async with shared.host("seven", "[7]") as host, await host.session("s") as session:
        await session.say("how many?", output=list[int])
        assert [each.call_id for each in (await session.resume({"t1.0": True})).pending] == ["t1.1"]
    async with shared.host('{"value": [7]}', "[7]") as host, await host.session("s") as session:
        result = await session.resume({"t1.1": True}, output=list[int])

        assert (result.why, result.output) == (Why.COMPLETED, [7])


async def test_what_is_asked_anew_about_what_was_said_waits_beside_it_and_the_answer_stays(shared: Shared):
    async with shared.host() as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.said = "who said that?"
        both = await session.resume({"t1.0": True})

        assert [(each.kind, each.call_id) for each in both.pending] == [("input", "t1"), ("model_call", "t1.0")]
        assert session.pending == both.pending[:1]
    async with shared.host("fine") as host, await host.session("s") as session:
        assert [each.call_id for each in session.pending] == ["t1"]
        assert (await session.resume({"t1": True})).text == "fine"
    assert shared.asked() == ["request 1"]


async def test_a_refusal_of_what_is_asked_anew_about_what_was_said_ends_the_turn(shared: Shared):
    async with shared.host() as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.said = "who said that?"
        await session.resume({"t1.0": True})
        result = await session.resume({"t1": False})

        assert (result.why, session.paused, shared.asked()) == (Why.DENIED, False, [])


async def test_limits_go_on_from_where_the_turn_was(shared: Shared):
    shared.edges.rounds = (1,)
    async with shared.host(call("look"), call("look"), limits=Limits(model_calls=2)) as host:
        session = await host.session("s")
        await session.say("go")
        result = await session.resume({"t1.1": True})

        assert (result.why, result.limit) == (Why.LIMIT, "model_calls")
        assert_whole(session.history)


async def test_usage_counts_once(shared: Shared):
    shared.edges.rounds = (1,)
    async with shared.host(call("look"), "ok") as host, await host.session("s") as session:
        paused = await session.say("go")
        result = await session.resume({"t1.1": True})

        assert (paused.usage.input, result.usage.input, session.usage.input) == (10, 20, 20)


async def test_saying_something_else_withdraws_it_and_undo_takes_it_back(shared: Shared):
    async with shared.host("yes?") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.rounds = ()
        assert (await session.say("or not")).text == "yes?"
        assert shape(session.history) == ["user go", "user or not", "assistant yes?"]
        with pytest.raises(SessionError, match="no turn that waits"):
            await session.resume()
        shared.edges.rounds = (0,)
        await session.say("third")
        await session.undo()
        assert shape(session.history) == ["user go", "user or not", "assistant yes?"]
    async with shared.host() as host, await host.session("s") as session:
        assert (shape(session.history), session.paused) == (["user go", "user or not", "assistant yes?"], False)


async def test_a_deny_wins_and_another_ask_is_asked_again(shared: Shared):
    async with shared.host("fine") as host, await host.session("s") as session:
        await session.say("go")
        shared.edges.words = "it goes far"
        again = await session.resume({"t1.0": True})
        assert again.pending[0].asks == (("app:edges", "it goes far"),)
        shared.edges.deny = "no longer"
        result = await session.resume({"t1.0": True})

        assert (result.why, result.detail) == (Why.DENIED, "no longer")
    assert shared.asked() == []


async def test_an_approval_is_good_for_one_request_also_if_that_failed(shared: Shared):
    down = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
    async with shared.host(down, "ok") as host, await host.session("s") as session:
        await session.say("go")
        with pytest.raises(ProviderError, match="down"):
            await session.resume({"t1.0": True})
        assert not session.paused
        assert (await session.say("go")).why is Why.PAUSED


async def test_it_is_watched_and_cancelled_like_any_turn(shared: Shared):
    async with shared.host("one two three " * 100, "ok") as host, await host.session("s") as session:
        await session.say("go")
        async with session.stream_resume({"t1.0": True}) as events:
            async for event in events:
                if isinstance(event, TextShown):
                    break

        assert_whole(session.history)
        assert not session.paused
        shared.edges.rounds = ()
        assert (await session.say("still there?")).text == "ok"


async def test_a_dry_run_and_what_is_below_a_running_call_never_pause(shared: Shared):
    async with shared.host() as host, await host.session("s") as session:
        assert (await session.say("go", dry_run=True)).why is Why.DENIED

    @tool(effects=())
    async def think(context: ToolContext) -> str:
        """Ask the model below."""
        return (await context.call_model("well?", ask="it thinks")).message.text

    shared.more.append(think)
    shared.edges.rounds = ()
    async with shared.host(call("think"), "ok") as host, await host.session("t") as session:
        result = await session.say("go")
        assert result.why is Why.COMPLETED
        assert session.history[-2].is_error
    assert len(shared.asked()) == len(("the call", "what came of it"))
