"""What was typed in earlier chats: a private file of the person's own, one line of JSON for each entry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

FILE_NAME = "chat-history.jsonl"
KEPT = 1_000
"""How many entries are remembered; the file is shortened when it has twice as many."""
_LONGEST = 100_000
_MOST_BYTES = 20_000_000


class History:
    """Entries, oldest first. What begins with a space is kept nowhere; with *folder* None nothing is written."""

    def __init__(self, folder: Path | None, *, reads: Path | None = None) -> None:
        self._path = None if folder is None else folder / FILE_NAME
        read_from = self._path if reads is None else reads / FILE_NAME
        self.entries = _read(read_from)
        if self._path is not None and len(self.entries) > 2 * KEPT:
            self._shorten(self._path)
        self.entries = self.entries[-KEPT:]

    def add(self, entry: str) -> bool:
        """Remember *entry* unless it is private, said twice in a row, or far too long; say whether it was."""
        private = not entry.strip() or entry.startswith((" ", "\t"))
        if private or len(entry) > _LONGEST or entry == next(reversed(self.entries), None):
            return False
        self.entries.append(entry)
        if self._path is not None:
            _append(self._path, [entry])
        return True

    def _shorten(self, path: Path) -> None:
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            temporary.unlink(missing_ok=True)
            _append(temporary, self.entries[-KEPT:])
            temporary.replace(path)
        except OSError:
            pass  # as below


def _append(path: Path, entries: Iterable[str]) -> None:
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(path, "ab", buffering=0, opener=_careful) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(lines.encode("ascii"))
    except OSError:
        pass  # a convenience: a chat goes on without it


def _read(path: Path | None) -> list[str]:
    """Return what *path* holds; nothing where nothing can be read, and without what is damaged."""
    if path is None:
        return []
    try:
        with open(path, "rb", opener=_careful) as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    return [entry for line in lines if (entry := _entry(line))]


def _careful(path: str, flags: int) -> int:
    """Open *path* for its owner alone, follow no link, and wait for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _entry(line: bytes) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""
