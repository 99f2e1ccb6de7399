"""A transcript on disk: one append-only JSONL file a session, one writer at a time.

A line is one entry, whole or not there. POSIX only (flock, O_APPEND).
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
from pluggent_hookspecs.errors import ConfigError, SessionError

from pluggent_host.codec import from_plain, line_of
from pluggent_host.lines import Lines, plain_entry
from pluggent_host.pausing import Paused, Resolved
from pluggent_host.sealed import (
    OTHERS_WRITE,
    SealedRecords,
    check_folder,
    check_owner,
    is_sealed,
    seal_of,
    void_pause,
)
from pluggent_host.standing import Standing
from pluggent_host.stored import APPROVALS, SESSION_ID, SUFFIX
from pluggent_host.transcript import Entry

_BLOCK = 65_536
SEALED = (Paused, Resolved, Standing)
"""What must have been written here, by us: requests that wait, and what a person has said about them."""

log = logging.getLogger("pluggent.transcript")
_ENTRIES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Entry)}


class FileTranscript:
    """A transcript in ``<folder>/<session id>.jsonl``, mode 0600.

    Opening takes the lock (SessionError if another writer has it) and cuts off a last line
    that a crash left torn; the torn bytes are kept beside it in ``<session id>.torn``.

    What waits for a person, and what one has approved, is sealed. Such a line that somebody else
    wrote, or that was copied from another session: of an approval it is left out of ``entries`` and
    named in the log, a pause says there that it does not count (``void``).
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        if not SESSION_ID.fullmatch(session_id):
            raise SessionError(
                f"session id {session_id!r}: use letters, digits, '.', '_' and '-', 100 at most, no '.' or '-' first"
            )
        self.path = folder / f"{session_id}{SUFFIX}"
        self._id = session_id
        self._fd = -1
        self._lines = Lines()
        self._seals = SealedRecords(folder / APPROVALS)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._fd = os.open(self.path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise SessionError(  # noqa: TRY301 (closed below like every other failure)
                    f"session '{session_id}' cannot be opened: {self.path} is no file"
                )
            check_folder(folder)
            check_owner(self.path, os.fstat(self._fd), OTHERS_WRITE)
            self._lock()
            self._size = self._mend()
        except OSError as error:
            self.close()
            raise SessionError(f"session '{session_id}' cannot be opened: {self.path}: {error.strerror}") from error
        except ConfigError as error:
            self.close()
            raise SessionError(f"session '{session_id}' cannot be opened: {error}") from error
        except SessionError:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SessionError(
                f"session '{self._id}' is in use by another process; wait for it, or start a session of another name"
            ) from None
        if os.fstat(self._fd).st_nlink == 0:
            raise SessionError(f"session '{self._id}' was deleted while it was being opened; open it again")

    def _mend(self) -> int:
        size = os.fstat(self._fd).st_size
        if size == 0 or os.pread(self._fd, 1, size - 1) == b"\n":
            return size
        whole = 0
        for start in range((size - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
            block = os.pread(self._fd, min(_BLOCK, size - start), start)
            if b"\n" in block:
                whole = start + block.rindex(b"\n") + 1
                break
        torn = os.pread(self._fd, size - whole, whole)
        aside = os.open(
            self.path.with_suffix(".torn"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            os.write(aside, torn)
        finally:
            os.close(aside)
        os.ftruncate(self._fd, whole)
        return whole

    def append(self, *entries: Entry) -> None:
        lines = b"".join([self._line(entry) for entry in entries])
        if self._fd < 0:
            raise SessionError(f"session '{self._id}' is closed")
        try:
            written = os.write(self._fd, lines)
            if written != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 (cut off below)
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise SessionError(f"session '{self._id}' cannot be written: {self.path}: {error.strerror}") from error
        self._size += written

    def sync(self) -> None:
        if self._fd < 0:
            raise SessionError(f"session '{self._id}' is closed")
        try:
            own = os.dup(self._fd)  # this runs in a thread, and the number may be closed meanwhile
            try:
                _to_disk(own)
            finally:
                os.close(own)
        except OSError as error:
            raise SessionError(f"session '{self._id}' cannot be written: {self.path}: {error.strerror}") from error

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._read())

    def _line(self, entry: Entry) -> bytes:
        if not isinstance(entry, SEALED):
            return self._lines.of(entry)
        plain = plain_entry(entry)
        plain["seal"] = seal_of(self._seals.sealing_key(), self._id, plain)
        return line_of(plain)

    def _read(self) -> Iterator[Entry]:
        for number, entry, plain, seal in _lines(self.path):
            if not isinstance(entry, SEALED) or is_sealed(self._seals.key(), seal, self._id, plain):
                yield entry
            elif isinstance(entry, Paused):
                yield attrs.evolve(entry, void=void_pause(self.path, number, seal))
            else:
                log.warning("%s, line %d: pluggent did not write this approval here; it is left out", self.path, number)

    def close(self) -> None:
        if self._fd >= 0:
            # Given up by name: a thread that still syncs, or a child, may hold the open file.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = -1


_to_disk = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync."""


def read(path: Path) -> Iterator[Entry]:
    """Yield the entries of a transcript without taking its lock; a torn last line is left out.

    Raises SessionError, naming the line, for anything that is not an entry. Looks at no seal: for
    showing what happened, not for going on with it.
    """
    for _, entry, _, _ in _lines(path):
        yield entry


def _lines(path: Path) -> Iterator[tuple[int, Entry, dict[str, Any], object]]:
    """Yield the number of each line, its entry, how that is written, and its seal."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield number, *_entry(line, path, number)
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from error


def _entry(line: bytes, path: Path, number: int) -> tuple[Entry, dict[str, Any], object]:
    try:
        plain: dict[str, Any] = json.loads(line)
        seal = plain.pop("seal", None)
        fields = {name: value for name, value in plain.items() if name != "t"}
        entry: Entry = from_plain(fields, _ENTRIES[plain["t"]])
    except Exception as error:
        raise SessionError(
            f"{path}, line {number} is damaged ({type(error).__name__}); "
            "mend or remove that line, or start a new session"
        ) from error
    return entry, plain, seal
