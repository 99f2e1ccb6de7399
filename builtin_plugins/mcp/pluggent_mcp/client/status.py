"""The shared status of a running server: why it ended, its last output, its HTTP status, its secrets."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from pluggent_mcp.oauth.challenges import wants_login, wants_more
from pluggent_mcp.settings import Server

KEPT_BYTES = 8_192
SHOWN = 1_000
"""Characters of a server's stderr in an error."""
LONGEST_LINE = 2_000
"""Characters of one line in a log."""
SHORTEST_SECRET = 8
REFUSING = 400
"""The first HTTP status that is an error."""
UNAUTHORIZED = 401
FORBIDDEN = 403
HOW_TO_SIGN = 'headers = { Authorization = "Bearer ${TOKEN}" }'
HOW_TO_LOG_IN = "oauth = true"
LONGEST_CHALLENGE = 200


class ServerStatus:
    """Ends once, with one reason. Keeps the output of the server that is not part of a message.

    Texts that it returns hold no value of the server's ``env`` or ``headers``, and no query of its
    URL: those may be secrets.
    """

    def __init__(self, name: str, server: Server, on_end: Callable[[], None] = lambda: None) -> None:
        self.server = name
        self.log = logging.getLogger(f"pluggent.mcp.{name}")
        self.ended = asyncio.Event()
        self.reason = ""
        self.http_status = self._refused = 0
        self.login = ""
        """What a person has to do to log in, if a login is missing."""
        self._more_scopes = ""
        """What a person has to do to log in with more scopes."""
        self._challenge = ""
        self._logs_in = server.login is not None
        self._signed = any(name.lower() == "authorization" for name in server.headers)
        self._on_end = on_end
        self._stray_output = b""
        self._stderr: deque[bytes] = deque()
        self._size = 0
        given = (*server.env.values(), *server.headers.values(), urlsplit(server.url).query)
        self._secrets = tuple(_secrets(given))

    def end(self, why: str) -> None:
        """Mark it as ended and call the callback once; the first reason is kept."""
        if not self.ended.is_set():
            self.reason = why
            self.ended.set()
            self._on_end()

    def add_stderr(self, data: bytes) -> None:
        """Keep what the server wrote to stderr."""
        self._stderr.append(data)
        self._size += len(data)
        while self._size > KEPT_BYTES and len(self._stderr) > 1:
            self._size -= len(self._stderr.popleft())
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug("stderr: %s", self.shown(data[-LONGEST_LINE:]))

    def add_stray_output(self, line: bytes) -> None:
        """Keep output on stdout that is not a message."""
        self._stray_output = line[:200]
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug("not a message: %s", self.shown(line[:LONGEST_LINE]))

    def note_response(self, status: int, challenge: str = "") -> None:
        """Keep the status and the challenge of an HTTP response."""
        self.http_status = status
        if status >= REFUSING:
            self._refused, self._challenge = status, challenge
        if status == FORBIDDEN and self._logs_in:
            self._more_scopes = wants_more(self.server, challenge)
        elif status < REFUSING:
            self._more_scopes = ""

    @property
    def refusal(self) -> str:
        """The last HTTP error and what to do about it; empty if there was none."""
        if not self._refused:
            return ""
        said = f"Its last answer was HTTP {self._refused}"
        if self._more_scopes:
            return f"It {self._more_scopes}"
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
    def explanation(self) -> str:
        """The reason of its end, with the last output of the server."""
        if self.login:
            return self.login
        parts = [self.shown(self.reason.encode(errors="replace"))]
        if self.http_status >= REFUSING:
            parts.append(self.refusal)
        if junk := self.shown(self._stray_output):
            parts.append(f"It wrote to stdout what is not a message: {junk!r}")
        if stderr := self.shown(b"".join(self._stderr))[-SHOWN:]:
            parts.append(f"Its stderr ends: {stderr}")
        return ". ".join(parts)

    def hide(self, secret: str) -> None:
        """Replace *secret* in all texts from now on."""
        if len(secret) >= SHORTEST_SECRET and secret not in self._secrets:
            self._secrets = (*self._secrets, secret)

    def shown(self, data: bytes) -> str:
        """Return *data* as text without the server's secrets."""
        text = data.decode(errors="replace").strip()
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def shortened(text: str) -> str:
    """Return *text* as one short printable line."""
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_CHALLENGE])


def _secrets(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        for part in {value, value.rpartition(" ")[2]}:  # of "Bearer abc" the latter half too
            if len(part) >= SHORTEST_SECRET:
                yield part
