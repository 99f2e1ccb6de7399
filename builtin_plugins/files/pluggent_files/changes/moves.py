"""Moves and deletes files and folders: never over something, never through a link, and what is deleted to the trash."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from pluggent_hookspecs import CallPreview, ToolContext, ToolError, ToolOutput, UndoCall
from pluggent_workspace_files import atomic
from pluggent_workspace_files.reach import (
    Place,
    Reach,
    content,
    is_below,
    kind_of,
    open_below,
    open_entry,
    opened_folder,
    state_of,
    unreachable,
)

from pluggent_files.changes import trash
from pluggent_files.changes.content import NO_FILE, digest_of, undo_content
from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings
from pluggent_files.text import amount

MOST_COUNTED = 100_000
"""Entries of a folder that are counted before it is moved or deleted."""
DEEPEST = 200


class Thing(NamedTuple):
    """What is moved or deleted, as it is now."""

    place: Place
    status: os.stat_result
    files: int = 0
    size: int = 0
    is_deep: bool = False

    @property
    def state(self) -> str:
        """Names this very thing, as it is now."""
        found = self.status
        which = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, self.files, self.size)
        return f"{self.place.key}-{state_of(*map(str, which))}"

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    def __str__(self) -> str:
        """Say what it is."""
        if self.is_folder:
            inside = f"{amount(self.files, 'file')}, {self.size:,} bytes" if self.files else "empty"
            more = "more than " if self.files >= MOST_COUNTED else ""
            return f"{self.place.shown}{os.sep} (a folder: {more}{inside})"
        kind = kind_of(self.status.st_mode)
        return f"{self.place.shown} ({kind or f'{self.status.st_size:,} bytes'})"


class Mover:
    """Moves and deletes for one call."""

    def __init__(self, context: ToolContext, settings: FilesSettings, seen: Seen) -> None:
        self._reach = Reach(context, settings.folders)
        self._session = context.session_id
        self._settings = settings
        self._seen = seen

    def _thing(self, path: str | os.PathLike[str]) -> Thing:
        """Return what is at *path*, a link itself. Raises ToolError if it is for no tool."""
        place = self._reach.place(path, is_link=True)
        if is_below(self._reach.root, place.real):
            raise ToolError(f"{place.shown} is the workspace, or has it inside; it stays where it is")
        self._reach.check_private(place)
        if self._reach.private_below(place.real):
            raise ToolError(f"{place.shown} has what pluggent keeps for itself inside; it stays where it is")
        with opened_folder(place, place.folder) as folder:
            try:
                status = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                raise unreachable(place, error) from error
            counted = _counted(folder, place.name) if stat.S_ISDIR(status.st_mode) else (0, 0, False)
        return Thing(place, status, *counted)

    # ---- moving --------------------------------------------------------------------------

    def _planned(self, path: str | os.PathLike[str], to: str | os.PathLike[str]) -> tuple[Thing, Place, str]:
        """Return what is moved, where to, and the state of both."""
        thing, target = self._thing(path), self._reach.place(to, is_link=True)
        if is_below(target.real, thing.place.real):
            raise ToolError(f"{thing.place.shown} cannot be moved into itself")
        self._reach.check_private(target)
        return thing, target, f"{thing.place.key}-{state_of(thing.state, target.real)}"

    def preview_move(self, path: str | os.PathLike[str], to: str | os.PathLike[str]) -> CallPreview:
        """Show what move() will do."""
        thing, target, state = self._planned(path, to)
        return CallPreview(f"move {thing}\n  to {target.shown}", state, "once")

    def move(self, path: str | os.PathLike[str], to: str | os.PathLike[str]) -> ToolOutput:
        """Move what is at *path* to *to*, which must be free."""
        thing, target, state = self._planned(path, to)
        place = thing.place
        self._reach.check_write(place, state)
        self._reach.check_write(target, state)
        with opened_folder(place, place.folder) as source, atomic.folder_of(target, self._reach) as (folder, _):
            _check_free(folder, target, place)
            self._check_same(source, thing)
            try:
                _renamed(source, place.name, folder, target.name, is_file=stat.S_ISREG(thing.status.st_mode))
            except FileExistsError as error:
                raise ToolError(f"{target.shown} has appeared in the meantime, so nothing was moved") from error
            except OSError as error:
                raise _unmoved(place, target, error) from error
        trash.forget(place.real)
        if seen := self._seen.digest(self._session, place.real):
            self._seen.forget(self._session, place.real)
            self._seen.note(self._session, target.real, seen)
        said = f"moved {place.shown} to {target.shown}"
        undo = UndoCall("move_file", {"path": target.shown, "to": place.shown})
        return ToolOutput(said, for_user=said, undo=(undo,))

    def _check_same(self, folder: int, thing: Thing) -> None:
        with suppress(OSError):
            found = os.stat(thing.place.name, dir_fd=folder, follow_symlinks=False)
            if atomic.is_same(found, thing.status):
                return
        raise atomic.conflict(thing.place)

    # ---- deleting ------------------------------------------------------------------------

    def preview_delete(self, path: str | os.PathLike[str], *, recursive: bool, sha256: str) -> CallPreview:
        """Show what delete() will do."""
        thing = self._deletable(path, recursive=recursive)
        where = self._bin(thing)
        kept = "undo can put it back" if self._keeps(thing) else "it is gone for good"
        how = f"to the trash ({where.files})" if where else f"there is no trash for it; {kept}"
        return CallPreview(f"delete {thing}\n  {how}", thing.state, "once")

    def _deletable(self, path: str | os.PathLike[str], *, recursive: bool) -> Thing:
        thing = self._thing(path)
        if thing.is_folder and thing.is_deep:
            raise ToolError(
                f"{thing.place.shown} has folders within folders, more than {DEEPEST} deep, so it was not deleted."
                " Delete what is further down first"
            )
        if thing.is_folder and thing.files and not recursive:
            raise ToolError(
                f"{thing.place.shown} is a folder with {amount(thing.files, 'file')} in it, so it was not deleted. Set"
                " recursive=true to delete all of them too"
            )
        return thing

    def delete(self, path: str | os.PathLike[str], *, recursive: bool, sha256: str) -> ToolOutput:
        """Delete the file at *path*, or the folder with all that is in it."""
        thing = self._deletable(path, recursive=recursive)
        place = thing.place
        self._reach.check_write(place, thing.state)
        with opened_folder(place, place.folder) as folder:
            self._check_same(folder, thing)
            data = self._content(folder, thing) if self._keeps(thing) or sha256 else None
            if sha256 and (data is None or digest_of(data) != sha256):
                raise ToolError(f"{place.shown} was changed since, so it was not deleted: that would lose the change")
            there = self._gone(folder, thing)
        self._seen.forget(self._session, place.real)
        undo: tuple[UndoCall, ...] = ()
        if data is not None and len(data) <= self._settings.undo_bytes:
            mode = stat.S_IMODE(thing.status.st_mode)
            undo = undo_content(place, data, NO_FILE, self._settings, mode=mode)
        elif there:
            undo = (UndoCall("move_file", {"path": there, "to": place.shown}),)
        where = f"it is in the trash: {there}" if there else "undo can put it back" if undo else "it is gone for good"
        said = f"deleted {thing}; {where}"
        return ToolOutput(said, for_user=said, undo=undo)

    def _keeps(self, thing: Thing) -> bool:
        """Say whether the content of *thing* is kept to be put back."""
        return stat.S_ISREG(thing.status.st_mode) and thing.status.st_size <= self._settings.undo_bytes

    def _content(self, folder: int, thing: Thing) -> bytes | None:
        try:
            opened = open_entry(folder, thing.place)
        except ToolError:  # it may not be read, and may be deleted all the same
            return None
        try:
            return content(opened, self._settings.edit_bytes, thing.place)
        finally:
            os.close(opened)

    def _bin(self, thing: Thing) -> trash.Bin | None:
        return trash.bin_for(thing.status.st_dev, thing.place.real, self._settings.trash, os.environ)

    def _gone(self, folder: int, thing: Thing) -> str:
        """Delete *thing* and return where it is in the trash, "" if it is gone for good."""
        place = thing.place
        found = self._bin(thing)
        try:
            if found is not None and not is_below(found.files, place.real):
                return trash.put(found, folder, place.name, place.real, datetime.now())  # noqa: DTZ005 (the trash has local times)
            _removed(folder, place.name, is_folder=thing.is_folder)
        except RecursionError as error:
            raise ToolError(
                f"{place.shown} has folders within folders, deeper than can be deleted at once; a part of it may be"
                " gone. Delete what is further down first"
            ) from error
        except OSError as error:
            left = "; a part of it may be gone" if thing.files else ""
            raise ToolError(f"{place.shown} could not be deleted: {error.strerror or error}{left}") from error
        return ""


def _check_free(folder: int, target: Place, place: Place) -> None:
    try:
        found = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        inside = os.path.join(target.shown, place.name)  # noqa: PTH118 (text)
        raise ToolError(f"{target.shown} is a folder that exists; to move into it, give the whole new path: {inside}")
    raise ToolError(f"{target.shown} exists, so nothing was moved. Move or delete it first, or choose another name")


def _renamed(source: int, name: str, folder: int, new: str, *, is_file: bool) -> None:
    """Give what is called *name* in *source* the name *new*, which is free, in *folder*."""
    if is_file:
        try:
            os.link(name, new, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links, or another user's file
            pass
        else:
            os.unlink(name, dir_fd=source)
            return
    os.rename(name, new, src_dir_fd=source, dst_dir_fd=folder)


def _unmoved(place: Place, target: Place, error: OSError) -> ToolError:
    if error.errno == errno.EXDEV:
        return ToolError(
            f"{target.shown} is on another disk than {place.shown}. Write a copy there with write_file, and delete this"
            " one then"
        )
    return ToolError(f"{place.shown} could not be moved to {target.shown}: {error.strerror or error}")


def _counted(folder: int, name: str, depth: int = 1) -> tuple[int, int, bool]:
    """Return how many entries are below, the size of the files together, and whether it is too deep for DEEPEST.

    It stops after MOST_COUNTED entries.
    """
    try:
        at = open_below(folder, name)
    except OSError:
        return 0, 0, False
    files = size = 0
    is_deep = False
    try:
        with os.scandir(at) as entries:
            for entry in entries:
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    more, larger, deeper = _counted(at, entry.name, depth + 1) if depth < DEEPEST else (0, 0, True)
                    files, size, is_deep = files + more, size + larger, is_deep or deeper
                elif entry.is_file(follow_symlinks=False):
                    with suppress(OSError):
                        size += entry.stat(follow_symlinks=False).st_size
                if files >= MOST_COUNTED or is_deep:
                    break
    finally:
        os.close(at)
    return files, size, is_deep


def _removed(folder: int, name: str, *, is_folder: bool) -> None:
    """Delete *name* in *folder* for good, a folder with all that is in it. Follows no link."""
    if is_folder:
        import shutil  # few calls delete a folder

        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)
