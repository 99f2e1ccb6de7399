"""Finds the texts that match a query best. Pure data; knows neither time nor items."""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

# Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), 3.4.
_K1 = 1.2
_B = 0.75


class Ranking:
    """The texts of one namespace by key, with BM25 over them.

    >>> ranking = Ranking()
    >>> ranking.put("a", "tea with milk")
    >>> ranking.put("b", "milk, milk and honey")
    >>> [key for key, _ in ranking.best("milk", 2)]
    ['b', 'a']
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lengths: dict[str, int] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._total = 0

    def put(self, key: str, text: str) -> None:
        """Add a text, or replace the one of this key."""
        self.drop(key)
        words = words_of_item(text)
        self._texts[key] = text
        self._lengths[key] = len(words)
        self._total += len(words)
        for word, count in Counter(words).items():
            self._counts.setdefault(word, {})[key] = count

    def drop(self, key: str) -> None:
        """Forget the text of this key, if there is one."""
        text = self._texts.pop(key, None)
        if text is None:
            return
        self._total -= self._lengths.pop(key)
        for word in set(words_of_item(text)):
            del self._counts[word][key]
            if not self._counts[word]:
                del self._counts[word]

    def best(self, query: str, limit: int) -> list[tuple[str, float]]:
        """Return at most *limit* keys with scores above 0 and up to 1, best first."""
        words = words_of_query(query)
        scores = self._bm25(words) if words else self._containing(query)
        best = heapq.nsmallest(limit, scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return [(key, score / (1 + score)) for key, score in best]

    def _bm25(self, words: list[str]) -> dict[str, float]:
        mean = self._total / len(self._texts) if self._total else 1.0
        scores: dict[str, float] = {}
        for word in dict.fromkeys(words):
            having = self._counts.get(word, {})
            rarity = math.log(1 + (len(self._texts) - len(having) + 0.5) / (len(having) + 0.5))
            for key, count in having.items():
                norm = _K1 * (1 - _B + _B * self._lengths[key] / mean)
                scores[key] = scores.get(key, 0.0) + rarity * count * (_K1 + 1) / (count + norm)
        return scores

    def _containing(self, query: str) -> dict[str, float]:
        """Return the texts that hold a query without any word in it: an arrow, an emoji."""
        sought = folded(query).strip()
        found = {key: folded(text).count(sought) for key, text in self._texts.items()} if sought else {}
        return {key: float(count) for key, count in found.items() if count}


# Han, kana and Hangul (Unicode blocks); other text is split at characters that are not letters, marks or digits.
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
