"""Attempts at calls, as a host puts them to the budget plugin, and how its accounts stand.

As a program it does one thing to a ledger file and prints the outcome, a line for each step:

python budgets.py hold LEDGER COUNT     hold COUNT times 100 tokens, print ``held``, and wait to be killed
python budgets.py full LEDGER           reserve until the disk is full, then settle when it is not
python budgets.py readonly LEDGER       open a ledger that this user may not write
python budgets.py fork LEDGER           reserve in a process that was forked off
python budgets.py hammer LEDGER CAP SIZE TASKS CALLS    reserve and settle as fast as it can, in one of several
                                        processes: ``held``, ``spent N`` and at the end ``done``
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import random
import resource
import signal
import sqlite3
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from pluggent_budget.accounts import Account, Facts, Rule, rule_of
from pluggent_budget.amounts import Amount
from pluggent_budget.ledger_file import LedgerFile
from pluggent_budget.periods import Calendar, Clock
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import ConfigError, Deny, ReserveEvent, Scope, SettleEvent, Usage

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


NO_USER = 65534
LIMIT = Limit(per=("principal", "day"), tokens=1_000_000)


def say(line: str) -> None:
    """Write a line at once and whole."""
    os.write(1, f"{line}\n".encode())


async def hold(path: str, count: str) -> None:
    budget = Budget(settings(LIMIT, path=path))
    async with budget.open(Lent()):
        held = [await reserve(budget, model_call(100)) for _ in range(int(count))]
        say(f"held {len(held)}")
        await asyncio.to_thread(sys.stdin.readline)


async def full(path: str) -> None:
    # What a full disk does: the file does not grow any more.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    budget = Budget(settings(LIMIT, path=path))
    async with budget.open(Lent()):
        held = await reserve(budget, model_call(100))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = Path(path + "-wal").stat().st_size  # noqa: ASYNC240 (no other task waits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        say(await refusal(budget, model_call(100)))
        try:
            await settle(budget, model_call(100), held, Usage(input=40, output=2))
        except Exception as error:  # noqa: BLE001 (it is what the host would be told)
            say(f"{type(error).__name__}: {error}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        say("held" if not isinstance(await reserve(budget, model_call(7)), Deny) else "denied")


def readonly(path: str) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NO_USER, NO_USER, NO_USER)
        os.setresuid(NO_USER, NO_USER, NO_USER)
    try:
        LedgerFile(Path(path), lambda: 0.0)
    except ConfigError as error:
        say(str(error))


async def fork(path: str) -> None:
    budget = Budget(settings(LIMIT, path=path))
    async with budget.open(Lent()):
        child = os.fork()
        if child == 0:
            answer = budget.reserve(model_call(100))
            try:
                answer.send(None)  # type: ignore[union-attr] # a coroutine; this process has no loop that runs
            except StopIteration as end:
                say(end.value.tell_user)
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 (no other task waits)


async def hammer(path: str, cap: int, size: int, tasks: int, calls: int) -> None:
    """Make *calls* attempts in each of *tasks*, each of *size* tokens."""
    budget = Budget(settings(Limit(per=("principal", "day"), tokens=cap), path=path))
    event = model_call(size)

    async def work() -> None:
        for _ in range(calls):
            held = await reserve(budget, event)
            if isinstance(held, Deny):
                assert "does not allow this" in held.tell_user, held
                continue
            say("held")
            await asyncio.sleep(0)
            spent = random.randint(0, size)  # noqa: S311 (how much a reply is)
            await settle(budget, event, held, Usage(input=spent, output=0))
            say(f"spent {spent}")

    async with budget.open(Lent()):
        await asyncio.gather(*(work() for _ in range(tasks)))
    say("done")


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "readonly":
        readonly(*arguments)
    elif what == "hammer":
        asyncio.run(hammer(arguments[0], *map(int, arguments[1:])))
    else:
        programs: dict[str, Any] = {"hold": hold, "full": full, "fork": fork}
        asyncio.run(programs[what](*arguments))
