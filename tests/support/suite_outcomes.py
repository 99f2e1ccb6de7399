"""Runs tests and prints what became of each function, as JSON: a program, for tests of test suites.

    python suite_outcomes.py FILE::CLASS::FUNCTION …

A function that runs with several parameters has failed if it failed with one of them.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout

import pytest


class Outcomes:
    """A pytest plugin that keeps the outcome of each function."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leave out the other parameters of a function that has failed."""
        return True if self.told.get(_name(item.nodeid)) == "failed" else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome."""
        name = _name(report.nodeid)
        if self.told.get(name) != "failed":
            self.told[name] = "failed" if report.failed else self.told.get(name, "") or report.outcome


def _name(nodeid: str) -> str:
    return nodeid.partition("[")[0].rpartition("/")[2]


def main() -> None:
    """Run the tests that are named on the command line."""
    outcomes = Outcomes()
    with redirect_stdout(sys.stderr):
        pytest.main(["-p", "no:cacheprovider", "-W", "ignore", "--tb=line", "-q", *sys.argv[1:]], [outcomes])
    json.dump(outcomes.told, sys.stdout)


if __name__ == "__main__":
    main()
