"""Searches the files below a folder for a pattern and shows the lines that match, in the order of names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from pluggent_hookspecs import ToolContext, ToolOutput
from pluggent_workspace_files.reach import (
    SEPARATOR,
    Place,
    Reach,
    open_below,
    open_entry,
    open_folder,
    open_named,
    opened_folder,
    unreachable,
)

from pluggent_files.search.glob import matcher
from pluggent_files.search.listing import stopped
from pluggent_files.search.patterns import Pattern, pattern
from pluggent_files.search.scan import Line, matching_lines
from pluggent_files.search.walk import Walk
from pluggent_files.settings import FilesSettings
from pluggent_files.text import amount, clean, one_line

SHOWN = 300
"""Characters of a line that are shown, around its match."""
LEAD = 80


class Query(NamedTuple):
    """What is searched for, and what is shown of it."""

    pattern: str
    glob: str
    ignore_case: bool
    literal: bool
    context_lines: int
    files_only: bool
    include_ignored: bool
    skip: int


class Found(NamedTuple):
    """A line that matches, and how answers name its file."""

    path: str
    line: Line


class Search:
    """One search below *place*."""

    def __init__(self, reach: Reach, place: Place, query: Query, context: ToolContext, settings: FilesSettings) -> None:
        self._reach = reach
        self._place = place
        self._query = query
        self._settings = settings
        self._stopped = stopped(context, settings)
        self._pattern: Pattern = pattern(query.pattern, ignore_case=query.ignore_case, is_literal=query.literal)
        self._glob = matcher(query.glob) if query.glob else None
        self._walk = Walk(reach, place, self._stopped, include_ignored=query.include_ignored)
        self._prefix = "" if place.real == reach.root else place.shown.rstrip(os.sep) + os.sep
        self._binary = 0
        self._unreadable = 0
        self._is_cut = False

    def run(self) -> ToolOutput:
        """Return the lines that match, or the files that have one."""
        most = self._settings.matches
        found: list[Found] = []
        is_more = False
        left = self._settings.read_characters
        for number, one in enumerate(self._found()):
            if number < self._query.skip:
                continue
            if len(found) >= most or left < 0:
                is_more = True
                break
            found.append(one)
            left -= len(one.path) + 4 if self._query.files_only else _size(one.line)
        return self._answer(found, is_more=is_more)

    # ---- the files ---------------------------------------------------------------------

    def _found(self) -> Iterator[Found]:
        if self._is_file():
            with opened_folder(self._place, self._place.folder) as folder:
                opened = open_entry(folder, self._place)
            yield from self._in_file(opened, self._place.shown)
            return
        for path, opened in self._opened():
            yield from self._in_file(opened, self._prefix + path)
            if self._gave_up():
                return

    def _is_file(self) -> bool:
        if self._place.real == os.sep:
            return False
        with opened_folder(self._place, self._place.folder) as folder:
            try:
                found = os.stat(self._place.name, dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                raise unreachable(self._place, error) from error
        return not stat.S_ISDIR(found.st_mode)

    def _in_file(self, opened: int, path: str) -> Iterator[Found]:
        try:
            lines = matching_lines(opened, self._pattern, self._stopped, self._query.context_lines)
            if lines is None:
                self._binary += 1
                return
            for line in lines:
                yield Found(path, line)
                if self._query.files_only or self._gave_up():
                    return
        except OSError:
            self._unreadable += 1
        finally:
            os.close(opened)

    def _gave_up(self) -> bool:
        self._is_cut = self._is_cut or self._stopped()
        return self._is_cut

    def _opened(self) -> Iterator[tuple[str, int]]:
        """Yield path and descriptor of each file that is searched; what it yields is closed elsewhere."""
        named = self._named_by_ripgrep()
        if named is not None:
            yield from self._opened_of(named)
            return
        for entry in self._walk.entries():
            if entry.is_file and self._is_wanted(entry.path):
                try:
                    yield entry.path, open_named(entry.folder, entry.name)
                except (OSError, ValueError):
                    self._unreadable += 1
        self._is_cut = self._is_cut or self._walk.is_cut

    def _is_wanted(self, path: str) -> bool:
        return self._glob is None or self._glob.fullmatch(clean(path).encode()) is not None

    # ---- with ripgrep --------------------------------------------------------------------

    def _named_by_ripgrep(self) -> Iterator[str] | None:
        """Return the files that rg names, None where it is not there or cannot do this."""
        if self._settings.ripgrep == "never" or self._pattern.for_ripgrep is None:
            return None
        # Inside: subprocess takes 5 ms, and few calls search.
        from pluggent_files.search import ripgrep

        rg = ripgrep.program(self._reach.root)
        if not rg:
            return None
        paths = self._paths(rg, self._pattern.for_ripgrep, ripgrep.files_with_matches)
        try:
            first = next(paths, None)
        except ripgrep.NotUsableError:
            return None
        return _again(first, paths)

    def _paths(self, rg: str, expression: str, files_with_matches: Callable[..., Iterator[str]]) -> Iterator[str]:
        folder = open_folder(self._place.real)
        try:
            yield from files_with_matches(
                rg, expression, folder, self._stopped, include_ignored=self._query.include_ignored
            )
        finally:
            os.close(folder)
        self._gave_up()

    def _opened_of(self, paths: Iterator[str]) -> Iterator[tuple[str, int]]:
        for path in paths:
            if self._gave_up():
                return
            if not self._is_wanted(path) or self._walk.is_path_left_out(path):
                continue
            try:
                yield path, self._open(path)
            except (OSError, ValueError):
                self._unreadable += 1

    def _open(self, path: str) -> int:
        """Open a file below the place, following no link."""
        *folders, name = path.split(SEPARATOR)
        if not {"", os.curdir, os.pardir}.isdisjoint((*folders, name)):
            raise ValueError(f"{path} is not below the folder")
        at = open_folder(self._place.real)
        try:
            for folder in folders:
                below = open_below(at, folder)
                os.close(at)
                at = below
            return open_named(at, name)
        finally:
            os.close(at)

    # ---- the answer ------------------------------------------------------------------------

    def _answer(self, found: list[Found], *, is_more: bool) -> ToolOutput:
        notes = self._notes(found, is_more=is_more)
        query = self._query
        if not found:
            beyond = f" after the first {query.skip:,}" if query.skip else ""
            return ToolOutput(f"[no match for {query.pattern!r}{beyond}{'; ' if notes else ''}{'; '.join(notes)}]")
        text = "\n".join(self._shown(found))
        return ToolOutput(f"{text}\n[{'; '.join(notes)}]" if notes else text)

    def _shown(self, found: list[Found]) -> Iterator[str]:
        is_first = True
        for path, group in groupby(found, key=lambda one: one.path):
            if self._query.files_only:
                yield one_line(path)
                continue
            yield one_line(path) if is_first else f"\n{one_line(path)}"
            yield from _with_context([one.line for one in group])
            is_first = False

    def _notes(self, found: list[Found], *, is_more: bool) -> list[str]:
        notes: list[str] = []
        if is_more:
            what = "file" if self._query.files_only else "matching line"
            notes.append(
                f"{amount(len(found), what)} shown, there are more: go on with skip={self._query.skip + len(found)},"
                " or search for less"
            )
        if self._is_cut and not is_more:
            notes.append("the time was over before every file was searched: name a folder or a glob")
        if self._binary and not found:
            notes.append(f"{amount(self._binary, 'binary file')} not searched")
        if self._unreadable:
            notes.append(f"{amount(self._unreadable, 'file')} could not be read")
        if not found and not self._query.include_ignored:
            notes.append("what .gitignore leaves out was not searched: include_ignored=true does")
        return notes


def _again(first: str | None, others: Iterator[str]) -> Iterator[str]:
    if first is not None:
        yield first
        yield from others


def _size(line: Line) -> int:
    return sum(min(len(each), SHOWN) + 8 for each in (line.line, *line.before, *line.after))


def _with_context(lines: list[Line]) -> Iterator[str]:
    """Yield *lines* of one file, and those around them once, with ``--`` where some are left out."""
    matching = {line.number: f"{line.number}: {_text(line.line, line.start)}" for line in lines}
    around = {
        number: f"{number}- {_text(text)}"
        for line in lines
        for first, texts in ((line.number - len(line.before), line.before), (line.number + 1, line.after))
        for number, text in enumerate(texts, first)
    }
    last = 0
    for number, text in sorted({**around, **matching}.items()):
        if around and last and number > last + 1:
            yield "--"
        yield text
        last = number


def _text(line: bytes, start: int = 0) -> str:
    """Return what is shown of *line*: all, or what is around the byte *start*."""
    line = line.removesuffix(b"\r")
    if len(line) <= SHOWN:
        return line.decode("utf-8", "replace")
    begin = max(0, start - LEAD)
    text = line[begin : begin + SHOWN].decode("utf-8", "replace")
    after = len(line) - begin - SHOWN
    return f"{f'[{begin:,} bytes] …' if begin else ''}{text}{f'… [{after:,} bytes]' if after > 0 else ''}"
