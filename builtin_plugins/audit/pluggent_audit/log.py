"""Writes a log: one line a record, each with the hash of the one before; repairs what a killed process left."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec
from pluggent_hookspecs import ConfigError

from pluggent_audit.chain import (
    FILE_BEGUN,
    HEAD,
    LOG_CLOSED,
    LOG_OPENED,
    Head,
    Line,
    file_name,
    hash_of,
    look,
    number_of,
    read_head,
    read_line,
)
from pluggent_audit.file_access import Placed, claim, opened, prepare, sync_folder
from pluggent_audit.settings import AuditSettings, Fsync

FORMAT = 1
FIRST_LINES = 1
"""How many lines a writer that is killed may leave without any head: the one that begins its first file."""
_CHUNK = 1 << 16
_KEPT = ("operation", "operation_id", "digest", "verdict", "by", "capability", "call_id", "why", "model")
"""What is kept of a record that is too long."""


class Log:
    """One log of a folder, open for writing. Of one process, any thread."""

    def __init__(
        self, folder: Path, settings: AuditSettings, key: bytes | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        prepare(folder)
        self._settings = settings
        self._folder = folder
        self._key = key
        self._clock = clock
        self._lock = threading.Lock()
        self._encode = msgspec.json.Encoder().encode
        self._pid = os.getpid()
        self._fd = -1
        self._size: int = 0
        self._number = 0
        self._day: str = ""
        self._head = Head()
        self._torn = False
        self._at: Placed | None = None
        self.name, self._head_fd = claim(folder, settings.name, shared=settings.shared)
        try:
            self._head_at = Placed.of(self._head_fd, folder / f"{self.name}.head")
            self._continue()
        except BaseException:
            self._let_go()
            raise

    @property
    def head(self) -> Head:
        """The number and the hash of the last line."""
        return self._head

    @property
    def path(self) -> Path:
        """The file that is written now."""
        return self._folder / file_name(self.name, self._number)

    def append(self, event: str, record: dict[str, Any], *, decision: bool = False) -> None:
        """Write one line. Raises OSError if it could not be written; the log is then as it was."""
        with self._lock:
            self._append(event, record)
            if self._settings.fsync is Fsync.ALL or (decision and self._settings.fsync is Fsync.DECISIONS):
                os.fsync(self._fd)
            self._keep_head()

    def close(self) -> None:
        """Write that the log is closed, if that can be written, and let others have it."""
        with self._lock:
            if self._head_fd < 0:
                return
            try:
                self._append(LOG_CLOSED, {})
                self._keep_head()
                os.fsync(self._fd)
                os.fsync(self._head_fd)
            finally:
                self._let_go()

    # ---- lines -------------------------------------------------------------------------

    def _append(self, event: str, record: dict[str, Any]) -> None:
        self._check()
        now = _iso(self._clock())
        line = self._line(now, event, record)
        # A clock that was put back begins no file for every record.
        late = self._settings.rotate_daily and now[:10] > self._day
        if late or self._size + len(line) >= self._settings.rotate_bytes:
            self._next_file(now)
            line = self._line(now, event, record)
        self._put(line)

    def _line(self, now: str, event: str, record: dict[str, Any]) -> bytes:
        value = {"n": self._head.n + 1, "prev": self._head.hash, "at": now, "event": event, "record": record}
        line = self._encode(value)
        if len(line) > self._settings.max_line_bytes:
            line = self._encode({**value, "record": _cut(record, line)})
        return line

    def _put(self, line: bytes) -> None:
        data = line + b"\n"
        self._torn = True  # until it is all there
        try:
            written = os.write(self._fd, data)
        except OSError:
            self._mend()
            raise
        if written < len(data):
            self._mend()
            raise OSError(f"{self.path}: only {written} of {len(data)} bytes could be written; is the disk full?")
        self._torn = False
        self._size += len(data)
        self._head = Head(self._head.n + 1, hash_of(line, self._key))

    def _mend(self) -> None:
        """Take back what was written of a line; tried again before the next one if it fails."""
        os.ftruncate(self._fd, self._size)
        self._torn = False

    def _check(self) -> None:
        if self._fd < 0:
            raise OSError("the audit log is closed")
        if os.getpid() != self._pid:
            raise OSError(f"{self.path} belongs to process {self._pid}; a forked one has to open a log of its own")
        if self._torn:
            self._mend()
        assert self._at is not None  # set with the file
        found = self._at.status()
        if found is None or self._head_at.status() is None:
            path = self._at.path if found is None else self._head_at.path
            raise OSError(f"{path} was moved away, replaced or removed while it was written; put it back")
        if found.st_nlink != 1 or found.st_size != self._size:
            raise OSError(f"{self.path} was changed by another process; run: pluggent audit verify")

    def _keep_head(self) -> None:
        os.pwrite(self._head_fd, self._head.encoded(), 0)

    # ---- files -------------------------------------------------------------------------

    def _next_file(self, now: str) -> None:
        """Begin the next file. If anything fails, the log stays where it was."""
        before, head = (self._fd, self._size, self._number, self._day, self._at), self._head
        number = self._number + 1
        path = self._folder / file_name(self.name, number)
        self._fd, self._size = opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL), 0
        self._number, self._day, self._at = number, now[:10], None
        try:
            self._at = Placed.of(self._fd, path)
            self._put(self._line(now, FILE_BEGUN, {"log": self.name, "file": number, "format": FORMAT}))
            if self._settings.fsync is not Fsync.OFF:
                sync_folder(self._folder)
            self._keep_head()
        except BaseException:
            os.close(self._fd)
            (self._fd, self._size, self._number, self._day, self._at), self._head = before, head
            self._torn = False
            path.unlink()
            raise
        if before[0] >= 0:
            os.fsync(before[0])
            os.close(before[0])

    def _continue(self) -> None:
        """Find the end of the log, repair it, and write that it was opened."""
        promised = read_head(os.pread(self._head_fd, 4_096, 0))
        notes: dict[str, Any] = {"pid": self._pid}
        for path in reversed(look(self._folder).get(self.name, [])):
            if self._take_up(path, notes):
                break
        if promised is None:
            notes[HEAD] = "damaged"
        elif not promised.n and self._head.n > FIRST_LINES:
            notes[HEAD] = "missing"
        elif promised.n > self._head.n or (promised.n == self._head.n and promised.hash != self._head.hash):
            notes["missing"] = {"promised": str(promised), "found": str(self._head)}
        now = _iso(self._clock())
        if self._fd < 0:
            self._next_file(now)
        self._append(LOG_OPENED, notes)
        self._keep_head()
        if self._settings.fsync is not Fsync.OFF:
            os.fsync(self._head_fd)  # a head that is lost would look like one that was removed

    def _take_up(self, path: Path, notes: dict[str, Any]) -> bool:
        """Go on in *path*, if there is a whole line in it; an empty file is removed."""
        named = number_of(path.name)
        assert named is not None, "look() finds files of logs only"
        fd = opened(path, os.O_RDWR | os.O_APPEND)
        try:
            size, last = _repaired(fd, path, notes)
            line = _last_record(path, last) if size else None
        except BaseException:
            os.close(fd)
            raise
        if line is None:
            path.unlink()
            os.close(fd)
            return False
        self._fd, self._size, self._number, self._day = fd, size, named[1], line.at[:10]
        self._at = Placed.of(fd, path)
        self._head = Head(line.n, hash_of(last, self._key))
        return True

    def _let_go(self) -> None:
        for fd in (self._fd, self._head_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._head_fd = -1


def _repaired(fd: int, path: Path, notes: dict[str, Any]) -> tuple[int, bytes]:
    """Move a torn line at the end of *fd* into a file next to it; return the size then, and the last line."""
    size = os.fstat(fd).st_size
    end = _newline_before(fd, size) + 1
    if end < size:
        torn = os.pread(fd, size - end, end)
        kept = opened(path.with_name(f"{path.name}.torn"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if os.write(kept, torn + b"\n") <= len(torn):
                raise OSError(f"{path}: its torn last line could not be kept aside; is the disk full?")
            os.fsync(kept)
        finally:
            os.close(kept)
        os.ftruncate(fd, end)
        notes["torn"] = {"file": path.name, "bytes": len(torn), "sha256": sha256(torn).hexdigest()}
    begin = _newline_before(fd, end - 1) + 1 if end else 0
    return end, os.pread(fd, end - begin - 1, begin) if end else b""


def _last_record(path: Path, last: bytes) -> Line:
    line = read_line(last)
    if line is None:
        problem = "its last line is not a record; run pluggent audit verify, then move the files of this log away"
        raise ConfigError(str(path), [problem])
    return line


def _newline_before(fd: int, end: int) -> int:
    """Return where the last newline before *end* stands, -1 if there is none."""
    while end > 0:
        begin = max(0, end - _CHUNK)
        at = os.pread(fd, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at
        end = begin
    return -1


def _cut(record: dict[str, Any], line: bytes) -> dict[str, Any]:
    """Return what fits of a record that is too long; its names are short, its texts might not be."""
    scope = cast("dict[str, object]", record.get("scope") or {})
    kept = {name: str(record[name])[:200] for name in _KEPT if name in record}
    where = {name: str(scope[name])[:200] for name in ("session_id", "turn_id", "origin", "principal") if name in scope}
    return {"scope": where, **kept, "cut": {"bytes": len(line), "sha256": sha256(line).hexdigest()}}


def _iso(seconds: float) -> str:
    whole = int(seconds)
    return f"{_to_the_second(whole)}.{int((seconds - whole) * 1e6):06}Z"


@lru_cache(1)  # many lines are of one second, and this is the dearest part of one
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
