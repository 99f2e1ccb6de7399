"""Says whether a call that writes files stays inside the session's workspace.

Only parameters that the tool marks as paths (``Param(format="path")``) are looked at: what a
tool does not mark cannot be confined, so it asks. Links are resolved as they are now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pluggent_hookspecs._frozen import Json


def stays_inside(parameters: Mapping[str, Json], arguments_json: bytes, workspace: str) -> bool:
    """Return whether the call names at least one path, and every path it names is in *workspace*."""
    root = os.path.realpath(workspace)
    paths = list(_paths(parameters, json.loads(arguments_json)))
    return bool(paths) and all(_inside(path, root) for path in paths)


def _paths(parameters: Mapping[str, Json], arguments: Mapping[str, Any]) -> Iterator[str]:
    properties = parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        value = arguments.get(name)
        if not isinstance(schema, Mapping) or schema.get("format") != "path" or value is None:
            continue
        yield from (str(item) for item in (value if isinstance(value, list) else [value]))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _inside(path: str, root: str) -> bool:
    if "\0" in path:
        return False
    real = os.path.realpath(f"{root}/{path}" if not path.startswith("/") else path)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)
