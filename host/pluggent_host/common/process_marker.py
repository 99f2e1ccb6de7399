"""Marks child processes of a host, so that none can approve its own request.

The mark is an environment variable with the ids of processes that have a host open. It does not hold back
a program that removes it; see the README on what is not guaranteed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, MutableMapping

INSIDE = "PLUGGENT_INSIDE"
_lock = threading.Lock()


@contextlib.contextmanager
def marked(environ: MutableMapping[str, str] = os.environ) -> Generator[None]:
    """Mark processes started in this context as inside of a host."""
    own = str(os.getpid())
    with _lock:
        environ[INSIDE] = ",".join((*_marks(environ), own))
    try:
        yield
    finally:
        with _lock:
            marks = _marks(environ)
            if own in marks:
                marks.remove(own)
            environ[INSIDE] = ",".join(marks)
            if not marks:
                del environ[INSIDE]


def is_inside(environ: MutableMapping[str, str] = os.environ) -> bool:
    """Say whether another process that has a host open has started this one."""
    return any(mark != str(os.getpid()) for mark in _marks(environ))


def _marks(environ: MutableMapping[str, str]) -> list[str]:
    return [mark for mark in environ.get(INSIDE, "").split(",") if mark]
