"""Prices: which one counts, and what tokens come to."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pluggent_budget.amounts import MOST
from pluggent_budget.plugin import Budget
from pluggent_budget.prices import Price, Prices, price_in, read_price_file, shipped
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import ConfigError, Deny, ReserveEvent, Scope, Usage
from pluggent_models.catalog import About, ModelCatalog, packed
from pluggent_models.model import Cost, Model

counts = st.none() | st.integers(-10, 10**7) | st.integers()
rates = st.none() | st.floats(0, 500)
usages = st.builds(
    Usage, counts, counts, cached=counts, reasoning=counts, audio=counts, cache_write=counts, input_audio=counts
)
prices = st.builds(
    Price,
    match=st.just(("*",)),
    input=st.floats(0, 500),
    output=st.floats(0, 500),
    cached=rates,
    cache_write=rates,
    reasoning=rates,
    input_audio=rates,
    output_audio=rates,
    long_over=st.none() | st.integers(0, 10**6),
    long_input=st.floats(1, 5),
    long_output=st.floats(1, 5),
)
SONNET = Price(match=("*",), input=3.0, cached=0.3, cache_write=3.75, output=15.0)


ANTHROPIC = next(name for model in shipped().models() if (name := model.id.split("-")[0]).startswith("anthropic/"))
"""How the ids of that vendor's models begin."""


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("openai/gpt-5-mini", 2.25),
        ("openai/gpt-5-mini-2025-08-07", 2.25),
        ("openai/gpt-5", 11.25),
        ("openai/gpt-6.1-sol", 19.0),
        ("openai/gpt-5.1-codex", 11.25),
        ("openai/gpt-4o-2024-08-06", 12.5),
        (f"{ANTHROPIC}-opus-5", 30.0),
        (f"{ANTHROPIC}-opus-5-5-20260922", 24.0),
        (f"{ANTHROPIC}-opus-4-1-20250805", 90.0),
        (f"{ANTHROPIC}-3-5-haiku-latest", 4.8),
        (f"{ANTHROPIC}-haiku-5-5", 3.0),
        ("offline/demo", 0.0),
    ],
)
def test_a_million_tokens_each_way_cost_what_the_catalog_says(model: str, dollars: float) -> None:
    price = Prices().of(model)

    assert price is not None
    assert price.nanos(Usage(10**6, 10**6)) == round(dollars * 10**9)


@pytest.mark.parametrize("model", ["openai/gpt-5-pro-max", "openai/gpt-7", "local/gpt-5", "gpt-5", ""])
def test_a_model_that_is_not_in_the_catalog_has_no_price(model: str) -> None:
    assert Prices().of(model) is None


def test_the_first_price_that_matches_counts() -> None:
    dear, cheap = Price(match=("a/*",), input=9, output=9), Price(match=("a/b", "c/d"), input=1, output=1)

    assert Prices((dear, cheap)).of("a/b") is dear
    assert Prices((cheap, dear)).of("a/b") is cheap
    assert Prices((dear, cheap)).of("c/d") is cheap
    assert Prices((), otherwise=cheap).of("x/y") is cheap


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(input=1000, cached=600, cache_write=300, output=100, reasoning=40)

    assert SONNET.nanos(usage) == 100 * 3000 + 600 * 300 + 300 * 3750 + 100 * 15000


def test_a_fraction_of_a_billionth_is_rounded_up() -> None:
    assert Price(match=("*",), input=0.0001, output=0).nanos(Usage(1)) == 1


def test_above_a_length_everything_costs_more() -> None:
    price = Price(match=("*",), input=2.0, output=10.0, long_over=1000, long_input=2.0, long_output=1.5)

    assert price.nanos(Usage(1000, 100)) == 1000 * 2000 + 100 * 10000
    assert price.nanos(Usage(1001, 100)) == 1001 * 4000 + 100 * 15000


def test_above_a_length_the_prices_of_the_catalog_are_others() -> None:
    low, high = Cost(input=2.0, cached=1.0, output=10.0), Cost(input=4.0, output=15.0)
    price = price_in(Model(id="a/b", cost=Cost(input=2.0, cached=1.0, output=10.0, above=((1000, high),))))

    assert price is not None
    assert price.nanos(Usage(1000, 100, cached=1000)) == 1000 * 1000 + 100 * 10000
    assert price.nanos(Usage(1001, 100, cached=1000)) == 1001 * 4000 + 100 * 15000
    assert price.most(1001, 100) == 1001 * 4000 + 100 * 15000
    assert price_in(Model(id="a/b", cost=low)) == Price(match=("a/b",), input=2.0, cached=1.0, output=10.0)
    assert price_in(Model(id="a/b")) is None


def test_no_shipped_price_is_above_the_most_that_is_reserved_for_it() -> None:
    usage = Usage(input=300_000, cached=100_000, cache_write=100_000, input_audio=50_000, output=1000, reasoning=500)
    found = [price for model in shipped().models() if (price := price_in(model)) is not None]

    assert len(found) > 500
    assert [price for price in found if not 0 <= price.nanos(usage) <= price.most(300_000, 1000)] == []


def own_catalog(path: Path, *models: Model) -> Path:
    path.write_bytes(packed(models, About(date="2026-11-20", source="https://acme.example")))
    return path


def reserved(settings: BudgetSettings, model: str) -> object:
    return Budget(settings).reserve(ReserveEvent(Scope(), "model_call", "t1.0", 1, "", model))


MONEY = Limit(per=("turn",), cost_usd=1.0)


def test_the_catalog_of_the_operator_goes_before_the_shipped_one_and_behind_prices(tmp_path: Path) -> None:
    dear = Cost(input=9999.0, output=9999.0)
    path = own_catalog(tmp_path / "own.gz", Model(id="openai/gpt-5", cost=dear), Model(id="openai/gpt-5-mini"))
    cheap = Price(match=("openai/gpt-5",), input=0.0, output=0.0)

    assert isinstance(reserved(BudgetSettings(limits=(MONEY,), price_file=str(path)), "openai/gpt-5"), Deny)
    assert reserved(BudgetSettings(limits=(MONEY,), price_file=str(path)), "openai/gpt-5-mini") == 1
    assert reserved(BudgetSettings(limits=(MONEY,), prices=(cheap,), price_file=str(path)), "openai/gpt-5") == 1


def test_a_torn_catalog_of_the_operator_is_refused_at_once(tmp_path: Path) -> None:
    path = own_catalog(tmp_path / "own.gz", Model(id="a/b"))
    path.write_bytes(path.read_bytes()[:-5])

    with pytest.raises(ValueError, match=r"own\.gz: is damaged: it is cut"):
        Budget(BudgetSettings(price_file=str(path)))


def torn() -> ModelCatalog:
    raise ConfigError("models.json.gz", ["is damaged"])


def test_without_a_catalog_that_can_be_read_no_money_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluggent_models.catalog.shipped", torn)

    refused = reserved(BudgetSettings(limits=(MONEY,)), "openai/gpt-5")

    assert isinstance(refused, Deny)
    assert "models.json.gz: is damaged" in str(refused.tell_user)
    assert reserved(BudgetSettings(limits=(Limit(per=("turn",), tokens=10**6),)), "openai/gpt-5") == 1
    assert reserved(BudgetSettings(limits=(MONEY,)), "offline/demo") == 1


def test_no_catalog_is_read_before_the_first_call_of_a_model() -> None:
    asked: list[str] = []

    def catalog() -> ModelCatalog:
        asked.append("catalog")
        return shipped()

    prices = Prices((), None, (catalog,))

    assert asked == []
    assert prices.of("openai/gpt-5") is prices.of("openai/gpt-5")
    assert asked == ["catalog"]


def test_a_vendor_that_claims_nonsense_costs_nothing_less_and_breaks_nothing() -> None:
    assert SONNET.nanos(Usage(input=10, cached=-5, cache_write=10**40, output=-3)) == 10 * 3750
    assert SONNET.nanos(Usage(input=10**40)) == MOST


@given(prices, usages)
def test_no_usage_costs_more_than_the_most_that_was_reckoned_for_it(price: Price, usage: Usage) -> None:
    into, out = max(0, min(MOST, usage.input or 0)), max(0, min(MOST, usage.output or 0))

    assert 0 <= price.nanos(usage) <= price.most(into, out)


def test_a_file_of_prices_is_read_and_every_mistake_in_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[[price]]\nmatch = ["a/*"]\ninput = 1\noutput = 2\ndate = 2026-11-20\n', "utf-8")

    assert read_price_file(file) == (Price(match=("a/*",), input=1, output=2, date="2026-11-20"),)

    file.write_text('[[price]]\nmatch = ["a"]\ninput = 1\n[[price]]\nmatch = []\ninput = -1\noutput = true\n', "utf-8")

    with pytest.raises(ValueError, match=r"price\[0\]: output is missing; price\[1\]: output: expected a number"):
        read_price_file(file)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff", "can't decode"),
        (b"price = 3", r"expected \[\[price\]\] tables"),
        (b"price = [3]", r"expected \[\[price\]\] tables"),
        (b"[[price", "prices.toml: "),
        (b"#" * 1_100_000, "is larger than"),
        (b'[[price]]\nmatch = [""]\ninput = 1\noutput = 1', "match: expected the names of models"),
        (b"[[price]]\nmatch = 3\ninput = 1\noutput = 1", "price"),
        (b'[[price]]\nmatch = ["a"]\ninput = nan\noutput = 1', "input: expected dollars"),
        (b'[[price]]\nmatch = ["a"]\ninput = 1\noutput = 1\nlong_input = 0.5', "long_input: expected a factor"),
    ],
)
def test_a_file_that_holds_no_prices_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_bytes(content)

    with pytest.raises(ValueError, match=told):
        read_price_file(file)


def test_a_pipe_in_the_place_of_prices_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "prices.toml")

    with pytest.raises(ValueError, match="is not a regular file"):
        read_price_file(tmp_path / "prices.toml")
