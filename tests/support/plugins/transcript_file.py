"""Sessions in the files of a folder, for tests: written, read, answered and listed without a host."""

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from pluggent_cli.approvals.standing import problems_in
from pluggent_cli.sessions import pending, reader, search as searching
from pluggent_cli.sessions.store import Sessions
from pluggent_cli.sessions.summary import Summary, summarise
from pluggent_hookspecs.decisions import Approval
from pluggent_host.approvals.pending import Pending
from pluggent_host.approvals.standing import KIND, Approvals
from pluggent_host.transcript.codec import decode_unsealed
from pluggent_host.transcript.entries import Entry
from pluggent_host.transcript.logs import StoredTranscript
from pluggent_state_files.session_log import FileLog
from pluggent_state_files.store import FileApprovals, FileStore


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
        """Return what the command says of records that do not count."""
        return tuple(problems_in(self._file.all()))


def read(path: Path) -> Iterator[Entry]:
    """Yield the entries of the session in *path*, whatever their seals say."""
    return decode_unsealed(FileStore(path.parent).read(path.stem), str(path))


def read_session(folder: Path, id: str) -> reader.StoredSession:
    return reader.read_session(Sessions.in_files(folder), id)


def answer_stored(folder: Path, id: str, digests: Collection[str], approval: Approval, by: str) -> tuple[Pending, ...]:
    return pending.answer_stored(Sessions.in_files(folder), id, digests, approval, by)


def waiting_in(folder: Path, id: str) -> pending.Waiting | None:
    return pending.waiting_in(Sessions.in_files(folder), id)


def all_waiting(folder: Path) -> Iterator[pending.Waiting]:
    return pending.all_waiting(Sessions.in_files(folder))


def search(folder: Path, text: str) -> Iterator[searching.Found | searching.Unreadable]:
    return searching.search(Sessions.in_files(folder), text)


def matching(folder: Path, beginning: str) -> tuple[str, ...]:
    return Sessions.in_files(folder).matching(beginning)


def summaries(folder: Path, *, limit: int | None = None) -> Iterator[Summary]:
    sessions = Sessions.in_files(folder)
    return (summarise(sessions, one) for one in islice(sessions.all(brief=True), limit))
