"""Which commands the installed plugins announce, by their metadata. Imports none of them."""

from __future__ import annotations

import os

from pluggent_host.cli.table import NAMES
from pluggent_host.discovery import discover

COMMANDS_GROUP = "pluggent.commands"


def announced() -> tuple[tuple[str, str], ...]:
    """Return (name, whose it is) of each command, built-in names left out."""
    found: dict[str, str] = {}
    for item in discover(project=os.curdir).distributions:
        for entry in item.entry_points:
            if entry.group == COMMANDS_GROUP and entry.name not in NAMES and not item.shadowed_by:
                about = f": {item.summary}" if item.summary else ""
                found.setdefault(entry.name, f"{item.name} {item.version}{about}")
    return tuple(sorted(found.items()))
