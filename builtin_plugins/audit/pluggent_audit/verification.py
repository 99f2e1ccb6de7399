"""Finds what was changed, left out, doubled or moved in the files of one log, and says where. Reads only."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import attrs

from pluggent_audit.chain import (
    FILE_BEGUN,
    GENESIS,
    HEAD,
    LOG_OPENED,
    Head,
    Line,
    file_name,
    hash_of,
    number_of,
    read_head,
    read_line,
)
from pluggent_audit.file_access import NOT_REGULAR, opened_to_read

LONGEST_LINE = 1 << 26
"""Bytes of a line that are read; no writer of ours makes one as long."""
LONGEST_HEAD = 4_096
REMEMBERED = 100_000
"""Lines whose hashes are known at a time, so that a line may be found that was moved that far."""

Place: TypeAlias = tuple[str, int]
"""A file and a line in it, from 1."""


@attrs.frozen
class Problem:
    """Something is wrong with ``file`` from ``line`` to ``last`` (0: with the file as a whole)."""

    file: str
    line: int
    what: str
    last: int = 0

    def __str__(self) -> str:
        lines = "" if not self.line else f":{self.line}" if self.last <= self.line else f":{self.line}-{self.last}"
        return f"{self.file}{lines}: {self.what}"


@attrs.frozen
class Report:
    """What was found in the files of one log. ``head`` is that of its last line."""

    lines: int
    head: Head
    problems: tuple[Problem, ...]


def raw_lines(path: Path) -> Iterator[bytes]:
    """Return the lines of a file with their newlines; a longer one than any of ours comes in pieces.

    Raises OSError if it is not a regular file, or cannot be read.
    """
    with opened_to_read(path) as file:
        while line := file.readline(LONGEST_LINE):
            yield line


def verify(files: Iterable[Path], key: bytes | None = None, *, whole: bool = True) -> Report:
    """Check *files*, all of one log, in their order. *whole*: the log is to begin with the first of them."""
    check = _Check(key, whole=whole)
    for path in files:
        check.file(path)
    return check.report()


def compare(report: Report, head: Head | None, where: str, *, slack: int = 0) -> Iterator[Problem]:
    """Yield how the end of a log differs from *head*, which was kept at *where* (None: it is damaged).

    *slack*: by how many lines the head may be behind; a writer killed between both leaves one.
    """
    if head is None:
        yield Problem(where, 0, "the head is damaged: whether lines are missing at the end cannot be said")
    elif head.n > report.head.n:
        yield Problem(where, 0, f"{_lines(report.head.n + 1, head.n)} missing at the end: the log ends at "
                                f"line {report.head.n}, and its head is {head.n}")  # fmt: skip
    elif head.n == report.head.n and head.hash != report.head.hash:
        yield Problem(where, 0, f"line {head.n}, the last one, is not the one that the head is of")
    elif head.n + slack < report.head.n:
        yield Problem(where, 0, f"{_lines(head.n + 1, report.head.n)} newer than the head")


def compare_kept(report: Report, kept: Path) -> Iterator[Problem]:
    """Yield how the end of a log differs from the head that its writer keeps in the file *kept*."""
    try:
        with opened_to_read(kept) as file:
            head = read_head(file.read(LONGEST_HEAD))
    except FileNotFoundError:
        yield Problem(kept.name, 0, "the head is missing: lines may be too, at the end")
    except OSError as error:
        yield Problem(kept.name, 0, f"{_unread(error)}: whether lines are missing at the end cannot be said")
    else:
        yield from compare(report, head, kept.name, slack=1)


@attrs.define
class _Check:
    key: bytes | None
    whole: bool = attrs.field(kw_only=True)
    lines: int = 0
    next: int = 0
    """The number that the next line should have; 0 before the first one."""
    end: Head = attrs.field(factory=Head)
    known: OrderedDict[int, tuple[str, Place]] = attrs.field(factory=OrderedDict[int, tuple[str, Place]])
    missing: dict[int, Place] = attrs.field(factory=dict[int, Place])
    """First number of a gap: where it was seen. Numbers are taken out when they turn up."""
    gaps: dict[int, int] = attrs.field(factory=dict[int, int])
    problems: list[Problem] = attrs.field(factory=list[Problem])

    def file(self, path: Path) -> None:
        try:
            self._file(path)
        except OSError as error:
            self.problems.append(Problem(path.name, 0, _unread(error)))

    def _file(self, path: Path) -> None:
        number = 0
        for number, raw in enumerate(raw_lines(path), 1):
            place = (path.name, number)
            if not raw.endswith(b"\n"):
                torn = "is not complete: its writer was killed, or it was cut; opening the log moves it aside"
                self._tell(place, torn)
                continue
            self.lines += 1
            line = read_line(raw[:-1])
            if line is None:
                self._unreadable(place)
            else:
                self._line(line, raw[:-1], place)
        if not number:
            self.problems.append(Problem(path.name, 0, "is empty"))

    def report(self) -> Report:
        for first, count in self.gaps.items():
            file, line = self.missing[first]
            what = f"{_lines(first, first + count - 1)} missing before this one"
            self.problems.append(Problem(file, line, what))
        return Report(self.lines, self.end, tuple(sorted(self.problems, key=lambda one: (one.file, one.line))))

    # ---- one line ----------------------------------------------------------------------

    def _line(self, line: Line, raw: bytes, place: Place) -> None:
        digest = hash_of(raw, self.key)
        if not self.next:
            self._begin(line, place)
        if line.n >= self.next:
            if line.n > self.next:
                self.gaps[self.next] = line.n - self.next
                self.missing[self.next] = place
            self._remember(line, digest, place)
            self.next = line.n + 1
            self.end = Head(line.n, digest)
        elif not self._turned_up(line, digest, place):
            return
        self._link(line, place)
        self._told_by(line, place)

    def _begin(self, line: Line, place: Place) -> None:
        self.next = 1 if self.whole else line.n
        if line.n == 1 and line.prev != GENESIS:
            self._tell(place, "is the first line, and names another one before it")

    def _remember(self, line: Line, digest: str, place: Place) -> None:
        self.known[line.n] = (digest, place)
        if len(self.known) > REMEMBERED:
            self.known.popitem(last=False)

    def _turned_up(self, line: Line, digest: str, place: Place) -> bool:
        """A line comes after one with a higher number: say whether it was missing."""
        first = next((first for first, count in self.gaps.items() if first <= line.n < first + count), None)
        if first is None:
            seen, at = self.known.get(line.n, ("", ("", 0)))
            again = (
                f"is line {line.n} once more" if seen == digest else f"has the number {line.n}, which another one has"
            )
            self._tell(place, f"{again} ({at[0]}:{at[1]})" if at[0] else again)
            return False
        count, where = self.gaps.pop(first), self.missing.pop(first)
        for begin, end in ((first, line.n), (line.n + 1, first + count)):
            if end > begin:
                self.gaps[begin], self.missing[begin] = end - begin, where
        self._tell(place, f"was moved: number {line.n} stands behind {self.next - 1}")
        self._remember(line, digest, place)
        return True

    def _link(self, line: Line, place: Place) -> None:
        """Compare what this line says of the one before with that one."""
        before = self.known.get(line.n - 1)
        if before is not None and before[0] != line.prev:
            self._tell(before[1], f"was changed: line {line.n} knows it with another hash")

    def _told_by(self, line: Line, place: Place) -> None:
        if line.event == FILE_BEGUN:
            wanted = file_name(str(line.record.get("log")), _number(line.record.get("file")))
            if place != (wanted, 1):
                self._tell(place, f"is the beginning of {wanted}, and stands elsewhere")
        elif place[1] == 1:
            self._tell(place, "is not how a file begins: its beginning is missing")
        if line.event == LOG_OPENED and "missing" in line.record:
            promised = str(line.record["missing"]).replace("'", "")
            self._tell(place, f"reports that lines were missing or changed when the log was opened: {promised}")
        if line.event == LOG_OPENED and HEAD in line.record:
            self._tell(
                place,
                f"reports that the head was {line.record[HEAD]} when the log was opened:"
                " whether lines were missing then cannot be said",
            )

    def _unreadable(self, place: Place) -> None:
        self._tell(place, "was changed: it is not a record")
        if self.next:
            # It stands where the next number belongs: that one is not missing besides.
            self.end = Head(self.next, "")
            self.next += 1

    def _tell(self, place: Place, what: str) -> None:
        file, line = place
        last = self.problems[-1] if self.problems else None
        if last is not None and last.file == file and last.what == what and line == max(last.last, last.line) + 1:
            self.problems[-1] = attrs.evolve(last, last=line)
        else:
            self.problems.append(Problem(file, line, what))


def _unread(error: OSError) -> str:
    return NOT_REGULAR if error.strerror == NOT_REGULAR else f"cannot be read: {error.strerror or error}"


def in_order(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Return *files* by log, each in the order of its numbers; what is called otherwise is a log of its own."""
    found: dict[str, list[tuple[int, Path]]] = {}
    for path in files:
        log, number = number_of(path.name) or (path.name, 0)
        found.setdefault(log, []).append((number, path))
    return {log: [path for _, path in sorted(several)] for log, several in found.items()}


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"


def _number(value: object) -> int:
    return value if type(value) is int and 0 <= value < 10**9 else 0
