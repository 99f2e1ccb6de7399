"""Runs that outlive a process are charged once, however often, and by whichever process, their replies are read."""

import sqlite3

import pytest
from budgets import account
from pluggent_budget.amounts import Amount
from pluggent_budget.ledger_file import LedgerFile
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import Deny, ReserveEvent, Scope, SettleEvent, Usage

ANN = account(Limit(per=("principal",), tokens=1000, model_calls=5), "ann")
RUN = ReserveEvent(Scope(), "model_call", "t1.0", 1, "x:provider/x", "x/m", 10, 100, run="s/t1.0")


def reserved(file: LedgerFile, tokens: int) -> int:
    held = file.reserve([ANN], Amount(tokens=tokens, model_calls=1), "s/t1.0")
    assert isinstance(held, int)
    return held


def test_a_run_that_two_processes_read_is_charged_once_in_the_file(tmp_path) -> None:
    for end in ("settled", "killed", "closed"):
        first = LedgerFile(tmp_path / f"{end}.db", lambda: 1000.0)
        with first.transaction():
            held = reserved(first, 300)
            if end == "settled":
                first.settle(held, Amount(tokens=200, model_calls=1))
        if end != "killed":
            first.close()

        second = LedgerFile(tmp_path / f"{end}.db", lambda: 1000.0)
        with second.transaction():
            second.settle(reserved(second, 300), Amount(tokens=50, model_calls=1))
            second.settle(reserved(second, 300), Amount(tokens=60, model_calls=1))
            (standing,) = second.standings([ANN])
        second.close()

        assert (standing.used.tokens, standing.used.model_calls, standing.held.tokens) == (60, 1, 0), end


def test_a_ledger_of_an_earlier_version_is_kept(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    LedgerFile(path, lambda: 1000.0).close()
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP INDEX reservation_run; ALTER TABLE reservation DROP COLUMN run; PRAGMA user_version = 2;"
    )
    connection.close()

    ledger = LedgerFile(path, lambda: 1000.0)
    with ledger.transaction():
        assert ledger.reserve([ANN], Amount(tokens=1), "r") == ledger.reserve([ANN], Amount(tokens=1), "r")
    ledger.close()


@pytest.mark.parametrize("times", [1, 3])
def test_a_run_is_let_pass_once_and_charged_once_in_memory(times) -> None:
    budget = Budget(BudgetSettings(limits=(Limit(model_calls=1),), path=":memory:"))

    for _ in range(times):
        reservation = budget.reserve(RUN)
        assert isinstance(reservation, int)
        budget.settle(SettleEvent(RUN, reservation, Usage(10, 5)))

    other = ReserveEvent(Scope(), "model_call", "t1.1", 1, "x:provider/x", "x/m", 10, 100, run="s/t1.1")
    assert isinstance(budget.reserve(other), Deny)
