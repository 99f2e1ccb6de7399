"""What ledgers are told when an attempt is over, what they tell of its price, and reservations that come late."""

import asyncio
import threading
from typing import Any

import pytest
from pluggent_hookspecs import (
    Deny,
    HookFailed,
    Message,
    ModelCalled,
    ModelResponse,
    ReserveEvent,
    SettleEvent,
    ToolError,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_host import HostSettings, Limits, Why
from pluggent_host.settings import Timeouts, ToolLimits
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, shape, talking


class Ledger:
    """Reserves everything, and settles with ``price`` for model calls."""

    def __init__(self, price: Any = None) -> None:
        self.price = price
        self.settled: list[SettleEvent] = []
        self.told = asyncio.Event()

    @hookimpl
    def reserve(self, event: ReserveEvent) -> Any:
        return event.operation_id

    @hookimpl
    def settle(self, event: SettleEvent) -> Any:
        self.settled.append(event)
        self.told.set()
        return self.price


class Waiting(Ledger):
    """The same, in a coroutine that really waits."""

    @hookimpl
    async def settle(self, event: SettleEvent) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.sleep(0)
        self.settled.append(event)
        return self.price


# ---- why an attempt failed


async def test_a_settlement_says_why_the_attempt_failed_and_nothing_where_it_did_not() -> None:
    class Again:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except ProviderError:
                return await call_next()

    ledger = Ledger()
    async with talking(ProviderError(ProviderErrorKind.UNAVAILABLE, "down"), "ok", plugins=[ledger, Again()]) as on:
        await on.say("go")

    assert [(event.outcome, event.error) for event in ledger.settled] == [("failed", "down"), ("done", "")]


async def test_of_a_failed_tool_call_the_kind_is_told_and_not_the_words() -> None:
    @tool(effects=())
    def work() -> None:
        """Work."""
        raise ToolError("the password is swordfish")

    ledger = Ledger()
    async with talking(call("work"), "ok", tools=[work], plugins=[ledger]) as session:
        await session.say("go")

    assert [(event.outcome, event.error) for event in ledger.settled][1] == ("failed", "failed")


async def test_of_a_cancelled_attempt_it_is_told_that_it_was_cancelled() -> None:
    ledger, model = Ledger(), ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, plugins=[ledger]) as session:
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert [(event.outcome, event.error) for event in ledger.settled] == [("cancelled", "cancelled")]


async def test_whoever_had_reserved_is_told_who_refused() -> None:
    class Other:
        @hookimpl(band="late")
        def reserve(self, event: ReserveEvent) -> Any:
            return Deny("no", tell_user="the purse is empty")

        @hookimpl
        def settle(self, event: SettleEvent) -> None:
            """Nothing was reserved."""

    ledger = Ledger()
    async with talking(plugins=[ledger, Other()]) as session:
        await session.say("go")

    assert [event.error for event in ledger.settled] == ["refused by app:other: the purse is empty"]


# ---- prices


@pytest.mark.parametrize("kind", [Ledger, Waiting])
async def test_a_price_that_a_ledger_knows_is_in_the_usage_of_the_call_and_of_the_turn(kind: type[Ledger]) -> None:
    recorder = Recorder()
    async with talking("one", "two", plugins=[kind(Usage(cost_usd=0.25)), recorder]) as session:
        first, second = await session.say("go"), await session.say("on")

        assert session.usage.cost_usd == 0.5
    assert (first.usage.cost_usd, second.usage.cost_usd) == (0.25, 0.25)
    assert [event.usage.cost_usd for event in recorder.of(ModelCalled)] == [0.25, 0.25]


async def test_every_attempt_has_its_own_price() -> None:
    class Again:
        @hookimpl
        async def around_model_call(self, event: Any, call_next: Any) -> Any:
            await call_next()
            return await call_next()

    async with talking("one", "two", plugins=[Ledger(Usage(cost_usd=0.25)), Again()]) as session:
        assert (await session.say("go")).usage.cost_usd == 0.5


async def test_what_the_vendor_bills_goes_before_what_a_ledger_knows() -> None:
    billed = ModelResponse(Message.assistant("hi"), usage=Usage(input=1, output=1, cost_usd=0.125))
    async with talking(billed, plugins=[Ledger(Usage(cost_usd=9.0))]) as session:
        assert (await session.say("go")).usage.cost_usd == 0.125


async def test_of_two_ledgers_the_first_that_knows_a_price_is_believed() -> None:
    class Second(Ledger):
        """Another one; chains are ordered by id."""

    async with talking("hi", plugins=[Ledger(Usage(cost_usd=1.0)), Second(Usage(cost_usd=2.0))]) as session:
        assert (await session.say("go")).usage.cost_usd == 1.0


async def test_a_ledger_changes_nothing_but_the_price() -> None:
    async with talking("hi", plugins=[Ledger(Usage(input=9_000, output=9_000, cost_usd=1.0))]) as session:
        assert (await session.say("go")).usage == Usage(input=10, output=5, cost_usd=1.0)


async def test_a_limit_of_money_counts_what_a_ledger_knows() -> None:
    @tool(effects=())
    def work() -> None:
        """Work."""

    config = HostSettings(limits=Limits(cost_usd=1.0))
    async with talking(call("work"), tools=[work], plugins=[Ledger(Usage(cost_usd=1.0))], config=config) as session:
        result = await session.say("go")

    assert (result.why, result.limit) == (Why.LIMIT, "cost_usd")


@pytest.mark.parametrize(
    "answer", [0.25, True, Usage(cost_usd=-1.0), Usage(cost_usd=float("nan")), Usage(cost_usd=float("inf"))], ids=repr
)
async def test_what_is_no_price_is_told_and_not_counted(answer: object) -> None:
    recorder = Recorder()
    async with talking("hi", plugins=[Ledger(answer), recorder]) as session:
        assert (await session.say("go")).usage.cost_usd is None

    (failed,) = recorder.of(HookFailed)
    assert (failed.hook, failed.plugin) == ("settle", "app:ledger")


async def test_the_price_counts_even_if_the_turn_is_cancelled_while_it_is_settled() -> None:
    settling, go = asyncio.Event(), asyncio.Event()

    class Slow(Ledger):
        @hookimpl
        async def settle(self, event: SettleEvent) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            settling.set()
            await go.wait()
            return self.price

    async with talking("hi", plugins=[Slow(Usage(cost_usd=0.25))]) as session:
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(settling.wait(), WAIT_S)
        turn.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await turn

        assert session.usage.cost_usd == 0.25


# ---- what is reserved too late


SOON = HostSettings(timeouts=Timeouts(hook_s=0.2))


async def ended(threads: list[threading.Thread]) -> None:
    """Wait until the threads in which a hook ran have ended."""
    for thread in threads:
        await asyncio.to_thread(thread.join, WAIT_S)


async def test_what_a_thread_reserves_after_its_deadline_is_settled_with_no_use_when_it_comes() -> None:
    go = threading.Event()
    asked: list[threading.Thread] = []

    class Slow(Ledger):
        @hookimpl(blocking=True)
        def reserve(self, event: ReserveEvent) -> Any:
            asked.append(threading.current_thread())
            go.wait(WAIT_S)
            return "held"

    ledger = Slow()
    async with talking(plugins=[ledger], config=SOON) as session:
        result = await session.say("go")
        before = list(ledger.settled)
        go.set()
        await asyncio.wait_for(ledger.told.wait(), WAIT_S)
    await ended(asked)

    (late,) = ledger.settled
    assert (result.why, before) == (Why.DENIED, [])
    assert (late.reservation, late.usage, late.outcome) == ("held", Usage(), "failed")
    assert late.error == "it was reserved too late"


async def test_what_a_coroutine_reserves_although_it_was_given_up_is_settled_too() -> None:
    go = asyncio.Event()

    class Stubborn(Ledger):
        @hookimpl
        async def reserve(self, event: ReserveEvent) -> Any:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:  # it has reserved, and does not stop half-way
                    continue
            return "held"

    ledger = Stubborn()
    async with talking(plugins=[ledger], config=SOON) as session:
        await session.say("go")
        go.set()
        await asyncio.wait_for(ledger.told.wait(), WAIT_S)

    assert [(late.reservation, late.usage) for late in ledger.settled] == [("held", Usage())]


async def test_what_comes_late_at_once_is_settled_with_the_refusal() -> None:
    ledger, at_once = Ledger(), HostSettings(timeouts=Timeouts(hook_s=1e-9))
    async with talking(plugins=[ledger], config=at_once) as session:
        assert (await session.say("go")).why is Why.DENIED

    assert [(event.reservation, event.usage) for event in ledger.settled] == [("t1.0", Usage())]


async def test_a_refusal_that_comes_late_is_not_settled() -> None:
    go = threading.Event()
    asked: list[threading.Thread] = []

    class Slow(Ledger):
        @hookimpl(blocking=True)
        def reserve(self, event: ReserveEvent) -> Any:
            asked.append(threading.current_thread())
            go.wait(WAIT_S)
            return Deny("no")

    ledger = Slow()
    async with talking(plugins=[ledger], config=SOON) as session:
        await session.say("go")
        go.set()
    await ended(asked)

    assert (len(asked), ledger.settled) == (1, [])


# ---- a turn that a ledger ends


async def test_a_ledger_that_refuses_a_tool_call_may_end_the_turn() -> None:
    class Strict(Ledger):
        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            return Deny("spent", ends_turn=True) if event.operation == "tool_call" else None

    @tool(effects=())
    def work() -> None:
        """Work."""

    async with talking(call("work"), "never", tools=[work], plugins=[Strict()]) as session:
        result = await session.say("go")

        assert shape(session.history) == ["user go", "assistant -> work", "tool Denied: spent"]
    assert (result.why, result.detail) == (Why.DENIED, "a policy ended the turn")


async def test_a_layer_that_answers_in_place_of_the_refusal_does_not_save_the_turn() -> None:
    class Strict(Ledger):
        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            return Deny("spent", ends_turn=True) if event.operation == "tool_call" else None

    class Soothing:
        @hookimpl
        async def around_tool_call(self, event: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except Exception:  # noqa: BLE001 (whatever it is)
                return "as if nothing had been"

    @tool(effects=())
    def work() -> None:
        """Work."""

    async with talking(call("work"), "never", tools=[work], plugins=[Strict(), Soothing()]) as session:
        assert (await session.say("go")).why is Why.DENIED


async def test_a_call_that_a_ledger_refused_is_not_counted_against_the_limits_of_its_tool() -> None:
    class Once(Ledger):
        refusals = 1

        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            if event.operation == "tool_call" and self.refusals:
                self.refusals -= 1
                return Deny("spent")
            return None

    @tool(effects=())
    def work() -> str:
        """Work."""
        return "worked"

    limits = Limits(per_tool={"work": ToolLimits(calls=1)})
    replies = (call("work", "1"), call("work", "2"), "ok")
    async with talking(*replies, tools=[work], plugins=[Once()], limits=limits) as session:
        await session.say("go")

        told = [message.text for message in session.history if message.tool_call_id]
    assert told == ["Denied: spent", "worked\n\n(That was the last call of 'work' that this turn allows.)"]
