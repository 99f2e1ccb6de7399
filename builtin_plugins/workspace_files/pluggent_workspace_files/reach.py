"""Where paths lead, and whether a call may go there. Files are opened by descriptors, without following links.

A path is resolved once, links included. What is then opened is the resolved path, folder by folder, and no
link is followed any more: a folder that is swapped for a link meanwhile makes the call fail. The policies
looked at the path earlier, so a place that needs a person is reached only with the approved state.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from pluggent_hookspecs import ToolContext, ToolError

from pluggent_workspace_files.folders import Folders

GUARDED = frozenset({"pluggent.toml", ".mcp.json", ".git", ".husky"})
"""Names that decide what runs: below them only what a person agreed to is written."""

REPOSITORY = ("HEAD", "objects", "refs")
"""What git knows a repository by."""

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | _CLOEXEC
_FOLDER = getattr(os, "O_DIRECTORY", 0) | NOFOLLOW
_STEP = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

SEPARATOR = "/"
"""Of folders on every system that has descriptors of them."""
_SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


class Place(NamedTuple):
    """Where a path leads: ``real`` has no links in it, ``shown`` is its name in answers."""

    real: str
    shown: str
    inside: bool

    @property
    def key(self) -> str:
        """Names this place at the beginning of a state that a person agrees to."""
        return state_of("place", self.real)[:32]

    @property
    def folder(self) -> str:
        """The folder that it is in."""
        return os.path.dirname(self.real)  # noqa: PTH120 (text is what descriptors take)

    @property
    def name(self) -> str:
        """Its name in that folder."""
        return os.path.basename(self.real)  # noqa: PTH119 (the same)


class Reach:
    """What one call may reach: the workspace, *folders* of the settings, and what a person agreed to."""

    def __init__(self, context: ToolContext, folders: Folders = Folders()) -> None:  # noqa: B008 (frozen)
        if not HAS_DESCRIPTORS:
            raise ToolError("the file tools need Linux or macOS: this system opens no files relative to a folder")
        self.root = os.path.realpath(context.workspace or os.curdir)
        self.approved = context.approved_state
        self._folders = folders
        self._private = (*map(os.path.realpath, context.private_folders), *_usual_private_folders())

    def place(self, path: str | os.PathLike[str], *, is_link: bool = False) -> Place:
        """Return where *path* leads; with *is_link* a link at its end is the place itself."""
        text = os.fspath(path)
        if "\0" in text:
            raise ToolError("a path has no NUL character in it")
        if text == "~" or text.startswith("~/"):
            text = os.path.expanduser(text)  # noqa: PTH111 (a path object would lose the end)
        whole = os.path.join(self.root, text)  # noqa: PTH118 (the same)
        head, tail = os.path.split(whole.rstrip(os.sep))
        if is_link and tail not in ("", os.curdir, os.pardir):
            real = os.path.join(os.path.realpath(head), tail)  # noqa: PTH118 (the same)
        else:
            real = os.path.realpath(whole)
        inside = is_below(real, self.root)
        return Place(real, os.path.relpath(real, self.root) if inside else real, inside)

    def shown(self, real: str) -> str:
        """Return how answers name *real*."""
        return os.path.relpath(real, self.root) if is_below(real, self.root) else real

    def check_read(self, place: Place, setting: str = "read_folders") -> None:
        """Raise ToolError unless *place* may be read: it is inside, or a person or the settings allow it.

        *setting* is the one that the error names.
        """
        self.check_private(place)
        folders = (*self._folders.read, *self._folders.write)
        if place.inside or any(is_below(place.real, os.path.realpath(each)) for each in folders):
            return
        if not self.approved.startswith(f"{place.key}-"):
            raise self._outside(place, setting)

    def _outside(self, place: Place, setting: str) -> ToolError:
        section = self._folders.section
        other = f", or ask the person to name its folder in {setting} under [{section}]" if section else ""
        return ToolError(
            f"{place.real} is outside the workspace ({self.root}), and no person has agreed to this call. Stay in the"
            f" workspace{other}"
        )

    def check_private(self, place: Place) -> None:
        """Raise ToolError if *place* is one of the host's own."""
        if any(is_below(place.real, each) for each in self._private):
            raise ToolError(
                f"{place.shown} is what pluggent keeps for itself: its sessions, approvals and settings are for no tool"
            )

    def check_write(self, place: Place, state: str) -> None:
        """Raise ToolError unless *place* may be written: freely, or exactly as a person agreed to it, as *state*."""
        self.check_private(place)
        if self.approved:
            if self.approved != state:
                raise ToolError(
                    f"{place.shown} has changed since a person agreed to this call, so nothing was done. Read it again"
                    " and make the call anew"
                )
            return
        folders = [self.root, *map(os.path.realpath, self._folders.write)]
        base = next((folder for folder in folders if is_below(place.real, folder)), None)
        if base is None:
            raise self._outside(place, "write_folders")
        if not _is_guarded_below(base, place.real):
            return
        raise ToolError(
            f"{place.shown} decides what runs here, and no person has agreed to this very call, so nothing was done."
            " Tell the person what to change, or have the call approved"
        )

    def private_below(self, real: str) -> tuple[str, ...]:
        """Return the host's own folders that lie below *real*: they are not walked, moved or deleted."""
        return tuple(each for each in self._private if is_below(each, real))


def _usual_private_folders() -> tuple[str, ...]:
    """Return where hosts keep sessions, approvals and settings: those of others are for no tool of this one either."""
    home = os.path.expanduser("~")  # noqa: PTH111 (text is what is compared)
    usual = {"XDG_STATE_HOME": ".local/state", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
    folders = [os.environ.get("PLUGGENT_STATE_DIR", "")]
    folders += [f"{os.environ.get(name) or f'{home}/{below}'}/pluggent" for name, below in usual.items()]
    if sys.platform == "darwin":
        folders.append(f"{home}/Library/Application Support/pluggent")
    return tuple(os.path.realpath(each) for each in folders if each)


def _is_guarded_below(base: str, real: str) -> bool:
    """Say whether what is written at *real*, in the folder *base*, may decide what runs."""
    parts = [part for part in real[len(base) :].split(SEPARATOR) if part]
    if any(_is_guarded(part) for part in parts) or _makes_repository(base, parts):
        return True
    code = _code_folders(tuple(sys.path))
    return any(entry != base and is_below(entry, base) and is_below(real, entry) for entry in code)


def _makes_repository(base: str, parts: list[str]) -> bool:
    """Say whether git would find a repository or its hooks on the way, or does with what is written.

    A folder with two of three names may become a repository without ``.git``; what git runs in it is in its
    ``config`` and ``hooks``. A repository's config may name another folder of hooks.
    """
    folder = base
    real = os.path.join(base, *parts)  # noqa: PTH118 (text)
    for part in parts:
        if any(is_below(real, named) for named in _named_by_git(folder)):
            return True
        has = [name for name in REPOSITORY if os.path.lexists(os.path.join(folder, name))]  # noqa: PTH118 (text)
        has += [name for name in REPOSITORY if name.casefold() == part.casefold() and name not in has]
        if len(has) > 1:
            return True
        folder = os.path.join(folder, part)  # noqa: PTH118 (text)
    return False


_NAMED = re.compile(rb"^\s*(hookspath|path)\s*=\s*\"?([^\"\n]+)", re.IGNORECASE | re.MULTILINE)
"""Where a config of git names a folder of hooks, or another config that it includes."""
_MOST_CONFIG = 1 << 16


def _named_by_git(folder: str) -> list[str]:
    """Return the folders of hooks and the files that the config of the repository in *folder* names."""
    git = os.path.join(folder, ".git")  # noqa: PTH118 (text)
    try:
        opened = os.open(os.path.join(git, "config"), _READ)  # noqa: PTH118 (text)
    except OSError:
        return []
    try:
        text = os.read(opened, _MOST_CONFIG) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
    finally:
        os.close(opened)
    found: list[str] = []
    for key, value in _NAMED.findall(text):
        base = git if key.lower() == b"path" else folder
        named = os.path.expanduser(os.fsdecode(value.strip()))  # noqa: PTH111 (text)
        found.append(os.path.realpath(os.path.join(base, named)))  # noqa: PTH118 (text)
    return found


@lru_cache(maxsize=4)
def _code_folders(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return where the code is that this process imports."""
    return tuple(os.path.realpath(entry) for entry in path if entry)


def _is_guarded(name: str) -> bool:
    """Say whether *name* is a guarded one on any file system: some ignore case and invisible characters."""
    if name.isascii() and not name.startswith((".", "p", "P", "g", "G")):
        return False  # most are; this is in the way of every change
    seen = "".join(each for each in name if unicodedata.category(each) != "Cf").casefold().partition(":")[0]
    return seen.strip().rstrip(" .") in GUARDED or seen.startswith("git~")


def is_below(path: str, folder: str) -> bool:
    """Say whether *path* is *folder* or in it; both without links.

    >>> is_below("/a/b", "/a"), is_below("/ab", "/a"), is_below("/a", "/")
    (True, False, True)
    """
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def state_of(*parts: str) -> str:
    """Return the SHA-256, in hex, of *parts*; ("ab", "c") and ("a", "bc") differ."""
    framed = [part.encode("utf-8", "surrogateescape") for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in framed)).hexdigest()


# ---- descriptors -------------------------------------------------------------------------


def open_folder(real: str) -> int:
    """Open the folder *real* for reading, following no link. Raises OSError."""
    parts = [part for part in real.split(SEPARATOR) if part]
    if not parts:
        return os.open(os.sep, os.O_RDONLY | _FOLDER)
    at = os.open(os.sep, _STEP)
    try:
        for part in parts[:-1]:
            at = _stepped(at, part, _STEP)
        return os.open(parts[-1], os.O_RDONLY | _FOLDER, dir_fd=at)
    finally:
        os.close(at)


def _stepped(at: int, part: str, flags: int) -> int:
    """Return the folder *part* of *at*, which is closed then."""
    below = os.open(part, flags, dir_fd=at)
    os.close(at)
    return below


def open_below(at: int, name: str) -> int:
    """Open the folder *name* in the open folder *at*, following no link. Raises OSError."""
    return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=at)


@contextmanager
def opened_folder(place: Place, real: str) -> Generator[int]:
    """Open the folder *real* on the way to *place*; what is wrong with the way is a ToolError."""
    try:
        at = open_folder(real)
    except OSError as error:
        raise unreachable(place, error) from error
    try:
        yield at
    finally:
        os.close(at)


def unreachable(place: Place, error: OSError) -> ToolError:
    """Return why *place* cannot be reached, for the model."""
    match error.errno:
        case errno.ENOENT:
            return ToolError(f"{place.shown} does not exist. {_hint(place)}")
        case errno.EACCES | errno.EPERM:
            return ToolError(f"{place.shown} may not be accessed by the user who runs this: {error.strerror}")
        case code if code in _SWAPPED:
            return ToolError(
                f"{place.shown}: a part of this path is not a folder, or has just been replaced. Look with list_files"
            )
        case _:
            return ToolError(f"{place.shown} cannot be reached: {error.strerror or error}")


_MOST_LOOKED_AT = 2_000


def _hint(place: Place) -> str:
    """Return which names there are where the end of the way is missing."""
    missing, folder = place.name, place.folder
    while folder not in ("", os.sep) and not os.path.isdir(folder):  # noqa: PTH112 (text)
        folder, missing = os.path.split(folder)
    if not place.inside:
        return "Look with list_files"
    import difflib  # when something is missing

    try:
        at = open_folder(folder)
    except OSError:
        return "Look with list_files"
    try:
        names = sorted(os.listdir(at)[:_MOST_LOOKED_AT])  # noqa: PTH208 (a descriptor)
    finally:
        os.close(at)
    close = difflib.get_close_matches(missing[:100], names, n=3, cutoff=0.6)
    return f"Its folder has {', '.join(close)}" if close else "Look with list_files or find_files"


def open_file(place: Place) -> int:
    """Open the regular file at *place* for reading; anything else is named, and not opened."""
    with opened_folder(place, place.folder) as folder:
        return open_entry(folder, place)


def open_entry(folder: int, place: Place) -> int:
    """Open the regular file *place* in its open *folder* for reading. Raises ToolError."""
    try:
        check_regular(os.stat(place.name or os.curdir, dir_fd=folder, follow_symlinks=False), place)
        opened = os.open(place.name, _READ, dir_fd=folder)
    except OSError as error:
        raise unreachable(place, error) from error
    try:
        check_regular(os.fstat(opened), place)
    except BaseException:
        os.close(opened)
        raise
    return opened


def open_named(folder: int, name: str) -> int:
    """Open *name* in *folder* for reading; raises OSError, and for what is no regular file ValueError."""
    opened = os.open(name, _READ, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ValueError(f"{name} is not a regular file")
    return opened


_KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a character device"), (stat.S_ISBLK, "a block device"),
)  # fmt: skip


def kind_of(mode: int) -> str:
    """Return what a file of this *mode* is, "" for a regular one.

    >>> kind_of(stat.S_IFIFO), kind_of(stat.S_IFREG)
    ('a named pipe', '')
    """
    return next((kind for test, kind in _KINDS if test(mode)), "")


def check_regular(found: os.stat_result, place: Place) -> None:
    """Raise ToolError unless *found* is of a regular file."""
    if kind := kind_of(found.st_mode):
        todo = "Use list_files" if stat.S_ISDIR(found.st_mode) else "It is not opened"
        raise ToolError(f"{place.shown} is {kind}, not a file. {todo}")


PIECE = 1 << 20


def content(opened: int, limit: int, place: Place) -> bytes:
    """Return what the open file has, however it grows meanwhile; ToolError if that is more than *limit* bytes."""
    expected = os.fstat(opened).st_size
    pieces: list[bytes] = []
    left = limit + 1
    while left > 0 and (piece := os.read(opened, min(left, max(expected + 1, PIECE)))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise ToolError(f"{place.shown} is larger than {limit:,} bytes; it is only read in ranges")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
