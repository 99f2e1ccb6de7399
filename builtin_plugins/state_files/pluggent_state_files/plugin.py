"""The plugin: the store ``file``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
from pluggent_hookspecs import ProvideEvent, SessionStore, hookimpl

from pluggent_state_files.listing import FOLDER
from pluggent_state_files.store import FileStore


@attrs.frozen
class FileSettings:
    """``folder``: where sessions are kept, in its folder ``sessions``; without it there is no store."""

    folder: str = ""
    """Where sessions are kept; empty: there is no store of this name."""


class StateFiles:
    """The plugin behind the entry point ``file``."""

    Settings = FileSettings

    def __init__(self, settings: FileSettings = FileSettings()) -> None:
        self._settings = settings

    @hookimpl
    def provide_sessions(self, event: ProvideEvent) -> Iterable[SessionStore]:
        """Offer the store ``file``."""
        folder = self._settings.folder
        return [FileStore(Path(folder).expanduser().absolute() / FOLDER)] if folder else []
