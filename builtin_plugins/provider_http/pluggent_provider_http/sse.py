"""Server-sent events as bytes, as they arrive, by the HTML standard's rules.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
One difference: what stands at the end without its blank line is handed out by ``close``,
since many servers leave it out after ``[DONE]``; its reader knows that it may be cut.
Only ``data`` is of interest here; ``event``, ``id``, ``retry`` and comments are dropped.
"""

from __future__ import annotations

from pluggent_provider_http.framing import FramingError

_BOM = b"\xef\xbb\xbf"
_CRLF_END = b"\r\n\r\n"


class EventTooLargeError(FramingError):
    """One event is longer than it may be."""


class EventSplitter:
    r"""Cuts a stream of bytes into the data of its events, wherever the reads were cut.

    >>> splitter = EventSplitter(max_event_bytes=1000)
    >>> splitter.feed(b": hello\n\ndata: on"), splitter.feed(b"e\r\n\r"), splitter.close()
    ([], [b'one'], [])
    """

    def __init__(self, max_event_bytes: int) -> None:
        self._max = max_event_bytes
        self._pending = bytearray()
        self._bom: bytes | None = b""
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that *chunk* completes. Raises EventTooLargeError."""
        if self._bom is not None:
            chunk = self._without_bom(chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_line_ends(chunk)
        pending = self._pending
        if pending:
            start = len(pending) - 1
            pending += chunk
            end = pending.rfind(b"\n\n", start)
            block = bytes(pending[:end]) if end >= 0 else b""
            del pending[: end + 2 if end >= 0 else 0]
        else:
            end = chunk.rfind(b"\n\n")
            block = chunk[:end] if end >= 0 else b""
            pending += chunk[end + 2 :] if end >= 0 else chunk
        found = _events(block) if block else []
        if len(pending) > self._max:
            raise EventTooLargeError(f"sent an event of more than {self._max:,} bytes", found)
        return found

    def close(self) -> list[bytes]:
        """Return the data of an event that was left unfinished at the end, if there is one."""
        rest = (self._bom or b"") + bytes(self._pending)
        self._pending.clear()
        return _lines(rest)

    def _without_bom(self, chunk: bytes) -> bytes:
        head = (self._bom or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._bom = head
            return b""
        self._bom = None
        return head.removeprefix(_BOM)

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        if not self._after_cr and chunk.endswith(_CRLF_END) and chunk.count(b"\r") == len(_CRLF_END) // 2:
            return chunk[: -len(_CRLF_END)] + b"\n\n"  # one event of one line, as Google sends them
        # A CR ends its line at once; the LF that belongs to it may come with the next read.
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        chunk = chunk.replace(b"\r\n", b"\n")
        return chunk.replace(b"\r", b"\n") if b"\r" in chunk else chunk


def _events(block: bytes) -> list[bytes]:
    found: list[bytes] = []
    for event in block.split(b"\n\n"):
        # Nearly every event is one line of data, alone or behind one line that names its type.
        line = event
        if event.startswith(b"event:"):
            line = event.partition(b"\n")[2]
        if line.startswith(b"data: ") and b"\n" not in line:
            found.append(line[6:])
        else:
            found += _lines(event)
    return found


def _lines(block: bytes) -> list[bytes]:
    found: list[bytes] = []
    data: list[bytes] = []
    for line in (*block.split(b"\n"), b""):
        if not line:
            if data:
                found.append(b"\n".join(data))
            data = []
            continue
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
    return found


MAX_EVENT_BYTES = 16_777_216
_BLANK = b" \t\r\n"


class EventFeed:
    r"""Takes what each read brought and gives the data of the events that it completed.

    ``whole`` is the answer so far if it is not a stream, None for a stream.

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
        """The answer so far if it is not a stream, without a byte order mark; None if it is one."""
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
