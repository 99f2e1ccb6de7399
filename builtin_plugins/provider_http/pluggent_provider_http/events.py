"""The events of an answer as its bytes come, or the whole answer where it is no stream after all.

Servers answer a request for a stream with one JSON object, or with HTML, and status 200;
the first byte tells. Pure: bytes in, the data of events out.
"""

from __future__ import annotations

from pluggent_provider_http.sse import EventSplitter, EventTooLargeError

__all__ = ["MAX_EVENT_BYTES", "EventFeed", "EventTooLargeError"]

MAX_EVENT_BYTES = 16_777_216
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


class EventFeed:
    r"""Takes what each read brought and gives the data of the events that it completed.

    ``whole`` is what an answer that is no stream has sent so far, None for a stream.

    >>> feed = EventFeed()
    >>> feed.feed(b"data: on"), feed.feed(b"e\n\n"), feed.end(), feed.whole
    ([], [b'one'], [], None)
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self._head: bytearray | None = bytearray()
        self._splitter: EventSplitter | None = None

    @property
    def whole(self) -> bytes | None:
        """The answer so far if it is no stream, without a byte order mark; None if it is one."""
        return None if self._head is None else bytes(self._head).removeprefix(_BOM)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of the events that *data* completes. Raises EventTooLargeError."""
        if self._head is not None:
            data = self._sniffed(self._head, data)
        return self._splitter.feed(data) if self._splitter is not None and data else []

    def end(self) -> list[bytes]:
        """Return the data of an event without its blank line at the end of the answer; it may be cut."""
        return [] if self._splitter is None else self._splitter.close()

    def _sniffed(self, head: bytearray, data: bytes) -> bytes:
        head += data
        start = bytes(head[:1024]).removeprefix(_BOM).lstrip(_BLANK)
        if not start or _BOM.startswith(start) or start[:1] in (b"{", b"[", b"<"):
            return b""
        self._head = None
        self._splitter = EventSplitter(self.max_event_bytes)
        return bytes(head)
