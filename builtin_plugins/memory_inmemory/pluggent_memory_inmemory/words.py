"""Cuts text into what is searched for: words, and pairs of characters where words have no spaces. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Han, kana and Hangul (Unicode blocks); the rest is cut at whatever is no letter, mark or digit.
_WIDE = (
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_RUN = re.compile(f"([{_WIDE}]+)|([^\\W_{_WIDE}]+)")


def words_of_item(text: str) -> list[str]:
    """Return what an item can be found by: words, and single and paired wide characters.

    >>> words_of_item("Beijing 天气好")
    ['beijing', '天', '气', '好', '天气', '气好']
    """
    found: list[str] = []
    for run, wide in _runs(text):
        found += [*run, *_pairs(run)] if wide else [run]
    return found


def words_of_query(text: str) -> list[str]:
    """Return what a query looks for: words, and paired wide characters; a lone one as it is.

    >>> words_of_query("天气 Beijing 好")
    ['天气', 'beijing', '好']
    """
    found: list[str] = []
    for run, wide in _runs(text):
        found += _pairs(run) if wide and len(run) > 1 else [run]
    return found


def folded(text: str) -> str:
    """Return *text* with case and compatible forms of characters made the same."""
    return unicodedata.normalize("NFKC", text).casefold()


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    for match in _RUN.finditer(folded(text)):
        yield match.group(), match.group(1) is not None


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)]
