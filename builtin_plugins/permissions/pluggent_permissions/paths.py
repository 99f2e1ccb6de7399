"""Whether a path lies inside folders, as the file system is at this moment.

What happens between the decision and the tool's own look is not promised: a link that another process
changes meanwhile leads elsewhere, and a hard link shows no second name. Linux and macOS.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable

import attrs

from pluggent_permissions.text_patterns import Reading, folded, has_unseen

OWN_NAMES = frozenset({"pluggent.toml", ".mcp.json", ".git"})
"""Files and folders that decide what runs: for a permission they are inside no folder but their own."""

_READ_OTHERWISE = re.compile(r"^(?:\s|~|[A-Za-z][A-Za-z0-9+.-]*:)|[\\$]|%[0-9A-Fa-f]{2}|\s\Z")
"""A home, a URL, a device, a variable, an escape, space around it: tools may read more into them than a path."""

_MEANS_ANOTHER_TO_ANOTHER = frozenset(
    {"/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/.vol", "/.nofollow", "/.resolve"}
)
"""Links below these lead every process elsewhere."""

_SHORT_NAME = re.compile(r"(?:git|mcp|plugge|[a-z]{2}[0-9a-f]{4})~[0-9]")
"""How the own names are called on file systems with 8.3 names (as git's core.protectNTFS has it)."""

_MOST_LINKS = 40


@attrs.frozen
class Real:
    """Where a path leads; ``folders`` are (device, inode) of all that exists in ``path``, the end included."""

    path: str
    folders: frozenset[tuple[int, int]]


def inside_test(roots: tuple[str, ...], reading: Reading) -> Callable[[str, str], bool]:
    """Return a test of (path, workspace): does the path lie in one of *roots*, or is it one?

    Relative ones, of both, are relative to the workspace; ``~`` counts in *roots* alone. A path
    that cannot be resolved for sure is in doubt. Read WIDE, case and the forms of Unicode make no
    difference, and a folder is the same under every name it is mounted at.
    """
    given = tuple(os.path.expanduser(root) for root in roots)  # noqa: PTH111 (texts all the way)

    def test(path: str, workspace: str) -> bool:
        places = _places(path, workspace)
        if not places:
            return reading.in_doubt
        if reading is Reading.EXACT:
            return all(any(_surely_inside(place, root, workspace) for root in given) for place in places)
        return any(_perhaps_inside(place, root, workspace) for root in given for place in places)

    return test


def resolved(path: str) -> Real | None:
    """Return where the absolute *path* leads now, with every link followed; None if that is not sure.

    What does not exist yet may stand at the end. Not sure are: ``..`` behind such a part, a file
    used as a folder, more than 40 links, what may not be read, and ``/proc`` and the like.
    """
    walk = _Walk(path)
    while walk.waiting:
        if not walk.step(walk.waiting.popleft()):
            return None
    return Real(walk.done or "/", frozenset(walk.trail))


class _Walk:
    """The way along a path, name by name, as the operating system goes it."""

    def __init__(self, path: str) -> None:
        self.done = ""
        self.waiting = deque(path.split("/"))
        self.trail: list[tuple[int, int]] = []
        self._links = 0
        self._missing = False

    def step(self, name: str) -> bool:
        """Go on by *name*; return whether it is sure where that leads."""
        if name in ("", "."):
            return True
        if name == "..":
            self.done = self.done.rpartition("/")[0]
            del self.trail[-1:]
            return not self._missing
        here = f"{self.done}/{name}"
        if here in _MEANS_ANOTHER_TO_ANOTHER:
            return False
        try:
            found = None if self._missing else os.lstat(here)
        except FileNotFoundError:
            found = None
        except (OSError, ValueError):
            return False
        if found is not None and stat.S_ISLNK(found.st_mode):
            return self._follow(here)
        self.done = here
        self._missing = found is None
        if found is not None:
            self.trail.append((found.st_dev, found.st_ino))
        return found is None or stat.S_ISDIR(found.st_mode) or not any(self.waiting)

    def _follow(self, link: str) -> bool:
        self._links += 1
        try:
            target = os.readlink(link)  # noqa: PTH115 (texts all the way)
        except OSError:
            return False
        if target.startswith("/"):
            self.done = ""
            self.trail.clear()
        self.waiting.extendleft(reversed(target.split("/")))
        return self._links <= _MOST_LINKS


def _places(path: str, workspace: str) -> tuple[Real, ...]:
    """Return where *path* leads, for tools that follow ``..`` as it stands and those that shorten it; () if unsure."""
    if not path or _READ_OTHERWISE.search(path) or has_unseen(path):
        return ()
    absolute = _absolute(path, workspace)
    spellings = (absolute, os.path.normpath(absolute)) if absolute and ".." in path else (absolute,)
    places = [resolved(spelling) if spelling else None for spelling in spellings]
    return tuple(place for place in places if place is not None) if None not in places else ()


def _absolute(path: str, workspace: str) -> str:
    if path.startswith("/"):
        return path
    return f"{workspace}/{path}" if workspace.startswith("/") else ""


def _surely_inside(place: Real, root: str, workspace: str) -> bool:
    absolute = _absolute(root, workspace)
    folder = resolved(absolute) if absolute else None
    if folder is None or not _below(place.path, folder.path):
        return False
    rest = place.path[len(folder.path) :].split("/")
    return not any(map(_is_own, rest))


def _is_own(name: str) -> bool:
    """Say whether *name* is one of ``OWN_NAMES`` on any file system, as git does for its own.

    Windows' file systems leave out dots and blanks at the end, have streams behind a colon, and short names.
    """
    seen = folded(name).partition(":")[0].strip().rstrip(" .")
    return seen in OWN_NAMES or _SHORT_NAME.match(seen) is not None


def _perhaps_inside(place: Real, root: str, workspace: str) -> bool:
    absolute = _absolute(root, workspace)
    if not absolute:
        return True
    folder = resolved(absolute)
    written = os.path.normpath(absolute)
    if _below(folded(place.path), folded("/" + written.lstrip("/"))):
        return True
    if folder is None:
        return False
    return _below(folded(place.path), folded(folder.path)) or _is_on_the_way(folder, place)


def _is_on_the_way(folder: Real, place: Real) -> bool:
    try:
        found = os.stat(folder.path)  # noqa: PTH116 (texts all the way)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) in place.folders


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
