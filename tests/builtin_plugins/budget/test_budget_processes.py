"""Several real processes take from one ledger as fast as they can."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import budgets
import pytest
from budgets import total
from pluggent_budget.ledger_file import LedgerFile

WAIT_S = 60


def hammer(path: Path, cap: int, size: int, tasks: int, calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, budgets.__file__, "hammer", str(path), *map(str, (cap, size, tasks, calls))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 (ours)


def spent(lines: list[str]) -> int:
    return sum(int(line.split()[1]) for line in lines if line.startswith("spent "))


def test_they_never_take_more_together_than_is_there(tmp_path: Path) -> None:
    path, cap = tmp_path / "ledger.db", 20_000
    running = [hammer(path, cap, size=100, tasks=20, calls=10) for _ in range(4)]

    said = [process.communicate(timeout=WAIT_S)[0].splitlines() for process in running]

    assert [lines[-1] for lines in said] == ["done"] * 4
    assert total(path) == sum(map(spent, said)) <= cap
    assert total(path, "held_tokens") == 0
    # 800 calls of 50 tokens in the mean want twice what there is, but many were refused for what others held just
    # then. One who comes alone gets all of the rest that one more call fits in.
    last = hammer(path, cap, size=100, tasks=1, calls=500).communicate(timeout=WAIT_S)[0].splitlines()
    assert last[-1] == "done"
    assert cap - 100 < total(path) <= cap


def test_two_hundred_calls_at_once_in_each_of_three_processes(tmp_path: Path) -> None:
    path, cap = tmp_path / "ledger.db", 5_000
    running = [hammer(path, cap, size=100, tasks=200, calls=1) for _ in range(3)]

    said = [process.communicate(timeout=WAIT_S)[0].splitlines() for process in running]

    assert [lines[-1] for lines in said] == ["done"] * 3
    assert total(path) == sum(map(spent, said)) <= cap


@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_process_that_is_killed_in_the_middle_leaves_right_sums_behind(tmp_path: Path, after: int) -> None:
    path = tmp_path / "ledger.db"
    with hammer(path, 10**9, size=100, tasks=20, calls=10_000) as victim, hammer(path, 10**9, 100, 5, 30) as other:
        assert victim.stdout is not None
        said = [victim.stdout.readline() for _ in range(after)]
        victim.kill()
        said += victim.stdout.readlines()
        victim.wait(WAIT_S)
        others = other.communicate(timeout=WAIT_S)[0].splitlines()

    LedgerFile(path, lambda: 1e9).close()  # finds the dead

    assert others[-1] == "done"
    assert total(path, "held_tokens") == total(path, "open") == total(path, "began_ms") == 0
    told = spent(said) + spent(others)
    # At most 20 calls ran, or had been answered without a line about it, when it was killed.
    assert told <= total(path) <= told + 20 * 100
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_processes_that_open_a_new_ledger_at_once_all_get_it(tmp_path: Path) -> None:
    running = [hammer(tmp_path / "new" / "ledger.db", 100, size=1, tasks=1, calls=1) for _ in range(6)]

    assert [process.communicate(timeout=WAIT_S)[0].splitlines()[-1] for process in running] == ["done"] * 6
