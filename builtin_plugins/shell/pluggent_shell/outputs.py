"""The folder of one host's commands: outputs that are kept, and a private /tmp for each session."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pluggent_hookspecs import ToolError

MOST_KEPT = 50
"""Outputs of a session; an older one makes way for a newer one."""
_PREFIX = "pluggent-shell-"
_READ_BYTES = 1 << 20
_LOCK = "lock"


class Outputs:
    """Outputs by id, each for its session alone. The folder is made for the first and removed with the host."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lock: int | None = None
        self._kept: dict[str, dict[str, Path]] = {}

    def new(self, session_id: str) -> tuple[str, Path]:
        """Return the id and the path of a new output; its file is made by the writer. Blocks shortly."""
        kept = self._kept.setdefault(session_id, {})
        while len(kept) >= MOST_KEPT:
            kept.pop(next(iter(kept))).unlink(missing_ok=True)
        output_id = os.urandom(4).hex()
        kept[output_id] = self._folder_of(session_id) / f"{output_id}.txt"
        return output_id, kept[output_id]

    def forget(self, session_id: str, output_id: str) -> None:
        """Remove an output that was shown whole."""
        if path := self._kept.get(session_id, {}).pop(output_id, None):
            path.unlink(missing_ok=True)

    def private_tmp(self, session_id: str) -> Path:
        """Return the folder that confined commands of the session see as /tmp."""
        folder = self._folder_of(session_id) / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def folder(self) -> Path | None:
        """The folder of all of it, None before the first command."""
        return self._folder

    def read(self, session_id: str, output_id: str, first_line: int, lines: int, most_bytes: int) -> str:
        """Return lines of an output, numbered from 1. Raises ToolError if there is no such output. Blocks."""
        path = self._kept.get(session_id, {}).get(output_id)
        if path is None:
            raise ToolError(f"there is no output {output_id!r} in this session; the {MOST_KEPT} newest are kept")
        try:
            with path.open("rb") as file:
                return _lines(_pieces(file.fileno()), first_line, lines, most_bytes)
        except OSError as error:
            raise ToolError(f"the output {output_id!r} cannot be read: {error.strerror or error}") from error

    async def aclose(self) -> None:
        """Remove all outputs."""
        folder, self._folder, self._kept = self._folder, None, {}
        lock, self._lock = self._lock, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)

    def _folder_of(self, session_id: str) -> Path:
        if self._folder is None:
            _remove_lost()
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock = _locked(self._folder)
        # The id of a session may be any text.
        folder = self._folder / session_id.encode().hex()[:64]
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def _locked(folder: Path) -> int | None:
    """Return a descriptor that marks *folder* as in use by a living process; None if another one uses it."""
    import fcntl  # it is not on Windows

    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_lost() -> None:
    """Remove the folders of hosts that were killed before they removed theirs."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            own = not folder.is_symlink() and folder.stat().st_uid == os.geteuid() and (folder / _LOCK).is_file()
            if own and (lock := _locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _pieces(descriptor: int) -> Iterator[bytes]:
    while data := os.read(descriptor, _READ_BYTES):
        yield data


def _lines(pieces: Iterator[bytes], first: int, count: int, most_bytes: int) -> str:
    """Return *count* lines from line *first*, at most *most_bytes* of them, with a note of what follows."""
    found = bytearray()
    line, last = 1, first + count
    for piece in pieces:
        begin = 0
        while line < last and begin < len(piece):
            end = piece.find(b"\n", begin) + 1 or len(piece)
            if line >= first and len(found) <= most_bytes:
                found += piece[begin:end]
            line += piece.endswith(b"\n", begin, end)
            begin = end
        if line >= last or len(found) > most_bytes:
            break
    if len(found) > most_bytes:
        cut = bytes(found[:most_bytes]).decode("utf-8", "replace")
        return (
            f"{cut}\n[cut after {most_bytes:,} bytes; ask for fewer lines, or for line {first + cut.count(chr(10))} on]"
        )
    if not found:
        return f"[no line {first}: the output has {line - 1} lines]"
    return bytes(found).decode("utf-8", "replace")
