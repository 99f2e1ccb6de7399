"""Says whether a call that writes files stays inside the session's workspace, and keeps files of the host from tools.

For the workspace only parameters that the tool marks as paths (``Param(format="path")``) are looked at: what a
tool does not mark cannot be confined, so it asks. Links are resolved as they are now. The
host's own files (sessions, settings, installed code) are never inside, wherever they lie. What the
host keeps for itself (sessions, approvals and the key that seals them) is for no tool at all.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, cast
from unicodedata import normalize
from urllib.parse import unquote

import attrs
from pluggent_hookspecs._frozen import Json

OWN_NAMES = frozenset({"pluggent.toml", ".mcp.json", ".git"})
"""Files and folders that decide what runs: writing them asks, in every workspace."""

_LONGEST = 4_096
"""Characters: no path is longer."""

_READ_OTHERWISE = re.compile(r"~|[A-Za-z][A-Za-z0-9+.-]*:|.*\0", re.DOTALL)
"""A home folder, a URL, a device: tools may read them as something else than a path below the root."""


@attrs.frozen
class Protected:
    """Files and folders of the host's own: ``private`` ones are for no tool, ``code`` is what this process imports."""

    private: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    _kept: tuple[str, ...] = attrs.field(
        init=False, repr=False, default=attrs.Factory(lambda self: _really(self.private), takes_self=True)
    )
    """Where the private ones really are, as they were when this was made; see ``_folded``."""

    def holds(self, arguments_json: bytes, workspace: str) -> str:
        """Return which private place a text of the arguments leads to, read as a path; empty if none does."""
        if not self.private:
            return ""
        for text in _texts(json.loads(arguments_json)):
            for path in {text, text.strip()}:
                real = _folded(_real(path, workspace))
                for place, kept in zip(self.private, self._kept, strict=True):
                    if real and _below(real, kept):
                        return place
        return ""


def _really(places: Iterable[str]) -> tuple[str, ...]:
    return tuple(_folded(os.path.realpath(place)) for place in places)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        yield from named  # a tool may take files by their paths
        for each in named.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in cast("Iterable[Any]", value):
            yield from _texts(each)


def _real(text: str, workspace: str) -> str:
    """Return where *text* leads if it is a path, or a URL of one; empty if it can be neither."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "file":  # whatever host it names: many readers look at the path alone
        text = unquote(re.sub("^//[^/]*", "", rest))
    path = text.partition("\0")[0]  # to many a reader it ends there
    path = os.path.normpath(path) if len(path) > _LONGEST else path
    if not path or len(path) > _LONGEST:
        return ""
    return os.path.realpath(os.path.join(workspace or os.curdir, os.path.expanduser(path)))  # noqa: PTH111, PTH118 (texts of anybody's)


def stays_inside(
    parameters: Mapping[str, Json], arguments_json: bytes, workspace: str, protected: Protected | None = None
) -> bool:
    """Return whether the call names at least one path, and all it names are in *workspace*.

    *protected* folders do not count as inside.
    """
    properties = parameters.get("properties")
    marked = (
        {name for name in properties if _is_path(properties[name])} if isinstance(properties, Mapping) else set[str]()
    )
    if _marks(parameters) != len(marked):
        return False  # a mark deeper in the schema: not looked at here, so a person looks at it
    root = os.path.realpath(workspace)
    kept_out = [os.path.realpath(path) for path in ((*protected.private, *protected.code) if protected else ())]
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
    if not _below(real, root) or any(_is_kept(real, folder) for folder in kept_out):
        return False
    # Case does not tell them apart: on some file systems .GIT is .git.
    return OWN_NAMES.isdisjoint(part.casefold() for part in PurePath(real).parts[len(PurePath(root).parts) :])


def _is_kept(path: str, folder: str) -> bool:
    """Say whether *path* is in *folder* on any file system: to some, case and composed letters make no difference."""
    return _below(_folded(path), _folded(folder))


def _folded(path: str) -> str:
    return path if path.isascii() and path.islower() else normalize("NFC", normalize("NFC", path).casefold())


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
