"""The ledger of several processes: one SQLite file, one connection, one thread at a time.

Everything happens in ``transaction``: the lock is taken first (BEGIN IMMEDIATE), so what was
read still holds when it is written. In WAL mode a commit is handed to the operating system:
it survives the end of the process at any point, not a loss of power.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import attrs

from pluggent_budget.accounts import Account, lacking
from pluggent_budget.amounts import WALL, Amount
from pluggent_budget.ledger_schema import connected, unusable
from pluggent_budget.owners import Owner
from pluggent_budget.standing import Shortage, Standing

LOOK_S = 1.0
"""How often a shortage looks for dead processes again; without one nobody is in a hurry."""
KEEP_LOST_S = 7 * 86400.0
"""How long a lost reservation is remembered: whoever settles it later corrects what was booked."""
KEEP_ACCOUNTS_S = 400 * 86400.0
"""How long days and months that are over stay in the file. Long: a clock that is put forward deletes too."""
OPEN, BOOKED, RELEASED = range(3)
"""States of a reservation in the file."""

_FIND = """SELECT id, tokens, nanos, tool_calls, model_calls, wall_ms,
    held_tokens, held_nanos, held_tool_calls, held_model_calls, open, began_ms FROM account WHERE key = ?"""
_ADD = "INSERT INTO account (key, ends_ms) VALUES (?, ?)"
_HOLD = """UPDATE account SET held_tokens = held_tokens + ?, held_nanos = held_nanos + ?,
    held_tool_calls = held_tool_calls + ?, held_model_calls = held_model_calls + ?,
    open = open + ?, began_ms = began_ms + ? WHERE id = ?"""
_USE = """UPDATE account SET tokens = tokens + ?, nanos = nanos + ?, tool_calls = tool_calls + ?,
    model_calls = model_calls + ?, wall_ms = wall_ms + ? WHERE id = ?"""
_RESERVE = """INSERT INTO reservation
    (owner, accounts, tokens, nanos, tool_calls, model_calls, began_ms, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_RESERVED = "SELECT state, accounts, tokens, nanos, tool_calls, model_calls, began_ms FROM reservation WHERE id = ?"
_ALL_OPEN = """SELECT reservation.id, reservation.expires_ms, owner.id, owner.pid, owner.started, owner.place
    FROM reservation JOIN owner ON owner.id = reservation.owner WHERE reservation.state = 0"""


class LedgerMovedError(Exception):
    """The file is no longer where it was opened."""


@attrs.frozen(kw_only=True)
class FileRules:
    """How a ledger file is used; see BudgetSettings."""

    busy_s: float = 2.0
    expires_s: float = 3600.0
    book_lost: bool = True


@attrs.frozen
class _Row:
    id: int | None
    standing: Standing


class LedgerFile:
    """Accounts in the file at *path*. ``now`` returns seconds since 1970.

    Raises ConfigError if the file cannot be used at all, sqlite3.Error and LedgerMovedError
    from any method if it cannot be used now: then nothing was written.
    """

    def __init__(self, path: Path, now: Callable[[], float], rules: FileRules = FileRules()) -> None:
        self.path = path
        self._now = now
        self._rules = rules
        self._connection = connected(path, rules.busy_s)
        self._file = _identity(path)
        self._owner = Owner.here()
        self._looked = -LOOK_S
        try:
            with self.transaction():
                mine = (self._owner.id, self._owner.pid, self._owner.started, self._owner.place)
                self._connection.execute("INSERT INTO owner VALUES (?, ?, ?, ?)", mine)
                self.recover()
                old_ms = (now() - KEEP_ACCOUNTS_S) * 1000
                self._connection.execute("DELETE FROM account WHERE ends_ms < ? AND open = 0", (old_ms,))
        except (sqlite3.Error, LedgerMovedError) as error:
            self._connection.close()
            raise unusable(path, error) from error

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Do everything inside at once, or nothing if it raises."""
        if _identity(self.path) != self._file:
            raise LedgerMovedError(f"{self.path} was moved, replaced or deleted while it was in use")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Count what this process still holds as lost, and close the file."""
        try:
            with contextlib.suppress(sqlite3.Error, LedgerMovedError), self.transaction():
                held = self._connection.execute(
                    "SELECT id FROM reservation WHERE owner = ? AND state = 0", (self._owner.id,)
                ).fetchall()
                for (id,) in held:
                    self.lose(id)
        finally:
            self._connection.close()

    # ---- inside a transaction ------------------------------------------------------------

    def reserve(self, accounts: Sequence[Account], amount: Amount) -> int | Shortage:
        """Hold *amount* in each of *accounts* and return the reservation's number, or say what is too little."""
        now = self._now()
        rows = self._enough(accounts, amount, now)
        if isinstance(rows, Shortage) and abs(now - self._looked) >= LOOK_S:
            self.recover()
            rows = self._enough(accounts, amount, now)
        if isinstance(rows, Shortage):
            return rows
        began_ms, held = int(now * 1000), amount[:WALL]
        ids = [self._opened(account) if row.id is None else row.id for account, row in zip(accounts, rows, strict=True)]
        for id in ids:
            self._connection.execute(_HOLD, (*held, 1, began_ms, id))
        expires_ms = began_ms + int(self._rules.expires_s * 1000)
        made = self._connection.execute(
            _RESERVE, (self._owner.id, json.dumps(ids), *held, began_ms, expires_ms)
        ).lastrowid
        assert made is not None
        return made

    def settle(self, reservation: int, spent: Amount) -> None:
        """Put what was *spent* in the place of what was held or, if that was lost meanwhile, booked.

        Nothing happens if it was settled before.
        """
        row = self._connection.execute(_RESERVED, (reservation,)).fetchone()
        if row is None:
            return
        state, accounts, *held, began_ms = row
        self._connection.execute("DELETE FROM reservation WHERE id = ?", (reservation,))
        correction = held if state == BOOKED else [0] * WALL
        used = [mine - booked for mine, booked in zip(spent, [*correction, 0], strict=True)]
        for id in json.loads(accounts):
            if state == OPEN:
                self._connection.execute(_HOLD, (*(-one for one in held), -1, -began_ms, id))
            self._connection.execute(_USE, (*used, id))

    def lose(self, reservation: int) -> None:
        """Nobody will settle this: book or release what was held, and remember it for a while."""
        row = self._connection.execute(_RESERVED, (reservation,)).fetchone()
        if row is None or row[0] != OPEN:
            return
        _state, accounts, *held, began_ms = row
        for id in json.loads(accounts):
            self._connection.execute(_HOLD, (*(-one for one in held), -1, -began_ms, id))
            if self._rules.book_lost:
                self._connection.execute(_USE, (*held, 0, id))
        state = BOOKED if self._rules.book_lost else RELEASED
        self._connection.execute("UPDATE reservation SET state = ? WHERE id = ?", (state, reservation))

    def recover(self) -> None:
        """Lose the reservations of processes that ended, and those that have expired."""
        now = self._looked = self._now()
        verdicts: dict[str, bool] = {}
        for id, expires_ms, owner, pid, started, place in self._connection.execute(_ALL_OPEN).fetchall():
            if owner not in verdicts:
                verdicts[owner] = self._owner.is_dead(Owner(owner, pid, started, place))
            if verdicts[owner] or expires_ms < now * 1000:
                self.lose(id)
        old_ms = (now - self._rules.expires_s - KEEP_LOST_S) * 1000
        self._connection.execute("DELETE FROM reservation WHERE state != 0 AND expires_ms < ?", (old_ms,))
        for owner, pid, started, place in self._connection.execute("SELECT * FROM owner").fetchall():
            if owner != self._owner.id and self._owner.is_dead(Owner(owner, pid, started, place)):
                self._connection.execute(
                    "DELETE FROM owner WHERE id = ? AND NOT EXISTS"
                    " (SELECT 1 FROM reservation WHERE reservation.owner = owner.id)",
                    (owner,),
                )

    def standings(self, accounts: Sequence[Account]) -> list[Standing]:
        """Return how each of *accounts* stands."""
        now = self._now()
        return [self._row(account.text, now).standing for account in accounts]

    def _enough(self, accounts: Sequence[Account], amount: Amount, now: float) -> list[_Row] | Shortage:
        rows: list[_Row] = []
        for account in accounts:
            row = self._row(account.text, now)
            unit = lacking(account.rule.caps, *row.standing, amount)
            if unit is not None:
                return Shortage(account, unit, amount[unit], row.standing)
            rows.append(row)
        return rows

    def _row(self, key: str, now: float) -> _Row:
        found = self._connection.execute(_FIND, (key,)).fetchone()
        if found is None:
            return _Row(None, Standing())
        id, *counts = found
        return _Row(id, standing_of(counts, now))

    def _opened(self, account: Account) -> int:
        ends_ms = None if account.ends is None else int(account.ends * 1000)
        made = self._connection.execute(_ADD, (account.text, ends_ms)).lastrowid
        assert made is not None
        return made


def standing_of(counts: Sequence[int], now: float) -> Standing:
    """Return the standing in the columns of an account from ``tokens`` on."""
    open, began_ms = counts[9:]
    running = max(0, open * int(now * 1000) - began_ms)
    return Standing(Amount(*counts[:5]), Amount(counts[5], counts[6], counts[7], counts[8], running))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
