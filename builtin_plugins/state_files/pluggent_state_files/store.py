"""The store of sessions in one folder: a file a session, and the records that hold in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pluggent_hookspecs import Json, freeze_object
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.sessions import ApprovalRecord, Line, SessionPage, SessionQuery

from pluggent_state_files import listing
from pluggent_state_files.listing import page
from pluggent_state_files.seals import APPROVALS, SealedRecords
from pluggent_state_files.session_log import FileLog, read_lines


class FileStore:
    """Sessions in *folder*, which is made when the first one is opened. Answers at once."""

    name = "file"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, session_id: str) -> FileLog:
        """Return the log of a session, under its lock."""
        return FileLog(self.folder, session_id)

    def read(self, session_id: str) -> Iterator[Line]:
        """Return the lines of a session without its lock."""
        if not listing.SESSION_ID.fullmatch(session_id):
            raise SessionError(f"{session_id!r} is not an id of a session")
        return read_lines(self.folder, session_id)

    def delete(self, session_id: str) -> None:
        """Remove a session under its lock."""
        listing.delete(self.folder, session_id)

    def list(self, query: SessionQuery) -> SessionPage:
        """Return one page; reads the sessions of that page alone."""
        return page(self.folder, query)

    def approvals(self) -> FileApprovals:
        """Return the records that hold in every session of the folder."""
        return FileApprovals(self.folder)


class FileApprovals:
    """Sealed records in the folder of the sessions, read afresh by every call."""

    def __init__(self, folder: Path) -> None:
        self._records = SealedRecords(folder / APPROVALS, folder.parent)

    def put(self, kind: str, name: str, about: Mapping[str, Json]) -> None:
        """Keep *about*, on the disk when this returns."""
        self._records.put(kind, name, lambda _: dict(about))

    def all(self) -> tuple[ApprovalRecord, ...]:
        """Return every record, damaged ones too; of a file that is damaged as a whole one that names it."""
        found = self._records.read()
        if found is None:
            return (ApprovalRecord("", str(self._records.path), genuine=False),)
        return tuple(
            ApprovalRecord(record.kind, record.name, freeze_object(record.about), genuine=record.sealed)
            for record in found
        )

    def drop(self, kind: str, name: str) -> bool:
        """Forget a record; return whether there was one."""
        return self._records.drop(kind, name)
