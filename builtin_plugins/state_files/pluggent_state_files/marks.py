"""How far each session with seals has come: numbers that only grow, so that an older copy replays no approval.

One file a folder, a record a session. The sealed lines of a session say where its record begins, so that no new file
is made for a session, and none is searched. POSIX only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from pluggent_hookspecs.errors import ConfigError

from pluggent_state_files.seals import OTHERS_WRITE, check_owner

FILE = "marks"
_RECORD = 75
"""Bytes of a record, a line of text."""
_WRITTEN = re.compile(rb"([0-9a-f]{32}) (\d{1,20}) +(\d{1,20}) *\n")
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Mark(NamedTuple):
    """How far a session has come.

    Seals are bound to ``copies``, which grows when an older copy is put in the place of its file, so that those of
    the copy hold no more. It begins with the time, in ns: no seal holds by a mark that replaces a lost one. ``size``
    is the size of the file, in bytes, behind the last dispatch of a call in a session with seals: a file that is
    shorter is an older copy.
    """

    copies: int = 0
    size: int = 0


def read_mark(folder: Path, session_id: str, place: int) -> Mark | None:
    """Return the mark of a session whose record begins at byte *place*; None if none of it is there.

    Raises OSError, and ConfigError if others can write the file.
    """
    try:
        descriptor = os.open(f"{folder}/{FILE}", os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        return None
    try:
        _check(folder, descriptor)
        found = _WRITTEN.fullmatch(os.pread(descriptor, _RECORD, place))
    finally:
        os.close(descriptor)
    return Mark(int(found[2]), int(found[3])) if found and found[1] == _owner(session_id) else None


def _check(folder: Path, descriptor: int) -> None:
    check_owner(folder / FILE, os.fstat(descriptor), OTHERS_WRITE)


def _owner(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).hexdigest()[:32].encode()


class MarkWriter:
    """The mark of one session, for its writer. ``place`` is where its record begins, -1 if it has none."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._owner = _owner(session_id)
        self._fd = -1
        self._is_new = False
        self.place = -1
        self.mark = Mark()
        self.unsynced = False

    def put(self, mark: Mark) -> None:
        """Write *mark* in the place of what was there; sync() makes it durable. Raises OSError."""
        self._write(mark)

    def begin(self, size: int) -> None:
        """Add a record for a session of *size* bytes. Raises OSError, and ConfigError if others can write the file."""
        self._write(Mark(time.time_ns(), size))

    def _write(self, mark: Mark) -> None:
        record = b"%b %-20d %-20d\n" % (self._owner, *mark)
        if self.place < 0:
            self._add(record)
        else:
            if self._fd < 0:
                self._fd = os.open(f"{self._folder}/{FILE}", os.O_RDWR | _FLAGS)
            _whole(os.pwrite(self._fd, record, self.place))
        self.mark, self.unsynced = mark, True

    def _add(self, record: bytes) -> None:
        """Append *record*; no other writer's can overlap it."""
        descriptor = os.open(f"{self._folder}/{FILE}", os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o600)
        try:
            _check(self._folder, descriptor)
            _whole(os.write(descriptor, record))
            place = os.lseek(descriptor, 0, os.SEEK_CUR) - _RECORD
            # What pwrite() is to write in its place Linux would append.
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK)
        except (OSError, ConfigError):
            os.close(descriptor)
            raise
        self._fd, self.place, self._is_new = descriptor, place, True

    def sync(self) -> None:
        """Force the mark to the disk. Blocks."""
        own = os.dup(self._fd)  # this runs in a thread, and the number may be closed meanwhile
        try:
            os.fsync(own)
        finally:
            os.close(own)
        if self._is_new:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._is_new = False
        self.unsynced = False

    def close(self) -> None:
        """Close the file. Safe twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _whole(written: int) -> None:
    if written != _RECORD:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
