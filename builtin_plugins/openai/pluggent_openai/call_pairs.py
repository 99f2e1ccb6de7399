"""Whether each call of a conversation has its result right behind it, asked with every request. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NO_RESULT = "(no result was recorded)"
"""What the model reads in place of a result that is missing."""


def are_answered(pieces: list[Any], calls: type, result: type) -> bool:
    """Say whether the results of all calls stand right behind them, in their order, and no others are there.

    A piece of the type *calls* has its ids in ``ids``, one of the type *result* the id of its call in ``answers``.
    The last result keeps in ``checked`` the pieces before it that are known to be in order, so with the next request
    only what was added is looked at: comparing lists of the same objects costs next to nothing.
    """
    known = _known(pieces, result)
    added = pieces[known:]
    if not _in_order(added, [*map(type, added)], calls, result):
        return False
    last = _last(pieces, result)
    if last >= 0:
        pieces[last].checked = pieces[:last]
    return True


def _known(pieces: list[Any], result: type) -> int:
    """Return how many of the first *pieces* are known to be in order."""
    for place in range(len(pieces) - 1, -1, -1):
        if type(pieces[place]) is not result or pieces[place].checked is None:
            continue
        checked = pieces[place].checked
        pieces[place].checked = None  # one list a conversation, not one a result
        return place + 1 if checked == pieces[:place] else 0
    return 0


def _last(pieces: Sequence[Any], result: type) -> int:
    return next((place for place in range(len(pieces) - 1, -1, -1) if type(pieces[place]) is result), -1)


def _in_order(pieces: Sequence[Any], kinds: list[type], calls: type, result: type) -> bool:
    at, results = -1, 0
    try:
        for _ in range(kinds.count(calls)):
            at = kinds.index(calls, at + 1)
            for id in pieces[at].ids:
                at += 1
                if kinds[at] is not result or pieces[at].answers != id:
                    return False
                results += 1
    except IndexError:  # the last calls have no results
        return False
    return results == kinds.count(result)
