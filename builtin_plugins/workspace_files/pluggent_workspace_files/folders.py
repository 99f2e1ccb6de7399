"""Folders that settings allow beside the workspace. Values only: settings classes import it."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class Folders:
    """Folders outside the workspace, as settings allow them; *read* holds those that are not to be written.

    *section* is where a person writes them (``read_folders``, ``write_folders``); "": nowhere.
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    section: str = ""
