"""Whole files for tools: read, or to be made, which is checked before the work that makes it. Blocks."""

from __future__ import annotations

import os

from pluggent_hookspecs import ToolContext, ToolError

from pluggent_workspace_files import atomic
from pluggent_workspace_files.folders import Folders
from pluggent_workspace_files.reach import Place, Reach, content, open_file

_NOWHERE = Folders()


def read_whole(
    context: ToolContext, path: str | os.PathLike[str], most: int, folders: Folders = _NOWHERE
) -> tuple[str, bytes]:
    """Return how answers name the file at *path*, and what it has.

    Raises ToolError if it may not be read, is no file, or has more than *most* bytes.
    """
    reach = Reach(context, folders)
    place = reach.place(path)
    reach.check_read(place)
    opened = open_file(place)
    try:
        if (size := os.fstat(opened).st_size) > most:
            raise ToolError(f"{place.shown} has {size:,} bytes, and {most:,} is the most")
        return place.shown, content(opened, most, place)
    finally:
        os.close(opened)


class NewFile:
    """A file that is to be made at *path*. Raises ToolError if it may not be, or if there is one already."""

    def __init__(self, context: ToolContext, path: str | os.PathLike[str], folders: Folders = _NOWHERE) -> None:
        self._reach = Reach(context, folders)
        self._place = self._reach.place(path)
        self._reach.check_write(self._place, "")
        if os.path.lexists(self._place.real):
            raise ToolError(f"{self.shown} is there already, and is not replaced: take another name")

    @property
    def shown(self) -> str:
        """How answers name it."""
        return self._place.shown

    @property
    def place(self) -> Place:
        """Where it is."""
        return self._place

    def write(self, data: bytes) -> str:
        """Make it of *data*, with the folders above it, and return how answers name it. Raises ToolError."""
        with atomic.folder_of(self._place, self._reach) as (folder, _):
            atomic.replace(folder, self._place, data, None)
        return self.shown
