"""Unpacks bodies piece by piece, never more than a limit: a bomb costs what a page of that size costs. Pure."""

from __future__ import annotations

import zlib
from typing import Protocol

_GZIP = 16 + zlib.MAX_WBITS
_RAW_DEFLATE = -zlib.MAX_WBITS


class PackedError(ValueError):
    """A body that cannot be unpacked; its text is the end of a sentence about it."""


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class Decoder:
    """Unpacks one body of at most *limit* bytes; ``full`` once there is more.

    >>> decoder = Decoder("", 3)
    >>> decoder.feed(b"abcd")
    >>> bytes(decoder.body), decoder.full
    (b'abc', True)
    """

    def __init__(self, encoding: str, limit: int) -> None:
        """Raise PackedError for an *encoding* that was not asked for."""
        self.body = bytearray()
        self.full = False
        self._limit = limit
        self._encoding = encoding.strip().lower()
        self._packed = 0
        self._unpacker: _Unpacker | None = None
        match self._encoding:
            case "" | "identity":
                pass
            case "gzip" | "x-gzip":
                self._unpacker = zlib.decompressobj(_GZIP)
            case "deflate":
                self._unpacker = zlib.decompressobj()
            case other:
                raise PackedError(f"is packed in a way that was not asked for ({other[:40]!r})")

    def feed(self, data: bytes) -> None:
        """Take the next *data* of the body. Raises PackedError."""
        if self.full:
            return
        if self._unpacker is None:
            self._keep(data)
            return
        try:
            while data and not self.full:
                data = self._unpack(data)
        except zlib.error as error:
            raise PackedError(f"is not {self._encoding}, as it says") from error

    def end(self) -> None:
        """Raise PackedError if the body broke off."""
        if self._unpacker is not None and not self._unpacker.eof and not self.full and self._packed:
            raise PackedError("broke off inside its compression")

    def _unpack(self, data: bytes) -> bytes:
        """Unpack some of *data*, and return what is left of it."""
        unpacker = self._unpacker
        assert unpacker is not None
        if unpacker.eof:
            if not self.body or self._encoding == "deflate" or not data.startswith(b"\x1f\x8b"):
                return b""  # what follows the end is nothing, except for another member of gzip
            unpacker = self._unpacker = zlib.decompressobj(_GZIP)
        if self._encoding == "deflate" and not self._packed and _is_raw(data):
            unpacker = self._unpacker = zlib.decompressobj(_RAW_DEFLATE)
        self._packed += len(data)
        self._keep(unpacker.decompress(data, self._limit - len(self.body) + 1))
        return unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail

    def _keep(self, data: bytes) -> None:
        free = self._limit - len(self.body)
        self.body += data[:free]
        self.full = len(data) > free


def _is_raw(data: bytes) -> bool:
    """Say whether *data* begins without the header of zlib: some servers call that deflate, too (RFC 9110, 8.4.1.2)."""
    header = data[:2]
    return len(header) == 2 and (header[0] & 0x0F != 8 or int.from_bytes(header, "big") % 31 != 0)  # noqa: PLR2004
