"""Which hooks the code of a plugin has, read from its source: nothing of it is imported before a person accepts it."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from pluggent_hookspecs.hooks import HOOKS
from pluggent_host.plugins.discovery import Distribution

_MOST_BYTES = 1_048_576
_MOST_FILES = 200


def hooks_in_source(item: Distribution) -> tuple[str, ...] | None:
    """Return the names of the hooks that functions in *item*'s modules have; None where a module cannot be read.

    A plugin can make hooks in other ways, so that this is what a person reads and no proof.
    """
    found: set[str] = set()
    for module in sorted({entry.value.partition(":")[0].strip() for entry in item.entry_points}):
        files = _files(Path(os.path.dirname(item.location)), module.partition(".")[0])  # noqa: PTH120 (as discovery)
        if not files:
            return None
        for file in files:
            names = _functions(file)
            if names is None:
                return None
            found |= names & HOOKS.keys()
    return tuple(sorted(found))


def _files(folder: Path, package: str) -> list[Path]:
    module = folder / f"{package}.py"
    if module.is_file():
        return [module]
    files = sorted((folder / package).rglob("*.py"))
    return files if len(files) <= _MOST_FILES else []


def _functions(file: Path) -> set[str] | None:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return None
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
