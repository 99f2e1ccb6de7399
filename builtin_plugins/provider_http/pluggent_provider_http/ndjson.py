"""Newline-delimited JSON as bytes, as they arrive: a line is an event.

https://github.com/ndjson/ndjson-spec
Lines are cut at LF alone, so a character of several bytes or a line separator inside a text cuts nothing.
A CR in front of the LF is white space to JSON; empty lines are passed over.
"""

from __future__ import annotations

from pluggent_provider_http.framing import FramingError
from pluggent_provider_http.sse import MAX_EVENT_BYTES

_BOM = b"\xef\xbb\xbf"


class LineFeed:
    r"""Takes what each read brought and gives the lines that it completed.

    >>> feed = LineFeed()
    >>> feed.feed(b'{"a": 1}\n{"b"'), feed.feed(b': 2}\r\n\n{"c": 3}'), feed.end()
    ([b'{"a": 1}'], [b'{"b": 2}\r'], [b'{"c": 3}'])
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self._pending = bytearray()
        self._begun = False

    @property
    def whole(self) -> bytes | None:
        """None: an answer that came at once is one line of a stream, too."""
        return None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes. Raises FramingError for one that is too long."""
        end = data.rfind(b"\n")
        lines: list[bytes] = []
        if end >= 0:
            block = bytes(self._pending) + data[:end]
            self._pending.clear()
            lines = self._lines(block)
            data = data[end + 1 :]
        self._pending += data
        if len(self._pending) > self.max_event_bytes:
            raise FramingError(f"sent a line of more than {self.max_event_bytes:,} bytes", lines)
        return lines

    def end(self) -> list[bytes]:
        """Return the line that was left without its end; it may be cut."""
        rest = bytes(self._pending)
        self._pending.clear()
        return self._lines(rest)

    def _lines(self, block: bytes) -> list[bytes]:
        if not self._begun and block:
            self._begun = True
            block = block.removeprefix(_BOM)
        return [line for line in block.split(b"\n") if line.strip()]
