"""The format of a log: its lines, the hashes that chain them, the names of its files. Pure but for its last two.

A line is a JSON object and a newline. ``n`` is its number in the log, from 1; ``prev`` is the
hash of the line before, without the newline: SHA-256, or HMAC-SHA256 with the log's key.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

import attrs
import msgspec

GENESIS = "0" * 64
"""What the first line of a log gives as the hash of the one before."""
FILE_BEGUN = "FileBegun"
LOG_OPENED = "LogOpened"
LOG_CLOSED = "LogClosed"
HEAD = "head"
"""What LOG_OPENED says of a head that was no good: damaged or missing."""

_LOG = r"(?P<log>(?P<name>[a-z][a-z0-9_]*)(?:-(?P<of>[0-9]{1,4}))?)"
_FILE = re.compile(rf"{_LOG}\.(?P<number>[0-9]{{6,}})\.jsonl")
_HEAD = re.compile(rf"{_LOG}\.head")
_HASH = re.compile(r"[0-9a-f]{64}")


class Head(NamedTuple):
    """How far a log has come: its last line's number and hash."""

    n: int = 0
    hash: str = GENESIS

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read ``N:HASH``. Raises ValueError if it is something else.

        >>> Head.parse("12:" + "a" * 64).n
        12
        """
        number, _, digest = text.strip().partition(":")
        if not (number.isascii() and number.isdecimal() and _HASH.fullmatch(digest)):
            raise ValueError("a head is a number, a colon, and 64 hexadecimal digits")
        return cls(int(number), digest)

    def __str__(self) -> str:
        return f"{self.n}:{self.hash}"

    def encoded(self) -> bytes:
        """Return the content of a head file; always as long, so that one write replaces another."""
        return f'{{"n":{self.n:>20},"hash":"{self.hash}"}}\n'.encode()


@attrs.frozen
class Line:
    """One line that is a record."""

    n: int
    prev: str
    event: str
    record: dict[str, Any]
    at: str = ""


def hash_of(line: bytes, key: bytes | None) -> str:
    """Return what the next line gives as ``prev``."""
    return sha256(line).hexdigest() if key is None else hmac.digest(key, line, "sha256").hex()


def read_line(line: bytes) -> Line | None:
    """Return the record in *line*, None if it is not a record."""
    try:
        made: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not isinstance(made, dict):
        return None
    held = cast("dict[str, Any]", made)
    n, prev, event, record = (held.get(name) for name in ("n", "prev", "event", "record"))
    if type(n) is not int or n < 1 or not isinstance(prev, str) or not _HASH.fullmatch(prev):
        return None
    if not isinstance(event, str) or not isinstance(record, dict):
        return None
    return Line(n, prev, event, cast("dict[str, Any]", record), str(held.get("at", "")))


def read_head(data: bytes) -> Head | None:
    """Return the content of a head file, None if it is damaged; an empty one is that of a new log."""
    if not data:
        return Head()
    try:
        made: Any = msgspec.json.decode(data)
        return Head.parse(f"{made['n']}:{made['hash']}")
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, TypeError, KeyError):
        return None


def file_name(log: str, number: int) -> str:
    """Return the name of a file of a log.

    >>> file_name("audit", 3)
    'audit.000003.jsonl'
    """
    return f"{log}.{number:06}.jsonl"


def number_of(name: str) -> tuple[str, int] | None:
    """Return log and number of a file called *name*, None if it is not a file of a log."""
    found = _FILE.fullmatch(name)
    return None if found is None else (found["log"], int(found["number"]))


def begun(folder: Path) -> dict[str, Path]:
    """Return the head of every log that was begun in *folder*, whether it is there or not.

    A second writer at a time begins ``audit-2``, a third one ``audit-3``: where one is, those before it were.
    """
    most: dict[str, int] = {}
    for path in folder.iterdir():
        if found := _HEAD.fullmatch(path.name) or _FILE.fullmatch(path.name):
            most[found["name"]] = max(most.get(found["name"], 1), int(found["of"] or 1))
    logs = [name if one == 1 else f"{name}-{one}" for name, last in most.items() for one in range(1, last + 1)]
    return {log: folder / f"{log}.head" for log in logs}


def look(folder: Path) -> dict[str, list[Path]]:
    """Return the files of every log in *folder*, in order."""
    found: dict[str, list[tuple[int, Path]]] = {}
    for path in folder.iterdir():
        named = number_of(path.name)
        if named is not None:
            found.setdefault(named[0], []).append((named[1], path))
    return {log: [path for _, path in sorted(files)] for log, files in sorted(found.items())}
