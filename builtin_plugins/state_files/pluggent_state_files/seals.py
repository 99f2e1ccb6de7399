"""Records that hold only with their seal: an HMAC under a key in the same folder. POSIX only.

What a person has accepted or approved is kept like this: a damaged or forged record is none, and is
named. The key is this user's alone (mode 0600); it is in no environment.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import private_folder

APPROVALS = "approvals.json"
"""The file in it of approvals that hold always; its key seals what sessions wait with, too."""
_STORE_BYTES = 4_194_304
_KEY_BYTES = 32
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Record(NamedTuple):
    """One record as it was read. Where ``sealed`` is False nothing else of it is to be believed."""

    kind: str
    name: str
    about: Mapping[str, Any]
    sealed: bool


class SealedRecords:
    """The records at *path*, read afresh by every call; nothing is made before the first one is put.

    Every call raises ConfigError if the file, its key or its folder belongs to another user, can
    be written by others, or cannot be read. Two processes may write at once. *within* is a folder
    above that is checked like its own: who can write there can put another folder in its place.
    """

    def __init__(self, path: Path, within: Path | None = None) -> None:
        self.path = path
        self._folders = (path.parent,) if within is None else (within, path.parent)
        self._key_path = path.with_name(path.name + ".key")
        self._lock_path = path.with_name(path.name + ".lock")

    def all(self) -> list[Record]:
        """Return every record, damaged ones too; none of a file that is damaged as a whole."""
        return self.read() or []

    def read(self) -> list[Record] | None:
        """Return every record, damaged ones too; None of a file that is damaged as a whole."""
        try:
            return self._judged(self._read())
        except _DamagedError:
            return None

    def whole(self) -> tuple[list[Record], str]:
        """Return every record of a file that is never without one, and what is wrong with it; "" if nothing is."""
        try:
            found = self._found()
        except _DamagedError as error:
            return [], str(error)
        records = self._judged(found or [])
        if found is not None and not found:
            return [], "it holds nothing"
        changed = ", ".join(repr(record.name) for record in records if not record.sealed)
        why = f"the record of {changed} was changed, or its key {self._key_path.name} was made anew or is gone"
        return records, why if changed else ""

    def _judged(self, records: list[dict[str, Any]]) -> list[Record]:
        key = self._key() if records else None
        return [
            Record(str(each.get("kind", "?")), str(each.get("name", "?")), each["about"], sealed=True)
            if key is not None and _is_sealed(each, key)
            else Record(str(each.get("kind", "?")), str(each.get("name", "?")), {}, sealed=False)
            for each in records
        ]

    def find(self, kind: str, name: str) -> Mapping[str, Any] | None:
        """Return what is recorded of *name*, if its seal is whole."""
        return next((each.about for each in self.all() if each.sealed and (each.kind, each.name) == (kind, name)), None)

    def is_damaged(self) -> bool:
        """Say whether the file is not a list of records."""
        return self.read() is None

    def put(self, kind: str, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Record of *name* what *change* makes of what was recorded before."""
        with self._writing() as records:
            key = self._key() or self._new_key()
            about: dict[str, Any] = {}
            for each in records:
                about |= each["about"] if _is(each, kind, name) and _is_sealed(each, key) else {}
            record: dict[str, Any] = {"kind": kind, "name": name, "about": change(about)}
            records[:] = [each for each in records if not _is(each, kind, name)]
            records.append({**record, "seal": _seal(record, key)})

    def drop(self, kind: str, name: str) -> bool:
        """Take out what is recorded of *name*; return whether there was anything."""
        if not self.path.exists():
            return False
        with self._writing() as records:
            left = [each for each in records if not _is(each, kind, name)]
            found = len(left) < len(records)
            records[:] = left
        return found

    # ---- seals of what is kept elsewhere -----------------------------------------------------

    def sealing_key(self) -> bytes:
        """Return the key, made now if there is none. Raises ConfigError if it cannot be."""
        key = self._key()
        if key is not None:
            return key
        with self._locked():
            return self._key() or self._new_key()

    def key(self) -> bytes | None:
        """Return the key, None if there is none yet."""
        return self._key()

    # ---- files -----------------------------------------------------------------------------

    def _read(self) -> list[dict[str, Any]]:
        return self._found() or []

    def _found(self) -> list[dict[str, Any]] | None:
        """Return the records as they are written, None if there is no file."""
        self._check_folders()
        content = _own_bytes(self.path, OTHERS_WRITE, _STORE_BYTES)
        if content is None:
            return None
        try:
            plain: Any = json.loads(content)
            records: Any = plain["records"]
        except (ValueError, RecursionError) as error:
            raise _DamagedError("it is not JSON") from error
        except (KeyError, TypeError) as error:
            raise _DamagedError("it is not a list of records") from error
        if not isinstance(records, list):
            raise _DamagedError("it is not a list of records")
        return [record if isinstance(record, dict) else {} for record in cast("list[dict[str, Any] | None]", records)]

    def _check_folders(self) -> None:
        for folder in self._folders:
            check_folder(folder)

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            private_folder(self.path.parent)
            self._check_folders()
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise ConfigError(str(self.path), [f"cannot be written: {error.strerror}"]) from error

    @contextmanager
    def _writing(self) -> Generator[list[dict[str, Any]]]:
        """Yield the records to change under the writers' lock, and write them when that went well."""
        with self._locked():
            records = self._read_or_set_aside()
            yield records
            _replace(self.path, json.dumps({"version": 1, "records": records}, indent=1).encode())

    def _read_or_set_aside(self) -> list[dict[str, Any]]:
        try:
            return self._read()
        except _DamagedError:
            self.path.replace(self.path.with_name(self.path.name + ".damaged"))
            return []

    def _key(self) -> bytes | None:
        key = _own_bytes(self._key_path, OTHERS, _KEY_BYTES)
        return key if key is not None and len(key) == _KEY_BYTES else None

    def _new_key(self) -> bytes:
        key = secrets.token_bytes(_KEY_BYTES)
        _replace(self._key_path, key)
        return key


def seal_of(key: bytes, *parts: Any) -> str:
    """Return the seal of *parts*, which JSON can hold."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()


def is_sealed(key: bytes | None, seal: object, *parts: Any) -> bool:
    """Say whether *seal* is that of *parts*; without a key nothing is sealed."""
    return key is not None and hmac.compare_digest(str(seal).encode(errors="replace"), seal_of(key, *parts).encode())


class _DamagedError(Exception):
    """The file is not a list of records."""


def _is(record: Mapping[str, Any], kind: str, name: str) -> bool:
    return (record.get("kind"), record.get("name")) == (kind, name)


def _seal(record: Mapping[str, Any], key: bytes) -> str:
    return seal_of(key, record["kind"], record["name"], record["about"])


def _is_sealed(record: Mapping[str, Any], key: bytes) -> bool:
    about: Any = record.get("about")
    if (
        not isinstance(about, dict)
        or not isinstance(record.get("kind"), str)
        or not isinstance(record.get("name"), str)
    ):
        return False
    return is_sealed(key, record.get("seal"), record["kind"], record["name"], about)


# ---- files that are ours alone ---------------------------------------------------------


def check_folder(folder: Path) -> None:
    """Raise ConfigError if *folder* belongs to a user other than this one and root, or others can write it."""
    try:
        status = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ConfigError(str(folder), [f"cannot be read: {error.strerror}"]) from error
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(str(folder), [f"belongs to user {status.st_uid}, not to you; nothing in it can be relied on"])
    if status.st_mode & OTHERS_WRITE:
        why = f"is open to others (mode {stat.S_IMODE(status.st_mode):04o}), who can replace what is in it"
        mend = f"see who changed it, then close it: chmod go-w {shlex.quote(str(folder))}"
        raise ConfigError(str(folder), [f"{why}; {mend}"])


def _own_bytes(path: Path, forbidden: int, limit: int) -> bytes | None:
    """Return what is in *path*, None if there is none. Refuses what is not this user's alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            check_owner(path, status, forbidden)
            return os.read(descriptor, min(status.st_size, limit) + 1)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error


def check_owner(path: Path, status: os.stat_result, forbidden: int) -> None:
    """Raise ConfigError if *path* belongs to another user, or has a right that is *forbidden*."""
    if status.st_uid != os.geteuid():
        raise ConfigError(str(path), [f"belongs to user {status.st_uid}, not to you; nothing in it can be relied on"])
    if status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        right = mode & ~forbidden
        raise ConfigError(
            str(path),
            [f"is open to others (mode {mode:04o}); see who changed it, then close it: chmod {right:04o} {path}"],
        )


def _replace(path: Path, content: bytes) -> None:
    """Write *path* whole or not at all, for this user alone."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in *folder* survive a loss of power. Blocks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
