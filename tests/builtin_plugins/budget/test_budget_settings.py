"""Settings: what is refused, all at once, and with what to do."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_budget.plugin import Budget
from pluggent_budget.prices import Price
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import ConfigError
from pluggent_plugin_loader.options import settings_for


def read(section: dict[str, Any]) -> BudgetSettings:
    """Return *section* as a host reads it from a file."""
    made = settings_for("pluggent-budget", BudgetSettings, section)[0]
    assert isinstance(made, BudgetSettings)
    return made


def problems(section: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read(section)
    return "\n".join(caught.value.problems)


def test_limits_are_read_from_a_file() -> None:
    section = {
        "path": "~/ledger.db",
        "limits": [{"per": ["principal", "day"], "tokens": 200_000, "cost_usd": 5, "where": {"model": "openai/*"}}],
        "unknown_price": {"input": 5, "output": 25.0},
    }

    made = read(section)

    expected = Limit(per=("principal", "day"), tokens=200_000, cost_usd=5.0, where={"model": "openai/*"})
    assert made.limits == (expected,)
    assert made.unknown_price == Price(match=("*",), input=5, output=25.0)
    assert made.file == Path.home() / "ledger.db"


def test_without_settings_nothing_is_limited() -> None:
    assert read({}) == BudgetSettings()


def test_a_misspelt_dimension_is_told_the_nearest() -> None:
    told = problems({"limits": [{"per": ["principle"], "tokens": 1}, {"where": {"modle": "x"}, "tokens": 1}]})

    assert "limits[0]: per: 'principle' is not a dimension; did you mean 'principal'?" in told
    assert "limits[1]: where: 'modle' is nothing to narrow by; did you mean 'model'?" in told


def test_a_dimension_that_is_like_none_is_told_which_there_are() -> None:
    told = problems({"limits": [{"per": ["xyzzy"], "tokens": 1}]})

    assert "there are: turn, session, agent, principal, model, tool, day, month" in told


def test_all_problems_are_told_at_once() -> None:
    told = problems(
        {
            "limits": [{"per": ["day"], "tokens": 1}, {"per": ["day"], "cost_usd": 1}],
            "zone": "Mars/Olympus",
            "warn_at": 80,
            "default_output_tokens": 0,
            "input_factor": 0.5,
            "busy_s": 60,
            "silent_failures": "maybe",
            "lost": "found",
            "unknown_price": "perhaps",
            "price_file": "prices.toml",
        }
    )

    for part in (
        "path: limits[0] (per day) and limits[1] (per day) count across processes",
        "limits[1] counts the same as limits[0]",
        "there is no time zone 'Mars/Olympus'",
        "warn_at: expected a share",
        "default_output_tokens: expected",
        "input_factor: expected",
        "busy_s: expected",
        "silent_failures: expected 'free' or 'reserved', got 'maybe'",
        "lost: expected 'booked' or 'released', got 'found'",
        "unknown_price: expected",
        "price_file: expected an absolute path",
    ):
        assert part in told


@pytest.mark.parametrize("per", [["day"], ["month"], ["principal"], ["agent"], ["model", "day"], []])
def test_a_limit_across_processes_needs_a_path(per: list[str]) -> None:
    limit = {"per": per, "tool_calls" if "model" not in per else "tokens": 1}

    assert 'path = ":memory:" to count in this host alone' in problems({"limits": [limit]})
    assert read({"limits": [limit], "path": ":memory:"}).file is None


@pytest.mark.parametrize("per", [["turn"], ["session"], ["principal", "session"], ["turn", "day"]])
def test_a_limit_of_one_session_needs_none(per: list[str]) -> None:
    assert read({"limits": [{"per": per, "tokens": 1}]}).file is None


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ({"per": ["turn"]}, "it limits nothing"),
        ({"per": ["turn"], "tokens": -1}, "tokens: expected a number from 0 on"),
        ({"per": ["turn"], "cost_usd": float("nan")}, "cost_usd: expected a number from 0 on"),
        ({"per": ["turn"], "cost_usd": float("inf")}, "cost_usd: expected a number from 0 on"),
        ({"per": ["turn", "turn"], "tokens": 1}, "per: a dimension is named twice"),
        ({"per": ["session", "day", "month"], "tokens": 1}, "a day lies in one month"),
        ({"per": ["turn", "tool"], "tokens": 1}, "tokens: a limit for a tool never sees any"),
        ({"per": ["turn"], "where": {"model": "x"}, "tool_calls": 1}, "tool_calls: a limit for a model never sees any"),
        ({"per": ["turn", "tool", "model"], "wall_s": 1}, "a call is of a model or of a tool"),
        ({"per": ["turn"], "where": {"agent": ""}, "tokens": 1}, "the pattern for agent is empty"),
        ({"per": ["turn"], "where": {"day": "x"}, "tokens": 1}, "'day' is nothing to narrow by"),
        ({"per": ["turn"], "tokens": 1, "warn_at": 2}, "warn_at: expected a share"),
        ({"per": ["turn"], "tokens": 1.5}, "tokens: expected a whole number, got a number"),
        ({"per": "turn", "tokens": 1}, "expected a list"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limit: dict[str, Any], told: str) -> None:
    assert told in problems({"limits": [limit]})


def test_numbers_given_in_code_are_checked_too() -> None:
    with pytest.raises(ValueError, match=r"tokens: expected a whole number, got 1\.5"):
        Limit(per=("turn",), tokens=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a list"):
        Limit(per="turn", tokens=1)  # type: ignore[arg-type]


def test_a_price_that_is_wrong_is_refused_with_all_that_is_wrong() -> None:
    told = problems({"unknown_price": {"input": "5", "otput": 1}})

    assert "unknown key 'otput'" in told
    assert "output is missing" in told
    assert "input: expected a number, got '5'" in told


def test_a_file_of_prices_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    limit = Limit(per=("turn",), cost_usd=1.0)

    with pytest.raises(ValueError, match=r"none\.toml: cannot be read: No such file"):
        Budget(BudgetSettings(limits=(limit,), price_file=str(tmp_path / "none.toml")))
