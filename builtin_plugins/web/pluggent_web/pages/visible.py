"""Removes what a person would not see from a text that a model reads. Pure."""

from __future__ import annotations

import re

_INVISIBLE = re.compile(
    # Control characters but tab and line feed; soft hyphen; marks of direction; joiners; separators; fillers;
    # variation selectors; tags; private use; not characters.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]+"
)
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""What Persian, Indic scripts and emoji are written with: one alone, between two visible characters."""
_FIRST_NON_LATIN = 0x300


def visible(text: str) -> tuple[str, int]:
    r"""Return *text* without invisible characters, and how many were removed. Line ends become line feeds.

    A joiner or variation selector that stands alone behind a character of another script than Latin stays.

    >>> visible("a\u200bb\r\nc"), visible("\u2764\ufe0f")[1]
    (('ab\nc', 1), 0)
    """
    if text.isascii() and text.isprintable():
        return text, 0
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    removed = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal removed
        characters = found[0]
        before = text[found.start() - 1 : found.start()] if found.start() else ""
        if characters in _JOINERS and before and ord(before) >= _FIRST_NON_LATIN:
            return characters
        breaks = characters.count("\u2028") + characters.count("\u2029")
        removed += len(characters) - breaks
        return "\n" * breaks

    return _INVISIBLE.sub(replace, text), removed
