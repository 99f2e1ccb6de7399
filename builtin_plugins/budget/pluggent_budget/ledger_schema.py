"""Opens the SQLite file of a ledger: made if it is not there, refused if it is not safe or not ours."""

from __future__ import annotations

import sqlite3
import stat
import time
from pathlib import Path

from pluggent_hookspecs import ConfigError

APPLICATION = 0x70624744
"""What stands in the head of our files (PRAGMA application_id)."""
VERSION = 1
_SCHEMA = """
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
    began_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0
);
"""


def connected(path: Path, busy_s: float, *, create: bool = True) -> sqlite3.Connection:
    """Return a connection to the ledger at *path*. Raises ConfigError with what to do."""
    there = _check_place(path, create=create)
    try:
        connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    try:
        if not there:
            path.chmod(0o600)
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
    """Make the tables, unless somebody else has meanwhile; refuse what is not ours."""
    application, version = _marks(connection)
    if application == APPLICATION and version == VERSION:
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
    """See that nobody else can put another file in the place of this one; return whether it is there.

    It is looked at and never opened here: closing a file gives up every lock that this process has on it.
    """
    folder = path.parent
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & stat.S_IWOTH:
            raise ConfigError(str(path), [f"everybody may write to {folder}: put the ledger into a folder of your own"])
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        if create:
            return False
        raise ConfigError(str(path), ["there is no ledger yet: it is made when a host with limits opens"]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be used as the ledger: {error.strerror or error}"]) from error
    if not stat.S_ISREG(mode):
        raise ConfigError(str(path), ["is no ordinary file: name another path"])
    if mode & stat.S_IWOTH:
        raise ConfigError(str(path), [f"everybody may write to it: chmod o-w {path}"])
    return True


def unusable(path: Path, error: Exception) -> ConfigError:
    """Return the error of a file in which nothing can be booked."""
    return ConfigError(str(path), [f"cannot be used as the ledger: {error}. Mend or move it, or name another path"])
