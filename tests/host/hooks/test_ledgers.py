"""reserve and settle: what an attempt may cost is set aside before it, settled after it, and priced (rule 23)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from places import Again
from pluggent_hookspecs import hookimpl, tool
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.errors import Denied, PluginLoadError, ProviderError, ProviderErrorKind, ToolError
from pluggent_hookspecs.events import ReserveEvent, SettleEvent
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import ModelParameters, ModelResponse
from pluggent_hookspecs.observations import DecisionMade, HookFailed, ModelCalled, ToolFinished
from pluggent_hookspecs.tools import ToolContext, ToolOutput
from pluggent_host import HostSettings, Limits, Session, Why
from pluggent_host.settings import Timeouts
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.entries import Settled
from pluggent_transcript.limits import ToolLimits
from policy_stage import Danger, run, stage, using
from saved import add
from talking import WAIT_S, hosting, results, shape, talking

DOWN = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
SPENT = Deny("spent: go on without", tell_user="the account of acme is empty")
ENDING = Deny("spent: go on without", tell_user="the account of acme is empty", ends_turn=True)
SOON = HostSettings(timeouts=Timeouts(hook_s=0.2))


ADD = call("add", a=1, b=2)


class Ledger:
    """Answers what *answer* makes of an attempt and settles with *price*; keeps what it reserved and settled."""

    def __init__(self, answer: Callable[[ReserveEvent], Any] | None = None, *, price: Any = None) -> None:
        self.answer = answer or (lambda event: event.operation_id)
        self.price = price
        self.reserved: list[ReserveEvent] = []
        self.settled: list[SettleEvent] = []
        self.over = asyncio.Event()

    @hookimpl
    def reserve(self, event: ReserveEvent) -> Any:
        answer = self.answer(event)
        self.reserved += [] if isinstance(answer, Deny) else [event]
        return answer

    @hookimpl
    def settle(self, event: SettleEvent) -> Any:
        self.settled.append(event)
        self.over.set()
        return self.price


class Waiting(Ledger):
    """Settles in a coroutine that waits for ``go``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.settling, self.go = asyncio.Event(), asyncio.Event()

    @hookimpl
    async def settle(self, event: SettleEvent) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.settling.set()
        await self.go.wait()
        self.settled.append(event)
        return self.price


class Blocking(Ledger):
    """Settles in a thread."""

    @hookimpl(blocking=True)
    def settle(self, event: SettleEvent) -> Any:
        self.settled.append(event)


def refusing(operation: str, denial: Deny = SPENT, *, times: int = 99) -> Callable[[ReserveEvent], Any]:
    """Return an answer that refuses the first *times* attempts at *operation* (``nested``: below a tool)."""
    left = [denial] * times

    def answer(event: ReserveEvent) -> Any:
        refused = bool(event.scope.parent_id) if operation == "nested" else event.operation == operation
        return left.pop() if refused and left else event.operation_id

    return answer


async def cancelled(session: Session, begun: asyncio.Event, *then: Callable[[], Any]) -> None:
    """Cancel a turn of *session* that has *begun*, and do *then*."""
    turn = asyncio.create_task(session.say("go"))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    turn.cancel()
    for act in then:
        act()
    with pytest.raises(asyncio.CancelledError):
        await turn


def outcomes(ledger: Ledger) -> list[tuple[str, str]]:
    return [(event.outcome, event.error) for event in ledger.settled]


async def test_every_attempt_is_reserved_before_and_settled_after_with_what_it_used() -> None:
    ledger = Ledger()
    async with talking(ADD, "three", tools=[add], plugins=[ledger]) as session:
        await session.say("x" * 40, parameters=ModelParameters(max_output_tokens=100))

    assert [(event.operation, event.operation_id, event.attempt) for event in ledger.reserved] == [
        ("model_call", "t1.0", 1), ("tool_call", "t1.0.0", 1), ("model_call", "t1.1", 1),
    ]  # fmt: skip
    first, second, _ = ledger.reserved
    assert (first.model, first.max_output_tokens) == ("scripted/m", 100)
    assert second.capability == "app:tools:tool/add"
    assert [(event.reservation, event.usage.input, event.outcome) for event in ledger.settled] == [
        ("t1.0", 10, "done"), ("t1.0.0", None, "done"), ("t1.1", 10, "done"),
    ]  # fmt: skip
    assert [event.reserved for event in ledger.settled] == ledger.reserved


async def test_each_retry_is_an_attempt_of_its_own_and_settled_with_why_it_failed() -> None:
    ledger = Ledger()
    async with talking(DOWN, "fine", plugins=[ledger, Again()]) as session:
        await session.say("go")

    assert [event.attempt for event in ledger.reserved] == [1, 2]
    assert outcomes(ledger) == [("failed", "down"), ("done", "")]
    assert [event.usage.input for event in ledger.settled] == [None, 10]


async def test_of_a_failed_tool_call_the_kind_is_settled_and_not_the_words() -> None:
    @tool(effects=())
    def work() -> None:
        """Work."""
        raise ToolError("the password is swordfish")

    ledger = Ledger()
    async with talking(call("work"), "ok", tools=[work], plugins=[ledger]) as session:
        await session.say("go")

    assert outcomes(ledger)[1] == ("failed", "failed")


async def test_another_model_by_reissue_is_reserved_too() -> None:
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


async def test_a_broken_stream_is_settled_with_what_had_come() -> None:
    ledger = Ledger()
    async with talking(model=ScriptedModel("one two three four", cut=2), plugins=[ledger]) as session:
        with pytest.raises(ProviderError):  # noqa: PT012 (the stream breaks in it)
            async with session.stream("x" * 400) as events:
                async for _ in events:
                    pass

    (settled,) = ledger.settled
    assert (settled.outcome, settled.usage.input, settled.usage.estimated) == ("failed", 100, True)


async def test_a_dry_run_reserves_nothing_for_tools() -> None:
    ledger = Ledger()
    async with talking(ADD, "ok", tools=[add], plugins=[ledger]) as session:
        await session.say("go", dry_run=True)

    assert [event.operation for event in ledger.reserved] == ["model_call", "model_call"]


async def test_one_hook_without_the_other_is_refused() -> None:
    class Half:
        @hookimpl
        def reserve(self, event: ReserveEvent) -> Any:
            return None

    with pytest.raises(PluginLoadError, match="reserve and settle belong together"):
        async with hosting(plugins=[Half()]):
            pass


@pytest.mark.parametrize("kind", [Ledger, Waiting, Blocking])
async def test_a_cancelled_call_is_settled_as_cancelled(kind: type[Ledger]) -> None:
    ledger, model = kind(), ScriptedModel(hold=asyncio.Event())
    go = [ledger.go.set] if isinstance(ledger, Waiting) else []
    async with talking(model=model, plugins=[ledger]) as session:
        await cancelled(session, model.asked, *go)

    assert outcomes(ledger) == [("cancelled", "cancelled")]


async def test_two_cancellations_leave_no_reservation_behind() -> None:
    class Slower(Waiting):
        pass

    ledgers = Waiting(), Slower()
    model = ScriptedModel(hold=asyncio.Event())
    async with talking(model=model, plugins=ledgers) as session:
        turn = asyncio.create_task(session.say("go"))
        await asyncio.wait_for(model.asked.wait(), WAIT_S)
        turn.cancel()
        await asyncio.wait_for(ledgers[0].settling.wait(), WAIT_S)
        turn.cancel()
        for ledger in ledgers:
            ledger.go.set()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert [len(ledger.settled) for ledger in ledgers] == [1, 1]


async def test_what_is_reserved_in_the_moment_of_a_cancellation_is_settled() -> None:
    reserving, go = asyncio.Event(), asyncio.Event()

    class Slow(Ledger):
        @hookimpl
        async def reserve(self, event: ReserveEvent) -> str:
            reserving.set()
            await go.wait()
            return "held"

    ledger = Slow()
    async with talking(plugins=[ledger]) as session:
        await cancelled(session, reserving, go.set)

    assert [(event.reservation, event.outcome) for event in ledger.settled] == [("held", "cancelled")]


async def test_a_refused_model_call_ends_the_turn_and_is_in_the_record() -> None:
    ledger, recorder, model = Ledger(refusing("model_call")), Recorder(), ScriptedModel()
    async with talking(model=model, plugins=[ledger, recorder]) as session:
        result = await session.say("go")

    assert (result.why, result.detail) == (Why.DENIED, SPENT.tell_user)
    assert (model.requests, ledger.settled) == ([], [])
    assert [(event.verdict, event.by) for event in recorder.of(DecisionMade) if event.operation == "model_call"] == [
        ("allow", "host"), ("deny", "app:ledger"),
    ]  # fmt: skip


async def test_a_refused_tool_call_is_a_denial_that_the_model_reads_and_a_call_by_hand_one_too() -> None:
    danger = Danger(())
    async with stage(call("danger", path="x"), tools=danger.tools(), plugins=[Ledger(refusing("tool_call"))]) as on:
        result = await on.session.say("go")
        output = await on.session.call_tool("danger", {"path": "x"})

    assert on.read_by_model() == ["Denied: spent: go on without"] == [output.for_model]
    assert (result.why, danger.ran) == (Why.COMPLETED, [])


async def test_the_settlement_of_what_others_reserved_names_who_refused() -> None:
    class First(Ledger):
        @hookimpl(band="host-first")
        def reserve(self, event: ReserveEvent) -> Any:
            return "held"

    first = First()
    async with talking(plugins=[first, Ledger(refusing("model_call"))]) as session:
        await session.say("go")

    (settled,) = first.settled
    assert (settled.reservation, settled.outcome, settled.usage) == ("held", "failed", Usage())
    assert settled.error == f"refused by app:ledger: {SPENT.tell_user}"


async def test_parallel_calls_never_hold_more_than_there_is() -> None:
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

        assert results(session.history).count("Denied: empty") == 7
    assert (purse.least, len(purse.settled)) == (0, 3)


@pytest.mark.parametrize("failure", [ValueError("broken"), asyncio.CancelledError(), KeyError("x")])
async def test_a_ledger_that_fails_refuses(failure: BaseException) -> None:
    def fail(event: ReserveEvent) -> Any:
        raise failure

    recorder, model = Recorder(), ScriptedModel()
    async with talking(model=model, plugins=[Ledger(fail), recorder]) as session:
        result = await session.say("go")

    assert (result.why, model.requests) == (Why.DENIED, [])
    assert "policy 'app:ledger' raised" in result.detail
    assert [event.hook for event in recorder.of(HookFailed)] == ["reserve"]


async def test_a_settlement_that_fails_is_observed_and_the_turn_continues() -> None:
    class Broken(Ledger):
        @hookimpl
        def settle(self, event: SettleEvent) -> None:
            raise ValueError("no disk")

    recorder = Recorder()
    async with talking("fine", plugins=[Broken(), recorder]) as session:
        assert (await session.say("go")).text == "fine"

    assert [event.hook for event in recorder.of(HookFailed)] == ["settle"]


@pytest.mark.parametrize("soothed", [False, True])
async def test_a_ledger_that_refuses_a_tool_call_may_end_the_turn(soothed: bool) -> None:
    """A layer that answers in place of the refusal does not save it."""

    class Soothing:
        @hookimpl
        async def around_tool_call(self, event: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except Exception:  # noqa: BLE001 (whatever it is)
                return "as if nothing had been"

    plugins = [Ledger(refusing("tool_call", ENDING)), *([Soothing()] if soothed else [])]
    async with talking(ADD, "never", tools=[add], plugins=plugins) as session:
        result = await session.say("go")

        assert soothed or shape(session.history) == ["user go", "assistant -> add", "tool Denied: spent: go on without"]
    assert result.why is Why.DENIED
    assert soothed or result.detail == "a policy ended the turn"


async def test_a_call_that_a_ledger_refused_does_not_count_against_the_limits_of_its_tool() -> None:
    limits = Limits(per_tool={"add": ToolLimits(calls=1)})
    plugins = [Ledger(refusing("tool_call", times=1))]
    async with talking(ADD, ADD, "ok", tools=[add], plugins=plugins, limits=limits) as session:
        await session.say("go")

        assert results(session.history) == [
            "Denied: spent: go on without",
            "3\n\n(That was the last call of 'add' that this turn allows.)",
        ]


@pytest.mark.parametrize("kind", [Ledger, Waiting])
async def test_a_price_that_a_ledger_knows_is_in_the_usage_of_the_call_and_of_the_turn(kind: type[Ledger]) -> None:
    """And it changes nothing but the price."""
    recorder, ledger = Recorder(), kind(price=Usage(input=9_000, output=9_000, cost_usd=0.25))
    if isinstance(ledger, Waiting):
        ledger.go.set()
    async with talking("one", "two", plugins=[ledger, recorder]) as session:
        used = [(await session.say("go")).usage, (await session.say("on")).usage]

        assert session.usage.cost_usd == 0.5
    assert used == [Usage(input=10, output=5, cost_usd=0.25)] * 2
    assert [event.usage.cost_usd for event in recorder.of(ModelCalled)] == [0.25, 0.25]


class Second(Ledger):
    """Another one; chains are ordered by id."""


class Twice:
    @hookimpl
    async def around_model_call(self, event: Any, call_next: Any) -> Any:
        await call_next()
        return await call_next()


@pytest.mark.parametrize(
    ("reply", "plugins", "cost_usd"),
    [
        ("hi", [Ledger(price=Usage(cost_usd=0.25)), Twice()], 0.5),
        ("hi", [Ledger(price=Usage(cost_usd=1.0)), Second(price=Usage(cost_usd=2.0))], 1.0),
        (
            ModelResponse(Message.assistant("hi"), usage=Usage(input=1, output=1, cost_usd=0.125)),
            [Ledger(price=Usage(cost_usd=9.0))],
            0.125,
        ),
    ],
    ids=["every attempt", "the first ledger that knows", "the vendor's bill first"],
)
async def test_every_attempt_has_the_price_of_the_vendor_or_of_the_first_ledger(
    reply: Any, plugins: list[Any], cost_usd: float
) -> None:
    async with talking(reply, "hi", plugins=plugins) as session:
        assert (await session.say("go")).usage.cost_usd == cost_usd


async def test_a_refused_second_attempt_is_not_booked_with_the_first() -> None:
    """What reserved nothing settles nothing."""
    first, second = Ledger(), Second(lambda event: Deny("once only") if event.attempt > 1 else None)
    async with talking(plugins=[first, second, Twice()]) as session:
        await session.say("go")

    assert [event.usage.total for event in first.settled] == [15, 0]
    assert second.settled == []


async def test_a_limit_of_money_counts_what_a_ledger_knows() -> None:
    config = HostSettings(limits=Limits(cost_usd=1.0))
    async with talking(ADD, tools=[add], plugins=[Ledger(price=Usage(cost_usd=1.0))], config=config) as session:
        result = await session.say("go")

    assert (result.why, result.limit) == (Why.LIMIT, "cost_usd")


@pytest.mark.parametrize(
    "answer", [0.25, True, Usage(cost_usd=-1.0), Usage(cost_usd=float("nan")), Usage(cost_usd=float("inf"))], ids=repr
)
async def test_what_is_not_a_price_is_observed_and_not_counted(answer: object) -> None:
    recorder = Recorder()
    async with talking("hi", plugins=[Ledger(price=answer), recorder]) as session:
        assert (await session.say("go")).usage.cost_usd is None

    (failed,) = recorder.of(HookFailed)
    assert (failed.hook, failed.plugin) == ("settle", "app:ledger")


async def test_the_price_counts_even_if_the_turn_is_cancelled_while_it_is_settled() -> None:
    ledger = Waiting(price=Usage(cost_usd=0.25))
    async with talking("hi", plugins=[ledger]) as session:
        await cancelled(session, ledger.settling, ledger.go.set)

        assert session.usage.cost_usd == 0.25


class Late(Ledger):
    """Reserves *answer* in a thread, when ``go`` is set."""

    def __init__(self, answer: Any) -> None:
        super().__init__(lambda _: answer)
        self.go = threading.Event()
        self.asked: list[threading.Thread] = []

    @hookimpl(blocking=True)
    def reserve(self, event: ReserveEvent) -> Any:
        self.asked.append(threading.current_thread())
        self.go.wait(WAIT_S)
        return self.answer(event)


class Stubborn(Ledger):
    """Reserves in a coroutine that does not stop half-way when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked: list[threading.Thread] = []

    @hookimpl
    async def reserve(self, event: ReserveEvent) -> Any:
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue
        return "held"


@pytest.mark.parametrize(
    ("make", "held"),
    [(lambda: Late("held"), True), (Stubborn, True), (lambda: Late(Deny("no")), False)],
    ids=["thread", "coroutine", "refusal"],
)
async def test_what_is_reserved_after_the_deadline_is_settled_with_no_use_when_it_comes(
    make: Callable[[], Late | Stubborn], held: bool
) -> None:
    ledger = make()
    async with talking(plugins=[ledger], config=SOON) as session:
        result = await session.say("go")
        before = list(ledger.settled)
        ledger.go.set()
        if held:
            await asyncio.wait_for(ledger.over.wait(), WAIT_S)
    for thread in ledger.asked:
        await asyncio.to_thread(thread.join, WAIT_S)

    assert (result.why, before) == (Why.DENIED, [])
    late = [(each.reservation, each.usage, each.outcome, each.error) for each in ledger.settled]
    assert late == ([("held", Usage(), "failed", "it was reserved too late")] if held else [])


async def test_what_comes_late_at_once_is_settled_with_the_refusal() -> None:
    ledger, at_once = Ledger(), HostSettings(timeouts=Timeouts(hook_s=1e-9))
    async with talking(plugins=[ledger], config=at_once) as session:
        assert (await session.say("go")).why is Why.DENIED

    assert [(event.reservation, event.usage) for event in ledger.settled] == [("t1.0", Usage())]


async def ask_danger(context: ToolContext) -> ToolOutput:
    return await context.call_tool("danger", {"path": "x"})


def ask_model(context: ToolContext) -> Any:
    return context.call_model("a question")


@pytest.mark.parametrize("effects", [(), ("shell",)])
async def test_a_nested_tool_call_that_is_refused_is_a_denial_that_the_tool_reads(effects: tuple[str, ...]) -> None:
    danger = Danger(effects)
    plugins = [Ledger(refusing("nested"))]

    outcome, on = await run(ask_danger, danger, plugins=plugins, approver=lambda _: True)

    assert outcome == [ToolOutput.error("Denied: spent: go on without")]
    assert danger.ran == []
    assert [(event.name, event.ran) for event in on.recorder.of(ToolFinished)] == [("danger", False), ("user", True)]


async def test_what_was_refused_is_settled_as_denied_and_not_as_uncertain() -> None:
    user, _ = using(ask_danger)
    options: dict[str, Any] = {"plugins": [Ledger(refusing("nested"))], "approver": lambda _: True}

    async with stage(call("user"), tools=[*Danger(("shell",)).tools(), user], **options) as on:
        await on.session.say("go")
        settled = [entry.outcome for entry in on.session.records() if isinstance(entry, Settled)]

    assert settled == ["denied", ""]


async def test_a_refused_nested_call_does_not_count_as_a_call_of_the_tool() -> None:
    async def twice(context: ToolContext) -> list[str]:
        return [str((await ask_danger(context)).for_model) for _ in range(2)]

    config = HostSettings(limits=Limits(per_tool={"danger": ToolLimits(calls=1)}))
    outcome, _ = await run(twice, Danger(()), plugins=[Ledger(refusing("nested", times=1))], config=config)

    assert outcome == [["Denied: spent: go on without", "did x"]]


async def test_a_refused_nested_model_call_says_nothing_that_is_for_the_person() -> None:
    outcome, on = await run(ask_model, Danger(), plugins=[Ledger(refusing("nested"))])

    (denied,) = outcome
    assert isinstance(denied, Denied)
    assert (denied.reason, denied.tell_model) == ("spent: go on without", "spent: go on without")
    assert "acme" not in str(denied)
    assert len(on.model.requests) == 2


@pytest.mark.parametrize("below", [ask_danger, ask_model])
async def test_a_ledger_that_ends_the_turn_below_a_tool_ends_it_after_the_batch(below: Any) -> None:
    user, _ = using(below)
    plugins = [Ledger(refusing("nested", ENDING))]

    async with stage(call("user"), tools=[*Danger(()).tools(), user], plugins=plugins) as on:
        result = await on.session.say("go")

    assert (result.why, len(on.model.requests)) == (Why.DENIED, 1)


@pytest.mark.parametrize("hook", ["decide_model_request", "decide_model_response"])
async def test_a_policy_that_ends_the_turn_about_a_nested_model_call_ends_it_too(hook: str) -> None:
    class Policy:
        def _deny(self, event: Any) -> Any:
            return ENDING if event.scope.origin == "tool" else None

    setattr(Policy, hook, hookimpl(lambda self, event: self._deny(event)))
    user, outcome = using(ask_model)

    async with stage(call("user"), "an answer", tools=[user], plugins=[Policy()]) as on:
        result = await on.session.say("go")

    assert "acme" not in str(outcome[0])
    assert (result.why, isinstance(outcome[0], Denied)) == (Why.DENIED, True)
