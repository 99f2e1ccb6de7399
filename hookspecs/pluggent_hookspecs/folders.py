"""Makes private folders for the host and its plugins. Standard library only."""

from __future__ import annotations

import os

__all__ = ["private_folder"]

_OWN = 0o700


def private_folder(path: str | os.PathLike[str]) -> None:
    """Make the folder *path* and every missing folder above it, each with mode 0700 whatever the umask.

    Each that was made survives a loss of power. A folder that exists keeps its mode. Raises OSError as
    ``os.mkdir`` does, but not where *path* is a folder already. (``Path.mkdir(parents=True)`` makes the
    parents with the umask's mode.)

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     private_folder(f"{folder}/state/sessions")
    ...     oct(os.stat(f"{folder}/state").st_mode & 0o777)
    '0o700'
    """
    folder = os.fspath(path)
    try:
        _make(folder)
    except FileNotFoundError:
        parent = os.path.dirname(folder)  # noqa: PTH120 (pathlib costs 4 ms, and this is imported by short commands)
        if parent in ("", folder):
            raise
        private_folder(parent)
        _make(folder)


def _make(folder: str) -> None:
    try:
        os.mkdir(folder, _OWN)  # noqa: PTH102 (as above)
    except FileExistsError:
        if not os.path.isdir(folder):  # noqa: PTH112 (as above)
            raise
        return
    _sync(os.path.dirname(folder) or ".")  # noqa: PTH120 (as above)
    # A umask can only have taken rights away from its owner: it is given them back.
    if os.lstat(folder).st_mode & 0o777 != _OWN:
        os.chmod(folder, _OWN)  # noqa: PTH101 (as above)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
