"""``pluggent budget``, as a person and as a program read it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from budgets import Lent, Time, model_call, reserve, settings, settle
from pluggent_budget.command import BudgetCommand
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import ConfigError, ProvideEvent, Scope, Usage

TIME = Time(86400.0 * 20_000)
LIMITS = (
    Limit(per=("principal", "day"), tokens=1000, wall_s=60.0),
    Limit(where={"model": "scripted/*"}, model_calls=10),
    Limit(per=("turn",), tokens=500),
)


def run(given: BudgetSettings, *arguments: str) -> int:
    (command,) = BudgetCommand(given, clock=TIME.clock).provide_commands(ProvideEvent())
    parser = argparse.ArgumentParser()
    assert command.configure is not None
    assert command.run is not None
    command.configure(parser)
    return command.run(parser.parse_args(arguments))


@pytest.fixture
async def spent(tmp_path: Path) -> BudgetSettings:
    """Return the settings of a ledger in which something was spent today and the day before."""
    given = settings(*LIMITS, path=str(tmp_path / "l.db"))
    time = Time(TIME.now - 86400.0)
    budget = Budget(given, clock=time.clock)
    async with budget.open(Lent()):
        for days, name in ((-1, "ann"), (0, "ann\x1b[2J"), (0, "bob")):
            time.now = TIME.now + days * 86400.0
            event = model_call(200, scope=Scope(session_id="s", turn_id=name, principal=name))
            await settle(budget, event, await reserve(budget, event), Usage(100, 20), s=1.5)
    return given


def test_it_shows_what_is_used_of_every_limit_in_the_file(
    spent: BudgetSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(spent) == 0

    shown = capsys.readouterr().out
    assert (
        shown
        == f"""ledger {spent.file}

per principal and day
  ann\\x1b[2J, 2024-10-04, until 2024-10-05 00:00 (UTC)
    120 of 1,000 tokens (12 %)
    1.5 s of 60 s (2 %)
  bob, 2024-10-04, until 2024-10-05 00:00 (UTC)
    120 of 1,000 tokens (12 %)
    1.5 s of 60 s (2 %)

in all (for model scripted/*)
  everything
    3 of 10 model calls (30 %)
"""
    )


def test_days_that_are_over_are_shown_when_asked_for(spent: BudgetSettings, capsys: pytest.CaptureFixture[str]) -> None:
    run(spent, "--all")

    assert "  ann, 2024-10-03, until 2024-10-04 00:00 (UTC)\n" in capsys.readouterr().out


def test_programs_get_json(spent: BudgetSettings, capsys: pytest.CaptureFixture[str]) -> None:
    run(spent, "--json")

    first = json.loads(capsys.readouterr().out)[0]
    assert first["of"] == {"principal": "ann\x1b[2J", "day": "2024-10-04"}
    assert first["ends"] == 86400.0 * 20_001
    assert first["units"]["tokens"] == {"limit": 1000.0, "used": 120.0, "reserved": 0.0}
    assert first["units"]["cost_usd"]["limit"] is None


def test_before_anything_is_counted_it_says_so_and_makes_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(settings(*LIMITS, path=str(tmp_path / "l.db")))
    run(settings(Limit(per=("turn",), tokens=1)))

    shown = capsys.readouterr().out
    assert "nothing has been counted yet" in shown
    assert "No limit is kept in a file" in shown
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_told(tmp_path: Path) -> None:
    (tmp_path / "l.db").write_bytes(b"x" * 5000)

    with pytest.raises(ConfigError, match="cannot be used as the ledger"):
        run(settings(*LIMITS, path=str(tmp_path / "l.db")))
