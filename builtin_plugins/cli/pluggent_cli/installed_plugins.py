"""What is installed, as every command sees it: with what was accepted of the project, or agreed to be left out."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from pluggent_plugin_loader.discovery import Discovery, Distribution, discover

from pluggent_cli.import_path import admit, excluded
from pluggent_cli.table import NAMES

if TYPE_CHECKING:  # imported when something depends on it: see _Accepted
    from pluggent_cli.trust.store import TrustStore

TRUST_FILE = "trust.json"
COMMANDS_GROUP = "pluggent.commands"


class _Accepted:
    """What a person has said of plugins in the project; the store is imported if there are any (15 ms)."""

    @cached_property
    def _store(self) -> TrustStore:
        # Here and not above: see the class.
        from pluggent_cli.config.sources import state_dir

        # as above
        from pluggent_cli.trust.store import TrustStore

        return TrustStore(state_dir(os.environ) / TRUST_FILE)

    def runs(self, item: Distribution) -> bool:
        return self._is_recorded(item, left_out=False)

    def is_left_out(self, item: Distribution) -> bool:
        return self._is_recorded(item, left_out=True)

    def _is_recorded(self, item: Distribution, *, left_out: bool) -> bool:
        # Here and not above: see the class.
        from pluggent_hookspecs.errors import ConfigError

        try:
            return self._store.covers_source(folder_of(item), item.name, item.version, left_out=left_out)
        except ConfigError:
            return False  # nothing in such a store counts; the commands that need it say so


def installed() -> Discovery:
    """Return what is installed; what was accepted of the project can be imported afterwards."""
    accepted = _Accepted()
    inside = excluded()
    found = discover([*sys.path, *inside], project=os.curdir, trusted=accepted.runs)
    for folder in {folder_of(item) for item in found.distributions}.intersection(inside):
        admit(folder)
    left_out = (item._replace(agreed=accepted.is_left_out(item)) for item in found.left_out)
    return found._replace(left_out=tuple(left_out))


def folder_of(item: Distribution) -> str:
    """Return the folder, or the archive, from which *item* is imported."""
    return os.path.dirname(item.location)  # noqa: PTH120 (pathlib is 4 ms that completing does without)


def announced() -> tuple[tuple[str, str], ...]:
    """Return (name, its distribution) of each command that an installed plugin announces; imports none."""
    found: dict[str, str] = {}
    for item in installed().distributions:
        for entry in item.entry_points:
            if entry.group == COMMANDS_GROUP and entry.name not in NAMES and not item.shadowed_by:
                about = f": {item.summary}" if item.summary else ""
                found.setdefault(entry.name, f"{item.name} {item.version}{about}")
    return tuple(sorted(found.items()))
