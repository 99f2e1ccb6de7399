"""The ledger of several processes: one SQLite file, one connection, one thread at a time.

The file is created if it is absent, and refused if it is not safe or not a ledger. Everything
happens in ``transaction``: the lock is taken first (BEGIN IMMEDIATE), so what was read still holds
when it is written. In WAL mode a commit is handed to the operating system: it survives the end of
the process at any point, not a loss of power.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import attrs
from pluggent_hookspecs import ConfigError, private_folder

from pluggent_budget.accounts import Account, PeriodOver, Shortage, Standing, lacking
from pluggent_budget.amounts import WALL, Amount
from pluggent_budget.owners import Owner
from pluggent_budget.periods import HighWater

LOOK_S = 1.0
"""How often a shortage looks for dead processes again; without a shortage there is no need."""
KEEP_LOST_S = 7 * 86400.0
"""How long a lost reservation is remembered: a late settlement corrects what was booked."""
KEEP_TIME_MS = 1000
"""How far the latest moment in the file may be behind."""
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
    (owner, accounts, tokens, nanos, tool_calls, model_calls, began_ms, expires_ms, run)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_RESERVED = """SELECT state, run, accounts, tokens, nanos, tool_calls, model_calls, began_ms
    FROM reservation WHERE id = ?"""
_OF_RUN = "SELECT id FROM reservation WHERE run = ? AND run != ''"
_SETTLE_RUN = (
    """UPDATE reservation SET state = 1, tokens = ?, nanos = ?, tool_calls = ?, model_calls = ? WHERE id = ?"""
)
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

    The file keeps the latest moment that any process has seen: a clock that is put back does not count.
    One that was put forward does, until a person accepts the clock again.

    Raises ConfigError if the file cannot be used at all, sqlite3.Error and LedgerMovedError
    from any method if it cannot be used now: then nothing was written.
    """

    def __init__(self, path: Path, now: Callable[[], float], rules: FileRules = FileRules()) -> None:
        self.path = path
        self._now = now if isinstance(now, HighWater) else HighWater(now)
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
        """Commit everything inside, or nothing if it raises."""
        if _identity(self.path) != self._file:
            raise LedgerMovedError(f"{self.path} was moved, replaced or deleted while it was in use")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._keep_time()
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @property
    def behind_s(self) -> float:
        """By how much the clock here is behind the latest moment that the file knows."""
        return self._now.behind_s

    def _keep_time(self) -> None:
        known_ms = latest_ms(self._connection)
        if known_ms is not None:
            self._now.raised(known_ms / 1000)
        now_ms = int(self._now() * 1000)
        if known_ms is None or now_ms >= known_ms + KEEP_TIME_MS:
            accept_clock(self._connection, now_ms)

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

    def reserve(self, accounts: Sequence[Account], amount: Amount, run: str = "") -> int | Shortage | PeriodOver:
        """Hold *amount* in each of *accounts* and return the reservation's number, or say what is too little.

        What any process has reserved for the same *run* before, settled or not, is taken over as it is.
        """
        if run and (known := self._connection.execute(_OF_RUN, (run,)).fetchone()):
            self._connection.execute("UPDATE reservation SET owner = ? WHERE id = ?", (self._owner.id, known[0]))
            return int(known[0])
        now = self._now()
        if any(account.ends is not None and account.ends <= now for account in accounts):
            return PeriodOver()
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
            _RESERVE, (self._owner.id, json.dumps(ids), *held, began_ms, expires_ms, run)
        ).lastrowid
        assert made is not None
        return made

    def settle(self, reservation: int, spent: Amount) -> None:
        """Put what was *spent* in the place of what was held or, if that was lost meanwhile, booked.

        Nothing happens if it was settled before; what a run has cost is remembered, and corrected.
        """
        row = self._connection.execute(_RESERVED, (reservation,)).fetchone()
        if row is None:
            return
        state, run, accounts, *held, began_ms = row
        if run:
            self._connection.execute(_SETTLE_RUN, (*spent[:WALL], reservation))
        else:
            self._connection.execute("DELETE FROM reservation WHERE id = ?", (reservation,))
        correction = held if state == BOOKED else [0] * WALL
        used = [mine - booked for mine, booked in zip(spent, [*correction, 0], strict=True)]
        for id in json.loads(accounts):
            if state == OPEN:
                self._connection.execute(_HOLD, (*(-one for one in held), -1, -began_ms, id))
            self._connection.execute(_USE, (*used, id))

    def lose(self, reservation: int) -> None:
        """Book or release a lost reservation, and remember it for a while."""
        row = self._connection.execute(_RESERVED, (reservation,)).fetchone()
        if row is None or row[0] != OPEN:
            return
        _state, _run, accounts, *held, began_ms = row
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


def latest_ms(connection: sqlite3.Connection) -> int | None:
    """Return the latest moment that any process has seen, None if none was kept."""
    row = connection.execute("SELECT latest_ms FROM clock").fetchone()
    return None if row is None else int(row[0])


def accept_clock(connection: sqlite3.Connection, now_ms: int) -> None:
    """Keep *now_ms* as the latest moment, whatever was kept before."""
    connection.execute("INSERT OR REPLACE INTO clock (id, latest_ms) VALUES (1, ?)", (now_ms,))


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


APPLICATION = 0x70624744
"""What stands in the head of our files (PRAGMA application_id)."""
VERSION = 3
_CLOCK = "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), latest_ms INTEGER NOT NULL)"
_WITHOUT_CLOCK, _WITHOUT_RUNS = 1, 2
_RUN_INDEX = "CREATE INDEX reservation_run ON reservation (run) WHERE run != ''"
_RUNS = "ALTER TABLE reservation ADD COLUMN run TEXT NOT NULL DEFAULT ''"
_SCHEMA = (
    """
CREATE TABLE account (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, ends_ms INTEGER,
    tokens INTEGER NOT NULL DEFAULT 0, nanos INTEGER NOT NULL DEFAULT 0, tool_calls INTEGER NOT NULL DEFAULT 0,
    model_calls INTEGER NOT NULL DEFAULT 0, wall_ms INTEGER NOT NULL DEFAULT 0,
    held_tokens INTEGER NOT NULL DEFAULT 0, held_nanos INTEGER NOT NULL DEFAULT 0,
    held_tool_calls INTEGER NOT NULL DEFAULT 0, held_model_calls INTEGER NOT NULL DEFAULT 0,
    open INTEGER NOT NULL DEFAULT 0, began_ms INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE owner (id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started TEXT NOT NULL, place TEXT NOT NULL);
CREATE TABLE reservation (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, accounts TEXT NOT NULL,
    tokens INTEGER NOT NULL, nanos INTEGER NOT NULL, tool_calls INTEGER NOT NULL, model_calls INTEGER NOT NULL,
    began_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0,
    run TEXT NOT NULL DEFAULT ''
);
"""
    + _CLOCK
    + ";"
    + _RUN_INDEX
)


def connected(path: Path, busy_s: float, *, create: bool = True) -> sqlite3.Connection:
    """Return a connection to the ledger at *path*. Raises ConfigError with what to do."""
    there = _check_place(path, create=create)
    try:
        if not there:
            _make_file(path)
        connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from error
    try:
        _prepare(connection, path, busy_s)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        raise unusable(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, busy_s: float) -> None:
    application, version = _marks(connection)
    if (application, version) != (APPLICATION, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        _make(connection, path)
        connection.execute("COMMIT")
    _use_wal(connection, busy_s)
    # What is committed is with the operating system; only a loss of power can take the last commits.
    connection.execute("PRAGMA synchronous = NORMAL")


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version


def _make(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables unless another process just did; refuse another kind of database."""
    application, version = _marks(connection)
    if application == APPLICATION and version == VERSION:
        return
    if application == APPLICATION and version in (_WITHOUT_CLOCK, _WITHOUT_RUNS):
        if version == _WITHOUT_CLOCK:
            connection.execute(_CLOCK)
        connection.execute(_RUNS)
        connection.execute(_RUN_INDEX)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        return
    if application == APPLICATION:
        advice = "update pluggent-budget, or name another path" if version > VERSION else "name another path"
        raise ConfigError(
            str(path), [f"is a ledger of version {version}, and this one writes version {VERSION}: {advice}"]
        )
    if application or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise ConfigError(str(path), ["is the SQLite file of another program: name another path"])
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    # SQLite does not wait for a lock here by itself when two programs change the mode at once.
    until = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return  # a file system that cannot do it keeps the old mode, slower and just as right
        except sqlite3.OperationalError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)


# ---- the place ---------------------------------------------------------------------------


def _check_place(path: Path, *, create: bool) -> bool:
    """Check that no other user can replace the file; return whether it exists.

    It is looked at and never opened here: closing a file gives up every lock that this process has on it.
    """
    folder = path.parent
    try:
        if create:
            private_folder(folder)
        if folder.stat().st_mode & stat.S_IWOTH:
            raise ConfigError(str(path), [f"all users may write to {folder}: put the ledger into a folder of your own"])
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        if create:
            return False
        raise ConfigError(str(path), ["there is no ledger yet: it is made when a host with limits opens"]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be used as the ledger: {error.strerror or error}"]) from error
    if not stat.S_ISREG(mode):
        raise ConfigError(str(path), ["is not a regular file: name another path"])
    if mode & stat.S_IWOTH:
        raise ConfigError(str(path), [f"all users may write to it: chmod o-w {path}"])
    return True


def _make_file(path: Path) -> None:
    """Make an empty ledger for this user alone: SQLite would make it and its other files with the umask's mode.

    A file that another process just created is not opened here, so that no lock on it is released.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def unusable(path: Path, error: Exception) -> ConfigError:
    """Return the error of a file in which nothing can be booked."""
    return ConfigError(str(path), [f"cannot be used as the ledger: {error}. Mend or move it, or name another path"])
