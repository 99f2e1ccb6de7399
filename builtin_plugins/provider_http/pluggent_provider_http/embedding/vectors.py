"""Vectors in the answers of servers: base64 or lists of numbers, in whatever order they came. Pure."""

from __future__ import annotations

import binascii
import sys
from array import array
from collections.abc import Sequence
from typing import Any, cast

from pluggent_hookspecs import Vectors

from pluggent_provider_http.payload import MalformedError, as_list, as_object

FLOAT_BYTES = 4


def read_entries(value: object, texts: int) -> Vectors:
    """Return the vectors of ``[{"index": 0, "embedding": …}, …]``, the first one that of the first text.

    Entries without an index are in order. Raises MalformedError for fewer or more than *texts*, an index that is
    missing, doubled or too large, vectors of different sizes, and what is no vector.

    >>> entries = [{"index": 1, "embedding": [0.5]}, {"index": 0, "embedding": "AACAPw=="}]
    >>> [list(vector) for vector in read_entries(entries, 2)]
    [[1.0], [0.5]]
    """
    entries = [as_object(entry, "an entry of its list") for entry in as_list(value, "its list of vectors")]
    rows = [(entry.get("index"), vector_bytes(entry.get("embedding"))) for entry in entries]
    return joined(in_order(rows, texts), texts)


def in_order(rows: Sequence[tuple[object, bytes]], texts: int) -> list[bytes]:
    """Return vectors, each behind its index, in the order of the texts; see ``read_entries``."""
    places: list[Any] = [place for place, _ in rows]
    if len(rows) != texts or all(place is None for place in places) or places == list(range(texts)):
        return [row for _, row in rows]  # a wrong number of them is refused by ``joined``
    if any(type(place) is not int for place in places) or sorted(places) != list(range(texts)):
        raise MalformedError("the vectors are not numbered from 0 up, each once")
    return [row for _, row in sorted(cast("Sequence[tuple[int, bytes]]", rows))]


def joined(rows: Sequence[bytes], texts: int) -> Vectors:
    """Return one vector for each of *texts* texts. Raises MalformedError for another number, and different sizes."""
    if len(rows) != texts:
        raise MalformedError(f"it has {len(rows)} vectors for {texts} texts")
    sizes = {len(row) for row in rows}
    if any(not size or size % FLOAT_BYTES for size in sizes):
        raise MalformedError("a vector is empty, or its bytes are no float32")
    if len(sizes) > 1:
        counts = ", ".join(str(size // FLOAT_BYTES) for size in sorted(sizes))
        raise MalformedError(f"its vectors have different dimensions: {counts}")
    vectors = Vectors(b"".join(rows), sizes.pop() // FLOAT_BYTES if sizes else 0)
    if not vectors.finite:
        raise MalformedError("its vectors have numbers that are not finite")
    return vectors


def vector_bytes(value: object) -> bytes:
    """Return a vector, base64 or a list of numbers, as float32, little-endian. Raises MalformedError.

    >>> vector_bytes([1, 0.5]) == vector_bytes("AACAPwAAAD8=")
    True
    """
    if isinstance(value, str):
        return _decoded(value)
    numbers = as_list(value, "a vector")
    if not numbers:
        raise MalformedError("a vector is empty")
    # JSON has no NaN: what a server writes so is None by now, and no number.
    if any(type(number) not in (int, float) for number in numbers):
        raise MalformedError("a vector holds what is not a finite number")
    try:
        floats = array("f", numbers)
    except OverflowError as error:
        raise MalformedError("a vector holds what is not a finite number") from error
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


def _decoded(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise MalformedError(f"a vector is not base64: {error}") from error
