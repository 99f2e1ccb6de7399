"""Walks a folder by descriptors, in the order of names: no link is followed, no device opened, nothing twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from pluggent_workspace_files.reach import Place, Reach, kind_of, open_below, open_folder, unreachable

from pluggent_files.search.ignore import IGNORE_FILE, Ignored, Rules, read_rules, rules_above

DEEPEST = 100
"""Folders within folders; each that is open takes a descriptor."""
_CHECKED_EVERY = 16


class Entry(NamedTuple):
    """Something in a folder. ``folder`` is that one, open while the entry is looked at."""

    folder: int
    name: str
    path: str
    """Below the folder that is walked."""
    is_folder: bool
    is_file: bool
    found: os.DirEntry[str]

    def kind(self) -> str:
        """Return what it is if it is neither a file nor a folder, with the target of a link."""
        try:
            mode = self.found.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                return f"-> {os.readlink(self.name, dir_fd=self.folder)}"
        except OSError:
            return "?"
        return f"({kind_of(mode).partition(' ')[2]})" if kind_of(mode) else ""

    def size(self) -> int:
        """Return its size in bytes, 0 if it is gone."""
        try:
            return self.found.stat(follow_symlinks=False).st_size
        except OSError:
            return 0


class Walk:
    """One walk below *place*. ``left_out`` counts what was ignored, ``unreadable`` the folders that could not be read.

    *stopped* is asked now and then; when it says True the walk ends, and ``is_cut`` says so.
    """

    def __init__(
        self,
        reach: Reach,
        place: Place,
        stopped: Callable[[], bool],
        *,
        include_ignored: bool = False,
        depth: int = DEEPEST,
    ) -> None:
        self._place = place
        self._stopped = stopped
        self._depth = min(depth, DEEPEST)
        self._private = frozenset(reach.private_below(place.real))
        self._include_ignored = include_ignored
        top = reach.root if place.inside else place.real
        self._ignored = Ignored() if include_ignored else rules_above(top, place.real)
        self._base = "" if place.real == top else os.path.relpath(place.real, top) + os.sep
        self._known: dict[str, Ignored | None] = {}
        self.left_out = 0
        self.unreadable = 0
        self.is_cut = False
        self._looked_at = 0

    def entries(self) -> Iterator[Entry]:
        """Yield what is below the place, a folder before what is in it. Raises ToolError if that is no folder."""
        try:
            top = open_folder(self._place.real)
        except OSError as error:
            raise unreachable(self._place, error) from error
        try:
            yield from self._below(top, "", self._ignored, 1)
        finally:
            os.close(top)

    def is_path_left_out(self, path: str) -> bool:
        """Say whether *path*, a file's below the place, is left out, or one of its folders."""
        folder, _, _ = path.rpartition(os.sep)
        ignored = self._ignored_in(folder)
        return ignored is None or self._is_left_out(path, ignored, is_folder=False)

    def _ignored_in(self, folder: str) -> Ignored | None:
        """Return what is left out in *folder*, None if that is left out itself."""
        if folder not in self._known:
            above, _, _ = folder.rpartition(os.sep)
            ignored = self._ignored if not folder else self._ignored_in(above)
            if folder and ignored is not None and self._is_left_out(folder, ignored, is_folder=True):
                ignored = None
            if ignored is not None and not self._include_ignored:
                ignored = ignored.added(self._rules_of(folder))
            self._known[folder] = ignored
        return self._known[folder]

    def _rules_of(self, folder: str) -> Rules | None:
        try:
            at = open_folder(os.path.join(self._place.real, folder).rstrip(os.sep))  # noqa: PTH118 (text)
        except OSError:
            return None
        try:
            return read_rules(at, os.fsencode(f"{self._base}{folder}{os.sep}" if folder else self._base))
        finally:
            os.close(at)

    def _below(self, folder: int, path: str, ignored: Ignored, depth: int) -> Iterator[Entry]:
        found = self._read(folder)
        if not self._include_ignored and any(each.name == IGNORE_FILE for each in found):
            ignored = ignored.added(read_rules(folder, os.fsencode(self._base + path)))
        for each in found:
            self._looked_at += 1
            if self._looked_at % _CHECKED_EVERY == 0 and self._stopped():
                self.is_cut = True
            if self.is_cut:
                return
            is_folder = each.is_dir(follow_symlinks=False)
            if self._is_left_out(path + each.name, ignored, is_folder=is_folder):
                continue
            yield Entry(folder, each.name, path + each.name, is_folder, each.is_file(follow_symlinks=False), each)
            if is_folder and depth < self._depth:
                yield from self._into(folder, each.name, path, ignored, depth)

    def _into(self, folder: int, name: str, path: str, ignored: Ignored, depth: int) -> Iterator[Entry]:
        try:
            below = open_below(folder, name)
        except OSError:
            self.unreadable += 1
            return
        try:
            yield from self._below(below, f"{path}{name}{os.sep}", ignored, depth + 1)
        finally:
            os.close(below)

    def _read(self, folder: int) -> list[os.DirEntry[str]]:
        with suppress(OSError), os.scandir(folder) as found:
            return sorted(found, key=_name)
        self.unreadable += 1
        return []

    def _is_left_out(self, path: str, ignored: Ignored, *, is_folder: bool) -> bool:
        if self._private and os.path.join(self._place.real, path) in self._private:  # noqa: PTH118 (in the way of all)
            return True
        if path.endswith(".git") and path.rpartition(os.sep)[2] == ".git":
            return True
        if self._include_ignored:
            return False
        whole = os.fsencode(self._base + path)
        if ignored.holds(whole + b"/" if is_folder else whole):
            self.left_out += 1
            return True
        return False


def _name(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)
