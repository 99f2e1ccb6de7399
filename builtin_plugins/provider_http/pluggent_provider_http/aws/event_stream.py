"""Amazon's event streams as bytes, as they arrive: ``application/vnd.amazon.eventstream``.

https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html

A frame is: length of all (u32) · length of the headers (u32) · CRC-32 of these eight bytes ·
headers · payload · CRC-32 of all before, big-endian. Pure: bytes in, payloads out.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, cast
from zlib import crc32

import msgspec

from pluggent_provider_http.framing import FramingError

_prelude = Struct(">III").unpack_from
_crc_at = Struct(">I").unpack_from
_PRELUDE_BYTES = 12
_OVERHEAD_BYTES = 16
_MOST_KINDS = 64
_WHOLE = frozenset(b"{[<\xef \t\r\n") | frozenset(range(0x20, 0x7F))
_FIXED_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_TEXT = 7
_SIZED = (6, _TEXT)
"""Types of headers: two truths, four sizes of numbers, bytes, text, a time, a UUID."""


class _DamageError(Exception):
    """What is wrong with a frame."""


class FrameFeed:
    r"""Takes what each read brought and gives the events that it completed, each as one JSON object.

    An event becomes ``{"<its type>": <its payload>}``, as the service's own description has it;
    an exception and an error become ``{"error": {"type": ..., "message": ...}}``. ``whole`` is
    the answer so far if it is not a stream (JSON, HTML, words), None for a stream.

    >>> from pluggent_provider_http.aws.event_stream import frame
    >>> feed, sent = FrameFeed(), frame({":message-type": "event", ":event-type": "hi"}, b'{"a":1}')
    >>> feed.feed(sent[:20]), feed.feed(sent[20:])
    ([], [b'{"hi":{"a":1}}'])
    """

    def __init__(self, max_event_bytes: int = 16_777_216) -> None:
        self.max_event_bytes = max_event_bytes
        self._head: bytearray | None = None
        self._begun = False
        self._pending = bytearray()
        self._wanted = _PRELUDE_BYTES
        self._kinds: dict[bytes, tuple[bool, bytes]] = {}

    @property
    def whole(self) -> bytes | None:
        """The answer so far if it is not a stream; None if it is one."""
        if self._head is not None:
            return bytes(self._head)
        return None if self._begun else b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that *data* completes. Raises FramingError, which holds those before the damage."""
        if not self._begun and data:
            self._begun = True
            # A frame begins with its length: no JSON, HTML or words are that short.
            self._head = bytearray() if data[0] in _WHOLE else None
        if self._head is not None:
            self._head += data
            return []
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return []
            data = bytes(self._pending)
            self._pending.clear()
        found: list[bytes] = []
        try:
            self._pending += data[self._read(data, found) :]
        except _DamageError as error:
            raise FramingError(str(error), found) from error
        return found

    def end(self) -> list[bytes]:
        """Return nothing: a frame that was cut says nothing."""
        return []

    def _read(self, data: bytes, found: list[bytes]) -> int:
        """Add every whole frame of *data* to *found*; return where the first one begins that is not whole."""
        at, have = 0, len(data)
        self._wanted = _PRELUDE_BYTES
        while have - at >= _PRELUDE_BYTES:
            length, header_length, crc = _prelude(data, at)
            start = crc32(data[at : at + 8])
            if start != crc or not _OVERHEAD_BYTES + header_length <= length <= self.max_event_bytes:
                raise self._damage(length, checked=start == crc)
            end = at + length
            if end > have:
                self._wanted = length
                break
            if crc32(data[at + 8 : end - 4], start) != _crc_at(data, end - 4)[0]:
                raise _DamageError("sent a frame with a wrong checksum")
            body = at + _PRELUDE_BYTES + header_length
            headers = data[at + _PRELUDE_BYTES : body]
            is_event, name = self._kinds.get(headers) or self._kind(headers)
            payload = data[body : end - 4]
            found.append(b"{%b:%b}" % (name, payload or b"{}") if is_event else _error(name, payload))
            at = end
        return at

    def _damage(self, length: int, *, checked: bool) -> _DamageError:
        if not checked:
            return _DamageError("sent a frame whose length has a wrong checksum")
        if length > self.max_event_bytes:
            return _DamageError(f"sent an event of more than {self.max_event_bytes:,} bytes")
        return _DamageError("sent a frame that is shorter than its headers")

    def _kind(self, headers: bytes) -> tuple[bool, bytes]:
        """Return whether a frame with these headers is an event, and its name as JSON."""
        try:
            known = _kind_of(_headers(headers))
        except (ValueError, IndexError) as error:
            raise _DamageError(f"sent a frame whose headers cannot be read: {error}") from error
        if len(self._kinds) < _MOST_KINDS:  # a stream has a handful
            self._kinds[headers] = known
        return known


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Return a frame with *headers*, all of them texts."""
    encoded = b"".join(
        bytes([len(name)]) + name.encode() + bytes([_TEXT]) + len(value.encode()).to_bytes(2, "big") + value.encode()
        for name, value in headers.items()
    )
    length = _OVERHEAD_BYTES + len(encoded) + len(payload)
    lengths = length.to_bytes(4, "big") + len(encoded).to_bytes(4, "big")
    front = lengths + crc32(lengths).to_bytes(4, "big") + encoded + payload
    return front + crc32(front).to_bytes(4, "big")


def _kind_of(headers: dict[str, str]) -> tuple[bool, bytes]:
    kind = headers.get(":message-type", "event")
    names = {
        "event": headers.get(":event-type", ""),
        "exception": headers.get(":exception-type", "exception"),
        "error": f"{headers.get(':error-code', 'error')}: {headers.get(':error-message', '')}",
    }
    return kind == "event", msgspec.json.encode(names.get(kind, kind))


def _headers(data: bytes) -> dict[str, str]:
    """Return the headers that are texts. Raises ValueError and IndexError for what is none."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind, at = data[at + 1 : name_end].decode(), data[name_end], name_end + 1
        if kind in _SIZED:
            end = at + 2 + int.from_bytes(data[at : at + 2], "big")
            if kind == _TEXT:
                found[name] = data[at + 2 : end].decode()
        elif kind in _FIXED_BYTES:
            end = at + _FIXED_BYTES[kind]
        else:
            raise ValueError(f"{name[:40]!r} is of the unknown type {kind}")
        if end > len(data):
            raise ValueError(f"{name[:40]!r} is cut")
        at = end
    return found


def _error(name: bytes, payload: bytes) -> bytes:
    """Return an exception as the object of an error; what it says beside its message is kept with it."""
    try:
        said: object = msgspec.json.decode(payload) if payload else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = {"message": payload.decode("utf-8", "replace")}
    fields = cast("dict[str, Any]", said) if isinstance(said, dict) else {"message": str(said)}
    message = fields.get("message") or fields.get("Message") or ""
    return msgspec.json.encode({"error": {**fields, "message": message, "type": msgspec.json.decode(name)}})
