"""Opens the files of a log with exclusive access for the user. POSIX only."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pluggent_hookspecs import ConfigError, private_folder
from pluggent_hookspecs.folders import state_folder
from pluggent_hookspecs.open_files import is_open_here

from pluggent_audit.settings import AuditSettings

NOT_REGULAR = "is not a regular file"
MOST_LOGS = 64
"""Processes that may write into one folder at a time."""
FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Without waiting: a pipe in the place of a file would have no other end."""


def folder_of(settings: AuditSettings, environ: Mapping[str, str]) -> Path:
    """Return where the log is; reads nothing. Raises ConfigError."""
    if settings.folder is not None:
        return settings.folder.expanduser().absolute()
    return Path(state_folder(environ), "audit")


def prepare(folder: Path) -> None:
    """Make *folder* if need be. Raises ConfigError unless it belongs to the user alone."""
    try:
        private_folder(folder)
        found = folder.lstat()
    except OSError as error:
        raise ConfigError(str(folder), [f"the audit cannot be kept there: {error.strerror}"]) from error
    problems: list[str] = []
    if not stat.S_ISDIR(found.st_mode):
        problems.append("is a link or no folder; give the audit a folder of its own")
    elif found.st_uid != os.geteuid():
        problems.append(f"belongs to user {found.st_uid}, not to {os.geteuid()}, the current user")
    elif found.st_mode & 0o077:
        problems.append(f"others may enter it (mode {found.st_mode & 0o777:03o}); run: chmod 700 '{folder}'")
    if problems:
        raise ConfigError(str(folder), problems)


def opened(path: Path, flags: int) -> int:
    """Open *path*, mode 0600. Raises ConfigError unless it is the user's own plain file."""
    try:
        fd = os.open(path, flags | FLAGS, 0o600)
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be opened: {error.strerror}"]) from error
    found = os.fstat(fd)
    mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    if not mine or found.st_mode & 0o077:
        os.close(fd)
        raise ConfigError(str(path), ["is not a regular file of mode 0600 of the current user; move it away"])
    return fd


def opened_to_read(path: Path) -> BinaryIO:
    """Open the regular file *path*, a link to one included. Raises OSError, and does not wait for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
    return os.fdopen(fd, "rb")


class Placed(NamedTuple):
    """An open file, and where it was opened."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, fd: int, path: Path) -> Placed:
        """Return where *fd*, which was opened at *path*, is."""
        here = os.fstat(fd)
        return cls(str(path), here.st_dev, here.st_ino)

    def status(self) -> os.stat_result | None:
        """Return the status of the file, None if it is not at its path any more."""
        try:
            there = os.lstat(self.path)
        except OSError:
            return None
        return there if there.st_ino == self.inode and there.st_dev == self.device else None


def sync_folder(folder: Path) -> None:
    """Force the names of the files in *folder* to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def claim(folder: Path, name: str, *, shared: bool) -> tuple[str, int]:
    """Return the first log without a writer, and its head file, open and locked.

    Raises ConfigError if it has a writer and the log is not *shared*.
    """
    for number in range(1, MOST_LOGS + 1):
        log = name if number == 1 else f"{name}-{number}"
        fd = opened(folder / f"{log}.head", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return log, fd
        except BlockingIOError:
            held_here = is_open_here(fd)
            os.close(fd)
            if not shared:
                who = "another host in this process" if held_here else "another process"
                problem = f"{who} writes the log '{log}'; end it, give this one a folder of its own,"
                raise ConfigError(str(folder), [f"{problem} or set shared = true"]) from None
    raise ConfigError(str(folder), [f"{MOST_LOGS} processes write logs there already"])
