"""Reads standard input and files whole: with a limit, without devices, and with a word while a pipe sends nothing."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import state_folder

STANDARD_INPUT = "standard input"
FROM_STANDARD_INPUT = "-"
"""What a person writes in place of a text or a file."""
MAX_TEXT_BYTES = 8 * 1024 * 1024
"""More than the context of any model holds as text."""
PATIENCE_S = 2.0
"""How long an open pipe may send nothing before a line says so."""

_PIECE = 65_536
_PROCESSES = "/proc"
_MIB = 1024 * 1024

Say = Callable[[str], None]
"""Shows one line to the person."""


def is_piped() -> bool:
    """Say whether standard input is a pipe or a file: not a terminal, a device such as /dev/null, or closed."""
    descriptor = _descriptor()
    if descriptor is None:
        return False
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def is_typed() -> bool:
    """Say whether standard input is a terminal."""
    descriptor = _descriptor()
    return descriptor is not None and os.isatty(descriptor)


def read_standard_input(say: Say, *, limit_bytes: int = MAX_TEXT_BYTES, patience_s: float = PATIENCE_S) -> bytes:
    """Return all of standard input; *say* gets a line if nothing comes for *patience_s*. Raises ConfigError."""
    descriptor = _descriptor()
    if descriptor is None:
        raise ConfigError(STANDARD_INPUT, ["is closed"])

    def silent(received: int) -> None:
        so_far = f"has sent {received:,} bytes and not ended" if received else "is open and has sent nothing yet"
        say(f"waiting: {STANDARD_INPUT} {so_far}. To leave it out, add: </dev/null")

    try:
        return _read(descriptor, STANDARD_INPUT, limit_bytes, patience_s, None if is_typed() else silent)
    except OSError as error:
        raise ConfigError(STANDARD_INPUT, [f"cannot be read: {error.strerror}"]) from error


def read_file(path: str, say: Say, *, limit_bytes: int = MAX_TEXT_BYTES, patience_s: float = PATIENCE_S) -> bytes:
    """Return what is in the file or the named pipe *path*. Raises ConfigError."""

    def silent(received: int) -> None:
        so_far = f"has sent {received:,} bytes and not ended" if received else "has sent nothing yet"
        say(f"waiting: the pipe {path} {so_far}")

    try:
        # Without O_NONBLOCK, opening a pipe that has no writer yet would wait without a word.
        place = os.path.expanduser(path)  # noqa: PTH111 (pathlib raises another error for an unknown ~user)
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
                raise ConfigError(path, ["is a folder" if stat.S_ISDIR(mode) else "is not a file"])
            if stat.S_ISREG(mode):
                _check_meant(path, place)
            return _read(descriptor, path, limit_bytes, patience_s, silent)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(path, [f"cannot be read: {error.strerror}"]) from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError(path, [f"cannot be read: {error}"]) from error


def _check_meant(path: str, place: str) -> None:
    """Raise ConfigError where *place* is a link to a file that is not meant: a cloned folder may have one."""
    real = os.path.realpath(place)
    if _is_within(real, os.path.realpath(state_folder(os.environ))):
        raise ConfigError(path, ["lies where pluggent keeps keys and sessions, which are sent to no model"])
    if _is_within(real, _PROCESSES) and not os.path.abspath(place).startswith((_PROCESSES, "/dev/")):  # noqa: PTH100
        raise ConfigError(
            path, [f"is a link to {real}, where the system tells of this process; name it if you mean it"]
        )


def _is_within(real: str, folder: str) -> bool:
    return real.startswith(f"{folder}/")


def _descriptor() -> int | None:
    try:
        return None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):  # closed meanwhile, or no file
        return None


def _read(
    descriptor: int, name: str, limit_bytes: int, patience_s: float, silent: Callable[[int], None] | None
) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        if silent is not None and not select.select([descriptor], [], [], patience_s)[0]:
            silent(size)
            silent = None
            # Without O_NONBLOCK it would wait; with it, a pipe that has no writer yet looks like one that has ended.
            select.select([descriptor], [], [])
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:  # the parent process shares a pipe that does not block
            select.select([descriptor], [], [])
            continue
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > limit_bytes:
            problem = f"is larger than {limit_bytes // _MIB} MiB ({limit_bytes:,} bytes); send a part of it"
            raise ConfigError(name, [problem])
