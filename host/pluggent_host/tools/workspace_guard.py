"""Says whether a call that writes files stays in the session's workspace, and keeps files of the host from tools.

Only parameters marked as paths (``Param(format="path")``) can be confined to the workspace; links are
resolved as they are now. The host's own files (sessions, settings, installed code) are never inside,
and its private ones (sessions, approvals and their key) are for no tool at all.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast
from unicodedata import category, normalize
from urllib.parse import unquote

import attrs
import msgspec
from pluggent_hookspecs import EMPTY, Json, Value

OWN_NAMES = frozenset({"pluggent.toml", ".mcp.json", ".git"})
"""Files and folders that decide what runs: writing them asks, in every workspace."""

_FILES = (f"{store}.json{part}" for store in ("trust", "hooks") for part in ("", ".key", ".lock"))
PRIVATE = ("sessions", "batches", "logins", "keys", *_FILES)
"""Names in the state folder that are for no tool: transcripts, batches and approvals, credentials, trust."""

_LONGEST = 4_096
"""Characters: no path is longer."""

_READ_OTHERWISE = re.compile(r"~|[A-Za-z][A-Za-z0-9+.-]*:|.*\0", re.DOTALL)
"""A home folder, a URL, a device: tools may read them as something else than a path below the root."""

_PATH_WORDS = frozenset({
    "path", "file", "filename", "filepath", "dir", "directory", "directorie", "folder", "dest", "destination", "dst",
    "src", "source", "target", "output", "out", "to", "from",
})  # fmt: skip
"""Words in the names of parameters, in the singular, that usually hold a path."""
_BEGINS_AS_PATH = re.compile(r"\s*(?:[/\\~]|\.\.?[/\\]|\.\.\s*$|[A-Za-z]:[/\\]|file:)", re.IGNORECASE)

_SHORT_NAME = re.compile(r"(?:git|mcp|plugge|[a-z]{2}[0-9a-f]{4})~[0-9]")
"""How the own names are called on file systems with 8.3 names (as git's core.protectNTFS has it)."""

_NAME = re.compile(r"[^./~:\0][^/:\0]*")
"""Read as a path it is one step from the folder it is read in, and leads on only if it is a link."""


_undecoded = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _private_folders(protected: Protected) -> tuple[str, ...]:
    return tuple(_as_folder(_folded(os.path.realpath(place))) for place in protected.private)


class Touched(NamedTuple):
    """The private place that a call leads into, and a folder that it names and that has one in it; else ""."""

    inside: str
    above: str


_UNTOUCHED = Touched("", "")


@attrs.frozen(repr=False)
class Protected(Value):
    """Files and folders of the host: ``private`` ones are for no tool, ``code`` is imported by this process."""

    private: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    _really: tuple[str, ...] = attrs.field(
        init=False, repr=False, default=attrs.Factory(_private_folders, takes_self=True)
    )
    """Where the private ones really are, as they were when this was made; see ``_folded`` and ``_as_folder``."""

    def holds(self, arguments_json: bytes, workspace: str, parameters: Mapping[str, Json] = EMPTY) -> str:
        """Return the private place that a text of the arguments leads to, read as a path; "" if there is none."""
        return self.touched(arguments_json, workspace, parameters).inside

    def touched(self, arguments_json: bytes, workspace: str, parameters: Mapping[str, Json] = EMPTY) -> Touched:
        """Return the private places that texts of the arguments, read as paths, lead into, and those they lead above.

        The names of *parameters*, the tool's schema, are not such texts: the caller does not choose them.
        """
        if not self.private:
            return _UNTOUCHED
        properties = parameters.get("properties")
        declared = properties if isinstance(properties, Mapping) else EMPTY
        given = _decoded(arguments_json)
        texts = [name for name in given if name not in declared]
        texts += [text for value in given.values() for text in _texts(value)]
        # In the way of every call: most have no path, and the folder is looked for once for all.
        here = "" if not texts else os.path.realpath(workspace) if workspace else os.getcwd()  # noqa: PTH109 (the same)
        above = ""
        for path in {path for text in texts for path in (text, text.strip())}:
            if not (real := _real(path, here)):
                continue
            found = _as_folder(_folded(real))
            if found.startswith(self._really):
                places = zip(self.private, self._really, strict=True)
                return Touched(next(place for place, kept in places if found.startswith(kept)), above)
            above = above or next((real for kept in self._really if kept.startswith(found)), "")
        return Touched("", above) if above else _UNTOUCHED


def protected_by(state_dir: Path | None, workspace: Path | None, private: Iterable[str]) -> Protected:
    """Return what a host with these folders keeps from tools: *private* and its own, and code that it imports."""
    below = str(workspace or "")
    code = tuple(entry for entry in sys.path if below and os.path.realpath(entry) != below and entry)
    own = () if state_dir is None else tuple(str(state_dir / name) for name in PRIVATE)
    return Protected((*own, *private), code)


def _decoded(arguments_json: bytes, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments; those named in *without* may be left empty: the text of a file costs a millisecond."""
    try:
        if without and len(arguments_json) > _LONGEST:
            given = _undecoded(arguments_json)
            return {name: None if name in without else msgspec.json.decode(raw) for name, raw in given.items()}
        whole: dict[str, Any] = msgspec.json.decode(arguments_json)
    except msgspec.DecodeError:  # a number or a lone surrogate that the standard library takes
        whole = json.loads(arguments_json)
    return whole


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
    if len(path) > _LONGEST:
        # What is left of a long text without its "/.", "//" is a path only if ".." takes away most of it.
        path = os.path.normpath(path) if "/.." in path or len(path) - 2 * path.count("/") <= _LONGEST else ""
    if not path or len(path) > _LONGEST:
        return ""
    return os.path.realpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118 (any text)


def why_outside(
    parameters: Mapping[str, Json], arguments_json: bytes, workspace: str, protected: Protected | None = None
) -> str:
    """Return why a call is not sure to write in *workspace* and in no *protected* folder; "" if it is.

    What may be a path and is marked neither as one nor as text counts too: by its parameter's name, or as it is
    written.
    """
    properties = parameters.get("properties")
    properties = properties if isinstance(properties, Mapping) else EMPTY
    marked = {name for name in properties if _is_path(properties[name])}
    texts = {name for name in properties if _is_text(properties[name])}
    if _marks(parameters) != len(marked):
        return "a path lies deeper in its arguments"  # not looked at here, so a person looks at it
    given = _decoded(arguments_json, texts)
    others = given.keys() - marked - texts
    if unmarked := sorted(name for name in others if _may_be_path(name, given[name])):
        names = " and ".join(map(repr, unmarked))
        return f'{names} may be a path and is not marked as one (the tool\'s author: Param(format="path"))'
    root = os.path.realpath(workspace)
    kept_out = [os.path.realpath(path) for path in ((*protected.private, *protected.code) if protected else ())]
    paths = list(_values(marked, given))
    if not paths:
        return 'none of its arguments is marked as a path (the tool\'s author: Param(format="path"))'
    return (
        ""
        if all(_inside(each, root, kept_out) for path in paths for each in _as_read(path))
        else "it writes files outside the workspace"
    )


def _may_be_path(name: str, value: object) -> bool:
    """Say whether an unmarked argument may name a file: by the name of its parameter, or because it begins as paths do.

    >>> _may_be_path("destDir", "x"), _may_be_path("content", "~/.profile"), _may_be_path("content", "a profile")
    (True, True, False)
    """
    texts = [text for text in _texts(value) if text]
    named = not _PATH_WORDS.isdisjoint(word.lower().rstrip("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))
    return bool(texts) and (named or any(_BEGINS_AS_PATH.match(text) for text in texts))


def _is_path(schema: Json) -> bool:
    return isinstance(schema, Mapping) and schema.get("format") == "path"


def _is_text(schema: Json) -> bool:
    return isinstance(schema, Mapping) and schema.get("format") == "text"


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


def _as_read(path: object) -> tuple[object, ...]:
    """Return *path*, and what it is to a tool that takes off the blanks around it."""
    return (path, path.strip()) if isinstance(path, str) else (path,)


def _inside(path: object, root: str, kept_out: Iterable[str]) -> bool:
    if not isinstance(path, str) or not path or _READ_OTHERWISE.match(path):
        return False
    real = os.path.realpath(path if path.startswith("/") else f"{root}/{path}")
    if not _below(real, root) or any(_is_kept(real, folder) for folder in kept_out):
        return False
    return not any(_is_own(part) for part in PurePath(real).parts[len(PurePath(root).parts) :])


def _is_own(name: str) -> bool:
    """Say whether *name* is one of ``OWN_NAMES`` on any file system, as git does for its own.

    Some ignore case, some invisible characters, and Windows' own has dots and blanks at the end and short names.
    """
    seen = "".join(character for character in name if category(character) != "Cf").casefold().partition(":")[0]
    return seen.strip().rstrip(" .") in OWN_NAMES or _SHORT_NAME.match(seen.strip()) is not None


def _is_kept(path: str, folder: str) -> bool:
    """Say whether *path* is in *folder* on any file system; some ignore case and composed letters."""
    return _below(_folded(path), _folded(folder))


def _folded(path: str) -> str:
    return path if path.isascii() and path.islower() else normalize("NFC", normalize("NFC", path).casefold())


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(_as_folder(folder))


def _as_folder(path: str) -> str:
    return path.rstrip(os.sep) + os.sep
