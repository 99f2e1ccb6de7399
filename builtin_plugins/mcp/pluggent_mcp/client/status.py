"""The shared status of a running server: why it ended, its last output, its HTTP status, its secrets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pluggent_mcp.command_line import secrets
from pluggent_mcp.oauth.challenges import wants_login, wants_more
from pluggent_mcp.settings import Server

KEPT_BYTES = 8_192
SHOWN = 1_000
"""Characters of a server's stderr in an error."""
LONGEST_STRAY = 200
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

    Texts that it returns hold no value of the server's ``env`` or ``headers``, and nothing of its URL and
    its command line that may be a secret.
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
        self._stray_output = ""
        self._stderr = b""
        self._stderr_is_cut = False
        self._unlogged = b""
        given = (*server.env.values(), *server.headers.values(), *secrets(server.args, server.url))
        self._secrets = _longest_first(_secrets(given))

    def end(self, why: str) -> None:
        """Mark it as ended and call the callback once; the first reason is kept."""
        if not self.ended.is_set():
            self._log_stderr(b"\n")
            self.reason = why
            self.ended.set()
            self._on_end()

    def add_stderr(self, data: bytes) -> None:
        """Keep what the server wrote to stderr."""
        self._stderr_is_cut = self._stderr_is_cut or len(self._stderr) + len(data) > KEPT_BYTES
        self._stderr = (self._stderr + data)[-KEPT_BYTES:]
        if self.log.isEnabledFor(logging.DEBUG):
            self._log_stderr(data)

    def _log_stderr(self, data: bytes) -> None:
        """Log the lines that are whole now: a secret may come in two pieces."""
        lines, ending, self._unlogged = (self._unlogged + data).rpartition(b"\n")
        if not ending and len(self._unlogged) > KEPT_BYTES:
            lines, self._unlogged = self._unlogged, b""
        if text := self.shown(lines)[-LONGEST_LINE:]:
            self.log.debug("stderr: %s", text)

    def add_stray_output(self, line: bytes) -> None:
        """Keep output on stdout that is not a message."""
        # Here and elsewhere secrets are replaced before a text is cut: a cut secret would not be recognised.
        text = self.shown(line)
        self._stray_output = text[:LONGEST_STRAY]
        self.log.debug("not a message: %s", text[:LONGEST_LINE])

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
        if junk := self._stray_output:
            parts.append(f"It wrote to stdout what is not a message: {junk!r}")
        if stderr := self._last_stderr():
            parts.append(f"Its stderr ends: {stderr}")
        return ". ".join(parts)

    def _last_stderr(self) -> str:
        text = self.shown(self._stderr)
        if self._stderr_is_cut:  # it may begin with the end of a secret
            text = text[max((len(secret.encode()) for secret in self._secrets), default=0) :]
        return text[-SHOWN:]

    def hide(self, secret: str) -> None:
        """Replace *secret* in all texts from now on."""
        if len(secret) >= SHORTEST_SECRET and secret not in self._secrets:
            self._secrets = _longest_first((*self._secrets, secret))

    def shown(self, data: bytes) -> str:
        """Return *data* as text without the server's secrets."""
        text = data.decode(errors="replace").strip()
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def shortened(text: str) -> str:
    """Return *text* as one short printable line."""
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_CHALLENGE])


def _longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return *secrets* so that no end of one is left where another is its beginning."""
    return tuple(sorted(dict.fromkeys(secrets), key=len, reverse=True))


def _secrets(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        # Of "Bearer abc" the latter half too, and each line of a key: lines may come one by one.
        for part in {value, value.rpartition(" ")[2], *value.splitlines()}:
            if len(part) >= SHORTEST_SECRET:
                yield part
