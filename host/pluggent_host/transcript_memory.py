"""A transcript that is kept nowhere: for sessions that end with their process."""

from __future__ import annotations

from pluggent_host.transcript import Entry


class MemoryTranscript:
    """A transcript that lasts as long as the session."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def append(self, *entries: Entry) -> None:
        self._entries += entries

    def sync(self) -> None:
        pass

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def close(self) -> None:
        pass
