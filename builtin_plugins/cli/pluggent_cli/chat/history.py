"""What was typed in earlier chats: the history file of prompt_toolkit, for its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pluggent_hookspecs.folders import private_folder
from prompt_toolkit.history import FileHistory

FILE_NAME = "chat-history"
MOST_BYTES = 1_000_000
"""A longer file is cut to its newer half."""
_LONGEST = 100_000
_ENTRY = b"\n# "
"""How FileHistory begins an entry: an empty line and the time."""


class PrivateHistory(FileHistory):
    """Entries of one folder. Private ones, which begin with a space, are kept nowhere.

    Without *saves* the file is read and not written. A link, a pipe or a folder in its place is left
    alone. History is a convenience: what cannot be read or written is not an error.
    """

    def __init__(self, folder: Path, *, saves: bool) -> None:
        self._path = folder / FILE_NAME
        self._saves = saves
        super().__init__(self._path)

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, the newest first."""
        with suppress(OSError):
            if _is_file(self._path):
                return list(super().load_history_strings())
        return []

    def append_string(self, string: str) -> None:
        """Remember *string*, unless it is private or far too long."""
        if string.strip() and not string.startswith((" ", "\t")) and len(string) <= _LONGEST:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Write *string* to the file."""
        if self._saves:
            with suppress(OSError):
                self._prepare()
                super().store_string(string)

    def _prepare(self) -> None:
        """Make the file, for its owner alone whatever the umask; shorten a long one."""
        private_folder(self._path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(self._path, "r+b", opener=lambda path, _: os.open(path, flags, 0o600)) as file:
            os.fchmod(file.fileno(), 0o600)
            if os.fstat(file.fileno()).st_size <= MOST_BYTES:
                return
            file.seek(-MOST_BYTES // 2, os.SEEK_END)
            newer = file.read()
            file.seek(0)
            file.write(newer[max(newer.find(_ENTRY), 0) :])
            file.truncate()


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)
