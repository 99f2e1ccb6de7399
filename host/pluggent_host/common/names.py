"""Names of the host among those who vote, and parts of a digest in a row."""

from __future__ import annotations

HOST = "host"


def framed(*parts: bytes) -> bytes:
    """Return *parts* in a row, each behind its length, so that no other parts look the same.

    >>> framed(b"ab", b"c")
    b'2:ab1:c'
    """
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])
