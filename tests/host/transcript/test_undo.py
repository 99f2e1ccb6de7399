"""undo() of the last exchange, and another model from the next turn on: both durable."""

import asyncio
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, settings, strategies as st
from places import Place
from pluggent_hookspecs import ConfigError, Deny, Message, SessionError, Usage, hookimpl, tool
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import DecisionMade
from pluggent_host import Exchange, Host, Session
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import (
    Decided,
    Dispatched,
    Entry,
    ModelChosen,
    Said,
    SessionBegan,
    Settled,
    TurnBegan,
    TurnOver,
    Undone,
)
from pluggent_transcript.rebuild import close_call, last_exchange, rebuild
from talking import WAIT_S, assert_whole, hosting, shape, talking


@tool
def send(n: int = 0) -> str:
    """Send something."""
    return f"sent {n}"


@tool(effects=())
def look() -> str:
    """Look at something."""
    return "seen"


async def taken_back(session: Session) -> Exchange:
    """Take back the last exchange, of which there is one."""
    taken = await session.undo()
    assert taken is not None
    return taken


async def test_the_last_exchange_is_taken_back_until_none_is_left():
    seen = []

    class Policy:
        @hookimpl
        def decide_model_request(self, event):
            seen.append(shape(event.request.messages))

    async with talking("one", call("look"), "two", "three", tools=[look], plugins=[Policy()]) as session:
        await session.say("a")
        await session.say("b")
        taken = await taken_back(session)

        assert taken == Exchange("t2", Message.user("b"))
        assert shape(session.history) == ["user a", "assistant one"]
        await session.say("c")
        assert seen[-1] == ["user a", "assistant one", "user c"], "a policy sees the conversation as it is now"
        assert [(await taken_back(session)).message.text for _ in range(2)] == ["c", "a"]
        assert await session.undo() is None
        assert session.history == ()


@pytest.mark.parametrize("agrees", [True, False])
async def test_effects_of_tools_are_named_unless_a_person_refused_them_and_usage_stays_counted(agrees):
    replies = call("send", n=1), call("look"), "x"
    async with talking(*replies, tools=[send, look], strict=True, approver=lambda _: agrees) as session:
        await session.say("go")
        before = session.usage
        taken = await taken_back(session)

        assert taken.effects == (("app:tools:tool/send",) if agrees else ())
        assert session.usage == before != Usage()


async def test_a_history_that_was_given_is_not_taken_back():
    past = (Message.user("q"), Message.assistant("a"))
    async with hosting("x") as host:
        session = await host.session(history=past)
        await session.say("b")
        await session.undo()

        assert await session.undo() is None
        assert session.history == past


async def test_it_is_durable(tmp_path):
    """A turn that failed can be taken back too."""
    down = RuntimeError("down")
    async with hosting("one", "two", down, state_dir=tmp_path) as host, await host.session("s") as session:
        await session.say("a")
        await session.say("b")
        await session.undo()
        with pytest.raises(Exception, match="down"):
            await session.say("x")
        await session.undo()
        spent = session.usage
    async with hosting("three", state_dir=tmp_path) as host, await host.session("s") as session:
        assert shape(session.history) == ["user a", "assistant one"]
        assert session.usage == spent
        result = await session.say("c")

        assert result.turn_id == "t4"  # the number of a turn that was taken back is not given again
        assert (await taken_back(session)).message.text == "c"
        assert (await taken_back(session)).message.text == "a"


async def test_nothing_is_undone_or_changed_in_the_middle_of_a_turn_nor_said_in_the_middle_of_that():
    place = Place()

    @tool(effects=())
    async def hang() -> str:
        """Hang."""
        await place.hang()
        return ""

    async with talking(call("hang"), "x", tools=[hang]) as session:
        turn = asyncio.create_task(session.say("a"))
        await asyncio.wait_for(place.reached.wait(), WAIT_S)
        for change in (session.undo(), session.use(model="scripted/other")):
            with pytest.raises(SessionError, match="in the middle of a turn"):
                await change
        assert session.model == "scripted/m"
        turn.cancel()
        await asyncio.wait((turn,))

        undoing = asyncio.create_task(taken_back(session))
        await asyncio.sleep(0)
        with pytest.raises(SessionError, match="in the middle"):
            await session.say("b")
        assert (await undoing).message.text == "a"


async def test_a_doubt_about_a_call_outlives_its_exchange():
    asked = []

    @tool(timeout_s=0.01)
    async def lose(n: int = 0) -> str:
        """Hang until the deadline."""
        await asyncio.Event().wait()
        return ""

    async def approver(event):
        asked.append(event)
        return False

    async with talking(call("lose"), "x", call("lose"), "y", tools=[lose], approver=approver) as session:
        await session.say("go")
        taken = await taken_back(session)
        await session.say("go on")

        assert taken.effects == ("app:tools:tool/lose",)
        assert len(asked) == 1


CALL = ToolCall("a", "send", "{}")
DECISION = Decided(DecisionMade(Scope(), "tool_call", "o", "d", "allow", "host", capability="p:tool/send", call_id="a"))


@each_of(
    ("outcome", "effects"),
    [
        ("", ("p:tool/send",)),
        (str(ToolErrorKind.TIMEOUT), ("p:tool/send",)),
        (str(ToolErrorKind.FAILED), ("p:tool/send",)),
        (str(ToolErrorKind.NOT_RUN), ()),
        (str(ToolErrorKind.DENIED), ()),
    ],
)
def test_what_may_have_happened_is_an_effect(outcome, effects):
    entries = (
        SessionBegan("s", 0.0), TurnBegan("t1", 0.0), Said("t1", Message.user("go")),
        Said("t1", Message.assistant((), (CALL,))), DECISION, Dispatched("t1", (("a", "key", "print"),)),
        Settled("t1", "a", Message.tool(CALL, "?"), outcome), TurnOver("t1", "completed"),
    )  # fmt: skip

    assert last_exchange(entries) == Exchange("t1", Message.user("go"), effects)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["say", "undo", "crash", "model"]), max_size=12))
def test_the_transcript_holds_what_is_left_of_all_that_was_said_and_taken_back(steps):
    entries: list[Entry] = [SessionBegan("s", 0.0, "m/0")]
    told: list[list[Message]] = []
    for number, step in enumerate(steps):
        turn = f"t{number}"
        match step:
            case "say":
                told.append([Message.user(turn), Message.assistant(f"to {turn}")])
                entries += [TurnBegan(turn, 0.0), *(Said(turn, message) for message in told[-1]), TurnOver(turn, "ok")]
            case "crash":  # in the middle of a call
                asking = Message.assistant((), (CALL,))
                entries += [TurnBegan(turn, 0.0), Said(turn, Message.user(turn)), Said(turn, asking)]
                closing = rebuild(entries).closing
                entries += closing
                told.append([Message.user(turn), asking, close_call(turn, CALL).message])
            case "undo":
                exchange = last_exchange(entries)
                assert (exchange is None) == (not told)
                if exchange is not None:
                    entries.append(Undone(exchange.turn_id))
                    assert exchange.message == told.pop()[0]
            case "model":
                entries.append(ModelChosen(f"m/{number}"))

    rebuilt = rebuild(entries)
    assert list(rebuilt.messages) == [message for exchange in told for message in exchange]
    assert_whole(rebuilt.messages)
    chosen = [f"m/{number}" for number, step in enumerate(steps) if step == "model"]
    assert rebuilt.model == (["m/0", *chosen][-1])


class Other(ScriptedModel):
    name = "other"


async def test_another_model_answers_from_the_next_turn_on_and_after_a_resume(tmp_path):
    first, second = ScriptedModel("one"), Other("two")
    options = {"plugins": [first, second], "installed": False, "state_dir": tmp_path, "model": "scripted/m"}
    async with Host.open(**options) as host, await host.session("s") as session:
        await session.say("a")
        await session.use(model="other/x")
        await session.say("b")

        assert session.model == "other/x"
        assert (first.requests[0].model, second.requests[0].model) == ("m", "x")
        assert shape(second.requests[0].messages) == ["user a", "assistant one", "user b"]
    async with Host.open(**options) as host:
        assert (await host.session("s")).model == "other/x"


@pytest.mark.parametrize(("name", "says"), [("unknown/x", "unknown"), ("x", "write provider/model"), ("", "provider")])
async def test_an_unknown_model_changes_nothing(name, says):
    async with talking("one") as session:
        with pytest.raises(ConfigError, match=says):
            await session.use(model=name)

        assert session.model == "scripted/m"
        assert (await session.say("a")).text == "one"


async def test_a_message_of_the_host_is_not_an_exchange_of_its_own():
    async with talking("before", "no json", '{"value": 1}') as session:
        await session.say("first")
        await session.say("a number", output=int)
        exchange = await session.undo()

        assert exchange is not None
        assert exchange.message.text == "a number"
        assert [message.text for message in session.history] == ["first", "before"]


async def test_effects_of_calls_that_share_an_id_in_several_rounds_are_all_named():
    @tool
    def wipe() -> str:
        """Wipe."""
        return "gone"

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: Any) -> Deny | None:
            return Deny("no more") if event.arguments.get("n") == 2 else None

    replies = (call("wipe", "c"), call("send", "c", n=1), call("send", "c", n=2), "done")
    async with talking(*replies, tools=[send, wipe], plugins=[Policy()]) as session:
        await session.say("go")
        exchange = await session.undo()

    assert exchange is not None
    assert exchange.effects == ("app:tools:tool/wipe", "app:tools:tool/send")
