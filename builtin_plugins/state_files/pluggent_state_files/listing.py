"""The sessions in a folder, seen from outside: which there are, pages of them, their lines, and deleting them.

Reading takes no lock and changes nothing: a session in use is read as far as it has come. Standard
library only, so that listing thousands is cheap. POSIX only (flock, O_NOFOLLOW).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.open_files import is_open_here
from pluggent_hookspecs.sessions import ListedSession, SessionPage, SessionQuery

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SUFFIX = ".jsonl"
FOLDER = "sessions"
"""What the folder of sessions is called in a state folder."""
MAX_LINE = 134_217_728
"""Bytes; a longer line is not an entry."""

_TORN = ".torn"
_KIND = b'{"t":"'
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Place(NamedTuple):
    """A session and when something was last written to it."""

    id: str
    modified_s: float


# ---- which there are --------------------------------------------------------------------


def places(folder: Path) -> tuple[Place, ...]:
    """Return every session in *folder*, the one last written to first; none if there is no folder.

    Reads no session. Raises SessionError if the folder cannot be read.
    """
    found: list[Place] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_session(entry.name):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        modified_s = entry.stat(follow_symlinks=False).st_mtime
                        found.append(Place(entry.name.removesuffix(SUFFIX), modified_s))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SessionError(f"{folder} cannot be read: {error.strerror}") from error
    return tuple(sorted(found, key=lambda place: (-place.modified_s, place.id)))


def is_session(name: str) -> bool:
    """Say whether a file of that name is a session.

    >>> is_session("trip.jsonl"), is_session("trip.torn"), is_session("-x.jsonl")
    (True, False, False)
    """
    return name.endswith(SUFFIX) and SESSION_ID.fullmatch(name.removesuffix(SUFFIX)) is not None


# ---- what one is about ------------------------------------------------------------------


def open_session(folder: Path, id: str) -> BinaryIO:
    """Open a session for reading, without its lock. Raises OSError for what is missing or no regular file."""
    descriptor = os.open(folder / f"{id}{SUFFIX}", _READ)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(descriptor, "rb")


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the whole lines of a session; a torn one at the end is left out. Raises ValueError if one is endless."""
    while line := file.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE:
                raise ValueError(f"has a line of more than {MAX_LINE} bytes")
            return
        yield line


def kind_of(line: bytes) -> str:
    r"""Return which entry *line* is, by its first bytes; empty if it is none.

    >>> kind_of(b'{"t":"Said","turn_id":"t1"}\n')
    'Said'
    """
    if not (line.startswith(_KIND) and line.endswith(b"}\n")):
        return ""
    return line[len(_KIND) : line.find(b'"', len(_KIND))].decode("ascii", "replace")


def fields_of(line: bytes) -> dict[str, Any]:
    """Return the fields of an entry as JSON has them. Raises ValueError for anything but a JSON object."""
    try:
        plain: object = json.loads(line.decode("utf-8", "surrogatepass"))
    except RecursionError as error:
        raise ValueError("too deep") from error
    if not isinstance(plain, dict):
        raise ValueError("not an object")
    return cast("dict[str, Any]", plain)


def text_of(message: object) -> str:
    """Return the text of a message in JSON; empty for anything else."""
    texts = (object_of(part).get("text") for part in list_of(object_of(message).get("content")))
    return "".join(text for text in texts if isinstance(text, str))


def object_of(value: object) -> dict[str, Any]:
    """Return *value* if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[object]:
    """Return *value* if it is a JSON list, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def plain_text(value: object) -> str:
    """Return *value* if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def number_of(value: object) -> float | None:
    """Return *value* if it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# ---- who has one open -------------------------------------------------------------------


def holders() -> Callable[[int], bool]:
    """Return what says of an open file whether a process holds its writer's lock, without touching the lock.

    Trying the lock would do, and would turn away a writer who comes at that moment.
    """
    if not sys.platform.startswith("linux"):
        return _is_locked_on_bsd
    held: set[tuple[str, int]] = set()
    with suppress(OSError), open("/proc/locks", encoding="ascii") as table:  # noqa: PTH123 (no path of ours)
        for words in map(str.split, table):
            if words[1:2] == ["FLOCK"] and words[3:4] == ["WRITE"]:
                device, _, inode = words[5].rpartition(":")
                held.add((device, int(inode)))

    def is_held(descriptor: int) -> bool:
        status = os.fstat(descriptor)
        major, minor = os.major(status.st_dev), os.minor(status.st_dev)
        device = f"{major:02x}:{minor:02x}"
        # Some file systems (btrfs, overlays) show files under a device number of their own: major 0.
        return any(inode == status.st_ino and (known == device or not major) for known, inode in held)

    return is_held


def _is_locked_on_bsd(descriptor: int) -> bool:
    """Ask for the lock that would be in the way: macOS keeps those of flock and of fcntl in one list."""
    layout = "qqihh"  # struct flock of macOS: start, length, process, type, whence
    asked = struct.pack(layout, 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
    try:
        kind: int = struct.unpack(layout, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[3]
    except OSError:
        return False
    return kind != fcntl.F_UNLCK


# ---- deleting ---------------------------------------------------------------------------


def delete(folder: Path, id: str) -> None:
    """Remove a session, what a crash left torn of it, and its mark.

    Raises SessionError if *id* is not an id, there is no such session, a process has it open, or the
    file cannot be removed. A symbolic link is not followed, and not removed either.
    """
    if not SESSION_ID.fullmatch(id):
        raise SessionError(f"{id!r} is not an id of a session")
    try:
        # By the folder itself and not by its name: what is removed lies in the folder that was opened.
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _delete(place, id)
        finally:
            os.close(place)
    except FileNotFoundError as error:
        raise SessionError(f"there is no session '{id}' in {folder}") from error
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise SessionError(f"session '{id}' cannot be deleted: {folder / id}{SUFFIX}: {why}") from error


def _delete(place: int, id: str) -> None:
    file = os.open(id + SUFFIX, _READ, dir_fd=place)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = "open in this process" if is_open_here(file) else "in use by another process"
            raise SessionError(f"session '{id}' is {where}, so it is not deleted") from None
        with suppress(FileNotFoundError):
            os.unlink(id + _TORN, dir_fd=place)
        os.unlink(id + SUFFIX, dir_fd=place)
    finally:
        os.close(file)


# ---- pages ------------------------------------------------------------------------------


def page(folder: Path, query: SessionQuery) -> SessionPage:
    """Return one page of the sessions in *folder*; reads those of the page alone, and of most lines their kind.

    For a brief query it reads none.
    """
    after = _after(query.cursor)
    named = [place for place in places(folder) if place.id.startswith(query.prefix)]
    found = [place for place in named if _rank(place) > after]
    is_held = holders()
    listed: list[ListedSession] = []
    for place in found[: query.limit]:
        with suppress(FileNotFoundError):  # deleted meanwhile
            listed.append(_listed(folder, place, is_held, brief=query.brief))
    last = found[query.limit - 1] if len(found) > query.limit > 0 else None
    return SessionPage(tuple(listed), None if last is None else f"{last.modified_s!r} {last.id}", len(named))


def _rank(place: Place) -> tuple[float, str]:
    return -place.modified_s, place.id


def _after(cursor: str | None) -> tuple[float, str]:
    if cursor is None:
        return float("-inf"), ""
    modified_s, _, id = cursor.partition(" ")
    try:
        return -float(modified_s), id
    except ValueError as error:
        raise SessionError(f"{cursor!r} is not a cursor of this store") from error


def _listed(folder: Path, place: Place, is_held: Callable[[int], bool], *, brief: bool) -> ListedSession:
    reader = _Listing()
    held, problem = False, ""
    try:
        with open_session(folder, place.id) as file:
            held = is_held(file.fileno())
            for line in () if brief else lines(file):
                reader.read(line)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = "it is a symbolic link" if error.errno == errno.ELOOP else f"it cannot be read: {error.strerror}"
    except ValueError as error:
        problem = f"it {error}"
    return ListedSession(
        place.id, place.modified_s, reader.created_s, reader.principal, reader.waits, held, problem or reader.problem
    )


class _Listing:
    """Reads the lines of one session in order: whose it is, and whether its last turn has paused."""

    def __init__(self) -> None:
        self.created_s: float | None = None
        self.principal = self.problem = ""
        self.waits = False
        self._number = 0

    def read(self, line: bytes) -> None:
        self._number += 1
        kind = kind_of(line)
        if not kind:
            self.problem = self.problem or f"line {self._number} is not an entry"
        elif kind in ("TurnBegan", "TurnOver", "Undone"):
            self.waits = False
        elif kind == "Paused":
            self.waits = True
        elif kind in ("SessionBegan", "SessionAdopted"):
            try:
                plain = fields_of(line)
            except ValueError:
                self.problem = self.problem or f"line {self._number} is not JSON"
                return
            self.created_s = self.created_s or number_of(plain.get("created_s"))
            self.principal = self.principal or plain_text(plain.get("principal"))
