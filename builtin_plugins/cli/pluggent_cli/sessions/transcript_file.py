"""Stored sessions as the command reads and answers them: entries in the files of a folder, no host opened."""

from __future__ import annotations

from pathlib import Path

from pluggent_host.approvals.standing import KIND, Approvals
from pluggent_host.transcript.entries import Entry
from pluggent_host.transcript.lines import decode_unsealed
from pluggent_host.transcript.logs import StoredTranscript
from pluggent_state_files.session_log import FileLog, read_unsealed
from pluggent_state_files.store import FileApprovals


class FileTranscript(StoredTranscript):
    """The transcript of session *id* in *folder*, open for writing until it is closed."""

    def __init__(self, folder: Path, id: str) -> None:
        self._file = FileLog(folder, id)
        super().__init__(self._file, id)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def force(self) -> None:
        """Force everything appended to the disk. Blocks."""
        self._file.sync()

    def close(self) -> None:
        """Give up the writer's lock. Safe twice."""
        self._file.close()


class FileStanding(Approvals):
    """The approvals that hold in every session of *folder*."""

    def __init__(self, folder: Path) -> None:
        self._file = FileApprovals(folder)
        super().__init__(self._file, at_once=True)

    def forget(self, id: str) -> bool:
        """Let the approval called *id* hold no longer; return whether there was one."""
        return self._file.drop(KIND, id)

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each record, or the whole file, that is damaged and so counts as none."""
        return self._file.problems()


def read(path: Path) -> list[Entry]:
    """Return the entries of the session in *path* without its lock; a torn last line is left out.

    Raises SessionError, naming the line, for anything that is not an entry. Looks at no seal: for
    showing what happened, not for going on with it.
    """
    return decode_unsealed(read_unsealed(path), str(path))
