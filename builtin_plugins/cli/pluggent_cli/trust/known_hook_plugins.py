"""Remembers which plugins with hooks ran here, so that a policy does not vanish unnoticed."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError
from pluggent_state_files.seals import SealedRecords

FILE = "hooks.json"
_KIND = "hooks"


class Remembered:
    """The plugins with hooks that ran in one environment, *place* (``sys.prefix``), by id.

    Kept in *folder*, sealed. Where there is no file nothing has run yet. Raises ConfigError like SealedRecords,
    and where anything in the file is damaged or forged: then it is unknown what ran, and it is for a person
    to put the file aside. Nothing here does that, so that nothing that a host runs can have it done.
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

    def problem(self) -> str:
        """Return what is wrong with the file, empty if nothing is."""
        return self._records.whole()[1]

    def _ran(self) -> Collection[str]:
        records, problem = self._records.whole()
        if problem:
            path = self._records.path
            why = f"is damaged ({problem}), so it is unknown which plugins with hooks ran here: a policy may be missing"
            mend = f"see what is installed (pluggent plugins), then put the file aside yourself: {aside(path)}"
            raise ConfigError(str(path), [f"{why}, and nothing runs; {mend}"])
        return tuple(
            plugin for each in records if (each.kind, each.name) == (_KIND, self._place) for plugin in each.about
        )


def aside(path: Path) -> str:
    """Return the command with which a person begins that file anew.

    >>> aside(Path("/my state/hooks.json"))
    "mv '/my state/hooks.json' '/my state/hooks.json.damaged'"
    """
    return shlex.join(["mv", str(path), f"{path}.damaged"])
