"""Reads the tables of a README, so that tests can hold them to what the code does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
import pytest


def tables(file: Path) -> dict[str, dict[str, str]]:
    """Return every table of *file* by the heads of its first two columns: second cells by first cells."""
    found: dict[str, dict[str, str]] = {}
    head = ""
    for cells in _rows(file):
        if not cells:
            head = ""
        elif not head:
            head = f"{cells[0]} {cells[1]}"
            found[head] = {}
        elif not set(cells[0]) <= {"-"}:
            found[head][cells[0]] = cells[1]
    return found


def _rows(file: Path) -> Iterator[list[str]]:
    for line in file.read_text("utf-8").splitlines():
        yield [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []


def each_row(rows: Mapping[str, str], cases: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test for every row and every case: a row without a case fails, and so does a case without a row."""
    assert rows
    return pytest.mark.parametrize("row", sorted({*rows, *cases}))


def same(found: Callable[[], object], expected: object) -> Callable[[], None]:
    """Return a check that *found* gives *expected*."""

    def check() -> None:
        assert found() == expected

    return check


def names_in(made: type) -> set[str]:
    """Return the names of the fields of an attrs class."""
    return {field.name for field in attrs.fields(made)}
