"""Remembers which plugins with hooks ran here, so that a policy does not vanish unnoticed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pluggent_host.sealed import SealedRecords

FILE = "hooks.json"
_KIND = "hooks"


class Remembered:
    """The plugins with hooks that ran in one environment, *place* (``sys.prefix``), by id.

    Kept in *folder*, sealed; a record that is damaged or forged is none. Raises ConfigError like
    SealedRecords.
    """

    def __init__(self, folder: Path, place: str) -> None:
        self._records = SealedRecords(folder / FILE)
        self._place = place

    def missing(self, installed: Collection[str]) -> tuple[str, ...]:
        """Return which of those that ran are not *installed* any more."""
        return tuple(sorted(set(self._ran()) - set(installed)))

    def add(self, running: Collection[str]) -> None:
        """Remember those that run now; writes only what is new."""
        if set(running) - set(self._ran()):
            self._records.put(_KIND, self._place, lambda ran: {**ran, **dict.fromkeys(running, "")})

    def forget(self, plugin: str) -> bool:
        """Expect *plugin* no longer; return whether it was expected."""
        if plugin not in self._ran():
            return False
        self._records.put(_KIND, self._place, lambda ran: {id: "" for id in ran if id != plugin})
        return True

    def _ran(self) -> Collection[str]:
        return self._records.find(_KIND, self._place) or {}
