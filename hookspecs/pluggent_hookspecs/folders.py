"""Finds and makes private folders for the host and its plugins. Standard library only."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pluggent_hookspecs.errors import ConfigError

__all__ = ["home_folder", "private_folder", "state_folder"]

_OWN = 0o700


def home_folder(environ: Mapping[str, str]) -> str:
    """Return the home of the user: ``HOME``, or what the system knows where that is not an absolute path.

    A relative one would depend on the working directory, which may come from anywhere. Raises ConfigError where there
    is none.

    >>> home_folder({"HOME": "/srv/ann"})
    '/srv/ann'
    """
    own = environ.get("HOME", "")
    if os.path.isabs(own):  # noqa: PTH117 (pathlib costs 4 ms, and this is imported by short commands)
        return own
    found = _known_home()
    if not os.path.isabs(found):  # noqa: PTH117 (as above)
        unknown = "and the system knows no home of this user"
        raise ConfigError("HOME", [f"expected an absolute path, got {own!r}, {unknown}"])
    return found


def _known_home() -> str:
    if sys.platform == "win32":
        return os.path.expanduser("~")  # noqa: PTH111 (as above)
    import pwd  # not on Windows

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def state_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of the host's state: sessions, approvals, trust, logins, records. Makes and reads nothing.

    ``PLUGGENT_STATE_DIR``, or ``pluggent`` below ``XDG_STATE_HOME`` (a relative one is ignored, as XDG says) or the
    home. Raises ConfigError for a relative ``PLUGGENT_STATE_DIR``: what is kept there is trusted, and a working
    directory may come from anywhere.

    >>> state_folder({"PLUGGENT_STATE_DIR": "/srv/agent"}), state_folder({"XDG_STATE_HOME": "/srv"})
    ('/srv/agent', '/srv/pluggent')
    """
    own = environ.get("PLUGGENT_STATE_DIR", "")
    if own and not os.path.isabs(own):  # noqa: PTH117 (as above)
        raise ConfigError("PLUGGENT_STATE_DIR", [f"expected an absolute path, got {own!r}"])
    given = environ.get("XDG_STATE_HOME", "")
    if own or os.path.isabs(given):  # noqa: PTH117 (as above)
        return own or os.path.join(given, "pluggent")  # noqa: PTH118 (as above)
    mac = sys.platform == "darwin" and not given
    usual = "Library/Application Support" if mac else ".local/state"
    return os.path.join(home_folder(environ), usual, "pluggent")  # noqa: PTH118 (as above)


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
