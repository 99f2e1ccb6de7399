"""Processes that share a run: every test runs once, and what fails in any of them fails the run."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import shared_run

CONFTEST = """
from pathlib import Path
import pytest
from shared_run import SharedRun

def pytest_addoption(parser):
    parser.addoption("--share", type=Path)

def pytest_configure(config):
    config.pluginmanager.register(SharedRun(config.getoption("share")))

@pytest.fixture(scope="module", autouse=True)
def used(request):
    yield
    note(f"closed {request.node.name}")

@pytest.fixture(autouse=True)
def noted(request):
    note(request.node.nodeid)

def note(line):
    with open("noted.txt", "a") as file:
        file.write(line + chr(10))
"""
MANY = """
import pytest

@pytest.mark.parametrize("number", range(130))
def test_many(number):
    assert number != BROKEN
"""
DOCTEST = '"""\n>>> 1 + 1\n2\n"""\n'


@pytest.fixture
def together(tmp_path):
    """Return a function that runs two processes on what the files hold, and returns their codes and what they ran."""
    share = tmp_path / "share"
    (tmp_path / "below").mkdir()
    share.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules -p no:cacheprovider -p no:asyncio\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)

    def run(**files):
        for name, text in files.items():
            (tmp_path / "below" / f"{name}.py").write_text(text)
        command = [sys.executable, "-P", "-m", "pytest", "-q", f"--share={share}"]
        environ = {**os.environ, "PYTHONPATH": str(Path(shared_run.__file__).parent)}
        started = [
            subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL)  # noqa: S603 (ours)
            for _ in range(2)
        ]
        codes = {process.wait(60) for process in started}
        lines = Counter((tmp_path / "noted.txt").read_text().splitlines())
        return codes, {line: count for line, count in lines.items() if not line.startswith("closed ")}, lines

    return run


def test_every_test_runs_once_and_files_are_shared_part_by_part(together):
    codes, ran, lines = together(test_a="BROKEN = None" + MANY, test_b="BROKEN = None" + MANY, documented=DOCTEST)

    many = {f"below/test_{name}.py::test_many[{number}]": 1 for name in "ab" for number in range(130)}
    assert codes <= {0, 5}
    assert ran == {**many, "below/documented.py::documented": 1}
    assert lines["closed test_a.py"] in {1, 2}


def test_a_test_that_fails_and_a_file_that_cannot_be_read_fail_the_run(together):
    codes, ran, _ = together(test_a="BROKEN = 7" + MANY, test_b="import nothing_of_this_name\n", test_c="")

    assert 1 in codes
    assert len(ran) == 130
