"""reserve and settle: what an attempt may cost is set aside before it and settled after it (rule 23)."""

import asyncio
from typing import Any

import pytest
from places import Again
from pluggent_hookspecs import (
    DecisionMade,
    Deny,
    HookFailed,
    ModelParameters,
    ReserveEvent,
    SettleEvent,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import PluginLoadError, ProviderError, ProviderErrorKind
from pluggent_host import Grants, Host, HostSettings, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, hosting, shape, talking


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def drained(stream: Any) -> None:
    async with stream as events:
        async for _ in events:
            pass


class Ledger:
    def __init__(self, refuse: str = "") -> None:
        self.refuse = refuse
        self.reserved: list[ReserveEvent] = []
        self.settled: list[SettleEvent] = []

    @hookimpl
    def reserve(self, event: ReserveEvent) -> Any:
        if event.operation == self.refuse:
            return Deny("the budget is spent: go on without", tell_user="the budget is spent")
        self.reserved.append(event)
        return {"number": len(self.reserved)}

    @hookimpl
    def settle(self, event: SettleEvent) -> None:
        self.settled.append(event)


async def test_every_attempt_is_reserved_before_and_settled_after_with_what_it_used():
    ledger = Ledger()
    async with talking(call("add", a=1, b=2), "three", tools=[add], plugins=[ledger]) as session:
        await session.say("x" * 40, parameters=ModelParameters(max_output_tokens=100))

    assert [(event.operation, event.operation_id, event.attempt) for event in ledger.reserved] == [
        ("model_call", "t1.0", 1), ("tool_call", "t1.0.0", 1), ("model_call", "t1.1", 1),
    ]  # fmt: skip
    first = ledger.reserved[0]
    assert (first.model, first.max_output_tokens) == ("scripted/m", 100)
    assert ledger.reserved[1].capability == "app:tools:tool/add"
    assert [(event.reservation, event.usage.input, event.outcome) for event in ledger.settled] == [
        ({"number": 1}, 10, "done"), ({"number": 2}, None, "done"), ({"number": 3}, 10, "done"),
    ]  # fmt: skip
    assert [event.reserved for event in ledger.settled] == ledger.reserved


async def test_a_refused_model_call_ends_the_turn_and_is_in_the_record():
    ledger, recorder, model = Ledger("model_call"), Recorder(), ScriptedModel()
    async with talking(model=model, plugins=[ledger, recorder]) as session:
        result = await session.say("go")

    assert (result.why, result.detail) == (Why.DENIED, "the budget is spent")
    assert model.requests == []
    assert ledger.settled == []
    assert [(event.verdict, event.by) for event in recorder.of(DecisionMade) if event.operation == "model_call"] == [
        ("allow", "host"), ("deny", "app:ledger"),
    ]  # fmt: skip


async def test_a_refused_tool_call_is_a_denial_that_the_model_reads():
    ran: list[int] = []

    @tool(effects=())
    def work() -> None:
        """Work."""
        ran.append(1)

    async with talking(call("work"), "ok", tools=[work], plugins=[Ledger("tool_call")]) as session:
        result = await session.say("go")

        assert shape(session.history)[2] == "tool Denied: the budget is spent: go on without"
    assert (result.why, ran) == (Why.COMPLETED, [])


async def test_each_retry_is_an_attempt_of_its_own():
    ledger = Ledger()
    replies = (ProviderError(ProviderErrorKind.UNAVAILABLE, "down"), "fine")
    async with talking(*replies, plugins=[ledger, Again()]) as session:
        await session.say("go")

    assert [event.attempt for event in ledger.reserved] == [1, 2]
    assert [(event.outcome, event.usage.input) for event in ledger.settled] == [("failed", None), ("done", 10)]


async def test_another_model_by_reissue_is_reserved_too():
    class Other(ScriptedModel):
        name = "other"

    class Fallback:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            return await call_next.reissue(event.request, model="other/small")

    ledger = Ledger()
    async with talking(plugins=[ledger, Other(), Fallback()]) as session:
        await session.say("go")

    assert [(event.model, event.operation_id) for event in ledger.reserved] == [("other/small", "t1.0.r1")]
    assert len(ledger.settled) == 1


async def test_a_broken_stream_is_settled_with_what_had_come():
    ledger = Ledger()
    async with talking(model=ScriptedModel("one two three four", cut=2), plugins=[ledger]) as session:
        with pytest.raises(ProviderError):
            await drained(session.stream("x" * 400))

    (settled,) = ledger.settled
    assert settled.outcome == "failed"
    assert (settled.usage.input, settled.usage.estimated) == (100, True)


@pytest.mark.parametrize("kind", ["def", "async def", "blocking"])
async def test_a_cancelled_call_is_settled_whoever_settles(kind: str):
    settled: list[SettleEvent] = []

    class Sync(Ledger):
        @hookimpl
        def settle(self, event: SettleEvent) -> None:
            settled.append(event)

    class Async(Ledger):
        @hookimpl
        async def settle(self, event: SettleEvent) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            await asyncio.sleep(0)
            settled.append(event)

    class Blocking(Ledger):
        @hookimpl(blocking=True)
        def settle(self, event: SettleEvent) -> None:
            settled.append(event)

    ledger = {"def": Sync, "async def": Async, "blocking": Blocking}[kind]()
    model = ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, plugins=[ledger]) as session:
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert [event.outcome for event in settled] == ["cancelled"]


async def test_parallel_calls_never_hold_more_than_there_is():
    class Purse(Ledger):
        left, least = 3, 3

        @hookimpl
        async def reserve(self, event: ReserveEvent) -> Any:
            if event.operation != "tool_call":
                return None
            if self.left == 0:
                return Deny("empty")
            self.left -= 1
            self.least = min(self.least, self.left)
            await asyncio.sleep(0)
            return 1

    purse = Purse()
    calls = tuple(call("add", str(number), a=number, b=1) for number in range(10))
    async with talking(calls, "ok", tools=[add], plugins=[purse]) as session:
        await session.say("go")

        denied = [message for message in session.history if message.text == "Denied: empty"]
    assert (len(denied), purse.least, len(purse.settled)) == (7, 0, 3)


@pytest.mark.parametrize("failure", [ValueError("broken"), asyncio.CancelledError(), KeyError("x")])
async def test_a_ledger_that_fails_refuses(failure: BaseException):
    class Broken(Ledger):
        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            raise failure

    recorder, model = Recorder(), ScriptedModel()
    async with talking(model=model, plugins=[Broken(), recorder]) as session:
        result = await session.say("go")

    assert result.why is Why.DENIED
    assert "policy 'app:broken' raised" in result.detail
    assert model.requests == []
    assert [event.hook for event in recorder.of(HookFailed)] == ["reserve"]


async def test_what_others_had_reserved_is_settled_when_one_refuses():
    class First(Ledger):
        @hookimpl(band="host-first")
        def reserve(self, event: ReserveEvent) -> Any:
            return "held"

    first = First()
    async with talking(plugins=[first, Ledger("model_call")]) as session:
        await session.say("go")

    assert [(event.reservation, event.outcome, event.usage) for event in first.settled] == [("held", "failed", Usage())]


async def test_a_settlement_that_fails_is_told_and_the_turn_goes_on():
    class Broken(Ledger):
        @hookimpl
        def settle(self, event: SettleEvent) -> None:
            raise ValueError("no disk")

    recorder = Recorder()
    async with talking("fine", plugins=[Broken(), recorder]) as session:
        assert (await session.say("go")).text == "fine"

    assert [event.hook for event in recorder.of(HookFailed)] == ["settle"]


async def test_a_dry_run_reserves_nothing_for_tools():
    ledger = Ledger()
    async with talking(call("add", a=1, b=2), "ok", tools=[add], plugins=[ledger]) as session:
        await session.say("go", dry_run=True)

    assert [event.operation for event in ledger.reserved] == ["model_call", "model_call"]


async def test_a_tool_called_by_hand_is_reserved_too():
    ledger = Ledger("tool_call")
    async with hosting(tools=[add], plugins=[ledger]) as host:
        session = await host.session()
        output = await session.call_tool("add", {"a": 1, "b": 2})

    assert output.for_model == "Denied: the budget is spent: go on without"


async def test_one_without_the_other_is_refused():
    class Half:
        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            return None

    with pytest.raises(PluginLoadError, match="reserve and settle belong together"):
        async with Host.open(plugins=[Half()], installed=False, config=HostSettings(grants=Grants())):
            pass


async def test_two_cancellations_leave_no_reservation_behind():
    settled: list[str] = []
    settling = asyncio.Event()

    class Slow(Ledger):
        @hookimpl
        async def settle(self, event: SettleEvent) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            settling.set()
            for _ in range(5):
                await asyncio.sleep(0)
            settled.append(type(self).__name__)

    class Slower(Slow):
        pass

    model = ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, plugins=[Slow(), Slower()]) as session:
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)
        turn.cancel()
        await asyncio.wait_for(settling.wait(), WAIT_S)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert sorted(settled) == ["Slow", "Slower"]


async def test_what_is_reserved_in_the_moment_of_a_cancellation_is_settled():
    reserving, go = asyncio.Event(), asyncio.Event()

    class Slow(Ledger):
        @hookimpl
        async def reserve(self, event: ReserveEvent) -> str:
            reserving.set()
            await go.wait()
            return "held"

    ledger = Slow()
    async with talking(plugins=[ledger]) as session:
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(reserving.wait(), WAIT_S)
        turn.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert [(event.reservation, event.outcome) for event in ledger.settled] == [("held", "cancelled")]
