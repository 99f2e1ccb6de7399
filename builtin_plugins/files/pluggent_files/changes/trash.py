"""The system's trash: where a deleted file goes. The specification of freedesktop.org (1.0); on macOS ``~/.Trash``."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote

from pluggent_hookspecs import private_folder
from pluggent_workspace_files.reach import NOFOLLOW

from pluggent_files.settings import Trash

_DESKTOP = ("XDG_CURRENT_DESKTOP", "WAYLAND_DISPLAY", "DISPLAY")


class Bin(NamedTuple):
    """A trash: the folder of its files, and that of what is known of them ("": there is none)."""

    files: str
    info: str
    top: str
    """Paths in ``info`` are relative to this folder; "": they are absolute."""


def bin_for(device: int, real: str, choice: Trash, environ: Mapping[str, str]) -> Bin | None:
    """Return the trash for a file of *device* at *real*, None if there is none. It may have to be made."""
    if choice == "never":
        return None
    home = os.path.expanduser("~")  # noqa: PTH111 (text is what descriptors take)
    if sys.platform == "darwin":
        found = Bin(f"{home}/.Trash", "", "")
        return found if _device(found.files) == device else None
    data = environ.get("XDG_DATA_HOME", "")
    usual = f"{data if os.path.isabs(data) else f'{home}/.local/share'}/Trash"  # noqa: PTH117 (text)
    wanted = choice == "always" or os.path.isdir(usual) or any(environ.get(name) for name in _DESKTOP)  # noqa: PTH112
    if not wanted:
        return None
    above = usual
    while above != os.sep and _device(above) is None:
        above = os.path.dirname(above)  # noqa: PTH120 (text)
    if _device(above) == device:
        return Bin(f"{usual}/files", f"{usual}/info", "")
    top = _top_of(real, device)
    shared = f"{top}/.Trash"
    with suppress(OSError):
        found_mode = os.lstat(shared).st_mode
        if stat.S_ISDIR(found_mode) and found_mode & stat.S_ISVTX:
            return Bin(f"{shared}/{os.getuid()}/files", f"{shared}/{os.getuid()}/info", top)
    own = f"{top}/.Trash-{os.getuid()}"
    return Bin(f"{own}/files", f"{own}/info", top)


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev  # noqa: PTH116 (text)
    except OSError:
        return None


def _top_of(real: str, device: int) -> str:
    """Return the folder in which the file system of *real* is mounted."""
    top = os.path.dirname(real)  # noqa: PTH120 (text)
    while top != os.sep and _device(os.path.dirname(top)) == device:  # noqa: PTH120 (text)
        top = os.path.dirname(top)  # noqa: PTH120 (text)
    return top.rstrip(os.sep)


def _make(found: Bin) -> None:
    """Make the folders of *found*. Raises OSError unless they are the user's own."""
    for folder in filter(None, (found.files, found.info)):
        private_folder(folder)
        kind = os.lstat(folder)
        if not stat.S_ISDIR(kind.st_mode) or kind.st_uid != os.getuid():
            raise OSError(errno.EPERM, f"the trash {folder} belongs to another user")


def put(found: Bin, folder: int, name: str, real: str, now: datetime) -> str:
    """Move *name* of the open *folder* into the trash *found* and return its path there. Raises OSError."""
    _make(found)
    files = os.open(found.files, os.O_RDONLY | NOFOLLOW)
    try:
        for number in range(1, 100):
            there = name if number == 1 else f"{name}.{number}"
            if not found.info:
                if os.path.lexists(os.path.join(found.files, there)):  # noqa: PTH118 (text)
                    continue
            elif not _note(found, there, real, now):
                continue
            try:
                os.rename(name, there, src_dir_fd=folder, dst_dir_fd=files)
            except OSError:
                forget(os.path.join(found.files, there))  # noqa: PTH118 (text)
                raise
            return os.path.join(found.files, there)  # noqa: PTH118 (text)
    finally:
        os.close(files)
    raise OSError(errno.EEXIST, "the trash has too many files of this name")


def _note(found: Bin, there: str, real: str, now: datetime) -> bool:
    """Write down where *there* comes from; that also claims its name. Say whether the name was free."""
    path = os.path.relpath(real, found.top or os.sep) if found.top else real
    text = f"[Trash Info]\nPath={quote(os.fsencode(path))}\nDeletionDate={now:%Y-%m-%dT%H:%M:%S}\n"
    try:
        opened = os.open(f"{found.info}/{there}.trashinfo", os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o600)
    except FileExistsError:
        return False
    try:
        os.write(opened, text.encode())
    finally:
        os.close(opened)
    return not os.path.lexists(f"{found.files}/{there}")


def forget(trashed: str) -> None:
    """Delete what the trash knows of *trashed*, a path in it that is gone from there; any other path is left alone."""
    files, name = os.path.split(trashed)
    trash = os.path.dirname(files)  # noqa: PTH120 (text)
    if os.path.basename(files) == "files" and "Trash" in trash.rpartition(os.sep)[2]:  # noqa: PTH119 (text)
        with suppress(OSError):
            os.unlink(f"{trash}/info/{name}.trashinfo")  # noqa: PTH108 (text)
