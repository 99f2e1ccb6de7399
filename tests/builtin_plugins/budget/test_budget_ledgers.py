"""Both ledgers, in any order of events: never more than allowed, and the sums are right."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest
from budgets import account, tokens
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from pluggent_budget.accounts import Account, PeriodOver, Shortage, Standing
from pluggent_budget.amounts import Amount
from pluggent_budget.ledger_file import FileRules, LedgerFile
from pluggent_budget.memory_ledger import MemoryLedger, Reservation
from pluggent_budget.settings import Limit

LIMIT = Limit(per=("principal",), tokens=1000, model_calls=5)
ACCOUNTS = [account(LIMIT, name) for name in ("ann", "bob", "eve")]
CAP = 1000
some_accounts = st.lists(st.sampled_from(ACCOUNTS), min_size=1, max_size=3, unique_by=lambda one: one.key)


class Ledger(Protocol):
    """What both ledgers do, for a test that does not care which one it is."""

    def reserve(self, accounts: Sequence[Account], amount: Amount) -> Any: ...
    def settle(self, held: Any, spent: Amount) -> None: ...
    def standings(self) -> list[Standing]: ...
    def end(self) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self._ledger = MemoryLedger(lambda: 0.0)

    def reserve(self, accounts: Sequence[Account], amount: Amount) -> Reservation | Shortage:
        return self._ledger.reserve(accounts, amount)

    def settle(self, held: Reservation, spent: Amount) -> None:
        self._ledger.settle(held, spent)

    def standings(self) -> list[Standing]:
        return self._ledger.standings(ACCOUNTS)

    def end(self) -> None:
        pass


class InFile:
    """A new process, as far as the file can tell, after every crash."""

    def __init__(self, *, book_lost: bool = True) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._rules = FileRules(book_lost=book_lost)
        self.now = 1000.0
        self._ledger = self._opened()

    def _opened(self) -> LedgerFile:
        return LedgerFile(Path(self._folder.name) / "ledger.db", lambda: self.now, self._rules)

    def crash(self) -> None:
        self._ledger.close()
        self._ledger = self._opened()

    def reserve(self, accounts: Sequence[Account], amount: Amount) -> int | Shortage:
        with self._ledger.transaction():
            answer = self._ledger.reserve(accounts, amount)
        assert not isinstance(answer, PeriodOver)
        return answer

    def settle(self, held: int, spent: Amount) -> None:
        with self._ledger.transaction():
            self._ledger.settle(held, spent)

    def standings(self) -> list[Standing]:
        with self._ledger.transaction():
            return self._ledger.standings(ACCOUNTS)

    def end(self) -> None:
        self._ledger.close()
        self._folder.cleanup()


@attrs.frozen(eq=False)
class Held:
    """A reservation, and what the test knows of it."""

    ticket: Any
    accounts: tuple[Account, ...]
    amount: Amount


class Books(RuleBasedStateMachine):
    """Reserve and settle in any order; ``expected`` is kept beside the ledger, by hand."""

    open_calls = Bundle("open_calls")

    def make(self) -> Ledger:
        return InMemory()

    @initialize()
    def begin(self) -> None:
        self.ledger = self.make()
        self.used = {one.key: Amount() for one in ACCOUNTS}
        self.held: list[Held] = []
        self.over = {one.key: 0 for one in ACCOUNTS}

    @rule(target=open_calls, accounts=some_accounts, count=st.integers(0, 400))
    def reserve(self, accounts: list[Account], count: int) -> Held | None:
        amount = Amount(tokens=count, model_calls=1)
        answer = self.ledger.reserve(accounts, amount)
        fits = all((not count or self.taken(one)[0] + count <= CAP) and self.taken(one)[1] < 5 for one in accounts)
        assert isinstance(answer, Shortage) != fits
        if not fits:
            return None
        held = Held(answer, tuple(accounts), amount)
        self.held.append(held)
        return held

    @rule(held=consumes(open_calls), spent=st.integers(0, 400))
    def settle(self, held: Held | None, spent: int) -> None:
        if held is not None and held in self.held:
            self.ledger.settle(held.ticket, Amount(tokens=spent, model_calls=1))
            self.book(held, Amount(tokens=spent, model_calls=1))

    def book(self, held: Held, spent: Amount) -> None:
        self.held.remove(held)
        for one in held.accounts:
            self.used[one.key] = self.used[one.key].plus(spent)
            self.over[one.key] += max(0, spent.tokens - held.amount.tokens)

    def taken(self, account: Account) -> tuple[int, int]:
        mine = [held for held in self.held if account in held.accounts]
        used = self.used[account.key]
        return used.tokens + sum(held.amount.tokens for held in mine), used.model_calls + len(mine)

    @invariant()
    def sums_are_right_and_nothing_is_overshot(self) -> None:
        for one, standing in zip(ACCOUNTS, self.ledger.standings(), strict=True):
            held = [held.amount for held in self.held if one in held.accounts]
            assert standing.used == self.used[one.key]
            assert standing.held.tokens == sum(amount.tokens for amount in held)
            assert standing.held.model_calls == len(held)
            assert standing.used.tokens + standing.held.tokens <= CAP + self.over[one.key]
            assert standing.used.model_calls + standing.held.model_calls <= 5

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.end()


class BooksInFile(Books):
    """The same with a file, and with processes that die."""

    def make(self) -> Ledger:
        self.file = InFile()
        return self.file

    @rule()
    def crash(self) -> None:
        self.file.crash()
        for held in list(self.held):
            self.book(held, held.amount)


class TestBooks(Books.TestCase):  # type: ignore[name-defined, misc] # made by hypothesis
    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class TestBooksInFile(BooksInFile.TestCase):  # type: ignore[name-defined, misc] # made by hypothesis
    settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("make", [InMemory, InFile])
@settings(max_examples=15, deadline=None)
@given(
    calls=st.lists(st.tuples(some_accounts, st.integers(0, 30), st.integers(0, 60)), max_size=5),
    data=st.data(),
)
def test_the_order_in_which_calls_end_does_not_matter(
    make: type[InMemory | InFile], calls: list[tuple[list[Account], int, int]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(calls))))
    standings: list[list[Standing]] = []
    for ends in (range(len(calls)), order):
        ledger: Any = make()
        held = [ledger.reserve(accounts, Amount(tokens=count)) for accounts, count, _ in calls]
        for number in ends:
            ledger.settle(held[number], Amount(tokens=calls[number][2]))
        standings.append(ledger.standings())
        ledger.end()

    assert standings[0] == standings[1]
    assert all(one.held == Amount() for one in standings[0])


@pytest.mark.parametrize("make", [InMemory, InFile])
def test_what_does_not_fit_into_one_account_is_held_in_none(make: type[InMemory | InFile]) -> None:
    ledger: Any = make()
    ledger.settle(ledger.reserve(ACCOUNTS[:1], tokens(900)), tokens(900))

    shortage = ledger.reserve(ACCOUNTS, tokens(200))

    assert shortage == Shortage(ACCOUNTS[0], 0, 200, Standing(tokens(900)))
    assert ledger.standings() == [Standing(tokens(900)), Standing(), Standing()]
    ledger.end()


@pytest.mark.parametrize("make", [InMemory, InFile])
def test_a_call_that_needs_nothing_of_a_unit_is_not_refused_for_it(make: type[InMemory | InFile]) -> None:
    ledger: Any = make()
    ledger.settle(ledger.reserve(ACCOUNTS[:1], tokens(1000)), tokens(2000))

    assert not isinstance(ledger.reserve(ACCOUNTS[:1], Amount(tool_calls=1)), Shortage)
    assert isinstance(ledger.reserve(ACCOUNTS[:1], tokens(1)), Shortage)
    ledger.end()


def test_time_runs_while_calls_do_and_is_settled_with_what_they_took() -> None:
    time = [100.0]
    ledger = MemoryLedger(lambda: time[0])
    mine = [account(Limit(per=("principal",), wall_s=10.0))]
    first, second = ledger.reserve(mine, Amount()), ledger.reserve(mine, Amount())

    time[0] = 104.0
    assert ledger.standings(mine)[0].held.wall_ms == 8000

    time[0] = 105.0
    assert isinstance(ledger.reserve(mine, Amount()), Shortage)

    assert isinstance(first, Reservation)
    assert isinstance(second, Reservation)
    ledger.settle(first, Amount(wall_ms=3000))
    ledger.settle(second, Amount(wall_ms=3000))
    assert ledger.standings(mine) == [Standing(Amount(wall_ms=6000))]
    assert isinstance(ledger.reserve(mine, Amount()), Reservation)


def test_a_clock_that_goes_back_makes_no_time_out_of_nothing() -> None:
    ledger = InFile()
    held: Any = ledger.reserve(ACCOUNTS[:1], Amount())
    ledger.now -= 500.0

    assert ledger.standings()[0] == Standing()

    ledger.settle(held, Amount(wall_ms=10))
    assert ledger.standings()[0] == Standing(Amount(wall_ms=10))
    ledger.end()


def test_old_accounts_are_forgotten_and_those_in_use_never() -> None:
    ledger = MemoryLedger(lambda: 0.0, most=10)
    first = ledger.reserve([account(LIMIT, "first")], tokens(7))

    for number in range(100):
        held = ledger.reserve([account(LIMIT, f"n{number}")], tokens(1))
        assert isinstance(held, Reservation)
        ledger.settle(held, tokens(1))

    assert isinstance(first, Reservation)
    assert ledger.standings([account(LIMIT, "first")])[0].held == tokens(7)
    assert ledger.standings([account(LIMIT, "n0")]) == [Standing()]
    assert ledger.standings([account(LIMIT, "n99")]) == [Standing(tokens(1))]
