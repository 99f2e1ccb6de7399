"""Remembers which content of a file each session has last read or written, bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict

MOST_SESSIONS = 200
MOST_FILES = 2_000
"""Files of one session; what was longest not touched is forgotten, and counts as never read."""


class Seen:
    """Digests of files by session. Safe from any thread."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def digest(self, session: str, real: str) -> str:
        """Return the digest that *session* has seen of the file *real*, "" if none."""
        with self._lock:
            return self._sessions.get(session, OrderedDict()).get(real, "")

    def note(self, session: str, real: str, digest: str) -> None:
        """Keep that *session* has now seen the content with *digest*."""
        with self._lock:
            files = self._sessions.setdefault(session, OrderedDict())
            self._sessions.move_to_end(session)
            files[real] = digest
            files.move_to_end(real)
            if len(files) > MOST_FILES:
                files.popitem(last=False)
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)

    def forget(self, session: str, real: str) -> None:
        """Forget what *session* has seen of *real*: it is not there any more."""
        with self._lock:
            self._sessions.get(session, OrderedDict[str, str]()).pop(real, None)
