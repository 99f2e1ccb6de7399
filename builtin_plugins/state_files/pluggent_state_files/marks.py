"""The number beside a session that only grows, so that an older copy of its file replays no approval. POSIX only."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from pluggent_state_files.listing import MARK

_WIDTH = 48
_WRITTEN = re.compile(rb"(\d{1,20}) +(\d{1,20}) *\n")
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Mark(NamedTuple):
    """How far a session has come.

    ``copies`` is how often an older copy was put in the place of its file: seals are bound to it, so those of
    the copy hold no more. ``size`` is the size of the file, in bytes, behind the last dispatch of a call in a session
    with seals: a file that is shorter is an older copy.
    """

    copies: int = 0
    size: int = 0


def read_mark(folder: Path, session_id: str) -> Mark | None:
    """Return the mark of a session: Mark() if there is none, None if it is damaged. Raises OSError."""
    try:
        descriptor = os.open(folder / f"{session_id}{MARK}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Mark()
    try:
        found = _WRITTEN.fullmatch(os.read(descriptor, _WIDTH + 1))
    finally:
        os.close(descriptor)
    return Mark(*map(int, found.groups())) if found else None


class MarkFile:
    """The mark of one session, open for its writer; the file is made with the first mark."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._id = session_id
        self._fd = -1
        self._is_new = False
        self.mark = Mark()
        self.unsynced = False

    def load(self, size: int) -> None:
        """Read the mark. Where it is damaged, or says that a file of *size* is an older copy, no seal holds."""
        mark = read_mark(self._folder, self._id)
        if mark is not None and mark.size <= size:
            self.mark = mark
            return
        # The time is larger than any count, and a copy of a damaged mark's session has none larger.
        self.put(Mark(time.time_ns() if mark is None else mark.copies + 1))
        self.sync()

    def put(self, mark: Mark) -> None:
        """Write *mark* in the place of what was there; sync() makes it durable."""
        if self._fd < 0:
            self._fd = os.open(self._folder / f"{self._id}{MARK}", _FLAGS, 0o600)
            self._is_new = os.fstat(self._fd).st_size == 0
        os.pwrite(self._fd, b"%-20d %-20d\n" % mark, 0)
        self.mark, self.unsynced = mark, True

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
