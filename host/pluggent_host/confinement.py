"""Says whether a call that writes files stays inside the session's workspace.

Only parameters that the tool marks as paths (``Param(format="path")``) are looked at: what a
tool does not mark cannot be confined, so it asks. Links are resolved as they are now. The
host's own files (sessions, settings, installed code) are never inside, wherever they lie.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from pluggent_hookspecs._frozen import Json

OWN_NAMES = frozenset({"pluggent.toml", ".mcp.json", ".git"})
"""Files and folders that decide what runs: writing them asks, in every workspace."""

_READ_OTHERWISE = re.compile(r"~|[A-Za-z][A-Za-z0-9+.-]*:|.*\0", re.DOTALL)
"""A home folder, a URL, a device: tools may read them as something else than a path below the root."""


def stays_inside(
    parameters: Mapping[str, Json], arguments_json: bytes, workspace: str, protected: Iterable[str] = ()
) -> bool:
    """Return whether the call names at least one path, and all it names are in *workspace*.

    *protected* are folders that do not count as inside.
    """
    properties = parameters.get("properties")
    marked = (
        {name for name in properties if _is_path(properties[name])} if isinstance(properties, Mapping) else set[str]()
    )
    if _marks(parameters) != len(marked):
        return False  # a mark deeper in the schema: not looked at here, so a person looks at it
    root = os.path.realpath(workspace)
    kept_out = [os.path.realpath(path) for path in protected]
    paths = list(_values(marked, json.loads(arguments_json)))
    return bool(paths) and all(_inside(path, root, kept_out) for path in paths)


def _is_path(schema: Json) -> bool:
    return isinstance(schema, Mapping) and schema.get("format") == "path"


def _marks(schema: Json) -> int:
    if isinstance(schema, Mapping):
        return _is_path(schema) + sum(_marks(value) for value in schema.values())
    return sum(_marks(value) for value in schema) if isinstance(schema, list | tuple) else 0


def _values(marked: Iterable[str], arguments: Mapping[str, Any]) -> Iterator[object]:
    for name in sorted(marked):
        value: Any = arguments.get(name)
        if isinstance(value, list):
            yield from value
        elif value is not None:
            yield value


def _inside(path: object, root: str, kept_out: Iterable[str]) -> bool:
    if not isinstance(path, str) or not path or _READ_OTHERWISE.match(path):
        return False
    real = os.path.realpath(path if path.startswith("/") else f"{root}/{path}")
    if not _below(real, root) or any(_below(real, folder) for folder in kept_out):
        return False
    # Case does not tell them apart: on some file systems .GIT is .git.
    return OWN_NAMES.isdisjoint(part.casefold() for part in PurePath(real).parts[len(PurePath(root).parts) :])


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
