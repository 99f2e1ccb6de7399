"""Says whether a call that writes files stays in the session's workspace, and keeps files of the host from tools.

Only parameters marked as paths (``Param(format="path")``) can be confined to the workspace; links are
resolved as they are now. The host's own files (sessions, settings, installed code) are never inside,
and its private ones (sessions, approvals and their key) are for no tool at all.
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
import msgspec
from pluggent_hookspecs import EMPTY, Json

OWN_NAMES = frozenset({"pluggent.toml", ".mcp.json", ".git"})
"""Files and folders that decide what runs: writing them asks, in every workspace."""

_LONGEST = 4_096
"""Characters: no path is longer."""

_READ_OTHERWISE = re.compile(r"~|[A-Za-z][A-Za-z0-9+.-]*:|.*\0", re.DOTALL)
"""A home folder, a URL, a device: tools may read them as something else than a path below the root."""

_NAME = re.compile(r"[^./~:\0][^/:\0]*")
"""Read as a path it is one step from the folder it is read in, and leads on only if it is a link."""


def _private_folders(protected: Protected) -> tuple[str, ...]:
    return tuple(_as_folder(_folded(os.path.realpath(place))) for place in protected.private)


@attrs.frozen
class Protected:
    """Files and folders of the host: ``private`` ones are for no tool, ``code`` is imported by this process."""

    private: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    _really: tuple[str, ...] = attrs.field(
        init=False, repr=False, default=attrs.Factory(_private_folders, takes_self=True)
    )
    """Where the private ones really are, as they were when this was made; see ``_folded`` and ``_as_folder``."""

    def holds(self, arguments_json: bytes, workspace: str, parameters: Mapping[str, Json] = EMPTY) -> str:
        """Return the private place that a text of the arguments leads to, read as a path; "" if there is none.

        The names of *parameters*, the tool's schema, are not such texts: the caller does not choose them.
        """
        if not self.private:
            return ""
        properties = parameters.get("properties")
        declared = properties if isinstance(properties, Mapping) else EMPTY
        given = _decoded(arguments_json)
        texts = [name for name in given if name not in declared]
        texts += [text for value in given.values() for text in _texts(value)]
        # In the way of every call: most have no path, and the folder is looked for once for all.
        here = "" if not texts else os.path.realpath(workspace) if workspace else os.getcwd()  # noqa: PTH109 (the same)
        for path in {path for text in texts for path in (text, text.strip())}:
            if (real := _real(path, here)) and (found := _as_folder(_folded(real))).startswith(self._really):
                places = zip(self.private, self._really, strict=True)
                return next(place for place, kept in places if found.startswith(kept))
        return ""


def _decoded(arguments_json: bytes) -> dict[str, Any]:
    try:
        given: dict[str, Any] = msgspec.json.decode(arguments_json)
    except msgspec.DecodeError:  # a number or a lone surrogate that the standard library takes
        given = json.loads(arguments_json)
    return given


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


def _real(text: str, folder: str) -> str:
    """Return where *text* leads, read in *folder*, if it is a path or a file URL; "" otherwise."""
    if len(text) <= _LONGEST and _NAME.fullmatch(text):  # most are, and this is in the way of every call
        name = _as_folder(folder) + text
        if not os.path.islink(name):  # noqa: PTH114 (any text)
            return name
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "file":  # whatever host it names: many readers look at the path alone
        text = unquote(re.sub("^//[^/]*", "", rest))
    path = text.partition("\0")[0]  # to many a reader it ends there
    path = os.path.normpath(path) if len(path) > _LONGEST else path
    if not path or len(path) > _LONGEST:
        return ""
    return os.path.realpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118 (any text)


def stays_inside(
    parameters: Mapping[str, Json], arguments_json: bytes, workspace: str, protected: Protected | None = None
) -> bool:
    """Return whether the call names a path, and all its paths are in *workspace* and in no *protected* folder."""
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
    """Say whether *path* is in *folder* on any file system; some ignore case and composed letters."""
    return _below(_folded(path), _folded(folder))


def _folded(path: str) -> str:
    return path if path.isascii() and path.islower() else normalize("NFC", normalize("NFC", path).casefold())


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(_as_folder(folder))


def _as_folder(path: str) -> str:
    return path.rstrip(os.sep) + os.sep
