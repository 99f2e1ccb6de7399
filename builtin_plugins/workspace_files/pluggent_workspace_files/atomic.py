"""Puts new content in the place of a file: whole or not at all, whatever ends the process meanwhile."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

from pluggent_hookspecs import ToolError

from pluggent_workspace_files.reach import NOFOLLOW, Place, Reach, open_folder, unreachable

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW
_NAME = 200
"""Bytes of a name that the name of its temporary file takes over."""


@contextmanager
def folder_of(place: Place, reach: Reach) -> Generator[tuple[int, list[str]]]:
    """Open the folder of *place*, made if need be, and say which folders were made. They go again on a failure."""
    made: list[str] = []
    try:
        at = _open_or_make(place.folder, reach.root if place.inside else os.sep, made)
    except OSError as error:
        _remove(made)
        raise unreachable(place, error) from error
    try:
        yield at, made
    except BaseException:
        _remove(made)
        raise
    finally:
        os.close(at)


def _open_or_make(folder: str, root: str, made: list[str]) -> int:
    try:
        return open_folder(folder)
    except FileNotFoundError:
        if folder in (root, os.sep):
            raise
    above = _open_or_make(os.path.dirname(folder), root, made)  # noqa: PTH120 (text is what descriptors take)
    try:
        os.mkdir(os.path.basename(folder), dir_fd=above)  # noqa: PTH119 (relative to a descriptor)
        made.append(folder)
    except FileExistsError:
        pass
    finally:
        os.close(above)
    return open_folder(folder)


def _remove(made: list[str]) -> None:
    for folder in reversed(made):
        with suppress(OSError):
            at = open_folder(os.path.dirname(folder))  # noqa: PTH120 (text)
            try:
                os.rmdir(os.path.basename(folder), dir_fd=at)  # noqa: PTH119 (relative to a descriptor)
            finally:
                os.close(at)


def replace(folder: int, place: Place, data: bytes, old: os.stat_result | None, mode: int | None = None) -> None:
    """Write *data* as the file at *place* in its open *folder*, in the place of *old*; None: there must be none.

    The new file is complete on the disk before it gets the name. It has mode and owner of *old*, or *mode*.
    Raises ToolError, with everything as it was, if that is no longer there as it was or the disk refuses.
    """
    temporary = _temporary(place.name)
    try:
        _write(folder, temporary, data, old, mode)
        if old is None:
            _link(folder, temporary, place)
        else:
            if not is_same(_status(folder, place.name), old):
                raise conflict(place)
            os.replace(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError as error:
        raise ToolError(f"{place.shown} has appeared in the meantime, so nothing was written. Read it first") from error
    except OSError as error:
        raise ToolError(
            f"{place.shown} could not be written: {error.strerror or error}. It is as it was before"
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
    with suppress(OSError):  # the content is there; some file systems refuse this for folders
        os.fsync(folder)


def conflict(place: Place) -> ToolError:
    """Return that the file at *place* was changed by another program."""
    return ToolError(
        f"{place.shown} was changed by another program in the meantime, so nothing was done. Read it again"
    )


def _temporary(name: str) -> str:
    short = os.fsdecode(os.fsencode(name)[:_NAME])
    return f".{short}.{secrets.token_hex(4)}.tmp"


def _write(folder: int, name: str, data: bytes, old: os.stat_result | None, mode: int | None) -> None:
    opened = os.open(name, _NEW, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(opened, left) :]
        if old is not None:
            _own(opened, old)
        elif mode is not None:
            os.fchmod(opened, mode & 0o777)
        os.fsync(opened)
    finally:
        os.close(opened)


def _own(opened: int, old: os.stat_result) -> None:
    """Give the open file the owner, as far as that is possible, and the mode of *old*."""
    new = os.fstat(opened)
    mode = stat.S_IMODE(old.st_mode)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(opened, old.st_uid, old.st_gid)
        except OSError:
            with suppress(OSError):
                os.fchown(opened, -1, old.st_gid)
            mode &= 0o777  # never another user's program with rights of its own
    os.fchmod(opened, mode)


def _link(folder: int, temporary: str, place: Place) -> None:
    """Give the temporary file its name, which must be free. Raises FileExistsError."""
    try:
        os.link(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if _status(folder, place.name) is not None:
            raise FileExistsError from None
        os.replace(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_same(found: os.stat_result | None, old: os.stat_result) -> bool:
    """Say whether *found* is the very file *old*, unchanged."""
    return found is not None and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) == (
        old.st_dev, old.st_ino, old.st_size, old.st_mtime_ns,
    )  # fmt: skip
