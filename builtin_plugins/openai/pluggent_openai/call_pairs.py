"""Whether each call of a conversation has its result right behind it, asked with every request. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NO_RESULT = "(no result was recorded)"
"""What the model reads in place of a result that is missing."""


def are_answered(pieces: Sequence[Any], kinds: list[type], calls: type, result: type) -> bool:
    """Say whether the results of all calls stand right behind them, in their order, and no others are there.

    *kinds* are the types of *pieces*. One of the type *calls* has its ids in ``ids``, one of the type *result* the id
    of its call in ``answers``. This runs over the whole history with each request, so it looks at no other pieces.
    """
    at, results = -1, 0
    try:
        for _ in range(kinds.count(calls)):
            at = kinds.index(calls, at + 1)
            for id in pieces[at].ids:
                at += 1
                if kinds[at] is not result or pieces[at].answers != id:
                    return False
                results += 1
    except (IndexError, ValueError):  # the last calls have no results
        return False
    return results == kinds.count(result)
