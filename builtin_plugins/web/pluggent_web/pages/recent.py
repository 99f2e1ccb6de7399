"""Keeps the documents that a session fetched last, so that their later pages fit the first one."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from pluggent_web.pages.framing import Document

Key: TypeAlias = tuple[str, str, str]
"""The session, the URL, and what was wanted of it."""

_MOST_DOCUMENTS = 16
_MOST_CHARS = 8_000_000


class RecentDocuments:
    """The last documents of all sessions, bounded in number and size."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Document] = OrderedDict()
        self._chars = 0

    def keep(self, key: Key, document: Document) -> None:
        """Keep *document* in place of what is kept for *key*."""
        self._forget(key)
        self._kept[key] = document
        self._chars += len(document.text)
        while self._kept and (len(self._kept) > _MOST_DOCUMENTS or self._chars > _MOST_CHARS):
            self._forget(next(iter(self._kept)))

    def get(self, key: Key) -> Document | None:
        """Return the document that is kept for *key*."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self._chars = 0

    def _forget(self, key: Key) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._chars -= len(found.text)
