"""Characters of servers' texts that leave no mark. Pure."""

from __future__ import annotations

import re
import unicodedata

_WITHOUT_MARK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Joiners, fillers, blanks and variation selectors: letters or marks by their category (Unicode,
Default_Ignorable_Code_Point)."""


def is_invisible(char: str) -> bool:
    r"""Say whether *char* is a control or format character, not assigned, or leaves no mark.

    >>> [is_invisible(char) for char in ("a", "\n", "\u202e", "\u3164", "\U000e0101")]
    [False, True, True, True, True]
    """
    return unicodedata.category(char)[0] == "C" or _WITHOUT_MARK.match(char) is not None
