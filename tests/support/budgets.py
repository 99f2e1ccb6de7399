"""Attempts at calls, as a host puts them to the budget plugin, and how its accounts stand."""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

from pluggent_budget.accounts import Account, Facts, Rule, rule_of
from pluggent_budget.amounts import Amount
from pluggent_budget.ledger_file import LedgerFile
from pluggent_budget.periods import Calendar, Clock
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import Deny, ReserveEvent, Scope, SettleEvent, Usage

UNTOLD = Usage()
SCOPE = Scope(session_id="s1", turn_id="t1", agent="writer", principal="ann")


class Lent:
    """What a host lends a plugin."""

    plugin = "pluggent-budget"
    host_version = "0"

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        return (pattern,)

    async def model_named(self, name: str) -> str:
        return name


class Time:
    """A clock that a test sets."""

    def __init__(self, now: float = 1_795_000_000.0) -> None:
        self.now = now
        self.ticks = 0.0

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.now, monotonic=lambda: self.ticks)


def model_call(
    tokens: int = 100, *, output: int | None = 0, model: str = "scripted/m", scope: Scope = SCOPE
) -> ReserveEvent:
    """Return an attempt at a model call for which *tokens* of input are expected."""
    return ReserveEvent(scope, "model_call", "t1.0", 1, "app:x:provider/scripted", model, tokens, output)


def tool_call(capability: str = "app:tools:tool/add", *, scope: Scope = SCOPE) -> ReserveEvent:
    """Return an attempt at a tool call."""
    return ReserveEvent(scope, "tool_call", "t1.0.0", 1, capability)


async def reserve(budget: Budget, event: ReserveEvent) -> Any:
    """Return what *budget* answers: None, what it holds, or a Deny."""
    answer = budget.reserve(event)
    return await answer if inspect.isawaitable(answer) else answer


async def settle(
    budget: Budget, event: ReserveEvent, held: Any, usage: Usage = UNTOLD, outcome: str = "done", s: float = 0.0
) -> Usage | None:
    """Tell *budget* how the attempt ended; return what it says of its price."""
    answer = budget.settle(SettleEvent(event, held, usage, outcome, s))
    return await answer if inspect.isawaitable(answer) else answer


async def refusal(budget: Budget, event: ReserveEvent) -> str:
    """Return why *budget* refuses *event*, as a person reads it."""
    answer = await reserve(budget, event)
    assert isinstance(answer, Deny), answer
    return answer.tell_user


def settings(*limits: Limit, **others: Any) -> BudgetSettings:
    """Return settings whose input estimates are taken as they are."""
    given: dict[str, Any] = {"input_factor": 1.0, **others}
    return BudgetSettings(limits=limits, **given)


def rule(limit: Limit, path: str = ":memory:") -> Rule:
    """Return *limit* ready to be asked."""
    return rule_of(limit, BudgetSettings(limits=(limit,), path=path))


def account(limit: Limit, name: str = "ann", now: float = 0.0) -> Account:
    """Return the account of *limit* in which calls of the principal *name* are counted."""
    found = rule(limit).account(Facts(turn="t1", session="s1", principal=name), Calendar("UTC"), now)
    assert found is not None
    return found


def tokens(count: int) -> Amount:
    return Amount(tokens=count)


def in_file(ledger: LedgerFile, *accounts: Account) -> list[tuple[int, int]]:
    """Return the tokens that are used and held in each account."""
    with ledger.transaction():
        return [(one.used.tokens, one.held.tokens) for one in ledger.standings(accounts)]


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of the ledger, as another program would."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def total(path: Path, column: str = "tokens") -> int:
    """Return the sum of a column over all accounts of the file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute(f"SELECT coalesce(sum({column}), 0) FROM account").fetchone()[0]  # noqa: S608
        return found
