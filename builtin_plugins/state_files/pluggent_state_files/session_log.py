"""The log of a session on disk: one append-only JSONL file, one writer at a time.

A line is one entry, whole or not there. POSIX only (flock, O_APPEND).
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from pluggent_hookspecs.errors import ConfigError, SessionError, SessionLeaseLost
from pluggent_hookspecs.folders import private_folder
from pluggent_hookspecs.open_files import is_open_here
from pluggent_hookspecs.sessions import Line

from pluggent_state_files.listing import SESSION_ID, SUFFIX, fields_of, kind_of, lines, open_session
from pluggent_state_files.marks import FILE, Mark, MarkWriter, read_mark
from pluggent_state_files.seals import (
    APPROVALS,
    OTHERS_WRITE,
    SealedRecords,
    check_folder,
    check_owner,
    is_sealed,
    sync_folder,
)

_BLOCK = 65_536
_SEAL = b',"seal":"'
_SEALED_END = len(_SEAL) + 64 + len(b'"}\n')
"""Bytes at the end of a sealed line that are its seal."""
_PLACE = re.compile(rb',"mark":(\d{1,18})}\n$')
"""What a sealed line has before its seal: where the mark of the session begins."""
_SUM = b',"crc":"'
_SUM_END = len(_SUM) + 8 + len(b'"}\n')
"""Bytes at the end of any other line that are its checksum, a CRC-32 of the line without it."""
_DISPATCH = "Dispatched"
"""The kind of line after which a call has used its approval."""


class FileLog:
    """The log in ``<folder>/<session id>.jsonl``, mode 0600. Answers at once.

    Opening takes the lock, which is the lease (SessionError if another writer has it), and cuts off a
    last line that a crash left torn; the torn bytes are kept in ``<session id>.torn``. What
    is appended survives the process, what is synced a loss of power. The number of the lease is the
    place in the file from which on this writer writes; it is lost if the file is removed meanwhile.
    Only the process that opened it writes: a child that os.fork() made gets SessionError.

    The seal of a line is an HMAC over its bytes and the id of the session, as the line's last field; any other
    line ends with a checksum. Once a session has a sealed line, the size of its file is kept in another with every
    dispatch (see marks.py): where the file is found shorter, an older copy was put in its place, and no
    seal in that copy holds.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        if not SESSION_ID.fullmatch(session_id):
            raise SessionError(
                f"session id {session_id!r}: use letters, digits, '.', '_' and '-', 100 at most, no '.' or '-' first"
            )
        self.path = folder / f"{session_id}{SUFFIX}"
        self._id = session_id
        self._pid = os.getpid()
        self._is_made = False
        self._mark = MarkWriter(folder, session_id)
        self.lease = 0
        self._fd = -1
        self._seals = SealedRecords(folder / APPROVALS, folder.parent)
        try:
            private_folder(folder)
            # Who can write the folder of the state can put another folder in the place of this one.
            check_folder(folder.parent)
            check_folder(folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._is_made = not os.path.lexists(self.path)
            self._fd = os.open(self.path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise SessionError(  # noqa: TRY301 (closed below like every other failure)
                    f"session '{session_id}' cannot be opened: {self.path} is not a file"
                )
            check_owner(self.path, os.fstat(self._fd), OTHERS_WRITE)
            self._lock()
            self._size = self._mend()
            self._is_new = self._size == 0
            self._is_read = self._is_new
            self.lease = self._size + 1
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
            raise SessionError(f"session '{self._id}' is {self._holder()}") from None
        if os.fstat(self._fd).st_nlink == 0:
            raise SessionError(f"session '{self._id}' was deleted while it was being opened; open it again")

    def _holder(self) -> str:
        if is_open_here(self._fd):
            return "open in this process already; use that one, or close it first"
        return "in use by another process; wait for it, or start a session of another name"

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
        # O_NONBLOCK: a named pipe in its place fails, and does not hang.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        aside = os.open(self.path.with_suffix(".torn"), flags, 0o600)
        try:
            while torn:  # a full disk raises, and nothing is cut off
                torn = torn[os.write(aside, torn) :]
        finally:
            os.close(aside)
        os.ftruncate(self._fd, whole)
        return whole

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    def append(self, *lines: Line) -> None:
        """Hand *lines* to the operating system, all or none."""
        if self._pid != os.getpid():
            raise SessionError(f"session '{self._id}' is in use by process {self._pid}, which forked this one")
        if not self._is_read:
            for _ in self.read():  # whose seals hold is settled before the file grows
                pass
        if len(lines) == 1 and not (line := lines[0]).sealed:  # most are
            data = line.data
            data = data[:-2] + b',"crc":"%08x"}\n' % crc32(data)  # _summed(), in the way of every call
        else:
            data = b"".join([self._sealed(line.data) if line.sealed else _summed(line.data) for line in lines])
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 (cut off below)
        except OSError as error:
            if self._fd < 0:
                raise SessionError(f"session '{self._id}' is closed") from None
            os.ftruncate(self._fd, self._size)
            raise SessionError(f"session '{self._id}' cannot be written: {self.path}: {error.strerror}") from error
        self._size += written
        if self._mark.place >= 0 and any(line.kind == _DISPATCH for line in lines):
            if self._is_gone(self._fd):
                raise SessionLeaseLost(self._id, self.lease)
            self._put_mark(self._mark.mark._replace(size=self._size))

    def _put_mark(self, mark: Mark) -> None:
        try:
            self._mark.put(mark)
        except OSError as error:
            raise SessionError(f"session '{self._id}' cannot be written: {self.path}: {error.strerror}") from error

    def _begin_mark(self) -> None:
        try:
            self._mark.begin(self._size)
        except OSError as error:
            place = self.path.with_name(FILE)
            raise SessionError(f"session '{self._id}' cannot be written: {place}: {error.strerror}") from error
        except ConfigError as error:
            raise SessionError(f"session '{self._id}' cannot be written: {error}") from error

    def _is_gone(self, descriptor: int) -> bool:
        """Say whether the file is no more where it was opened, so that another writer may have another one there."""
        try:
            return not os.path.samestat(self.path.lstat(), os.fstat(descriptor))
        except FileNotFoundError:
            return True

    def sync(self) -> None:
        """Force everything appended to the disk. Blocks."""
        if self._fd < 0:
            raise SessionError(f"session '{self._id}' is closed")
        try:
            own = os.dup(self._fd)  # this runs in a thread, and the number may be closed meanwhile
            try:
                _to_disk(own)
                if self._is_new:  # its name, too, has to survive
                    sync_folder(self.path.parent)
                    self._is_new = False
                if self._mark.unsynced:
                    self._mark.sync()
                removed = self._is_gone(own)
            finally:
                os.close(own)
        except OSError as error:
            raise SessionError(f"session '{self._id}' cannot be written: {self.path}: {error.strerror}") from error
        if removed:
            raise SessionLeaseLost(self._id, self.lease)

    def read(self) -> Iterator[Line]:
        """Yield every line so far."""
        marks = _Marks(self.path.parent, self._id)
        yield from _lines(self.path.parent, self._id, self._seals.key, marks)
        if not self._is_read:
            self._is_read = True
            self._take_over(marks)

    def _take_over(self, marks: _Marks) -> None:
        """Continue the mark of the session; that of an older copy changes, so that no seal of the copy ever holds."""
        for place, mark in marks.found.items():  # the last one is the one that is continued
            self._mark.place, self._mark.mark = place, mark
            if place in marks.older:
                self._put_mark(Mark(mark.copies + 1))
                self.sync()

    def _sealed(self, data: bytes) -> bytes:
        if self._mark.place < 0:
            self._begin_mark()  # now, so that the call that is approved does not wait for it
        own = b'%b,"mark":%d}\n' % (data.removesuffix(b"}\n"), self._mark.place)
        seal = _seal_of(own, self._seals.sealing_key(), self._id, self._mark.mark.copies)
        return b'%b%b%b"}\n' % (own.removesuffix(b"}\n"), _SEAL, seal)

    def close(self) -> None:
        """Give up the lock, and leave no empty file. Safe twice."""
        if self._fd < 0:
            return
        if self._pid == os.getpid():
            if self._is_empty():
                self.path.unlink(missing_ok=True)
            # Given up by name: a thread that still syncs, or a child, may hold the open file.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)
        self._mark.close()
        self._fd = -1

    def _is_empty(self) -> bool:
        """Say whether this log made the file and wrote nothing: the session was refused before it began."""
        return self._is_made and self.lease > 0 and os.fstat(self._fd).st_size == 0


_to_disk = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync."""


def read_lines(folder: Path, session_id: str) -> Iterator[Line]:
    """Yield the lines of a session without taking its lock; a torn last line is left out.

    Raises ConfigError, at the first sealed line, where the key that seals cannot be relied on.
    """
    seals = SealedRecords(folder / APPROVALS, folder.parent)
    return _lines(folder, session_id, seals.key, _Marks(folder, session_id))


class _Marks:
    """The marks that the sealed lines of a session name, by where they begin; ``older``: the file is an older copy."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._id = session_id
        self.file = -1
        self.found: dict[int, Mark] = {}
        self.older: set[int] = set()
        self._missing = -1

    def copies(self, place: int) -> int:
        """Return what the seals of lines with a mark at *place* are bound to, -1 where none can hold."""
        if place not in self.found and place != self._missing:
            mark = read_mark(self._folder, self._id, place)  # before the size: a writer writes the file first
            if mark is None:
                self._missing = place
            else:
                self.found[place] = mark
                if mark.size > os.fstat(self.file).st_size:
                    self.older.add(place)
        mark = self.found.get(place)
        return -1 if mark is None or place in self.older else mark.copies


def _lines(folder: Path, session_id: str, key: Callable[[], bytes | None], marks: _Marks) -> Iterator[Line]:
    path = folder / f"{session_id}{SUFFIX}"
    try:
        with open_session(folder, session_id) as file:
            marks.file = file.fileno()
            seal = _Seal(session_id, marks, key)
            for number, line in enumerate(lines(file), 1):
                yield _line(line, number, seal)
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise SessionError(f"session '{session_id}' cannot be read: {path}: {why}") from error
    except _DamagedError as error:
        raise SessionError(f"{path}, {error}") from None
    except ValueError as error:
        raise SessionError(f"session '{session_id}' cannot be read: {path}: it {error}") from error


class _DamagedError(Exception):
    """A line is not what was written."""


class _Seal(NamedTuple):
    """What the seals of a session are made with."""

    session_id: str
    marks: _Marks
    key: Callable[[], bytes | None]


def _line(data: bytes, number: int, seal: _Seal) -> Line:
    kind = kind_of(data)
    if data[-_SUM_END:].startswith(_SUM):
        own = data[:-_SUM_END] + b"}\n"
        if _summed(own) != data:
            problem = f"line {number} is damaged (its checksum does not fit)"
            raise _DamagedError(f"{problem}; mend or remove that line, or start a new session")
        return Line(kind, own)
    if b'"seal":' not in data:
        return Line(kind, data)
    if data[-_SEALED_END:].startswith(_SEAL):
        own, key = data[:-_SEALED_END] + b"}\n", seal.key()
        found = data[len(_SEAL) - _SEALED_END : -len(b'"}\n')]
        marked = _PLACE.search(own)
        copies = seal.marks.copies(int(marked[1])) if marked else 0
        if key is not None and hmac.compare_digest(found, _seal_of(own, key, seal.session_id, copies)):
            return Line(kind, own[: marked.start()] + b"}\n" if marked else own, sealed=True, genuine=True)
    return _sealed_by_fields(kind, data, seal)


def _summed(data: bytes) -> bytes:
    return data[:-2] + b',"crc":"%08x"}\n' % crc32(data)


def _seal_of(data: bytes, key: bytes, session_id: str, copies: int) -> bytes:
    return hmac.digest(key, b"line\n%b\n%d\n%b" % (session_id.encode(), copies, data), "sha256").hex().encode()


def _sealed_by_fields(kind: str, data: bytes, seal: _Seal) -> Line:
    """Return the line for *data*, judged by the earlier kind of seal: over the fields, not over the bytes."""
    try:
        plain = fields_of(data)
    except ValueError:  # damaged, which the host says
        return Line(kind, data)
    found = plain.pop("seal", None)
    if found is None:
        return Line(kind, data)
    own = _PLACE.sub(b"}\n", data[:-_SEALED_END] + b"}\n") if data[-_SEALED_END:].startswith(_SEAL) else data
    genuine = is_sealed(seal.key(), found, seal.session_id, plain)
    return Line(kind, own, sealed=True, genuine=genuine)
