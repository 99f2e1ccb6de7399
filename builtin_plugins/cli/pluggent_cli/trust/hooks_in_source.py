"""Which hooks the code of a plugin has, read from its source: nothing of it is imported before a person accepts it."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from pluggent_hookspecs.hooks import HOOKS
from pluggent_plugin_loader.discovery import Distribution
from pluggent_plugin_loader.entry_points import MODEL_NAMES

_MOST_BYTES = 1_048_576
_MOST_FILES = 200
_COMPILED = (".so", ".pyd", ".pyc")


def hooks_in_source(item: Distribution) -> tuple[str, ...] | None:
    """Return the hooks that are named in *item*'s modules; None where a module cannot be read.

    A plugin can name them in other ways, so that this is what a person reads and no proof.
    """
    found: set[str] = set()
    code = [entry.value for entry in item.entry_points if entry.group != MODEL_NAMES]
    for module in sorted({value.partition(":")[0].strip() for value in code}):
        files = _files(Path(os.path.dirname(item.location)), module.partition(".")[0])  # noqa: PTH120 (as discovery)
        if not files:
            return None
        for file in files:
            names = _names(file)
            if names is None:
                return None
            found |= names & HOOKS.keys()
    return tuple(sorted(found))


def _files(folder: Path, package: str) -> list[Path]:
    """Return what may be imported as *package*: its folder comes before a module, compiled ones before both."""
    compiled = [path for path in folder.glob(f"{package}.*") if path.suffix in _COMPILED]
    below = (folder / package).rglob("*")
    inside = [path for path in below if path.suffix in (".py", *_COMPILED) and path.parent.name != "__pycache__"]
    module = folder / f"{package}.py"
    files = [*compiled, *inside, *([module] if os.path.lexists(module) else [])]
    return files if len(files) <= _MOST_FILES else []


def _names(file: Path) -> set[str] | None:
    """Return every name that *file* gives to something, and every text in it; None if it is not readable source."""
    try:
        # A pipe would be waited for, and a device read for ever.
        if file.suffix in _COMPILED or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return None
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    return {name for node in ast.walk(tree) if (name := _name(node))}


def _name(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.alias(asname=str(name)):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.alias(name=name) | ast.Constant(value=str(name)):
            return name
        case _:
            return ""
