"""Finds the one plugin that the host names itself: the store of sessions in the files of a state folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.sessions import SessionStore

from pluggent_host.common.ids import plugin_of
from pluggent_host.plugins.catalog import Catalog, PluginRecord, catalog
from pluggent_host.plugins.discovery import discover
from pluggent_host.plugins.loader import make
from pluggent_host.settings import Selection
from pluggent_host.version import VERSION

STATE_FILES = "pluggent-state-files:session/file"
"""By its whole id: a short name could be claimed by another store."""


def session_files(folder: Path, found: Catalog) -> SessionStore:
    """Return the store of the sessions in the state folder *folder*.

    The operator asked for it by naming the folder, so it is used whatever the selection of plugins
    says, and where no installed plugin is used. Raises ConfigError if it is not installed or cannot
    be used, PluginLoadError if it is broken.
    """
    record = _record(found.records) or _installed()
    if record is None:
        mend = "install it: pip install pluggent-state-files"
        raise ConfigError("state_dir", [f"sessions are kept by the plugin pluggent-state-files; {mend}"])
    if record.state not in ("available", "disallowed"):
        raise ConfigError("state_dir", [f"{STATE_FILES} is {record.state}: {record.reason}; {record.mend}"])
    stores: Iterable[SessionStore] = make(record, {"folder": str(folder)}).provide_sessions(ProvideEvent(VERSION))
    return next(iter(stores))


def _installed() -> PluginRecord | None:
    return _record(catalog(discover(only=plugin_of(STATE_FILES)), Selection(), VERSION).records)


def _record(records: Iterable[PluginRecord]) -> PluginRecord | None:
    return next((record for record in records if record.capability == STATE_FILES and record.is_first), None)
