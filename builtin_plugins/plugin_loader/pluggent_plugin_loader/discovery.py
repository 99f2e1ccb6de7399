"""Finds what is installed by reading files along ``sys.path``; imports nothing of it.

Listing plugins must stay cheap, so the standard library's metadata package (60 ms to import,
0.06 ms a distribution) is not used: entry_points.txt is searched as bytes, METADATA read for
the matches alone. catalog.py decides what may run.
"""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation,
# and pathlib costs 4 ms to import and several times os.path's time for each file:
# ruff: noqa: PTH110, PTH112, PTH113, PTH119, PTH120, PTH123, PTH208

import codecs
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from pluggent_plugin_loader.entry_points import (
    FIRST_PARTY,
    HOOKS,
    NAME_CHARACTERS,
    EntryPoint,
    Problem,
    entry_points_of,
    roles_of,
)
from pluggent_plugin_loader.project import in_project, is_editable, real, roots

CONTRACT = "pluggent-hookspecs"
"""The distribution whose version a plugin requires."""

_NO_ROLES: Mapping[str, str] = MappingProxyType({})
ROOT, HOST = "pluggent", "pluggent-host"
"""The distribution that declares first-party plugins, and that of this code, in whose folder it counts."""


class Distribution(NamedTuple):
    """An installed distribution with entry points of pluggent.

    ``name`` is normalised (PEP 503), ``location`` its dist-info folder, ``contract`` its version specifier for
    pluggent-hookspecs. ``shadowed_by`` is the location of the copy earlier on sys.path that is imported
    instead. ``left_out`` is the folder of the project in which it lies, if it must not run from there;
    ``agreed``: the operator agreed to that.
    """

    name: str
    shown_name: str
    version: str
    location: str
    entry_points: tuple[EntryPoint, ...]
    contract: str = ""
    summary: str = ""
    shadowed_by: str = ""
    left_out: str = ""
    agreed: bool = False

    @property
    def has_hooks(self) -> bool:
        """Whether it offers a plugin with hooks."""
        return any(entry.group == HOOKS for entry in self.entry_points)


class Discovery(NamedTuple):
    """The result of one search, ordered by distribution and entry name.

    ``skipped`` are folders of sys.path in the project, ``left_out`` the distributions in them, which are
    not among ``distributions``. ``first_party`` maps plugin ids to one of ROLES.
    """

    distributions: tuple[Distribution, ...]
    problems: tuple[Problem, ...] = ()
    skipped: tuple[str, ...] = ()
    left_out: tuple[Distribution, ...] = ()
    first_party: Mapping[str, str] = _NO_ROLES


def discover(
    path: Sequence[str] | None = None,
    *,
    project: str | None = None,
    trusted: bool | Callable[[Distribution], bool] = False,
    only: str = "",
) -> Discovery:
    """Return every distribution on *path* (default ``sys.path``) with entry points of pluggent.

    Whatever lies in the working directory, in *project* or below them is left out unless it is *trusted*,
    altogether or one by one. The interpreter's own site-packages and the folder of the host are
    searched wherever they are. *only* is the normalised name of a single distribution to look for, which
    takes a fraction of the time. Never raises: what cannot be read is a problem.
    """
    here = () if trusted is True else roots(project)
    searched = sys.path if path is None else path
    places = _places([entry for entry in searched if _may_hold(entry, only)] if only else searched, here)
    search = _Search(here, trusted if callable(trusted) else lambda _: False, only)
    for folder, inside in places.items():
        if os.path.isdir(folder):
            search.folder(folder, inside=inside)
    files = [place for place in places if os.path.isfile(place)]
    finders = [finder for finder in sys.meta_path if _finds_distributions(finder)]
    if files or finders:
        search.elsewhere(files, finders, [place for place, inside in places.items() if not inside])
    skipped = tuple(place for place, inside in places.items() if inside and os.path.exists(place))
    first_party = search.first_party()
    problems = tuple(sorted(set(search.problems)))
    return Discovery(tuple(sorted(search.found)), problems, skipped, search.missed(), first_party)


def normalised(name: str) -> str:
    """Return *name* as PEP 503 writes it: acme-tools-x for Acme__Tools.X."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


def _may_hold(entry: str, name: str) -> bool:
    try:
        return any(_name_of_folder(each) == name for each in os.listdir(entry) if each.endswith("-info"))
    except OSError:
        return True  # a file, or what cannot be listed: the search says so


def _places(path: Iterable[object], roots: Sequence[str]) -> dict[str, bool]:
    """Return each entry of *path* once, as a real path, and whether it lies in the project."""
    places: dict[str, bool] = {}
    for entry in path:
        if isinstance(entry, str) and (place := real(entry)):
            places.setdefault(place, in_project(place, roots))
    return places


class _Search:
    """One walk along the path."""

    def __init__(self, roots: Sequence[str], trusts: Callable[[Distribution], bool], only: str) -> None:
        self._roots = roots
        self._only = only
        self._trusts = trusts
        self._left_out: list[Distribution] = []
        self.found: list[Distribution] = []
        self.problems: list[Problem] = []
        self._first: dict[str, tuple[str, bool]] = {}
        self._roles: dict[str, Mapping[str, str]] = {}
        self._twice: set[str] = set()

    def folder(self, folder: str, *, inside: bool) -> None:
        try:
            names = sorted(
                each for each in os.listdir(folder) if each.endswith((".dist-info", ".egg-info", "EGG-INFO"))
            )
        except OSError as error:
            # A policy may be in there, and Python can import from a folder that it cannot list.
            self.problems.append(Problem(folder, f"cannot be listed: {error.strerror}", fatal=not inside))
            return
        for name in names:
            if name.startswith("~") or (name == "EGG-INFO" and not folder.endswith(".egg")):
                continue  # what an interrupted pip left behind
            if self._only and name != "EGG-INFO" and _name_of_folder(name) != self._only:
                continue
            location = f"{folder}/{name}"
            data = self._read(f"{location}/entry_points.txt")
            if data and b"pluggent" in data.lower():
                self.distribution(location, data, partial(self._member, location), folder if inside else "")
            elif not inside:
                self._claim(_name_of_folder(name if name != "EGG-INFO" else os.path.basename(folder)), location)

    def elsewhere(self, files: Sequence[str], finders: Iterable[Any], path: Sequence[str]) -> None:
        """Ask the backport about zip files, and foreign finders about their distributions."""
        import importlib_metadata  # 36 ms, for the rare sys.path with zips or finders

        metadata: Any = importlib_metadata
        for file in files:
            self._foreign(file, partial(metadata.distributions, path=[file]))
        for finder in finders:
            context = metadata.DistributionFinder.Context(path=list(path))
            self._foreign(repr(finder), partial(finder.find_distributions, context))

    def _foreign(self, source: str, find: Callable[[], Iterable[Any]]) -> None:
        try:
            for item in find():
                text: str = item.read_text("entry_points.txt") or ""
                if "pluggent." in text:
                    place = real(str(item.locate_file("")))
                    location = str(getattr(item, "_path", item.locate_file("")))
                    left_out = place if in_project(place, self._roots) else ""
                    self.distribution(location, text.encode(), partial(_text_of, item), left_out)
        except Exception as error:  # noqa: BLE001 (a foreign finder and its files may raise anything)
            self.problems.append(Problem(source, f"cannot be searched: {type(error).__name__}: {error}"))

    def missed(self) -> tuple[Distribution, ...]:
        """Return the distributions left out, but for sources of an editable installation, which runs from there."""
        return tuple(sorted(item for item in self._left_out if not any(_is_source(item, run) for run in self.found)))

    def first_party(self) -> Mapping[str, str]:
        """Return the roles that ``pluggent`` declares, if it lies in the folder of ``pluggent-host``.

        Any distribution could declare them, and first-party hooks run without being accepted.
        """
        (root, _), (host, _) = (self._first.get(name, ("", False)) for name in (ROOT, HOST))
        roles = self._roles.get(root, _NO_ROLES)
        if roles and os.path.dirname(root) != os.path.dirname(host):
            text = f"[{FIRST_PARTY}] counts only in the folder of {HOST}, so no plugin is first party"
            self.problems.append(Problem(f"{root}/entry_points.txt", text))
            return _NO_ROLES
        return _NO_ROLES if self._twice else roles

    def distribution(self, location: str, data: bytes, read: Callable[[str], bytes], left_out: str) -> None:
        """Record the distribution at *location*: *data* are its entry points, *read* returns its other files."""
        try:
            entry_points, problems = entry_points_of(f"{location}/entry_points.txt", data.decode())
            self.problems += problems
            fields = _headers((read("METADATA") or read("PKG-INFO")).decode())
            shown, version = fields.get("name", [""])[0], fields.get("version", [""])[0]
            if not (shown and version and NAME_CHARACTERS.issuperset(shown)):
                raise ValueError("METADATA has no proper Name and Version")  # noqa: TRY301 (one place says it)
            requires = fields.get("requires-dist") or read("requires.txt").decode().partition("[")[0].splitlines()
            contract = _contract(requires)
        except ValueError as error:  # UnicodeDecodeError is one too
            text = f"is not valid metadata: {error}. Reinstall the package"
            self.problems.append(Problem(location, text, fatal=HOOKS.encode() in data))
            return
        summary = fields.get("summary", [""])[0]
        item = Distribution(normalised(shown), shown, version, location, entry_points, contract, summary)
        if left_out and not self._trusts(item):
            self._left_out += [item._replace(left_out=left_out)] if entry_points else []
            return
        if FIRST_PARTY.encode() in data:
            self._roles[location] = self._named(item.name, f"{location}/entry_points.txt", data.decode())
        claimed = self._claim(item.name, location, hooks=item.has_hooks)
        if claimed is not None and entry_points:
            self.found.append(item._replace(shadowed_by=claimed))

    def _claim(self, name: str, location: str, *, hooks: bool = False) -> str | None:
        """Return ``""`` for the first of a name, its location for a later one, None for an editable twin."""
        first, first_hooks = self._first.setdefault(name, (location, hooks))
        if first == location:
            return ""
        vouches = name in (ROOT, HOST)
        if not (hooks or first_hooks or vouches):
            return first
        if is_editable(first, location) or is_editable(location, first):
            return None
        why = "says which plugins are first party" if vouches else "has hooks"
        text = f"'{name}' is installed twice, and {why}; the other copy is {location}. Remove one of them"
        self.problems.append(Problem(first, text, name, fatal=True))
        self._twice.update({name} if vouches else ())
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

    def _named(self, distribution: str, path: str, text: str) -> Mapping[str, str]:
        """Return {plugin id: role} from the first-party group in *text*."""
        if distribution != ROOT:
            self.problems.append(Problem(path, f"[{FIRST_PARTY}] counts only in the distribution {ROOT}"))
            return _NO_ROLES
        roles, problems = roles_of(path, text)
        self.problems += problems
        return MappingProxyType({normalised(name): role for name, role in roles.items()})


def _is_source(item: Distribution, run: Distribution) -> bool:
    """Say whether *run* is the editable installation of *item*, with all of its hooks."""
    hooks = {entry for entry in item.entry_points if entry.group == HOOKS}
    return item.name == run.name and hooks <= set(run.entry_points) and is_editable(run.location, item.location)


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


def _headers(text: str) -> dict[str, list[str]]:
    """Return the header fields of METADATA by lower-case name."""
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
    """Return the version specifier in *requires* for the contract, "" if there is none."""
    found: list[str] = []
    for line in requires:
        requirement, _, marker = line.strip().partition(";")
        rest = requirement.lstrip("".join(NAME_CHARACTERS))
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
