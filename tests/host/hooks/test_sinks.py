"""write_record: a record is kept before anything is executed, or nothing is executed (rule 15)."""

from typing import Any

import pytest
from pluggent_hookspecs import (
    DecisionMade,
    HookFailed,
    ModelCalled,
    Observation,
    PluginStateChanged,
    SessionClosed,
    SessionOpened,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import PluginLoadError
from pluggent_host import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import hosting, talking


class Sink:
    def __init__(self) -> None:
        self.events: list[Observation] = []
        self.full = False

    @hookimpl
    def write_record(self, event: Observation) -> None:
        if self.full:
            raise OSError("no space left on the disk")
        self.events.append(event)


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_everything_that_matters_is_kept_in_order_and_no_text_of_a_stream():
    sink = Sink()
    async with (
        hosting(call("add", a=1, b=2), "three", tools=[add], plugins=[sink]) as host,
        await host.session() as session,
        session.stream("go") as events,
    ):
        async for _ in events:
            pass

    kept = [type(event) for event in sink.events if not isinstance(event, PluginStateChanged)]
    assert kept == [
        SessionOpened, DecisionMade, TurnStarted, DecisionMade, ModelCalled, DecisionMade, ToolStarted, ToolFinished,
        DecisionMade, ModelCalled, TurnEnded, SessionClosed,
    ]  # fmt: skip


async def test_the_decision_is_kept_before_the_call_is_made():
    sink = Sink()
    kept: list[str] = []

    @tool(effects=())
    def look() -> None:
        """Look."""
        kept.extend(event.call_id for event in sink.events if isinstance(event, DecisionMade))

    async with talking(call("look", "c1"), tools=[look], plugins=[sink]) as session:
        await session.say("go")

    assert "c1" in kept


async def test_what_cannot_be_recorded_is_not_done():
    sink, recorder, model = Sink(), Recorder(), ScriptedModel()
    async with talking(model=model, plugins=[sink, recorder]) as session:
        sink.full = True
        result = await session.say("go")
        sink.full = False
        again = await session.say("go")

    assert result.why is Why.DENIED
    assert "'app:sink' raised OSError: no space left on the disk" in result.detail
    assert again.why is Why.COMPLETED
    assert len(model.requests) == 1
    assert {event.hook for event in recorder.of(HookFailed)} == {"write_record"}


async def test_a_tool_call_in_the_middle_of_a_turn_is_denied_too():
    sink = Sink()
    ran: list[int] = []

    @tool(effects=())
    def work() -> None:
        """Work."""
        ran.append(1)

    def fills_up(request: Any) -> Any:
        sink.full = True
        return call("work")

    async with talking(fills_up, tools=[work], plugins=[sink]) as session:
        result = await session.say("go")

        assert session.history[2].text.startswith("Denied: the decision could not be recorded")
    assert ran == []
    assert result.why is Why.DENIED


async def test_a_sink_that_answers_or_waits_has_failed():
    class Odd(Sink):
        @hookimpl
        def write_record(self, event: Observation) -> Any:
            return "kept"

    async with talking(plugins=[Odd()]) as session:
        assert "returned something" in (await session.say("go")).detail


@pytest.mark.parametrize("form", ["async def", "blocking"])
async def test_a_sink_writes_where_it_stands(form: str):
    class Later:
        @hookimpl
        async def write_record(self, event: Observation) -> None:
            return None

    class Threaded:
        @hookimpl(blocking=True)
        def write_record(self, event: Observation) -> None:
            return None

    with pytest.raises(PluginLoadError, match="write_record: "):
        async with hosting(plugins=[Later() if form == "async def" else Threaded()]):
            pass
