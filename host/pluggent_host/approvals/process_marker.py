"""Marks what a host's process starts, so that it cannot approve what it asks for itself.

The mark is a variable of the environment, which children inherit: the processes that have hosts
open, by their ids. A program that takes it out of its environment is not held back by it; see the
README on what is not guaranteed.
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
    """While it lasts, a host is open in this process: what is started now is inside."""
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
    """Say whether another process that has a host open has started this one.

    >>> is_inside({}), is_inside({INSIDE: str(os.getpid())}), is_inside({INSIDE: "1"})
    (False, False, True)
    """
    return any(mark != str(os.getpid()) for mark in _marks(environ))


def _marks(environ: MutableMapping[str, str]) -> list[str]:
    return [mark for mark in environ.get(INSIDE, "").split(",") if mark]
