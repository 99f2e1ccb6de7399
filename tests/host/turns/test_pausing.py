"""An ask that nobody answers now waits: the turn is durable, and goes on when somebody has answered."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Allow, Ask, DecisionMade, Deny, InputEvent, ToolContext, hookimpl, tool
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Approval, Host, HostSettings, Limits, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import assert_whole, shape

PAUSING = HostSettings(on_ask="pause")


class Asks:
    """Asks about every write; what it asks can be changed."""

    def __init__(self, words: str = "it writes", *, exclusive: bool = False) -> None:
        self.words = words
        self.decision: Any = None

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask | Deny | None:
        if self.decision is not None:
            decision: Ask | Deny = self.decision
            return decision
        return Ask(self.words) if event.tool.name.startswith("write") else None


class Place:
    """A workplace whose hosts share a folder, as processes one after the other do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[str] = []
        self.asks = Asks()

    def tools(self) -> list[Any]:
        @tool(effects=("filesystem_write",))
        def write(text: str) -> str:
            """Write."""
            self.done.append(text)
            return f"wrote {text}"

        @tool(effects=())
        def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        @tool(effects=("filesystem_write",), exclusive=True)
        def write_alone(text: str) -> str:
            """Write alone."""
            self.done.append(text)
            return f"wrote {text}"

        return [write, look, write_alone]

    def host(self, *replies: Any, plugins: tuple[object, ...] = (), **options: Any) -> Any:
        self.model = ScriptedModel(*replies)
        return Host.open(
            model="scripted/m", plugins=[self.model, self.asks, *plugins], tools=self.tools(), installed=False,
            state_dir=self.folder, **{"config": PAUSING, **options},
        )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_paused_turn_goes_on_in_another_process_once_it_is_approved(place: Place):
    async with place.host((call("look"), call("write", text="a"))) as host, await host.session("s") as session:
        paused = await session.say("go")

        assert (paused.why, paused.detail) == (Why.PAUSED, "'write' needs approval: app:asks: it writes")
        (pending,) = paused.pending
        assert session.pending == paused.pending
    assert place.done == ["look"]
    assert json.loads(pending.arguments_json) == {"text": "a"}
    assert '"text": "a"' in pending.rendered

    async with place.host("all done") as host, await host.session("s") as session:
        assert session.pending == (pending,)
        result = await session.resume({pending.call_id: True})

        assert (result.why, result.text) == (Why.COMPLETED, "all done")
        assert_whole(session.history)
        assert shape(session.history) == [
            "user go", "assistant -> look, write", "tool seen", "tool wrote a", "assistant all done",
        ]  # fmt: skip
        assert session.pending == ()
    assert place.done == ["look", "a"]
    assert result.turn_id == "t1"


async def test_a_refusal_is_a_result_that_the_model_reads(place: Place):
    async with place.host(call("write", text="a"), "as you like") as host, await host.session("s") as session:
        paused = await session.say("go")
        result = await session.resume({paused.pending[0].call_id: Approval(agreed=False, reason="not today")})

        assert (result.why, result.text) == (Why.COMPLETED, "as you like")
        assert session.history[2].text == "Denied: a person refused this: not today"
    assert place.done == []


async def test_without_answers_it_stays_paused_and_nothing_runs(place: Place):
    async with place.host(call("write", text="a")) as host, await host.session("s") as session:
        first = await session.say("go")
        for _ in range(2):
            again = await session.resume()
            assert (again.why, again.pending) == (Why.PAUSED, first.pending)
    async with place.host("done") as host, await host.session("s") as session:
        assert (await session.resume({first.pending[0].call_id: True})).text == "done"
    assert place.done == ["a"]


async def test_one_pause_carries_all_asks_and_each_answer_stands(place: Place):
    calls = (call("write", "1", text="a"), call("look"), call("write", "2", text="b"), call("write", "3", text="c"))
    async with place.host(calls) as host, await host.session("s") as session:
        paused = await session.say("go")
        assert [each.call_id for each in paused.pending] == ["1", "2", "3"]
        still = await session.resume({"1": True, "2": False})
        assert [each.call_id for each in session.pending] == ["3"]
        assert still.why is Why.PAUSED
    assert place.done == ["look", "a"]
    async with place.host("done") as host, await host.session("s") as session:
        await session.resume({"3": True})

        assert [message.text for message in session.history if message.tool_call_id] == [
            "wrote a", "seen", "Denied: a person refused this", "wrote c",
        ]  # fmt: skip
    assert place.done == ["look", "a", "c"]


async def test_saying_something_withdraws_what_was_asked(place: Place):
    async with place.host(call("write", text="a"), "never mind then") as host, await host.session("s") as session:
        await session.say("go")
        result = await session.say("stop that")

        assert result.text == "never mind then"
        assert session.pending == ()
        assert_whole(session.history)
        with pytest.raises(SessionError, match="no turn that waits"):
            await session.resume()
    assert place.done == []
    async with place.host() as host, await host.session("s") as session:
        assert_whole(session.history)
        assert session.pending == ()


async def test_policies_decide_again_and_a_deny_wins_over_the_approval(place: Place):
    async with place.host(call("write", text="a"), "ok") as host, await host.session("s") as session:
        paused = await session.say("go")
        place.asks.decision = Deny("no longer")
        await session.resume({paused.pending[0].call_id: True})

        assert session.history[2].text == "Denied: no longer"
    assert place.done == []


async def test_an_ask_that_is_new_or_changed_is_asked_again(place: Place):
    async with place.host(call("write", text="a"), "ok") as host, await host.session("s") as session:
        paused = await session.say("go")
        place.asks.words = "it writes on a Sunday"
        again = await session.resume({paused.pending[0].call_id: True})

        assert again.why is Why.PAUSED
        assert again.pending[0].asks == (("app:asks", "it writes on a Sunday"),)
        assert place.done == []
        await session.resume({again.pending[0].call_id: True})
    assert place.done == ["a"]


async def test_a_tool_that_has_changed_since_is_refused(place: Place):
    async with place.host(call("write", text="a")) as host, await host.session("s") as session:
        paused = await session.say("go")

    @tool(name="write", effects=("filesystem_write",))
    def other(text: str) -> None:
        """Write, and send it to everybody."""
        place.done.append("sent")

    place.tools = lambda: [other]  # type: ignore[method-assign]
    async with place.host("ok") as host, await host.session("s") as session:
        await session.resume({paused.pending[0].call_id: True})

        assert "has changed since a person was asked" in session.history[2].text
    assert place.done == []


async def test_an_answer_to_a_call_that_waits_for_none_is_an_error(place: Place):
    async with place.host(call("write", text="a")) as host, await host.session("s") as session:
        with pytest.raises(SessionError, match="has no turn that waits for a person"):
            await session.resume()
        await session.say("go")
        with pytest.raises(SessionError, match="no call waits under 'x'; these do: call_write"):
            await session.resume({"x": True})
        with pytest.raises(SessionError, match="waits for a person"):
            await session.call_tool("look", {})
        assert place.done == []


async def test_an_approval_for_the_session_answers_the_same_ask_later(place: Place):
    replies = (call("write", "1", text="a"), "one", call("write", "2", text="b"), "two")
    async with place.host(*replies) as host, await host.session("s") as session:
        paused = await session.say("go")
        await session.resume({paused.pending[0].call_id: Approval(agreed=True, reach="session")})
        assert (await session.say("again")).text == "two"
    async with place.host(call("write", "3", text="c"), "three") as host, await host.session("s") as session:
        assert (await session.say("and again")).text == "three"
    assert place.done == ["a", "b", "c"]
    place.asks.words = "another question"
    async with place.host(call("write", "4", text="d")) as host, await host.session("s") as session:
        assert (await session.say("once more")).why is Why.PAUSED
    async with place.host(call("write", "5", text="e")) as host, await host.session("other") as session:
        assert (await session.say("elsewhere")).why is Why.PAUSED


async def test_nothing_overtakes_an_exclusive_call_that_waits(place: Place):
    calls = (call("look", "1"), call("write_alone", "2", text="a"), call("look", "3"))
    async with place.host(calls) as host, await host.session("s") as session:
        paused = await session.say("go")
        assert [(each.call_id, bool(each.asks)) for each in paused.pending] == [("2", True), ("3", False)]
        assert [each.call_id for each in session.pending] == ["2"]
    assert place.done == ["look"]
    async with place.host("done") as host, await host.session("s") as session:
        assert (await session.resume({"2": True})).text == "done"
        assert_whole(session.history)
    assert place.done == ["look", "a", "look"]


async def test_the_decisions_and_approvals_are_on_record(place: Place):
    recorder = Recorder()
    async with place.host(call("write", text="a"), "ok", plugins=(recorder,)) as host:
        session = await host.session("s")
        paused = await session.say("go")
        await session.resume({paused.pending[0].call_id: True})

    told = [event.verdict for event in recorder.of(DecisionMade) if event.operation == "tool_call"]
    assert told == ["ask", "ask", "approved"]


async def test_around_turn_is_entered_anew_and_told_that_the_turn_is_resumed(place: Place):
    class Around:
        def __init__(self) -> None:
            self.seen: list[tuple[bool, str]] = []

        @hookimpl
        async def around_turn(self, event: InputEvent, call_next: Any) -> Any:
            result = await call_next()
            self.seen.append((event.resumed, str(result.why)))
            return result

    around = Around()
    async with place.host(call("write", text="a"), "ok", plugins=(around,)) as host:
        session = await host.session("s")
        paused = await session.say("go")
        await session.resume({paused.pending[0].call_id: True})

    assert around.seen == [(False, "paused"), (True, "completed")]


async def test_a_policy_on_input_can_end_it_on_resume(place: Place):
    class Curfew:
        late = False

        @hookimpl
        def decide_input(self, event: InputEvent) -> Deny | Allow:
            return Deny("it is late") if self.late else Allow()

    curfew = Curfew()
    async with place.host(call("write", text="a"), plugins=(curfew,)) as host:
        session = await host.session("s")
        paused = await session.say("go")
        curfew.late = True
        result = await session.resume({paused.pending[0].call_id: True})

        assert (result.why, result.detail) == (Why.DENIED, "it is late")
        assert_whole(session.history)
        assert session.pending == ()
    assert place.done == []


async def test_limits_go_on_from_where_the_turn_was(place: Place):
    replies = (call("write", "1", text="a"), call("write", "2", text="b"), "x")
    async with place.host(*replies, limits=Limits(tool_rounds=1)) as host, await host.session("s") as session:
        paused = await session.say("go")
        result = await session.resume({paused.pending[0].call_id: True})

    assert (result.why, result.limit) == (Why.LIMIT, "tool_rounds")
    assert place.done == ["a"]


async def test_usage_counts_once(place: Place):
    async with place.host(call("write", text="a"), "ok") as host, await host.session("s") as session:
        paused = await session.say("go")
        result = await session.resume({paused.pending[0].call_id: True})

        assert (result.usage.input, session.usage.input) == (20, 20)
    async with place.host() as host, await host.session("s") as session:
        assert session.usage.input == 20


async def test_a_live_approver_is_asked_first_and_on_resume(place: Place):
    answers = [None, True]

    def approve(event: Any) -> bool | None:
        return answers.pop(0)

    async with place.host(call("write", text="a"), "ok", approver=approve) as host:
        session = await host.session("s")
        assert (await session.say("go")).why is Why.PAUSED
        assert (await session.resume()).text == "ok"
    assert place.done == ["a"]


async def test_an_ask_below_a_running_call_is_never_a_pause(place: Place):
    @tool(effects=())
    async def outer(context: ToolContext) -> str:
        """Write below."""
        return str((await context.call_tool("write", {"text": "a"})).for_model)

    tools = place.tools()
    place.tools = lambda: [*tools, outer]  # type: ignore[method-assign]
    async with place.host(call("outer"), "ok") as host, await host.session("s") as session:
        result = await session.say("go")

        assert result.why is Why.COMPLETED
        assert session.history[2].text.startswith("Denied: this needs a person's approval")
    assert place.done == []


async def test_a_dry_run_never_pauses(place: Place):
    async with place.host(call("write", text="a"), "ok") as host, await host.session("s") as session:
        assert (await session.say("go", dry_run=True)).why is Why.COMPLETED
    assert place.done == []


async def test_undoing_a_paused_turn_takes_it_back_whole(place: Place):
    async with place.host(call("write", text="a")) as host, await host.session("s") as session:
        await session.say("go")
        await session.undo()

        assert session.history == ()
        assert session.pending == ()
    async with place.host() as host, await host.session("s") as session:
        assert session.history == ()
        assert session.pending == ()


async def test_the_process_may_end_after_any_line_and_nothing_runs_twice_or_unapproved(place: Place):
    async with place.host(call("write", text="a"), "ok") as host, await host.session("s") as session:
        paused = await session.say("go")
        await session.resume({paused.pending[0].call_id: True})
    whole = (place.folder / "sessions" / "s.jsonl").read_bytes().splitlines(keepends=True)
    for length in range(1, len(whole) + 1):
        later = Place(place.folder / f"{length}")
        shutil.copytree(place.folder / "sessions", later.folder / "sessions")
        (later.folder / "sessions" / "s.jsonl").write_bytes(b"".join(whole[:length]))
        kinds = [json.loads(line)["t"] for line in whole[:length]]
        settled = "Settled" in kinds
        runs = "Resolved" in kinds and "Dispatched" not in kinds
        async with later.host("ok") as host, await host.session("s") as session:
            if session.paused:
                result = await session.resume()
                assert result.why is (Why.COMPLETED if settled or runs else Why.PAUSED), kinds
                assert later.done == (["a"] if runs else []), kinds
            if not session.paused:
                assert_whole(session.history)
            await session.say("and now?")
            assert_whole(session.history)
            assert later.done == (["a"] if runs else []), kinds
