"""How much there is to look into, as far as it matters: whether it is too much for the event loop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import cast

LARGE = 1 << 16
"""Characters that are looked into on the event loop at most; more are beside it."""
NODE = 16
"""What an item counts for besides its characters."""


def is_large(*values: object) -> bool:
    """Say whether there are more than LARGE characters in *values*: texts, JSON, messages and their like.

    >>> is_large("a", {"b": ["c"]}), is_large("a" * 70_000), is_large([{"b": "c"}] * 5_000)
    (False, True, True)
    """
    size, waiting = 0, list[object](values)
    while waiting and size <= LARGE:
        value = waiting.pop()
        if isinstance(value, str):
            size += len(value)
        else:
            size += NODE
            if type(value) not in _LEAVES:  # most are: this is in the way of every result
                waiting += _inside(value, LARGE - size)
    return size > LARGE


_LEAVES = frozenset({type(None), bool, int, float, bytes})


def _inside(value: object, room: int) -> Iterable[object]:
    if attributes := getattr(type(value), "__attrs_attrs__", ()):
        return [getattr(value, each.name) for each in attributes if each.init]
    match value:
        case bytes():
            return ()
        case Mapping():
            pairs = islice(cast("Mapping[object, object]", value).items(), max(0, room // NODE) + 1)
            return [each for pair in pairs for each in pair]
        case list() | tuple():
            return cast("Sequence[object]", value)[: max(0, room // NODE) + 1]
        case _:
            return ()
