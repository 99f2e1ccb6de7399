"""What embeddings cost: tokens of input alone."""

import pytest
from pluggent_budget.plugin import Budget
from pluggent_budget.prices import Price, Prices
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import Denied, ToolContext, Usage, tool
from pluggent_host import Host
from pluggent_testing.fakes import ScriptedEmbedder, ScriptedModel, call


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


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("openai/text-embedding-3-small", 0.02), ("gemini/gemini-embedding-2", 0.2), ("voyage/voyage-3.5", 0.06),
        ("cohere/embed-v4.0", 0.12), ("bedrock/amazon.titan-embed-text-v1", 0.1),
    ],
)  # fmt: skip
def test_models_of_our_embedders_have_a_price(model: str, dollars: float) -> None:
    found = Prices().of(model)

    assert found is not None
    assert found.nanos(Usage(input=1_000_000, output=0)) == round(dollars * 1e9)


async def test_an_embedding_below_a_tool_is_paid_for_by_whose_turn_it_is() -> None:
    outcome: list[object] = []

    @tool(effects=())
    async def index(context: ToolContext) -> str:
        """Embed a text that fits, and one that does not."""
        for text in ("a" * 40, "a" * 4_000):
            try:
                outcome.append((await context.embed("scripted/e", [text])).usage.cost_usd)
            except Denied as error:
                outcome.append(error)
        return "done"

    embedder = ScriptedEmbedder()
    price = Price(match=("scripted/*",), input=1.0, output=0.0)
    limit = Limit(per=("principal",), where={"model": "scripted/e"}, tokens=30)
    budget = Budget(BudgetSettings(prices=(price,), limits=(limit,), path=":memory:"))
    model = ScriptedModel(call("index"), "done")
    plugins = [budget, embedder, model]
    async with (
        Host.open(model="scripted/m", plugins=plugins, tools=[index], installed=False) as host,
        await host.session(principal="ada") as session,
    ):
        await session.say("go")

    paid, refused = outcome
    assert paid == pytest.approx(10 / 1_000_000)
    assert isinstance(refused, Denied)
    assert [request.texts for request in embedder.requests] == [("a" * 40,)]
