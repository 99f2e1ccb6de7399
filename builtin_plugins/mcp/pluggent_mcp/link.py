"""One life of a connection, as far as its parts must know of each other: how it ended, what was said beside it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from pluggent_mcp.settings import Server

KEPT_BYTES = 8_192
SHOWN = 1_000
"""Characters of a server's stderr in an error."""
LONGEST_LINE = 2_000
"""Characters of one line in a log."""
SHORTEST_SECRET = 8


class Link:
    """Ends once, for one reason. Keeps what the server said where no message stands.

    Nothing that it shows holds a value of the server's ``env`` or ``headers``, or the query of its
    URL: those may be secrets.
    """

    def __init__(self, name: str, server: Server, told: Callable[[], None] = lambda: None) -> None:
        self.server = name
        self.log = logging.getLogger(f"pluggent.mcp.{name}")
        self.ended = asyncio.Event()
        self.fault = ""
        self.status = 0
        self._told = told
        self._junk = b""
        self._said: deque[bytes] = deque()
        self._size = 0
        given = (*server.env.values(), *server.headers.values(), urlsplit(server.url).query)
        self._secrets = tuple(_secrets(given))

    def end(self, why: str) -> None:
        """Have it ended, and tell that once; the first reason stands."""
        if not self.ended.is_set():
            self.fault = why
            self.ended.set()
            self._told()

    def said(self, data: bytes) -> None:
        """Keep what the server wrote to stderr."""
        self._said.append(data)
        self._size += len(data)
        while self._size > KEPT_BYTES and len(self._said) > 1:
            self._size -= len(self._said.popleft())
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug("stderr: %s", self.shown(data[-LONGEST_LINE:]))

    def strayed(self, line: bytes) -> None:
        """Keep what the server wrote to stdout and is no message."""
        self._junk = line[:200]
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug("not a message: %s", self.shown(line[:LONGEST_LINE]))

    def answered(self, status: int) -> None:
        """Keep how the server answered over HTTP."""
        self.status = status

    @property
    def explained(self) -> str:
        """The reason of its end, with what the server itself had to say."""
        parts = [self.shown(self.fault.encode(errors="replace"))]
        if self.status >= 400:  # noqa: PLR2004 (HTTP's)
            parts.append(f"Its last answer was HTTP {self.status}")
        if junk := self.shown(self._junk):
            parts.append(f"It wrote to stdout what is no message: {junk!r}")
        if stderr := self.shown(b"".join(self._said))[-SHOWN:]:
            parts.append(f"Its stderr ends: {stderr}")
        return ". ".join(parts)

    def shown(self, data: bytes) -> str:
        """Return *data* as text without the server's secrets."""
        text = data.decode(errors="replace").strip()
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _secrets(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        for part in {value, value.rpartition(" ")[2]}:  # of "Bearer abc" the latter half too
            if len(part) >= SHORTEST_SECRET:
                yield part
