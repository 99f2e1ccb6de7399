"""Every store of sessions that there is keeps the same promises."""

from pathlib import Path
from typing import cast

from pluggent_hookspecs.markers import MaybeAsync
from pluggent_hookspecs.sessions import SessionLog, SessionStore
from pluggent_state_files.store import FileStore
from pluggent_testing.sessions import MemorySessions, SessionStoreConformance
from saved import SlowSessions


class TestFileStore(SessionStoreConformance):
    def make_store(self, folder: Path) -> SessionStore:
        return FileStore(folder / "sessions")


class TestMemorySessions(SessionStoreConformance):
    def make_store(self, folder: Path) -> SessionStore:
        return MemorySessions()

    def take_over(self, store: SessionStore, session_id: str) -> MaybeAsync[SessionLog]:
        return cast("MemorySessions", store).take_over(session_id)


class TestSlowSessions(SessionStoreConformance):
    def make_store(self, folder: Path) -> SessionStore:
        return SlowSessions()

    def take_over(self, store: SessionStore, session_id: str) -> MaybeAsync[SessionLog]:
        return cast("SlowSessions", store).take_over(session_id)
