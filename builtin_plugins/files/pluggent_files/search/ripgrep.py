"""Asks the program rg which files have a match, in the order of names. What it says is looked at again here.

It gets an argument list, no shell, no settings of its own and a minimal environment; it is killed when the
search ends. It decides nothing: a file that it names is opened, searched and shown like any other.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import IO

from pluggent_workspace_files.reach import is_below

PIECE = 1 << 16
POLL_MS = 100
NO_MATCH = 1
"""Its exit status; 2 is an error, which may be one unreadable folder."""


class NotUsableError(Exception):
    """There is no rg, or it cannot do this search."""


def program(root: str) -> str:
    """Return the path of rg, "" without one. One in the workspace is not run."""
    found = shutil.which("rg")
    if found is None or not os.path.isabs(found) or is_below(os.path.realpath(found), root):  # noqa: PTH117 (text)
        return ""
    return found


def files_with_matches(
    rg: str, expression: str, folder: int, stopped: Callable[[], bool], *, include_ignored: bool
) -> Iterator[str]:
    """Yield the paths, below the open *folder*, of the files that may have a match.

    Raises NotUsableError, before the first path, if rg cannot say.
    """
    with _running(_arguments(rg, expression, include_ignored=include_ignored), folder) as running:
        assert running.stdout is not None, "it is a pipe"
        some = False
        rest = b""
        for piece in _pieces(running.stdout, stopped):
            *paths, rest = (rest + piece).split(b"\0")
            for path in paths:
                some = True
                yield os.fsdecode(path.removeprefix(b"./"))
        if not some and not stopped() and running.wait() > NO_MATCH:
            raise NotUsableError


def _arguments(rg: str, expression: str, *, include_ignored: bool) -> list[str]:
    ignoring = (
        ["--no-ignore"]
        if include_ignored
        else ["--no-ignore-dot", "--no-ignore-global", "--no-ignore-parent", "--no-require-git"]
    )
    return [
        rg, "--no-config", "--no-messages", "--hidden", "--glob=!.git", *ignoring, "--text", "--sort=path",
        "--files-with-matches", "--null", "--color=never", "--regexp", expression, "--", "./",
    ]  # fmt: skip


@contextmanager
def _running(arguments: list[str], folder: int) -> Generator[subprocess.Popen[bytes]]:
    try:
        running = subprocess.Popen(  # noqa: S603 (an argument list)
            arguments, cwd=_path_of(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, process_group=0,
        )  # fmt: skip
    except OSError as error:
        raise NotUsableError from error
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()


def _path_of(folder: int) -> str:
    """Return a path that leads to the open *folder*, however it is called by now."""
    if sys.platform == "linux":
        return f"/proc/self/fd/{folder}"
    import fcntl  # POSIX has it; there is a need for it on macOS alone

    place = fcntl.fcntl(folder, getattr(fcntl, "F_GETPATH", 50), b"\0" * 1024)
    return os.fsdecode(place.rstrip(b"\0"))


def _pieces(stdout: IO[bytes], stopped: Callable[[], bool]) -> Iterator[bytes]:
    descriptor = stdout.fileno()
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN | select.POLLHUP)
    while not stopped():
        if waiting.poll(POLL_MS):
            piece = os.read(descriptor, PIECE)
            if not piece:
                return
            yield piece
