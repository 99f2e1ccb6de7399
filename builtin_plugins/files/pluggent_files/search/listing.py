"""Lists a folder, and finds files by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice

from pluggent_hookspecs import ToolContext, ToolError, ToolOutput
from pluggent_workspace_files.reach import Place, Reach, kind_of, opened_folder

from pluggent_files.search.glob import matcher
from pluggent_files.search.walk import Entry, Walk
from pluggent_files.settings import FilesSettings
from pluggent_files.text import amount, clean, one_line


def list_folder(
    reach: Reach, place: Place, depth: int, skip: int, context: ToolContext, settings: FilesSettings, *, ignored: bool
) -> ToolOutput:
    """Return what is in the folder at *place*, or the file at it, a line each."""
    if line := _as_file(place):
        return ToolOutput(line)
    walk = Walk(reach, place, stopped(context, settings), include_ignored=ignored, depth=depth)
    lines = (_line(entry) for entry in walk.entries())
    shown, more = page(lines, skip, settings.listed, settings.read_characters)
    notes = _notes(walk, shown, more, skip)
    if not shown and not skip:
        return ToolOutput(f"[{place.shown} has nothing in it{'; ' if notes else ''}{'; '.join(notes)}]")
    return _output(shown, notes)


def find(
    reach: Reach, place: Place, glob: str, skip: int, context: ToolContext, settings: FilesSettings, *, ignored: bool
) -> ToolOutput:
    """Return the paths of the files below *place* that fit *glob*."""
    wanted = matcher(glob)
    walk = Walk(reach, place, stopped(context, settings), include_ignored=ignored)
    prefix = "" if place.real == reach.root else place.shown + os.sep
    lines = (
        one_line(prefix + entry.path)
        for entry in walk.entries()
        if not entry.is_folder and wanted.fullmatch(clean(entry.path).encode()) is not None
    )
    shown, more = page(lines, skip, settings.listed, settings.read_characters)
    notes = _notes(walk, shown, more, skip)
    if not shown:
        beyond = f" after the first {skip:,}" if skip else ""
        return ToolOutput(f"[no file fits {glob}{beyond}{'; ' if notes else ''}{'; '.join(notes)}]")
    return _output(shown, notes)


def page(lines: Iterator[str], skip: int, most: int, characters: int) -> tuple[list[str], bool]:
    """Return the *lines* after the first *skip*, as many as fit, and whether there are more."""
    shown: list[str] = []
    for line in islice(lines, skip, None):
        characters -= len(line) + 1
        if len(shown) == most or (characters < 0 and shown):
            return shown, True
        shown.append(line)
    return shown, False


def stopped(context: ToolContext, settings: FilesSettings) -> Callable[[], bool]:
    """Return a function that says whether a search has to end: it was cancelled, or its time is over."""
    reserve_s = 0.5  # to give back what was found
    started = context.remaining_s()
    least = max(started - settings.search_s, reserve_s)
    return lambda: context.cancelled or context.remaining_s() < least


def _as_file(place: Place) -> str:
    """Return the line of what is at *place* unless that is a folder."""
    if place.real == os.sep:
        return ""
    with opened_folder(place, place.folder) as folder:
        try:
            found = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return ""
    kind = kind_of(found.st_mode)
    if kind == "a folder":
        return ""
    if kind == "a link":  # where it led was looked at before
        raise ToolError(f"{place.shown} has just been replaced by a link. Look again")
    return f"{one_line(place.shown)}  {f'({kind})' if kind else f'{found.st_size:,} bytes'}"


def _line(entry: Entry) -> str:
    name = one_line(entry.path)
    if entry.is_folder:
        return f"{name}{os.sep}"
    if entry.is_file:
        return f"{name}  {entry.size():,}"
    return f"{name} {one_line(entry.kind())}"


def _notes(walk: Walk, shown: list[str], more: bool, skip: int) -> list[str]:  # noqa: FBT001 (private)
    notes: list[str] = []
    if more:
        notes.append(f"{amount(len(shown), 'entry')} shown, there are more: go on with skip={skip + len(shown)}")
    if walk.is_cut:
        notes.append("the time was over before everything was looked at: name a folder further down")
    if walk.left_out:
        notes.append(f"{walk.left_out:,} ignored by .gitignore left out: include_ignored=true shows them")
    if walk.unreadable:
        notes.append(f"{amount(walk.unreadable, 'folder')} could not be read")
    return notes


def _output(shown: list[str], notes: list[str]) -> ToolOutput:
    text = "\n".join(shown)
    return ToolOutput(f"{text}\n[{'; '.join(notes)}]" if notes else text)
