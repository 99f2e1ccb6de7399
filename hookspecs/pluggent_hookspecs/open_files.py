"""Says whether this process itself has a file open for writing. POSIX only (``/dev/fd``)."""

from __future__ import annotations

import fcntl
import os

__all__ = ["is_open_here"]


def is_open_here(descriptor: int) -> bool:
    """Say whether this process has the file of *descriptor* open for writing under another descriptor as well.

    A lock that is taken cannot be asked who has it; a process that has the file open itself is told so.

    >>> from tempfile import TemporaryFile
    >>> with TemporaryFile() as file:
    ...     alone = is_open_here(file.fileno())
    ...     again = os.open(f"/dev/fd/{file.fileno()}", os.O_RDWR)
    ...     print(alone, is_open_here(file.fileno()))
    ...     os.close(again)
    False True
    """
    own = os.fstat(descriptor)
    try:
        names = os.listdir("/dev/fd")  # noqa: PTH208 (pathlib costs 4 ms, and short commands import this)
    except OSError:
        return False
    return any(_is_writer(int(name), own) for name in names if name.isdecimal() and int(name) != descriptor)


def _is_writer(descriptor: int, own: os.stat_result) -> bool:
    try:
        found = os.fstat(descriptor)
        writes = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:  # closed meanwhile
        return False
    return writes and (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
