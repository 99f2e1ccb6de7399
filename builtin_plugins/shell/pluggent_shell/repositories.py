"""Keeps the settings and hooks of git repositories from confined commands: git runs what these say, unconfined."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SETTINGS = ("config", "config.worktree", "commondir", "hooks", "modules", "worktrees")
"""What in a repository says what git runs, or where that is said."""
_PLACEHOLDERS = {"commondir": b".\n", "config": b"", "config.worktree": b""}
"""Files that must not be made, with a content that means nothing: a file that is there can be made read-only."""
_FOLDERS = ("modules", "worktrees")
"""Folders that must not be made."""
_BARE = {"HEAD", "objects", "refs"}
"""By these git knows a repository, whatever its name."""
_SHARING = {"HEAD", "commondir"}
"""By these, too: the rest is where the latter says."""
_MARKS = {*_BARE, *_SHARING, ".git"}
_DEPTH = 12
MOST_FOLDERS = 3_000
MOST_REPOSITORIES = 50

_NAMES = re.compile(r"^[ \t]*(hookspath|path)[ \t]*=[ \t]*([^\n#;]+)", re.IGNORECASE | re.MULTILINE)
_LONGEST = 1_000_000
_in_use: Counter[Path] = Counter()


def repositories(workspace: Path) -> tuple[Path, ...]:
    """Return the ``.git`` of *workspace* and of repositories in it: folders, files, links; and bare ones. Bounded."""
    found: list[Path] = []
    waiting = [(os.fspath(workspace), 0)]
    for looked, (folder, depth) in enumerate(waiting):
        if looked >= MOST_FOLDERS or len(found) >= MOST_REPOSITORIES:
            break
        with suppress(OSError), os.scandir(folder) as scanned:
            entries = list(scanned)
            marks = {entry.name for entry in entries if entry.name in _MARKS}
            if marks >= _BARE or marks >= _SHARING:
                found.append(Path(folder))
                continue
            if ".git" in marks:
                found.append(Path(folder, ".git"))
            if depth < _DEPTH:
                below = (
                    entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name != ".git"
                )
                waiting += [(path, depth + 1) for path in below]
    return tuple(found)


def settings_of(found: Sequence[Path]) -> Iterator[Path]:
    """Yield where settings and hooks of repositories are, or would be; in a worktree ``.git`` is a file."""
    for git in found:
        if git.is_symlink():
            continue
        if git.is_file():
            yield git
        else:
            yield from (path for name in SETTINGS if not (path := git / name).is_symlink())
            yield from _named(git)


def _named(git: Path) -> Iterator[Path]:
    """Yield what the settings of a repository name: its hooks elsewhere, and more settings."""
    with suppress(OSError), (git / "config").open(encoding="utf-8", errors="replace") as file:
        for name, value in _NAMES.findall(file.read(_LONGEST)):
            base = git.parent if name.lower() == "hookspath" else git
            path = Path(os.path.realpath(base / Path(value.strip().strip('"')).expanduser()))
            if not git.is_relative_to(path):  # else nothing could be written at all
                yield path


@contextmanager
def placeholders(found: Sequence[Path]) -> Generator[None]:
    """Put meaningless files where missing ones would have a meaning; afterwards remove them, or what replaced them."""
    made = [path for git in found if git.is_dir() and not git.is_symlink() for path in _put(git)]
    try:
        yield
    finally:
        for path in made:
            _in_use[path] -= 1
            if _in_use[path] <= 0:
                del _in_use[path]
                with suppress(OSError):  # a folder goes if it is empty
                    path.rmdir() if path.name in _FOLDERS else path.unlink()


def _put(git: Path) -> Iterator[Path]:
    with suppress(OSError):
        (git / "hooks").mkdir(exist_ok=True)
    for name in _FOLDERS:
        path = git / name
        with suppress(OSError):
            if path not in _in_use:
                path.mkdir()
            _in_use[path] += 1
            yield path
    for name, content in _PLACEHOLDERS.items():
        path = git / name
        with suppress(OSError):
            if path not in _in_use and not _is_left(path, content):
                with path.open("xb") as file:
                    file.write(content)
            _in_use[path] += 1
            yield path


def _is_left(path: Path, content: bytes) -> bool:
    """Return whether *path* is a placeholder that a killed host left; an empty file may be the user's own."""
    return bool(content) and path.is_file() and not path.is_symlink() and path.read_bytes() == content
