"""A clock that is put forward and back: no day has two budgets."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from budgets import Lent, Time, model_call, reserve, settings
from pluggent_budget.command import BudgetCommand
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import Limit
from pluggent_hookspecs import ConfigError, Deny, ProvideEvent

DAY_S = 86_400
LIMIT = Limit(per=("principal", "day"), tokens=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.db"


async def is_let(path: Path, time: Time) -> bool:
    """Say whether a host that starts now may spend the whole budget of a day."""
    budget = Budget(settings(LIMIT, path=str(path)), clock=time.clock)
    async with budget.open(Lent()):
        return not isinstance(await reserve(budget, model_call(100)), Deny)


async def test_a_clock_that_is_put_back_gives_no_second_budget(path: Path):
    time = Time()
    assert await is_let(path, time)

    for days in (1, 2, 40, 500):
        time.now -= days * DAY_S
        assert not await is_let(path, time)


async def test_a_clock_that_is_put_forward_and_back_gives_the_budget_of_one_day_and_no_more(path: Path):
    time = Time()
    assert await is_let(path, time)

    time.now += 500 * DAY_S
    assert await is_let(path, time)
    for days in (500, -500, 499, 1):
        time.now -= days * DAY_S
        assert not await is_let(path, time)


@pytest.mark.parametrize("in_file", [True, False])
async def test_a_clock_that_is_put_back_while_a_host_runs_gives_no_second_budget(in_file: bool, path: Path):
    time = Time()
    budget = Budget(settings(LIMIT, path=str(path) if in_file else ":memory:"), clock=time.clock)
    async with budget.open(Lent()):
        assert not isinstance(await reserve(budget, model_call(100)), Deny)

        time.now -= DAY_S

        assert isinstance(await reserve(budget, model_call(1)), Deny)


async def test_a_process_whose_clock_is_behind_books_into_the_day_of_the_others(path: Path):
    late, early = Time(), Time()
    early.now -= DAY_S
    behind = Budget(settings(LIMIT, path=str(path)), clock=early.clock)
    async with behind.open(Lent()):
        assert await is_let(path, late)

        assert isinstance(await reserve(behind, model_call(1)), Deny)


async def test_the_next_day_has_a_budget_again_wherever_midnight_falls(path: Path):
    time = Time()
    assert await is_let(path, time)
    time.now += DAY_S
    assert await is_let(path, time)
    assert not await is_let(path, time)


async def test_a_clock_that_is_behind_is_reported_when_the_ledger_opens(path: Path, caplog: Any):
    time = Time()
    await is_let(path, time)
    time.now -= 2 * DAY_S

    with caplog.at_level(logging.WARNING, "pluggent.budget"):
        await is_let(path, time)

    assert "the clock is 2 days behind" in caplog.text
    assert "pluggent budget --accept-clock" in caplog.text


def run(path: Path, time: Time, **options: Any) -> int:
    command = BudgetCommand(settings(LIMIT, path=str(path)), clock=time.clock)
    (offered,) = command.provide_commands(ProvideEvent())
    assert offered.run is not None
    return offered.run(argparse.Namespace(**{"all": False, "json": False, "accept_clock": False, **options}))


async def test_a_person_can_accept_a_clock_that_was_wrong_before(path: Path, capsys: Any, monkeypatch: Any):
    monkeypatch.delenv("PLUGGENT_INSIDE", raising=False)
    time = Time()
    time.now += 30_000 * DAY_S
    assert await is_let(path, time)
    time.now -= 30_000 * DAY_S
    assert not await is_let(path, time)
    run(path, time)
    assert "the clock is 30,000 days behind" in capsys.readouterr().out

    run(path, time, accept_clock=True)

    assert await is_let(path, time)
    assert not await is_let(path, time)


async def test_a_tool_of_a_running_host_cannot_accept_the_clock(path: Path, monkeypatch: Any):
    time = Time()
    await is_let(path, time)
    monkeypatch.setenv("PLUGGENT_INSIDE", "1")

    with pytest.raises(ConfigError, match="from a terminal of their own"):
        run(path, time, accept_clock=True)


async def test_a_ledger_of_the_version_before_is_taken_over_with_what_was_used(path: Path):
    time = Time()
    assert await is_let(path, time)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP TABLE clock; DROP INDEX reservation_run; ALTER TABLE reservation DROP COLUMN run;"
            "PRAGMA user_version = 1;"
        )

    assert not await is_let(path, time)
    time.now -= DAY_S
    assert not await is_let(path, time)
