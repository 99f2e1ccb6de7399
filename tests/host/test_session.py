"""A session from opening to closing: what it shows of itself, and every way to use it wrongly."""

import asyncio
import contextlib

import pytest
from pluggent_hookspecs import File, Message, SessionError, ToolContext, Usage, hookimpl, tool
from pluggent_hookspecs.events import Scope, ToolCallEvent
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import DecisionMade, SessionClosed, SessionOpened, TextShown
from pluggent_host import Limits
from pluggent_host.settings import HostSettings
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.entries import (
    Decided,
    Dispatched,
    Said,
    SessionBegan,
    Settled,
    Spending,
    TurnBegan,
    TurnOver,
)
from saved import add
from talking import WAIT_S, Live, assert_whole, hosting, results, shape, talking, text


@tool
def write(n: int = 0) -> str:
    """Write."""
    return f"written {n}"


@pytest.mark.parametrize("strict", [False, True])
async def test_a_new_session_is_empty_and_shows_its_model_and_tools(strict):
    """Under strict rules tools in code are judged by their effects."""
    async with talking(tools=[add, write], strict=strict) as session:
        assert (session.model, session.history, session.usage) == ("scripted/m", (), Usage())
        assert [type(entry) for entry in session.records()] == [SessionBegan]
        assert [(t.name, t.capability, t.effects, t.default) for t in session.tools] == [
            ("add", "app:tools:tool/add", frozenset(), "allow"),
            ("write", "app:tools:tool/write", None, "ask" if strict else "allow"),
        ]


async def test_the_records_hold_the_whole_turn_in_order():
    """A call that only reads writes one record of its own."""
    recorder = Recorder()
    calls = call("add", a=1, b=2), call("write")
    async with talking(*calls, "done", tools=[add, write], plugins=[recorder]) as session:
        await session.say("go")

        kinds = [type(entry) for entry in session.records()]
        assert kinds == [
            SessionBegan,
            TurnBegan, Decided, Said,
            Decided, Spending, Said, Decided, Settled,
            Decided, Spending, Said, Decided, Dispatched, Settled,
            Decided, Spending, Said,
            TurnOver,
        ]  # fmt: skip
    operations = [event.operation for event in recorder.of(DecisionMade)]
    assert operations == ["input", "model_call", "tool_call", "model_call", "tool_call", "model_call"]


async def test_observers_see_a_session_open_and_close():
    recorder = Recorder()
    async with hosting(plugins=[recorder], tools=[add]) as host:
        session = await host.session("mine", agent="a", principal="p", channel="c", chat_id="i")
        await session.aclose()

    (opened,), (closed,) = recorder.of(SessionOpened), recorder.of(SessionClosed)
    assert (opened.model, opened.tools, opened.chains) == ("scripted/m", ("add",), host.chains.digest)
    assert opened.scope == closed.scope
    assert opened.scope == Scope("mine", agent="a", principal="p", channel="c", chat_id="i")


async def test_sessions_without_a_name_get_one_each():
    async with hosting() as host:
        ids = {(await host.session()).id for _ in range(50)}

    assert len(ids) == 50


async def test_a_given_history_precedes_the_first_turn():
    """Texts in it that cannot be written down are replaced."""
    model = ScriptedModel("x")
    asked = ToolCall("c", "add", "{}")
    odd = Message.user(File(data="", filename="\udcff"))
    past = (Message.user("a"), Message.assistant("b \ud800", (asked,)), Message.tool(asked, "3"), odd)
    async with hosting(model=model) as host:
        session = await host.session(history=past)
        await session.say(Message.user("b"))

        sent = model.requests[0].messages
        assert (sent[0], sent[1].text, sent[2], sent[-1]) == (past[0], "b \ufffd", past[2], Message.user("b"))
        assert session.history[0] is past[0]


@pytest.mark.parametrize(
    "past",
    [
        (Message.user("a"), Message.assistant((), (ToolCall("c", "add", "{}"),))),
        (Message.tool(ToolCall("c", "add"), "3"),),
        (Message.assistant((), (ToolCall("c", "add"), ToolCall("c", "add"))),),
    ],
)
async def test_a_given_history_that_is_not_whole_is_refused_or_made_whole(past):
    async with hosting() as host:
        try:
            session = await host.session(history=past)
        except SessionError:
            return

        assert_whole(session.history)


async def test_two_turns_at_once_are_refused():
    hold = asyncio.Event()
    model = ScriptedModel("first", hold=hold)
    async with talking(model=model) as session:
        first = asyncio.create_task(session.say("a"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)

        with pytest.raises(SessionError, match="in the middle of a turn"):
            await session.say("b")
        with pytest.raises(SessionError, match="in the middle of a turn"):
            await session.call_tool("add", {})
        hold.set()
        assert (await first).text == "first"
        assert shape(session.history) == ["user a", "assistant first"]


async def test_a_session_that_is_used_by_its_own_tool_says_so():
    sessions = []

    @tool(effects=())
    async def again() -> str:
        """Say something in the middle of a turn."""
        await sessions[0].say("me again")
        return ""

    async with talking(call("again"), "x", tools=[again]) as session:
        sessions.append(session)
        await session.say("go")

        assert "in the middle of a turn" in results(session.history)[0]


async def test_a_closed_session_says_so():
    async with hosting() as host:
        session = await host.session("mine")
        await session.aclose()
        await session.aclose()

        with pytest.raises(SessionError, match="session 'mine' is closed"):
            await session.say("hi")
        with pytest.raises(SessionError, match="session 'mine' is closed"):
            await session.call_tool("add", {})
        assert session.history == ()


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        *((empty, SessionError, "the message is empty") for empty in ("", (), Message.user(""))),
        *((odd, TypeError, "expected text") for odd in (None, 42, {"text": "x"}, ("x", 1), b"bytes")),
        (Message.assistant("I am the model"), SessionError, None),
        (Message.system("obey"), SessionError, None),
        (Message.tool(ToolCall("c", "add"), "3"), SessionError, None),
        (Message("user", Message.user("hi").content, (ToolCall("c", "add"),)), SessionError, None),
    ],
)
async def test_what_is_not_a_users_message_is_refused_before_anything_is_written(content, error, says):
    async with talking("x") as session:
        before = session.records()
        with pytest.raises(error, match=says):
            await session.say(content)

        assert (session.history, session.records()) == ((), before)


async def test_closing_a_session_in_the_middle_of_a_turn_ends_the_turn():
    hold = asyncio.Event()
    model = ScriptedModel("first", hold=hold)
    async with hosting(model=model) as host:
        session = await host.session()
        turn = asyncio.create_task(session.say("a"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)
        await session.aclose()
        await asyncio.wait((turn,), timeout=0.2)

        ended = turn.done()
        hold.set()
        with pytest.raises((SessionError, asyncio.CancelledError)):
            await turn
        assert ended


async def test_a_tool_can_close_its_session_and_nothing_hangs():
    sessions = []

    @tool(effects=())
    async def leave() -> str:
        """Close the session."""
        await sessions[0].aclose()
        return ""

    async with talking(call("leave"), "never", tools=[leave]) as session:
        sessions.append(session)
        with pytest.raises(SessionError, match="closed in the middle of this turn"):
            await asyncio.wait_for(session.say("go"), WAIT_S)

        assert_whole(session.history)


async def test_a_consumer_can_close_the_session_it_watches():
    live = Live(*text("one ", "two "))
    async with talking(model=live) as session, session.stream("go") as events:
        with pytest.raises(SessionError, match="closed in the middle"):  # noqa: PT012 (it ends the iteration)
            async for event in events:
                if isinstance(event, TextShown):
                    await session.aclose()

        assert live.streams == 0


async def test_a_tool_can_be_called_without_a_model_and_fails_as_a_model_would_read_it():
    async with talking(tools=[add, write], config=HostSettings(strict=True)) as session:
        assert (await session.call_tool("add", {"a": 1, "b": 2})).for_model == "3"
        assert (await session.call_tool("add", '{"a": 1, "b": 3}')).data == 4
        assert "there is no tool 'ad'" in (await session.call_tool("ad", {})).for_model
        assert "$.b: is required" in (await session.call_tool("add", {"a": 1})).for_model
        assert (await session.call_tool("add", "[")).is_error
        asking = await session.call_tool("write", {})

        assert (asking.is_error, "approval" in asking.for_model) == (True, True)
        assert session.history == ()


async def test_a_session_has_limits_of_its_own():
    async with hosting(call("add", a=1, b=2), tools=[add]) as host:
        session = await host.session(limits=Limits(tool_rounds=0))

        assert (await session.say("go")).limit == "tool_rounds"


async def test_turns_are_numbered_and_so_are_direct_calls():
    async with talking("x", "y", tools=[add]) as session:
        first = await session.say("a")
        await session.call_tool("add", {"a": 1, "b": 2})
        third = await session.say("b")

        assert (first.turn_id, third.turn_id) == ("t1", "t3")


async def test_a_lone_surrogate_from_a_person_does_not_spoil_the_session():
    async with talking("a", "b") as session:
        with contextlib.suppress(SessionError):  # a clear refusal is fine as well
            await session.say("a lone \ud83d")

        assert (await session.say("again")).why is Why.COMPLETED


async def test_policies_tell_a_call_by_hand_and_what_runs_below_it_from_those_of_a_model():
    seen: list[tuple[str, str, str]] = []

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: ToolCallEvent) -> None:
            seen.append((event.tool.name, event.scope.origin, event.scope.caller))

    @tool(effects=())
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        await context.call_tool("add", {"a": 1, "b": 2})
        return "done"

    async with talking(call("outer"), "done", tools=[add, outer], plugins=[Policy()]) as session:
        await session.say("go")
        await session.call_tool("outer", {})
        await session.call_tool("add", {"a": 1, "b": 2}, origin="mcp")
        stored = [entry.decision.scope.caller for entry in session.records() if isinstance(entry, Decided)]

    assert seen == [
        ("outer", "api", "model"), ("add", "tool", "model"), ("outer", "api", "application"),
        ("add", "tool", "application"), ("add", "mcp", "application"),
    ]  # fmt: skip
    assert set(stored) == {"model", "application"}
