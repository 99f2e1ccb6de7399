"""The body of an answer over HTTP, bounded as it is read: in its own length, and in what it unpacks to."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2

from pluggent_mcp.client.posts import Post

PIECE = 65_536
"""Bytes that are unpacked at once."""
GZIP = ("gzip", "x-gzip")

_WITH_HEADER = zlib.MAX_WBITS | 16


class BodyError(httpx2.StreamError):
    """An answer cannot be read. The SDK makes an error of that one request of it."""


class Body(httpx2.AsyncByteStream):
    """Reads *inner* for *post*, unpacked if it is *packed*, up to *limit* bytes; None is no limit.

    What goes wrong is told to *broken* too: not everybody who reads it tells anybody else.
    """

    def __init__(
        self, inner: Any, post: Post, limit: int | None, packed: str = "",
        broken: Callable[[Exception], object] = lambda _: None,
    ) -> None:  # fmt: skip
        self._inner = inner
        self._post = post
        self._limit = limit
        self._packed = packed
        self._broken = broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces():
                yield piece
        except (BodyError, httpx2.HTTPError) as error:
            self._broken(error)
            raise

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._packed not in ("", "identity", *GZIP):
            raise BodyError(f"the answer is packed in a way that was not asked for ({self._packed[:40]!r})")
        unpacked = _Gzip() if self._packed in GZIP else _as_it_is
        size = 0
        async for chunk in self._chunks():
            for piece in unpacked(chunk):
                size += len(piece)
                if self._limit is not None and size > self._limit:
                    raise BodyError(f"the answer is longer than {self._limit:,} bytes (max_message_bytes)")
                yield piece

    async def _chunks(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._inner)
        while True:
            chunk: bytes | None = None
            with self._post.waiting():
                chunk = await anext(chunks, None)
            if self._post.given_up:
                raise BodyError("nobody waits for the answer any more")
            if chunk is None:
                return
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _as_it_is(chunk: bytes) -> Iterator[bytes]:
    yield chunk


class _Gzip:
    """Unpacks piece by piece: a few bytes may become as many millions, and those are never there at once."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_WITH_HEADER)

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        more = True
        while more:
            try:
                piece = self._zlib.decompress(chunk, PIECE)
            except zlib.error as error:
                raise BodyError(f"the answer cannot be unpacked: {error}") from error
            chunk = self._zlib.unconsumed_tail
            more = not self._zlib.eof and (bool(chunk) or len(piece) == PIECE)
            if piece:
                yield piece
