"""The plugin: its one hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pluggent_hookspecs import ProvideEvent, hookimpl

from pluggent_files.change_tools import change_tools
from pluggent_files.read_tools import read_tools
from pluggent_files.seen import Seen
from pluggent_files.settings import FilesSettings


class Files:
    """The plugin behind the entry point ``files``. What sessions have read is remembered as long as it lives."""

    Settings = FilesSettings

    def __init__(self, settings: FilesSettings = FilesSettings()) -> None:  # noqa: B008 (frozen)
        self._settings = settings
        self._seen = Seen()

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Callable[..., Any]]:
        """Offer all tools; a session's own choice decides which of them a model sees."""
        return [*read_tools(self._settings, self._seen), *change_tools(self._settings, self._seen)]
