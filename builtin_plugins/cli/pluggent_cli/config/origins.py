"""Where a setting comes from: a line of a file, a variable, the command line. Standard library only."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast

from pluggent_plugin_loader.settings import Section

_BUDGET = 262_144
"""Characters read to find lines: the author of a file may be hostile, so looking for lines has to cost little."""


class Origin(NamedTuple):
    """Where a value comes from: ``where`` is a file, a variable, or the command line.

    ``line`` counts from 1; None where there is none, or none was found. ``also`` are the sources
    whose values were added to it, first to last.
    """

    kind: Literal["file", "variable", "flag"]
    where: str
    line: int | None = None
    also: tuple[Origin, ...] = ()

    def __str__(self) -> str:
        own = self.where if self.line is None else f"{self.where}, line {self.line}"
        return " and ".join((*map(str, self.also), own))


def section_of(plugin: str, values: Mapping[str, Any], origins: Mapping[str, Origin]) -> Section:
    """Return the settings of *plugin* with the folders that *origins* know.

    >>> section_of("acme", {"file": "a.db"}, {"plugins.acme.file": Origin("file", "/etc/x/pluggent.toml")}).folders
    {'file': '/etc/x'}
    """
    known = {key: origins.get(f"plugins.{plugin}.{key}") for key in values}
    folders = {
        key: os.path.dirname(os.path.abspath(origin.where))  # noqa: PTH100, PTH120 (no links are followed)
        for key, origin in known.items()
        if origin is not None and origin.kind == "file"
    }
    return Section(values, folders)


def with_line(problem: str, lines: Mapping[str, int]) -> str:
    """Return *problem*, which begins with its key, with the line of that key in front, if it has one."""
    key = problem.partition(":")[0]
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return f"line {lines[key]}: {problem}" if key else problem


def lines_of(text: str) -> Mapping[str, int]:
    r"""Return the line of every dotted key and table in *text*, which is TOML; very long files are not read to the end.

    >>> lines_of('model = "a/b"\n[limits]\nasks = 2\n')
    {'model': 1, 'limits': 2, 'limits.asks': 3}
    """
    found: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for line, statement, parsed in _statements(text):
        if statement.lstrip().startswith("["):
            *_, table = _paths(parsed)
            names = [table[: end + 1] for end in range(len(table))]
        else:
            names = [(*table, *path) for path in _paths(parsed)]
        for path in names:
            found.setdefault(".".join(path), line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield each statement with its first line: TOML has one a line, but for long texts and lists.

    A statement cut off before its end is not TOML, so the first that parses is whole.
    """
    budget, first, statement = _BUDGET, 1, ""
    for line, content in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        first = first if statement else line
        statement = f"{statement}\n{content}" if statement else content
        budget -= len(statement)
        if budget < 0:
            return
        try:
            parsed = tomllib.loads(statement)
        except (ValueError, RecursionError):
            continue
        if parsed:
            yield first, statement, parsed
        statement = ""


def _paths(parsed: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key, those of inner tables behind those of the outer ones."""
    for name, value in parsed.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *path) for path in _paths(cast("dict[str, Any]", value)))
