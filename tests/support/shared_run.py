"""Processes that run one set of tests together, each the next part that no other has taken: run.py --processes 2.

pytest-xdist collects every test in every process and sends all reports through one more, which takes a tenth of the
run. Here a process imports the files that it takes, and reports itself. Parts are files; in the end, when no file
is left, a process takes parts of the files that the others have begun.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import collect_one_node

PART = 50
"""Tests."""


class SharedRun:
    """Takes parts by files of their name in *folder*, which all the processes know; registered as a plugin."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[list[pytest.Collector]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Find the files, and import none."""
        by_path: dict[Path, list[pytest.Collector]] = {}
        for node in session.perform_collect(genitems=False):
            for file in files_below(node):
                by_path.setdefault(file.path, []).append(file)
        self._files = [*by_path.values()]
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests that this process takes, as pytest does."""
        taken = self._taken(session)
        item = next(taken, None)
        while item is not None:
            following = next(taken, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True

    def _taken(self, session: pytest.Session) -> Iterator[pytest.Item]:
        for number in range(len(self._files)):
            if self._take(f"{number}"):
                yield from self._parts(session, number)
        for number in range(len(self._files)):
            if not self._path(f"{number}-whole").exists():
                yield from self._parts(session, number)

    def _parts(self, session: pytest.Session, number: int) -> Iterator[pytest.Item]:
        items = [*chain.from_iterable(map(session.genitems, self._files[number]))]
        session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
        for first in range(0, len(items), PART):
            if self._take(f"{number}-{first}"):
                part = items[first : first + PART]
                session.testscollected += len(part)
                yield from part
        self._path(f"{number}-whole").touch()

    def _take(self, part: str) -> bool:
        try:
            self._path(part).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _path(self, name: str) -> Path:
        return self._folder / name


def files_below(node: Any) -> Iterator[pytest.Collector]:
    """Yield the files in a folder and all folders below it, or *node* if it is no folder."""
    if not isinstance(node, pytest.Directory):
        yield node
        return
    report = collect_one_node(node)
    node.ihook.pytest_collectreport(report=report)
    for child in report.result or ():
        yield from files_below(child)
