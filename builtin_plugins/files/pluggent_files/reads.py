"""What the tools that read do, each after a look at whether the place may be read."""

from __future__ import annotations

from pathlib import Path

from pluggent_hookspecs import CallPreview, ToolContext, ToolOutput
from pluggent_workspace_files.reach import Place, Reach

from pluggent_files.reading import Range, read
from pluggent_files.search.listing import find, list_folder
from pluggent_files.search.search import Query, Search
from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings

__all__ = ["Query", "found", "lines", "listed", "matching", "preview"]


def _readable(path: Path, context: ToolContext, settings: FilesSettings) -> tuple[Reach, Place]:
    reach = Reach(context, settings.folders)
    place = reach.place(path)
    reach.check_read(place)
    return reach, place


def preview(what: str, path: Path, context: ToolContext, settings: FilesSettings) -> CallPreview:
    """Say to a person which place is read."""
    reach = Reach(context, settings.folders)
    place = reach.place(path)
    reach.check_private(place)
    where = "" if place.inside else ", outside the workspace"
    return CallPreview(f"{what} {place.real}{where}", f"{place.key}-read", "once")


def listed(
    path: Path, depth: int, skip: int, context: ToolContext, settings: FilesSettings, *, ignored: bool
) -> ToolOutput:
    """Return what is in a folder."""
    reach, place = _readable(path, context, settings)
    return list_folder(reach, place, depth, skip, context, settings, ignored=ignored)


def lines(
    path: Path, first: int, last: int | None, context: ToolContext, settings: FilesSettings, seen: Seen
) -> ToolOutput:
    """Return lines of a file, or the image in it."""
    _, place = _readable(path, context, settings)
    return read(place, Range(first, last), context, settings, seen)


def found(
    path: Path, glob: str, skip: int, context: ToolContext, settings: FilesSettings, *, ignored: bool
) -> ToolOutput:
    """Return the files that fit *glob*."""
    reach, place = _readable(path, context, settings)
    return find(reach, place, glob, skip, context, settings, ignored=ignored)


def matching(path: Path, query: Query, context: ToolContext, settings: FilesSettings) -> ToolOutput:
    """Return the lines that match *query*."""
    reach, place = _readable(path, context, settings)
    return Search(reach, place, query, context, settings).run()
