"""What embeddings cost: tokens of input alone."""

import pytest
from pluggent_budget.plugin import Budget
from pluggent_budget.prices import Price
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import Denied
from pluggent_host import Host
from pluggent_testing.fakes import ScriptedEmbedder


async def test_an_embedding_counts_as_a_model_call_without_output() -> None:
    budget = Budget(BudgetSettings(limits=(Limit(tokens=30, model_calls=2),), path=":memory:"))
    embedder = ScriptedEmbedder()

    async with Host.open(plugins=[budget, embedder], installed=False) as host:
        await host.embed("scripted/m", ["a" * 40])
        await host.embed("scripted/m", ["a" * 40])
        with pytest.raises(Denied, match="model calls"):
            await host.embed("scripted/m", [""])

    assert len(embedder.requests) == 2


async def test_texts_that_a_limit_of_tokens_does_not_allow_are_not_sent() -> None:
    budget, embedder = Budget(BudgetSettings(limits=(Limit(tokens=30),), path=":memory:")), ScriptedEmbedder()

    async with Host.open(plugins=[budget, embedder], installed=False) as host:
        with pytest.raises(Denied, match="tokens"):
            await host.embed("scripted/m", ["a" * 400])

    assert embedder.requests == []


async def test_the_price_of_an_embedding_is_that_of_its_input() -> None:
    price = Price(match=("scripted/*",), input=2.0, output=8.0)
    budget = Budget(BudgetSettings(prices=(price,)))

    async with Host.open(plugins=[budget, ScriptedEmbedder()], installed=False) as host:
        response = await host.embed("scripted/m", ["a" * 400])

    assert response.usage.cost_usd == pytest.approx(100 * 2.0 / 1_000_000)
