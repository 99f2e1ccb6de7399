"""Finds what is installed by reading files along ``sys.path``; imports nothing of it.

Listing plugins must stay cheap, so the standard library's metadata package (60 ms to import,
0.06 ms a distribution) is not used: entry_points.txt is searched as bytes, and METADATA read for
the matches alone. What may run is decided in catalog.py, not here.
"""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation,
# and pathlib costs 4 ms to import and several times os.path's time for each file:
# ruff: noqa: PTH110, PTH112, PTH113, PTH119, PTH123, PTH208

import codecs
import os
import site
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from pluggent_host.nearest import nearest

CONTRACT = "pluggent-hookspecs"
"""The distribution whose version a plugin asks for."""

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "pluggent.providers": "provider",
        "pluggent.tools": "tools",
        "pluggent.memory": "memory",
        "pluggent.parsers": "parser",
        "pluggent.hooks": "hooks",
        "pluggent.commands": "command",
    }
)
"""Every entry-point group, and the kind of its entries in capability ids."""

_HOOKS = "pluggent.hooks"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class EntryPoint(NamedTuple):
    """One line of a plugin's entry points, as written."""

    group: str
    name: str
    value: str


class Distribution(NamedTuple):
    """An installed distribution with entry points of ours.

    ``name`` is normalised (PEP 503), ``location`` its dist-info folder, ``contract`` what it asks
    of pluggent-hookspecs (``""`` if it does not say). ``shadowed_by`` is the location of the copy
    earlier on sys.path that is imported instead of this one.
    """

    name: str
    shown_name: str
    version: str
    location: str
    entry_points: tuple[EntryPoint, ...]
    contract: str = ""
    summary: str = ""
    shadowed_by: str = ""


class Problem(NamedTuple):
    """Something that could not be read or is ambiguous. ``fatal``: it may hide or double a policy."""

    path: str
    text: str
    plugin: str = ""
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class Discovery(NamedTuple):
    """What one search found, ordered by distribution and entry name, never by directory.

    ``skipped`` are folders of sys.path that were left out because they lie in the project.
    """

    distributions: tuple[Distribution, ...]
    problems: tuple[Problem, ...] = ()
    skipped: tuple[str, ...] = ()


def discover(path: Sequence[str] | None = None, *, project: str | None = None, trusted: bool = False) -> Discovery:
    """Return every distribution on *path* (default ``sys.path``) that offers something to us.

    The working directory, *project* and what lies below them are left out unless *trusted*: a
    cloned repository is no plugin. The running interpreter's own site-packages are searched
    wherever they lie. Never raises: what cannot be read is a problem.
    """
    roots = () if trusted else _roots(project)
    kept, skipped = _searched(sys.path if path is None else path, roots)
    search = _Search()
    for folder in kept:
        if os.path.isdir(folder):
            search.folder(folder)
    files = [entry for entry in kept if os.path.isfile(entry)]
    finders = [finder for finder in sys.meta_path if _finds_distributions(finder)]
    if files or finders:
        search.elsewhere(files, finders, kept, roots)
    return Discovery(tuple(sorted(search.found)), tuple(sorted(set(search.problems))), skipped)


def normalised(name: str) -> str:
    """Return *name* as PEP 503 writes it.

    >>> normalised("Acme__Tools.X")
    'acme-tools-x'
    """
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


# ---- where to look ----------------------------------------------------------------------


def _roots(project: str | None) -> tuple[str, ...]:
    """Return the folders below which nothing is a plugin, as real paths."""
    return tuple(filter(None, (_real(""), _real(project) if project else "")))


def _real(path: str) -> str:
    """Return *path* without links, the working directory for ``""``, and ``""`` for what cannot be a path."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # the working directory was deleted; a null character
        return ""


def _searched(path: Iterable[object], roots: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    kept: dict[str, None] = {}
    skipped: dict[str, None] = {}
    for entry in path:
        if isinstance(entry, str) and (real := _real(entry)):
            (skipped if _in_project(real, roots) else kept)[real] = None
    return list(kept), tuple(entry for entry in skipped if os.path.exists(entry))


def _in_project(real: str, roots: Sequence[str]) -> bool:
    return any(_below(real, root) for root in roots) and not _own(real, roots)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _own(real: str, roots: Sequence[str]) -> bool:
    """Say whether *real* belongs to the running interpreter, which may be ./.venv.

    A project may itself lie below a prefix such as /usr or /opt/conda; that makes nothing in it ours.
    sysconfig's purelib and platlib are among these places; importing it costs 1.5 ms.
    """
    for place in map(os.path.realpath, (*site.getsitepackages(), site.getusersitepackages())):
        if real == place or (_below(real, place) and not any(_below(root, place) for root in roots)):
            return True
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.exec_prefix)}
    return any(_below(real, prefix) and not any(_below(root, prefix) for root in roots) for prefix in prefixes)


# ---- what is there ----------------------------------------------------------------------


class _Search:
    """One walk along the path: who came first under which name, and what went wrong."""

    def __init__(self) -> None:
        self.found: list[Distribution] = []
        self.problems: list[Problem] = []
        self._first: dict[str, tuple[str, bool]] = {}

    def folder(self, folder: str) -> None:
        try:
            names = sorted(
                name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info", "EGG-INFO"))
            )
        except OSError as error:
            # A policy may be in there, and Python can import from a folder that it cannot list.
            self.problems.append(Problem(folder, f"cannot be listed: {error.strerror}", fatal=True))
            return
        for name in names:
            if name.startswith("~") or (name == "EGG-INFO" and not folder.endswith(".egg")):
                continue  # what an interrupted pip left behind
            location = f"{folder}/{name}"
            data = self._read(f"{location}/entry_points.txt")
            if data and b"pluggent." in data:
                self.distribution(location, data, partial(self._member, location))
            else:
                self._claim(_name_of_folder(name if name != "EGG-INFO" else os.path.basename(folder)), location)

    def elsewhere(
        self, files: Sequence[str], finders: Iterable[Any], path: Sequence[str], roots: Sequence[str]
    ) -> None:
        """Ask the backport about zip files, and foreign finders about what they serve."""
        import importlib_metadata  # 36 ms, for the rare sys.path with zips or finders

        metadata: Any = importlib_metadata
        for file in files:
            self._foreign(file, partial(metadata.distributions, path=[file]), roots)
        for finder in finders:
            self._foreign(
                repr(finder),
                partial(finder.find_distributions, metadata.DistributionFinder.Context(path=list(path))),
                roots,
            )

    def _foreign(self, source: str, find: Callable[[], Iterable[Any]], roots: Sequence[str]) -> None:
        try:
            for item in find():
                text: str = item.read_text("entry_points.txt") or ""
                if "pluggent." in text and not _in_project(_real(str(item.locate_file(""))), roots):
                    location = str(getattr(item, "_path", item.locate_file("")))
                    self.distribution(location, text.encode(), partial(_text_of, item))
        except Exception as error:  # noqa: BLE001 (a foreign finder and its files may raise anything)
            self.problems.append(Problem(source, f"cannot be searched: {type(error).__name__}: {error}"))

    def distribution(self, location: str, data: bytes, read: Callable[[str], bytes]) -> None:
        """Record the distribution at *location*; *data* are its entry points, *read* its other files."""
        try:
            entry_points = self._entry_points(f"{location}/entry_points.txt", data.decode())
            fields = _headers((read("METADATA") or read("PKG-INFO")).decode())
            shown, version = fields.get("name", [""])[0], fields.get("version", [""])[0]
            if not (shown and version and _NAME_CHARACTERS.issuperset(shown)):
                raise ValueError("METADATA has no proper Name and Version")  # noqa: TRY301 (one place says it)
            requires = fields.get("requires-dist") or read("requires.txt").decode().partition("[")[0].splitlines()
            contract = _contract(requires)
        except ValueError as error:  # UnicodeDecodeError is one too
            text = f"is no valid metadata: {error}. Reinstall the package"
            self.problems.append(Problem(location, text, fatal=_HOOKS.encode() in data))
            return
        name = normalised(shown)
        claimed = self._claim(name, location, hooks=any(entry.group == _HOOKS for entry in entry_points))
        if claimed is not None and entry_points:
            summary = fields.get("summary", [""])[0]
            self.found.append(Distribution(name, shown, version, location, entry_points, contract, summary, claimed))

    def _claim(self, name: str, location: str, *, hooks: bool = False) -> str | None:
        """Return ``""`` for the first of a name, the first's location for a later one, None for its twin."""
        first, first_hooks = self._first.setdefault(name, (location, hooks))
        if first == location:
            return ""
        if not (hooks or first_hooks):
            return first
        if _editable(first, location) or _editable(location, first):
            return None
        text = f"'{name}' is installed twice, and has hooks; the other copy is {location}. Remove one of them"
        self.problems.append(Problem(first, text, name, fatal=True))
        return first

    def _member(self, location: str, file: str) -> bytes:
        return self._read(f"{location}/{file}")

    def _read(self, path: str) -> bytes:
        try:
            with open(path, "rb", buffering=0) as file:
                return file.readall().removeprefix(codecs.BOM_UTF8)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            hides = path.endswith("entry_points.txt")  # a policy, perhaps
            self.problems.append(Problem(path, f"cannot be read: {error.strerror}", fatal=hides))
            return b""

    def _entry_points(self, path: str, text: str) -> tuple[EntryPoint, ...]:
        good: dict[tuple[str, str], EntryPoint] = {}
        for group, line in _lines(text):
            name, _, value = (part.strip() for part in line.partition("="))
            problem = _wrong(group, name, value)
            if not problem and (name, group) in good:
                problem = f"[{group}] names '{name}' twice"
            if not problem and group == _HOOKS and any(other == _HOOKS for _, other in good):
                # Grants, order and before/after name plugin ids, so an id has one set of hooks.
                problem = f"[{group}] has a second entry, '{name}': put all hooks into one object"
            if problem:
                self.problems.append(Problem(path, problem, fatal="hook" in group))
            else:
                good[name, group] = EntryPoint(group, name, value)
        return tuple(good[key] for key in sorted(good))


def _text_of(item: Any, file: str) -> bytes:
    text: str | None = item.read_text(file)
    return (text or "").encode()


def _finds_distributions(finder: object) -> bool:
    ours = ("_frozen_importlib_external", "importlib_metadata")  # the standard library's, and the backport's own
    module: object = getattr(finder, "__module__", None)
    return hasattr(finder, "find_distributions") and module not in ours


def _name_of_folder(folder: str) -> str:
    stem, _, suffix = folder.rpartition(".")
    name = stem.rpartition("-")[0] if suffix == "dist-info" else stem.partition("-")[0]
    return normalised(name or stem)


def _editable(place: str, other: str) -> bool:
    """Say whether *place* is an editable installation of the folder where *other* lies: one thing, seen twice."""
    try:
        with open(f"{place}/direct_url.json", "rb") as file:
            data = file.read()
    except OSError:
        return False
    import json  # 1.5 ms, and only for a name that was found twice
    from urllib.parse import unquote  # the same

    try:
        origin = json.loads(data)
        folder = unquote(str(origin["url"]).removeprefix("file://"))
        return bool(origin["dir_info"]["editable"]) and _below(other, os.path.realpath(folder))
    except (ValueError, KeyError, TypeError):
        return False


# ---- the formats ------------------------------------------------------------------------


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield (group, line) for each line of a group that bears our name."""
    group = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if line.startswith("["):
            group = line.strip("[] \t")
        elif line and line[0] not in "#;" and group.startswith("pluggent."):
            yield group, line


def _wrong(group: str, name: str, value: str) -> str:
    if group not in GROUPS:
        return f"[{group}] is no group of this host{nearest(group, GROUPS)}"
    if not name or not _NAME_CHARACTERS.issuperset(name):
        return f"[{group}] '{name}' is no name: use letters, digits, '.', '_' and '-'"
    if not all(part.isidentifier() for part in value.replace(":", ".", 1).split(".")):
        return f"[{group}] {name} = {value}: expected module:attribute"
    return ""


def _headers(text: str) -> dict[str, list[str]]:
    """Return the header fields of METADATA by lower-case name, up to the first empty line."""
    fields: dict[str, list[str]] = {}
    last = [""]
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        if not line:
            break
        if line[0] in " \t":
            last[-1] += " " + line.strip()
            continue
        key, _, value = line.partition(":")
        last = fields.setdefault(key.lower(), [])
        last.append(value.strip())
    return fields


def _contract(requires: Iterable[str]) -> str:
    """Return the version specifier in *requires* on the contract, "" if there is none."""
    found: list[str] = []
    for line in requires:
        requirement, _, marker = line.strip().partition(";")
        rest = requirement.lstrip("".join(_NAME_CHARACTERS))
        if normalised(requirement.removesuffix(rest)) != CONTRACT or not _applies(marker.strip()):
            continue
        rest = rest.partition("]")[2] if rest.lstrip().startswith("[") else rest
        if not rest.lstrip().startswith("@"):  # a URL says nothing of versions
            found.append(rest.replace(" ", "").strip("()"))
    return ",".join(filter(None, found))


def _applies(marker: str) -> bool:
    if not marker:
        return True
    from packaging.markers import Marker  # 20 ms, and hardly a plugin needs the contract on a condition

    return Marker(marker).evaluate({"extra": ""})
