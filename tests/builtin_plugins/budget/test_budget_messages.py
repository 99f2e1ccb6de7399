"""What the budget tells the host of the price of a call."""

from pathlib import Path
from typing import Any

import pytest
from budgets import model_call, reserve, settings, settle, tool_call
from pluggent_budget.plugin import Budget
from pluggent_budget.prices import Price
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import Message, ModelCalled, ModelResponse, Usage, tool
from pluggent_host import Host, HostSettings, Limits, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call

PRICES = [Price(match=("scripted/*",), input=1.0, output=10.0)]
TOKENS = Limit(per=("session",), tokens=10_000_000)


def budget(*limits: Limit, **options: Any) -> Budget:
    return Budget(BudgetSettings(limits=list(limits or (TOKENS,)), prices=PRICES, **options))


async def told(plugin: Budget, usage: Usage, outcome: str = "done", model: str = "scripted/m") -> Usage | None:
    event = model_call(100, output=100, model=model)
    return await settle(plugin, event, await reserve(plugin, event), usage, outcome)


async def test_a_call_with_a_price_is_told_with_it_also_where_no_money_is_limited() -> None:
    assert await told(budget(), Usage(1_000_000, 100_000)) == Usage(cost_usd=2.0)


@pytest.mark.parametrize("limits", [[], [Limit(per=("session",), tokens=1, where={"model": "other/*"})]])
async def test_a_call_that_no_limit_counts_is_told_with_its_price_and_never_refused(limits: list[Limit]) -> None:
    plugin = Budget(BudgetSettings(limits=limits, prices=PRICES))

    assert await told(plugin, Usage(1_000_000, 100_000)) == Usage(cost_usd=2.0)
    assert await reserve(plugin, model_call(10**9, model="unheard/of")) is None
    assert await reserve(plugin, tool_call()) is None


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
async def test_a_broken_call_costs_what_it_used(outcome: str) -> None:
    assert await told(budget(), Usage(1_000_000, 0, estimated=True), outcome) == Usage(cost_usd=1.0)


@pytest.mark.parametrize(
    "usage", [Usage(), Usage(input=10), Usage(output=10), Usage(10, 10, cost_usd=0.0), Usage(10, 10, cost_usd=3.0)]
)
async def test_nothing_is_guessed_and_nothing_said_against_the_vendor(usage: Usage) -> None:
    assert await told(budget(), usage) is None


async def test_without_a_price_nothing_is_said() -> None:
    assert await told(budget(), Usage(10, 10), model="unheard/of") is None


async def test_a_tool_call_has_no_price() -> None:
    plugin = budget()
    held = await reserve(plugin, tool_call())

    assert await settle(plugin, tool_call(), held) is None


async def test_a_ledger_in_a_file_tells_it_too(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    plugin = Budget(settings(Limit(per=("day",), tokens=10_000_000), path=path, prices=PRICES))
    model = ScriptedModel(ModelResponse(Message.assistant("hi"), usage=Usage(1_000_000, 0)))

    async with Host.open(model="scripted/m", plugins=[plugin, model], installed=False) as host:
        result = await (await host.session()).say("go")

    assert result.usage.cost_usd == 1.0


async def test_the_usage_of_turn_and_session_and_the_hosts_own_limit_of_money_know_it() -> None:
    @tool(effects=())
    def work() -> None:
        """Work."""

    asking = ModelResponse(Message.assistant((), (call("work"),)), usage=Usage(1_000_000, 0))
    model, recorder = ScriptedModel(asking, "never"), Recorder()
    config = HostSettings(limits=Limits(cost_usd=0.5))
    plugins = [budget(), model, recorder]

    async with Host.open(model="scripted/m", plugins=plugins, tools=[work], installed=False, config=config) as host:
        session = await host.session()
        result = await session.say("go")

        assert (session.usage.cost_usd, result.usage.cost_usd) == (1.0, 1.0)
    assert [event.usage.cost_usd for event in recorder.of(ModelCalled)] == [1.0]
    assert (result.why, result.limit, len(model.requests)) == (Why.LIMIT, "cost_usd", 1)
