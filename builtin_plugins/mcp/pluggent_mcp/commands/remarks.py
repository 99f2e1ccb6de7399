"""Collects what is logged of a server at level INFO: what is odd about it, and nobody here can do anything about.

It would be the same with each listing, so it is said by those commands alone with which a person looks at a
server. What somebody can do something about is a warning, and passes, once.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from pluggent_mcp.commands.printing import cut

LONGEST = 300
"""Characters of a remark."""


class Remarks(logging.Filter):
    """Keeps what it collects, each thing once, and lets nobody else have it."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, None] = {}
        self._warned: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.levelno == logging.INFO:
            self._said[cut(" ".join(text.split()), LONGEST)] = None
            return False
        if record.levelno < logging.INFO:
            return True
        new = text not in self._warned
        self._warned.add(text)
        return new

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(self._said)


@contextmanager
def remarks(server: str) -> Generator[Remarks]:
    """Collect what is remarked of *server* meanwhile."""
    log = logging.getLogger(f"pluggent.mcp.{server}")
    collected = Remarks()
    level = log.level
    log.addFilter(collected)
    if not log.isEnabledFor(logging.INFO):
        log.setLevel(logging.INFO)
    try:
        yield collected
    finally:
        log.setLevel(level)
        log.removeFilter(collected)
