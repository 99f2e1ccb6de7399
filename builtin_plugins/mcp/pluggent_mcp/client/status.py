"""One life of a connection, as far as its parts must know of each other: how it ended, what was said beside it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from pluggent_mcp.oauth.words import wants_login, wants_more
from pluggent_mcp.settings import Server

KEPT_BYTES = 8_192
SHOWN = 1_000
"""Characters of a server's stderr in an error."""
LONGEST_LINE = 2_000
"""Characters of one line in a log."""
SHORTEST_SECRET = 8
REFUSING = 400
"""The first of HTTP's numbers for what went wrong."""
UNAUTHORIZED = 401
FORBIDDEN = 403
HOW_TO_SIGN = 'headers = { Authorization = "Bearer ${TOKEN}" }'
HOW_TO_LOG_IN = "oauth = true"
LONGEST_CHALLENGE = 200


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
        self.status = self._refused = 0
        self.login = ""
        """What a person has to do before this server can be used, where that is what is missing."""
        self._more = ""
        """What a person has to do before more of it can be used."""
        self._challenge = ""
        self._logs_in = server.login is not None
        self._signed = any(name.lower() == "authorization" for name in server.headers)
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

    def answered(self, status: int, challenge: str = "") -> None:
        """Keep how the server answered over HTTP, and what it wants to know of who asks."""
        self.status = status
        if status >= REFUSING:
            self._refused, self._challenge = status, challenge
        if status == FORBIDDEN and self._logs_in:
            self._more = wants_more(self.server, challenge)
        elif status < REFUSING:
            self._more = ""

    @property
    def refusal(self) -> str:
        """The last answer over HTTP that was an error, and what to do about it; empty if there was none."""
        if not self._refused:
            return ""
        said = f"Its last answer was HTTP {self._refused}"
        if self._more:
            return f"It {self._more}"
        if self._refused != UNAUTHORIZED:
            return said
        if self._signed:
            said += ": it does not take the Authorization that its headers hold. Give it another token"
        else:
            said += f": it wants a token. Write {HOW_TO_SIGN} into its settings"
        wants = shortened(self.shown(self._challenge.encode(errors="replace")))
        oauth = f"; or, in its place, {HOW_TO_LOG_IN}: it then {wants_login(self.server)}"
        return said + oauth + (f". It wants: {wants}" if wants else "")

    @property
    def explained(self) -> str:
        """The reason of its end, with what the server itself had to say."""
        if self.login:
            return self.login
        parts = [self.shown(self.fault.encode(errors="replace"))]
        if self.status >= REFUSING:
            parts.append(self.refusal)
        if junk := self.shown(self._junk):
            parts.append(f"It wrote to stdout what is no message: {junk!r}")
        if stderr := self.shown(b"".join(self._said))[-SHOWN:]:
            parts.append(f"Its stderr ends: {stderr}")
        return ". ".join(parts)

    def hide(self, secret: str) -> None:
        """Show *secret* no more either."""
        if len(secret) >= SHORTEST_SECRET and secret not in self._secrets:
            self._secrets = (*self._secrets, secret)

    def shown(self, data: bytes) -> str:
        """Return *data* as text without the server's secrets."""
        text = data.decode(errors="replace").strip()
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def shortened(text: str) -> str:
    """Return *text* in one line that can be printed, and not a long one."""
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_CHALLENGE])


def _secrets(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        for part in {value, value.rpartition(" ")[2]}:  # of "Bearer abc" the latter half too
            if len(part) >= SHORTEST_SECRET:
                yield part
