"""Texts as vectors: what an embedder is asked and what it answers; the Embedder protocol.

Vectors are float32 and need no numpy: one block of bytes for all texts of a request.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from math import isfinite
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from pluggent_hookspecs._value import Value
from pluggent_hookspecs.errors import ProviderError
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.reply_meta import ReplyMeta

__all__ = [
    "Embedder", "EmbeddingIncomplete", "EmbeddingRequest", "EmbeddingResponse", "EmbeddingRole", "Vectors",
]  # fmt: skip

EmbeddingRole: TypeAlias = Literal["query", "document"]
"""What the texts are: what is searched for, or what is found. Some models embed the two differently."""

FLOAT_BYTES = 4
_SWAPPED = sys.byteorder == "big"


def _digest_of(data: bytes) -> str:
    return f"<{len(data)} bytes, sha256 {sha256(data).hexdigest()}>"


@attrs.frozen(repr=False)
class Vectors(Value):
    """Vectors of one size, one after the other: float32, shape (len(self), dimensions).

    ``data`` are their bytes, little-endian; a numpy array of them is a view, not a copy:
    ``numpy.frombuffer(vectors.data, "<f4").reshape(-1, vectors.dimensions)``. Their length is the vendor's
    matter, most give unit length. Without vectors ``dimensions`` is 0. Raises ValueError for bytes that are not
    a whole number of vectors.

    >>> vectors = Vectors.of([(1.0, 0.0), (0.5, -0.5)])
    >>> len(vectors), vectors.dimensions, list(vectors[1])
    (2, 2, [0.5, -0.5])
    """

    data: bytes = attrs.field(default=b"", repr=_digest_of)
    dimensions: int = 0

    def __attrs_post_init__(self) -> None:
        size = self.dimensions * FLOAT_BYTES
        if (len(self.data) % size) if size > 0 else (self.data or size):
            raise ValueError(f"{len(self.data)} bytes are not a number of vectors of {self.dimensions} float32")

    @classmethod
    def of(cls, rows: Iterable[Sequence[float]]) -> Vectors:
        """Return *rows* as vectors. Raises ValueError for rows of different sizes.

        A number that is too large for float32 becomes an infinity; see ``finite``.
        """
        given = list(rows)
        sizes = {len(row) for row in given}
        if len(sizes) > 1:
            raise ValueError(f"vectors of one size were expected, not of {', '.join(map(str, sorted(sizes)))}")
        floats = array("f")
        for row in given:
            floats.extend(row)
        return cls(_little_endian(floats), sizes.pop() if sizes else 0)

    @classmethod
    def joined(cls, parts: Iterable[Vectors]) -> Vectors:
        """Return the vectors of all *parts* in a row. Raises ValueError if their sizes differ."""
        given = [part for part in parts if part]
        if len(given) == 1:
            return given[0]
        sizes = {part.dimensions for part in given}
        if len(sizes) > 1:
            raise ValueError(f"vectors of one size were expected, not of {', '.join(map(str, sorted(sizes)))}")
        return cls(b"".join([part.data for part in given]), sizes.pop() if sizes else 0)

    def __len__(self) -> int:
        return len(self.data) // (self.dimensions * FLOAT_BYTES) if self.dimensions else 0

    def __getitem__(self, index: int) -> memoryview[float]:
        """Return one vector: a read-only view of ``dimensions`` floats. Negative counts from the end."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"there are {count} vectors, and none at {index}")
        size = self.dimensions * FLOAT_BYTES
        start = (index % count) * size
        row = memoryview(self.data)[start : start + size]
        return row.cast("f") if not _SWAPPED else memoryview(_swapped(row)).cast("B").toreadonly().cast("f")

    def __iter__(self) -> Iterator[memoryview[float]]:
        return (self[index] for index in range(len(self)))

    def first(self, count: int) -> Vectors:
        """Return the first *count* of them."""
        return Vectors(self.data[: count * self.dimensions * FLOAT_BYTES], self.dimensions)

    @property
    def finite(self) -> bool:
        """Whether all numbers are: neither NaN nor an infinity is among them."""
        # Only a number of 1.7e38 or more can be otherwise: its last byte is 7F or FF. A search for those bytes is
        # a hundredth of the time of a look at each number.
        last = self.data[3::FLOAT_BYTES]
        return (b"\x7f" not in last and b"\xff" not in last) or all(isfinite(sum(row)) for row in self)


def _little_endian(floats: array[float]) -> bytes:
    return floats.tobytes() if not _SWAPPED else _swapped(memoryview(floats).cast("B")).tobytes()


def _swapped(data: memoryview[int]) -> array[float]:
    floats = array("f", bytes(data))
    floats.byteswap()
    return floats


def _to_texts(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"texts: expected several, got the text {value[:40]!r}; write texts=(text,)")
    return tuple(value)


@attrs.frozen(repr=False)
class EmbeddingRequest(Value):
    """Texts to be embedded: ``model`` is the embedder's own name for it.

    ``dimensions`` is the size of the vectors, None the model's own. A text that is too long for the model is
    refused (ProviderError ``context_length`` or ``bad_request``), or with ``truncate`` cut at its end by the
    vendor. An embedder refuses ``dimensions`` and ``truncate`` where its vendor does not have them; a ``role``
    that the vendor does not know makes no difference.
    """

    model: str
    texts: tuple[str, ...] = attrs.field(converter=_to_texts)
    role: EmbeddingRole = "document"
    dimensions: int | None = None
    truncate: bool = False


@attrs.frozen(repr=False)
class EmbeddingResponse(Value):
    """The vectors of a request: as many as it had texts, in their order.

    ``usage`` is that of all calls that were made for it, ``model`` the name the vendor reports, ``meta`` what is
    known of the last answer.
    """

    vectors: Vectors
    usage: Usage = Usage()
    model: str = ""
    meta: ReplyMeta = ReplyMeta()


class EmbeddingIncomplete(ProviderError):  # noqa: N818 (as Denied: an outcome, with what came)
    """Some of the texts were embedded, and then a call failed: ``cause``, of which this has all attributes.

    ``response`` has the vectors of the first ``len(response.vectors)`` texts, which are paid for, and their usage.
    """

    def __init__(self, cause: ProviderError, response: EmbeddingResponse, texts: int) -> None:
        self.cause = cause
        self.response = response
        self.texts = texts
        super().__init__(
            cause.kind,
            f"{len(response.vectors):,} of {texts:,} texts were embedded, then: {cause.message}",
            provider=cause.provider,
            status=cause.status,
            retry_after=cause.retry_after,
            actual=cause.actual,
            limit=cause.limit,
            retryable=cause.retryable,
            meta=cause.meta,
        )


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors at one vendor. Models are named ``<embedder.name>/<model>``.

    ``target`` says where requests go (a base URL without secrets); approvals are bound to it. ``embed`` raises
    ProviderError and nothing else on purpose, closes what it opened when it is cancelled, and has time limits of
    its own on every wait.
    """

    @property
    def name(self) -> str:
        """The short name, usually that of the entry point."""
        ...

    @property
    def target(self) -> str:
        """Where requests go, without secrets."""
        ...

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return the vectors of all texts, in as many calls as the vendor needs; of no texts without a call.

        Raises ProviderError ``protocol`` for fewer or more vectors than texts, for vectors of other sizes than
        asked for or than each other, and for numbers that are not finite. Raises EmbeddingIncomplete if some of
        the texts were embedded before a call failed.
        """
        ...
