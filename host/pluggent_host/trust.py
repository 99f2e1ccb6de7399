"""Remembers which files of working directories, and which packages with hooks, a person accepted.

A record holds only while what it is about is unchanged, and only with its seal (an HMAC under a
key that lies beside the store): a damaged or forged record is no trust, and is named. POSIX only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError

_STORE_BYTES = 4_194_304
_HASHED_BYTES = 16_777_216
_MOST_FILES = 100
_LONGEST_PATH = 4_096
_KEY_BYTES = 32
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_READERS: Mapping[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": json.loads}

Kind = Literal["file", "plugin"]
State = Literal["accepted", "changed", "damaged"]


class Accepted(NamedTuple):
    """One record. ``about`` are the covered files of a file, or the accepted versions of a plugin."""

    kind: str
    name: str
    about: tuple[str, ...]
    state: State


class TrustStore:
    """The store at *path*, read afresh by every call; nothing is made before the first acceptance.

    Every call raises ConfigError if the store, its key or its folder belongs to somebody else, can
    be written by others, or cannot be read. Two processes may write at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key_path = path.with_name(path.name + ".key")
        self._lock_path = path.with_name(path.name + ".lock")

    def trust_file(self, path: Path) -> tuple[str, ...]:
        """Accept *path* as it is now, with every file that it refers to; return all of them.

        A TOML or JSON file refers to each file that one of its texts names, relative to its own
        folder. Raises ConfigError if *path* cannot be read or refers to more than 100 files.
        """
        place = Path(os.path.realpath(path))
        try:
            covered = _covered(place, _content(place))
        except OSError as error:
            raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
        self._put("file", str(place), lambda _: covered)
        return tuple(covered)

    def is_trusted(self, path: Path, content: bytes | None = None) -> bool:
        """Return whether *path* and all it refers to are as they were accepted.

        *content* are the bytes that will be used, for a caller that has read them already.
        """
        place = Path(os.path.realpath(path))
        record = self._find("file", str(place))
        return record is not None and _is_unchanged(place, content, record["about"])

    def revoke(self, path: Path) -> bool:
        """Accept *path* no longer; return whether there was a record of it."""
        return self._drop("file", os.path.realpath(path))

    def acknowledge(self, plugin_id: str, version: str) -> None:
        """Accept that this version of a package has hooks that see everything."""
        self._put("plugin", plugin_id, lambda versions: {**versions, version: ""})

    def acknowledged(self, plugin_id: str, version: str) -> bool:
        """Return whether exactly this version was accepted."""
        record = self._find("plugin", plugin_id)
        return record is not None and version in record["about"]

    def forget(self, plugin_id: str) -> bool:
        """Accept no version of the package any longer; return whether there was a record of it."""
        return self._drop("plugin", plugin_id)

    def entries(self) -> tuple[Accepted, ...]:
        """Return every record with its state; damaged ones are among them."""
        return tuple(map(self._entry, self._sealed()))

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each record, or the whole store, that is damaged and so counts as no trust."""
        try:
            self._read()
        except _DamagedError:
            return (f"{self.path} is damaged: nothing in it is trusted; accept again what you still trust",)
        bad = [entry for entry in self.entries() if entry.state == "damaged"]
        return tuple(
            f"{self.path}: the record of {entry.kind} '{entry.name}' is damaged or was not written by pluggent;"
            " it is not trusted; look at it, then accept it again or remove it"
            for entry in bad
        )

    # ---- records ---------------------------------------------------------------------------

    def _sealed(self) -> list[tuple[dict[str, Any], bool]]:
        """Return every record, and whether its seal is whole."""
        try:
            records = self._read()
        except _DamagedError:
            return []
        key = self._key() if records else None
        return [(record, key is not None and _is_sealed(record, key)) for record in records]

    def _find(self, kind: Kind, name: str) -> dict[str, Any] | None:
        for record, sealed in self._sealed():
            if sealed and _is(record, kind, name):
                return record
        return None

    def _entry(self, item: tuple[dict[str, Any], bool]) -> Accepted:
        record, sealed = item
        kind, name = str(record.get("kind", "?")), str(record.get("name", "?"))
        if not sealed:
            return Accepted(kind, name, (), "damaged")
        unchanged = kind == "plugin" or _is_unchanged(Path(name), None, record["about"])
        return Accepted(kind, name, tuple(record["about"]), "accepted" if unchanged else "changed")

    def _put(self, kind: Kind, name: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        with self._writing() as records:
            key = self._key() or self._new_key()
            about: dict[str, str] = {}
            for each in records:
                about |= each["about"] if _is(each, kind, name) and _is_sealed(each, key) else {}
            record: dict[str, Any] = {"kind": kind, "name": name, "about": change(about)}
            records[:] = [each for each in records if not _is(each, kind, name)]
            records.append({**record, "seal": _seal(record, key)})

    def _drop(self, kind: Kind, name: str) -> bool:
        if not self.path.exists():
            return False
        with self._writing() as records:
            left = [each for each in records if not _is(each, kind, name)]
            found = len(left) < len(records)
            records[:] = left
        return found

    # ---- files -----------------------------------------------------------------------------

    def _read(self) -> list[dict[str, Any]]:
        _check_folder(self.path.parent)
        content = _own_bytes(self.path, _OTHERS_WRITE, _STORE_BYTES)
        if content is None:
            return []
        try:
            records: list[Any] = json.loads(content)["records"]
            return [record if isinstance(record, dict) else {} for record in records]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _DamagedError from error

    @contextmanager
    def _writing(self) -> Generator[list[dict[str, Any]]]:
        """Yield the records to change under the writers' lock, and write them when that went well."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_folder(self.path.parent)
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                records = self._read_or_set_aside()
                yield records
                _replace(self.path, json.dumps({"version": 1, "records": records}, indent=1).encode())
            finally:
                os.close(lock)
        except OSError as error:
            raise ConfigError(str(self.path), [f"cannot be written: {error.strerror}"]) from error

    def _read_or_set_aside(self) -> list[dict[str, Any]]:
        try:
            return self._read()
        except _DamagedError:
            self.path.replace(self.path.with_name(self.path.name + ".damaged"))
            return []

    def _key(self) -> bytes | None:
        key = _own_bytes(self._key_path, _OTHERS, _KEY_BYTES)
        return key if key is not None and len(key) == _KEY_BYTES else None

    def _new_key(self) -> bytes:
        key = secrets.token_bytes(_KEY_BYTES)
        _replace(self._key_path, key)
        return key


class _DamagedError(Exception):
    """The store is no list of records."""


def _is(record: Mapping[str, Any], kind: Kind, name: str) -> bool:
    return (record.get("kind"), record.get("name")) == (kind, name)


def _seal(record: Mapping[str, Any], key: bytes) -> str:
    sealed = json.dumps([record["kind"], record["name"], record["about"]], sort_keys=True).encode()
    return hmac.digest(key, sealed, "sha256").hex()


def _is_sealed(record: Mapping[str, Any], key: bytes) -> bool:
    about: Any = record.get("about")
    if (
        not isinstance(about, dict)
        or not isinstance(record.get("kind"), str)
        or not isinstance(record.get("name"), str)
    ):
        return False
    return hmac.compare_digest(str(record.get("seal")).encode(), _seal(record, key).encode())


# ---- what a file is, and what it refers to ---------------------------------------------


def _is_unchanged(place: Path, content: bytes | None, about: Mapping[str, str]) -> bool:
    """Compare now with then; a file that has been added to what is referred to is a change too."""
    try:
        return _covered(place, _content(place) if content is None else content) == about
    except (OSError, ConfigError):
        return False


def _covered(place: Path, content: bytes) -> dict[str, str]:
    """Return *place* and every file that it refers to, directly or through others, with their digests."""
    found = {str(place): hashlib.sha256(content).hexdigest()}
    waiting = _referred(place, content)
    while waiting:
        other = waiting.pop()
        if str(other) in found:
            continue
        if len(found) == _MOST_FILES:
            raise ConfigError(str(place), [f"refers to more than {_MOST_FILES} files; accept fewer at a time"])
        data = _hashable(other)
        # What is too big to be read at every start is known by what nobody can set back.
        found[str(other)] = _fingerprint(other.stat()) if data is None else hashlib.sha256(data).hexdigest()
        waiting += _referred(other, data or b"")
    return found


def _content(path: Path) -> bytes:
    if not path.is_file() and path.exists():  # a pipe would be waited for
        raise OSError(errno.EINVAL, "it is not a regular file")
    return path.read_bytes()


def _hashable(path: Path) -> bytes | None:
    return path.read_bytes() if path.stat().st_size <= _HASHED_BYTES else None


def _fingerprint(status: os.stat_result) -> str:
    return f"stat:{status.st_size}:{status.st_ctime_ns}:{status.st_ino}"


def _referred(place: Path, content: bytes) -> list[Path]:
    read = _READERS.get(place.suffix)
    if read is None:
        return []
    try:
        texts = set(_texts(read(content.decode())))
    except (ValueError, RecursionError):
        return []  # nobody can use such a file, so it refers to nothing
    paths = (_regular(place.parent, text) for text in sorted(texts))
    return [path for path in paths if path is not None]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item)


def _regular(folder: Path, text: str) -> Path | None:
    if not text or len(text) > _LONGEST_PATH or "\n" in text:
        return None
    try:
        path = Path(os.path.realpath(folder / Path(text).expanduser()))
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None  # no name of a file: too long, a null character, somebody's unknown home


# ---- files that are ours alone ---------------------------------------------------------


def _check_folder(folder: Path) -> None:
    try:
        _check_owner(folder, folder.stat(), _OTHERS_WRITE)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(str(folder), [f"cannot be read: {error.strerror}"]) from error


def _own_bytes(path: Path, forbidden: int, limit: int) -> bytes | None:
    """Return what is in *path*, None if there is none. Refuses what is not this user's alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
            _check_owner(path, os.fstat(descriptor), forbidden)
            return file.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error


def _check_owner(path: Path, status: os.stat_result, forbidden: int) -> None:
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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
