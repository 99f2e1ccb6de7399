"""Runs the tests that reach a statement against each mutant of it, in a fork of a process that has collected them.

Nothing on the disk is changed: a mutant's fork gives the function other code. A process that a test
starts with a new interpreter has the unchanged one.
"""

import gc
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Literal, NoReturn

import attrs
import pytest
from _pytest.runner import runtestprotocol
from mutations import Mutation, mutated

CPU_S = 60.0
"""CPU seconds that the tests of one mutant may take; what has not been run by then is not."""
HUNG_S = 120.0
"""Seconds after which a test that has not ended counts as hung."""

Report = Callable[[str], None]
TraceFunction = Callable[[FrameType, str, Any], Any]
Outcome = Literal["killed", "survived", "hung", "unfinished", "not run", "not applicable"]


@attrs.frozen
class Mutant:
    """A mutation of a file."""

    file: Path
    """Relative to the checkout."""
    mutation: Mutation

    @property
    def name(self) -> str:
        """What it is called in the list of results."""
        return f"{self.file}:{self.mutation.line} {self.mutation.function} #{self.mutation.number}"


@attrs.frozen
class Result:
    """What became of a mutant."""

    mutant: str
    change: str
    outcome: Outcome
    test: str = ""
    """The test that failed or hung."""
    tests: int = 0
    """How many tests run the changed statement."""
    elapsed_s: float = 0.0


class MutantRuns:
    """A pytest plugin: in place of one run of the tests, one for each mutant. Hands each Result to *record*."""

    def __init__(self, root: Path, mutants: Sequence[Mutant], record: Callable[[Result], None]) -> None:
        self._root = root
        self._mutants = mutants
        self._record = record

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out which test runs which lines, then run those of each mutant."""
        gc.unfreeze()  # conftest.py froze what was collected; get_objects would leave out the functions to change
        items = {item.nodeid: item for item in session.items}
        lines = _lines_run(session.items, {str(self._root / mutant.file) for mutant in self._mutants})
        for mutant in self._mutants:
            file, changed = str(self._root / mutant.file), mutant.mutation
            places = {(file, line) for line in range(changed.first_line, changed.last_line + 1)}
            self._record(self._result(mutant, [items[test] for test, run in lines.items() if run & places]))
        return True

    def _result(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Result:
        begun = time.monotonic()
        outcome, test = self._outcome(mutant, items) if items else ("not run", "")
        elapsed_s = round(time.monotonic() - begun, 2)
        return Result(mutant.name, mutant.mutation.change, outcome, test, len(items), elapsed_s)

    def _outcome(self, mutant: Mutant, items: Sequence[pytest.Item]) -> tuple[Outcome, str]:
        file = self._root / mutant.file
        code = mutated(file.read_text(encoding="utf-8"), str(file), mutant.mutation)
        if code is None:
            return "not applicable", ""

        def run(report: Report) -> None:
            if _replace(str(file), mutant.mutation.function, code):
                _run_until_failure(items, report)
            else:
                report("not applicable")

        test = ""
        for line in _lines_of_fork(run):
            match line.partition(" "):
                case "test", _, test:
                    pass
                case ("killed" | "survived" | "unfinished") as outcome, _, _:
                    return outcome, test if outcome == "killed" else ""
                case _:
                    return "not applicable", ""
        return "hung", test  # or it ended the process


def _run_until_failure(items: Sequence[pytest.Item], report: Report) -> None:
    begun_s = time.process_time()
    for item, following in pairwise([*items, None]):
        assert item is not None
        if time.process_time() - begun_s > CPU_S:
            report("unfinished")
            return
        report(f"test {item.nodeid}")
        if not _passed(item, following):
            report("killed")
            return
    report("survived")


def _lines_run(items: Sequence[pytest.Item], files: set[str]) -> dict[str, set[tuple[str, int]]]:
    """Return what lines of *files* each test runs, as (file, line); the quickest test first."""

    def run(report: Report) -> None:
        seen: set[tuple[str, int]] = set()

        def in_file(frame: FrameType, event: str, _: object) -> TraceFunction:
            if event == "line":
                seen.add((frame.f_code.co_filename, frame.f_lineno))
            return in_file

        def anywhere(frame: FrameType, event: str, _: object) -> TraceFunction | None:
            return in_file if frame.f_code.co_filename in files else None

        for item, following in pairwise([*items, None]):
            assert item is not None
            seen.clear()
            begun_s = time.process_time()
            _trace(anywhere)
            passed = _passed(item, following)
            _trace(None)
            took_s = time.process_time() - begun_s
            report(json.dumps({"test": item.nodeid, "passed": passed, "took_s": took_s, "lines": sorted(seen)}))

    found = [json.loads(line) for line in _lines_of_fork(run)]
    failed = [each["test"] for each in found if not each["passed"]]
    failed += [item.nodeid for item in items[len(found) :]]
    if failed:
        print("left out, for they fail without a mutant:", *failed, sep="\n   ")  # noqa: T201 (a program's output)
    found.sort(key=lambda each: each["took_s"])
    return {each["test"]: {(file, line) for file, line in each["lines"]} for each in found if each["passed"]}


def _trace(function: TraceFunction | None) -> None:
    sys.settrace(function)
    threading.settrace(function)


def _passed(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports: list[pytest.TestReport] = runtestprotocol(item, log=False, nextitem=following)
    return not any(each.failed for each in reports)


def _replace(file: str, function: str, code: CodeType) -> bool:
    """Give every function that was made from the source of *function* other code; tell whether there is one."""
    found = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_filename == file
        and each.__code__.co_qualname == function
        and each.__code__.co_firstlineno == code.co_firstlineno
    ]
    if any(each.__code__.co_freevars != code.co_freevars for each in found):
        return False
    for each in found:
        each.__code__ = code
    return bool(found)


def _lines_of_fork(run: Callable[[Report], None]) -> Iterator[str]:
    """Yield the lines that *run* reports from a fork of this process, until it ends or has been silent too long."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        _in_fork(run, writer)
    os.close(writer)
    text = b""
    try:
        while select.select([reader], [], [], HUNG_S)[0] and (data := os.read(reader, 65_536)):
            *lines, text = (text + data).split(b"\n")
            yield from (line.decode() for line in lines)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(reader)


def _in_fork(run: Callable[[Report], None], writer: int) -> NoReturn:
    def report(line: str) -> None:
        os.write(writer, f"{line}\n".encode())

    try:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        run(report)
    finally:
        os._exit(0)
