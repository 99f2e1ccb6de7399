"""Streams of the typed events of a host or a session, and the metadata in their scopes."""

import asyncio
from typing import Any

import pytest
from pluggent_hookspecs import hookimpl
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.observations import (
    EventsDropped,
    ModelCalled,
    SessionClosed,
    SessionOpened,
    TextShown,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from pluggent_host import Host
from pluggent_host.hooks.event_bus import STREAM_EVENTS
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.entries import SessionBegan, TurnBegan
from saved import add
from talking import WAIT_S, hosting, talking


async def gathered(stream: Any) -> list[Any]:
    return [event async for event in stream]


async def test_a_host_streams_events_of_all_its_sessions_until_it_closes():
    async with hosting("one", "two") as host, host.events(SessionOpened, TurnEnded, SessionClosed) as events:
        reading = asyncio.create_task(gathered(events))
        for name in ("a", "b"):
            async with await host.session(name) as session:
                await session.say("hello")
        await host.aclose()
        seen = await asyncio.wait_for(reading, WAIT_S)

    assert [(type(event).__name__, event.scope.session_id) for event in seen] == [
        (kind, name) for name in ("a", "b") for kind in ("SessionOpened", "TurnEnded", "SessionClosed")
    ]


async def test_a_session_streams_its_own_events_or_chosen_kinds_of_them_until_it_closes():
    async with hosting("x", call("add", a=1, b=2), "three", tools=[add]) as host:
        other = await host.session("other")
        session = await host.session("mine")
        async with session.events() as events, session.events(ToolStarted) as started:
            await other.say("hello")
            await session.say("add")
            await session.aclose()
            seen = await asyncio.wait_for(gathered(events), WAIT_S)
            assert [event.name for event in await gathered(started)] == ["add"]

    assert {event.scope.session_id for event in seen} == {"mine"}
    assert isinstance(seen[-1], SessionClosed)
    kinds = [type(event) for event in seen]
    assert kinds.index(TurnStarted) < kinds.index(ModelCalled) < kinds.index(TurnEnded)


async def test_a_stream_has_nothing_from_before_it_was_entered_nor_after_it_was_left():
    async with talking("one", "two", "three") as session:
        await session.say("1")
        async with session.events(TurnStarted) as events:
            await session.say("2")
        await session.say("3")
        assert [event.message.text for event in await gathered(events)] == ["2"]


async def test_a_slow_subscriber_reads_how_many_events_are_missing_and_holds_up_no_turn():
    chunks = STREAM_EVENTS + 50
    async with talking("x " * chunks) as session, session.events(TextShown) as events:
        async with session.stream("go") as stream:
            async for _ in stream:
                pass
        await session.aclose()
        seen = await gathered(events)

    assert len(seen) == STREAM_EVENTS + 1
    assert isinstance(seen[-1], EventsDropped)
    assert seen[-1].count >= 50


async def test_a_stream_of_events_is_used_once_and_inside_its_block():
    async with hosting() as host:
        stream = host.events()
        with pytest.raises(SessionError, match="enter the stream first"):
            await gathered(stream)
        async with stream:
            pass
        with pytest.raises(SessionError, match="used once"):
            async with stream:
                pass
    with pytest.raises(SessionError, match="the host is closed"):
        host.events()


async def test_metadata_of_session_and_turn_reaches_every_policy_record_and_event(tmp_path: Any):
    class Policy:
        def __init__(self) -> None:
            self.seen: list[dict[str, str]] = []

        @hookimpl
        def decide_model_request(self, event: Any) -> None:
            self.seen.append(dict(event.scope.metadata))

    policy, recorder = Policy(), Recorder()
    model = ScriptedModel()
    options: Any = {"model": "scripted/m", "plugins": [model, policy, recorder], "installed": False}
    async with Host.open(**options, state_dir=tmp_path) as host:
        session = await host.session("s", metadata={"tenant": "acme", "plan": "free"})
        await session.say("a", metadata={"plan": "pro", "request": "17"})
        await session.say("b")
        records = session.records()
    async with Host.open(**options, state_dir=tmp_path) as host:
        again = await host.session("s")
        await again.say("c")

    assert policy.seen == [
        {"tenant": "acme", "plan": "pro", "request": "17"},
        {"tenant": "acme", "plan": "free"},
        {"tenant": "acme", "plan": "free"},
    ]
    assert [dict(e.metadata) for e in records if isinstance(e, SessionBegan)] == [{"tenant": "acme", "plan": "free"}]
    assert [dict(e.metadata).get("request") for e in records if isinstance(e, TurnBegan)] == ["17", None]
    assert recorder.of(TurnStarted)[0].scope.metadata["request"] == "17"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"metadata": {"n": 1}}, TypeError, "metadata: expected a mapping of text to text"),
        ({"metadata": {"n": "x" * 5000}}, SessionError, "metadata of 5001 characters is too long: 4096"),
        ({"metadata": {"n": "x" * 200}}, SessionError, "too long"),  # with that of the session
        ({"temperature": 1}, TypeError, "temperature"),
    ],
)
async def test_metadata_is_text_and_not_long_and_no_option_is_made_up(options: Any, error: Any, says: str):
    async with (
        hosting() as host,
        await host.session(metadata={"a": "x" * 4000 if says == "too long" else ""}) as session,
    ):
        with pytest.raises(error, match=says):
            await session.say("x", **options)
        assert session.history == ()


async def test_two_agents_of_different_models_live_in_one_host():
    class Other(ScriptedModel):
        name = "other"

    first, second = ScriptedModel("I ask", "thanks"), Other("I answer")
    async with Host.open(plugins=[first, second], installed=False) as host:
        writer = await host.session(model="scripted/big", system="You ask.", agent="writer", tools=[add])
        critic = await host.session(model="other/small", system="You answer.", agent="critic")
        question = await writer.say("go")
        answer = await critic.say(question.text)
        await writer.say(answer.text)

    assert [request.messages[0].text for request in (*first.requests, *second.requests)] == [
        "You ask.", "You ask.", "You answer.",
    ]  # fmt: skip
    assert [spec.name for spec in first.requests[0].tools] == ["add"]
    assert second.requests[0].tools == ()
    assert second.requests[0].messages[-1].text == "I ask"
