"""The file of the ledger: who may use it, what becomes of the dead, and what happens when it cannot be written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import budgets
import pytest
from budgets import Time, account, in_file, locked, tokens, total
from pluggent_budget.accounts import Shortage, Standing
from pluggent_budget.amounts import Amount
from pluggent_budget.ledger_file import FileRules, LedgerFile, LedgerMovedError
from pluggent_budget.settings import Limit
from pluggent_hookspecs import ConfigError

WAIT_S = 30
ANN = account(Limit(per=("principal",), tokens=1000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.db"


@contextlib.contextmanager
def opened(path: Path, time: Time | None = None, **rules: float) -> Iterator[LedgerFile]:
    clock = (time or Time()).clock
    ledger = LedgerFile(path, clock.now, FileRules(**rules))  # type: ignore[arg-type] # book_lost is a bool
    try:
        yield ledger
    finally:
        ledger.close()


def held(ledger: LedgerFile, count: int) -> int:
    with ledger.transaction():
        answer = ledger.reserve([ANN], tokens(count))
    assert isinstance(answer, int)
    return answer


def settled(ledger: LedgerFile, number: int, count: int) -> None:
    with ledger.transaction():
        ledger.settle(number, tokens(count))


def program(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, budgets.__file__, *map(str, arguments)]
    return subprocess.Popen(  # noqa: S603 (ours)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(*arguments: object) -> list[str]:
    with program(*arguments) as running:
        out, _ = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0
    return out.splitlines()


# ---- what is kept ------------------------------------------------------------------------


def test_the_next_process_goes_on_where_the_last_one_stopped(path: Path) -> None:
    with opened(path) as ledger:
        settled(ledger, held(ledger, 100), 60)

    with opened(path) as ledger:
        assert in_file(ledger, ANN) == [(60, 0)]


def test_the_file_and_its_folder_are_for_their_owner_alone(path: Path) -> None:
    with opened(path) as ledger:
        held(ledger, 1)

        files = [path, *path.parent.glob("ledger.db-*")]
        assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600"] * 3
        assert oct(path.parent.stat().st_mode & 0o777) == "0o700"


def test_settling_twice_counts_once(path: Path) -> None:
    with opened(path) as ledger:
        number = held(ledger, 100)
        settled(ledger, number, 60)
        settled(ledger, number, 60)

        assert in_file(ledger, ANN) == [(60, 0)]


def test_what_a_closed_ledger_still_holds_is_booked(path: Path) -> None:
    with opened(path) as ledger:
        held(ledger, 100)

    with opened(path) as ledger:
        assert in_file(ledger, ANN) == [(100, 0)]


# ---- the dead ----------------------------------------------------------------------------


@pytest.mark.parametrize(("book_lost", "used"), [(True, 500), (False, 0)])
def test_the_reservations_of_a_killed_process_are_recovered(path: Path, book_lost: bool, used: int) -> None:
    with program("hold", path, 5) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "held 5\n"
        assert total(path, "held_tokens") == 500

        running.kill()
        running.wait(WAIT_S)
        with opened(path, book_lost=book_lost):
            assert (total(path), total(path, "held_tokens")) == (used, 0)


def test_those_of_a_process_that_lives_are_left_alone(path: Path) -> None:
    with program("hold", path, 2) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "held 2\n"
        with opened(path):
            assert (total(path), total(path, "held_tokens")) == (0, 200)
        running.communicate("\n", timeout=WAIT_S)


def test_one_that_died_meanwhile_is_found_when_something_is_short(path: Path) -> None:
    with program("hold", path, 5) as running:
        assert running.stdout is not None
        running.stdout.readline()
        time = Time()
        with opened(path, time, book_lost=False) as ledger:
            other = account(Limit(per=("agent",), tokens=500))
            running.kill()
            running.wait(WAIT_S)
            time.now += 5.0
            with ledger.transaction():
                assert ledger.reserve([other], tokens(500)) == 6


def test_another_process_with_the_same_number_is_not_taken_for_the_owner(path: Path) -> None:
    with opened(path) as ledger:
        held(ledger, 100)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE owner SET started = '1'")
            connection.commit()

        with opened(path):
            assert (total(path), total(path, "held_tokens")) == (100, 0)


def test_what_another_machine_or_container_holds_is_believed_until_it_expires(path: Path) -> None:
    time = Time()
    with opened(path, time, expires_s=60.0) as ledger:
        held(ledger, 100)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE owner SET place = 'elsewhere', pid = 1")
            connection.commit()

        with opened(path, time, expires_s=60.0):
            assert total(path, "held_tokens") == 100
        time.now += 61.0
        with opened(path, time, expires_s=60.0):
            assert (total(path), total(path, "held_tokens")) == (100, 0)


@pytest.mark.parametrize("book_lost", [True, False])
def test_a_settlement_that_comes_after_the_expiry_corrects_what_was_booked(path: Path, book_lost: bool) -> None:
    time = Time()
    with opened(path, time, expires_s=60.0, book_lost=book_lost) as ledger:
        number = held(ledger, 100)
        time.now += 3600.0  # the clock was put forward, or the call took that long
        with ledger.transaction():
            ledger.recover()
        assert in_file(ledger, ANN) == [(100 if book_lost else 0, 0)]

        settled(ledger, number, 30)

        assert in_file(ledger, ANN) == [(30, 0)]


def test_a_clock_that_was_put_back_holds_nothing_up(path: Path) -> None:
    time = Time()
    with opened(path, time, expires_s=60.0) as ledger:
        number = held(ledger, 100)
        time.now -= 30 * 86400.0
        with ledger.transaction():
            ledger.recover()
        settled(ledger, number, 30)
        settled(ledger, held(ledger, 100), 20)

        assert in_file(ledger, ANN) == [(50, 0)]


def test_a_call_that_ends_after_midnight_is_counted_on_the_day_on_which_it_began(path: Path) -> None:
    limit = Limit(per=("day",), tokens=1000)
    time = Time(86400.0 * 20_000 - 1)
    before, after = account(limit, now=time.now), account(limit, now=time.now + 2)
    with opened(path, time) as ledger:
        with ledger.transaction():
            number = ledger.reserve([before], tokens(900))
        time.now += 2
        assert isinstance(number, int)
        settled(ledger, number, 800)
        with ledger.transaction():
            assert isinstance(ledger.reserve([after], tokens(900)), int)

        assert in_file(ledger, before, after) == [(800, 0), (0, 900)]


def test_days_stay_in_the_file_for_a_year_and_not_for_ever(path: Path) -> None:
    day, ever = Limit(per=("day",), tokens=1000), Limit(tokens=1000)
    time = Time()
    accounts = [account(limit, now=time.now) for limit in (day, ever)]
    with opened(path, time) as ledger:
        with ledger.transaction():
            number = ledger.reserve(accounts, tokens(100))
        assert isinstance(number, int)
        settled(ledger, number, 60)

    time.now += 380 * 86400.0
    with opened(path, time) as ledger:
        assert in_file(ledger, *accounts) == [(60, 0), (60, 0)]

    time.now += 30 * 86400.0
    with opened(path, time) as ledger:
        assert in_file(ledger, *accounts) == [(0, 0), (60, 0)]


def test_owners_and_lost_reservations_do_not_pile_up(path: Path) -> None:
    for _ in range(3):
        with program("hold", path, 1) as running:
            assert running.stdout is not None
            running.stdout.readline()
            running.kill()
    time = Time()
    with opened(path, time):
        time.now += 30 * 86400.0
    with opened(path, time), contextlib.closing(sqlite3.connect(path)) as connection:
        counts = [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("owner", "reservation")]  # noqa: S608

    assert counts[0] <= 2
    assert counts[1] == 0


# ---- what cannot be written --------------------------------------------------------------


def test_a_full_disk_refuses_and_what_was_spent_is_booked_when_there_is_space_again(path: Path) -> None:
    refused, unsettled, after = said("full", path)

    assert "whether the budget allows it cannot be told: the ledger" in refused
    assert "cannot be used now" in refused
    assert unsettled.startswith("LedgerError: the ledger")
    assert after == "held"
    assert total(path) == 42 + 7


def test_a_ledger_that_may_not_be_written_is_refused_when_the_host_opens(disk_path: Path) -> None:
    path = disk_path / "ledger.db"  # another user looks at it, who is not let into the other temporary folders
    with opened(path):
        pass
    path.chmod(0o444)
    path.parent.chmod(0o555)

    (told,) = said("readonly", path)

    path.parent.chmod(0o755)
    assert "cannot be used as the ledger" in told
    assert "readonly" in told


def test_a_locked_ledger_is_waited_for_and_not_for_ever(path: Path) -> None:
    with (
        opened(path, busy_s=0.05) as ledger,
        locked(path),
        pytest.raises(sqlite3.OperationalError, match="locked"),
        ledger.transaction(),
    ):
        pass


def test_a_transaction_that_fails_leaves_nothing_behind(path: Path) -> None:
    with opened(path) as ledger:
        with pytest.raises(ZeroDivisionError), ledger.transaction():
            assert ledger.reserve([ANN], tokens(100)) / 0  # type: ignore[operator]

        assert in_file(ledger, ANN) == [(0, 0)]


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_was_moved_away_while_it_is_used_counts_no_more(path: Path, replaced: bool) -> None:
    with opened(path) as ledger:
        path.rename(path.with_name("moved.db"))
        if replaced:
            with opened(path):
                pass

        with pytest.raises(LedgerMovedError, match="was moved, replaced or deleted"):
            held(ledger, 1)


# ---- what is no ledger -------------------------------------------------------------------


def test_what_is_no_ledger_is_refused_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to look at" * 100)
    before = path.read_bytes()

    with pytest.raises(ConfigError, match=r"cannot be used as the ledger: file is not a database\. Mend or move it"):
        LedgerFile(path, lambda: 0.0)

    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (id)")
        connection.commit()

    with pytest.raises(ConfigError, match="SQLite file of another program"):
        LedgerFile(path, lambda: 0.0)


def test_a_ledger_of_a_later_version_is_refused(path: Path) -> None:
    with opened(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 4")

    with pytest.raises(ConfigError, match="version 4, and this one writes version 3: update pluggent-budget"):
        LedgerFile(path, lambda: 0.0)


def test_a_damaged_ledger_is_refused(path: Path) -> None:
    with opened(path) as ledger:
        for _ in range(200):
            held(ledger, 1)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="cannot be used as the ledger"):
        LedgerFile(path, lambda: 0.0)


def test_a_place_where_everybody_writes_is_no_place_for_a_ledger(path: Path) -> None:
    with opened(path):
        pass
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="all users may write to it: chmod o-w"):
        LedgerFile(path, lambda: 0.0)

    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="put the ledger into a folder of your own"):
        LedgerFile(path, lambda: 0.0)


@pytest.mark.parametrize("kind", ["folder", "pipe", "below a file"])
def test_what_is_no_ordinary_file_is_refused(path: Path, kind: str) -> None:
    path.parent.mkdir()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("", "utf-8")
        path = path / "ledger.db"

    with pytest.raises(ConfigError):
        LedgerFile(path, lambda: 0.0)


def test_a_process_that_was_forked_off_does_not_use_the_connection_of_its_parent(path: Path) -> None:
    (told,) = said("fork", path)

    assert "before this process was forked off: open the host after the fork" in told


def test_amounts_of_any_size_are_kept(path: Path) -> None:
    huge = account(Limit(per=("principal",), tokens=10**12))
    with opened(path) as ledger:
        with ledger.transaction():
            number = ledger.reserve([huge], tokens(10**12))
        assert isinstance(number, int)
        settled(ledger, number, 10**15)

        with ledger.transaction():
            assert ledger.standings([huge]) == [Standing(Amount(tokens=10**15))]
            assert isinstance(ledger.reserve([huge], tokens(1)), Shortage)
