"""The words with which a person refuses a request. The model reads them with the denial."""

from __future__ import annotations

import re

MOST = 2000
"""Characters of the words; what is longer is cut."""
_NO = re.compile(r"(?is)no?(?:[\s,.:;!-]+(.*))?")


def words_after_no(typed: str) -> str:
    """Return what follows a no; "" for a bare one, and for any other answer.

    >>> words_after_no("n, use the other folder"), words_after_no("No."), words_after_no("yes")
    ('use the other folder', '', '')
    """
    found = _NO.fullmatch(typed.strip())
    return cleaned(found[1] or "") if found is not None else ""


def words_of(typed: str) -> str:
    """Return the words in an answer that refuses: those behind the no, or a sentence that is neither yes nor no.

    >>> words_of("use the other folder"), words_of("yes do it"), words_of("yep"), words_of("n, later")
    ('use the other folder', '', '', 'later')
    """
    words = words_after_no(typed)
    if words or _NO.fullmatch(typed.strip()):
        return words
    first, _, rest = typed.strip().partition(" ")
    return cleaned(typed) if rest and len(first) > 1 and first[0].lower() != "y" else ""


def cleaned(words: str) -> str:
    r"""Return *words* in one line of visible characters, MOST of them.

    >>> cleaned(" not\tthere\x1b[A ")
    'not there [A'
    """
    line = " ".join("".join(each if each.isprintable() else " " for each in words).split())
    return line if len(line) <= MOST else f"{line[: MOST - 1]}…"
