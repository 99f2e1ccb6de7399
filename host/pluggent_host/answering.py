"""Answers calls of a paused turn in its stored session; the turn itself goes on with Session.resume.

No host is opened and no plugin is loaded: an answer is an entry of the transcript. Who may give one
is the caller's to check.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from time import time

from pluggent_hookspecs.errors import SessionError

from pluggent_host.pausing import Approval, Pending, Resolved
from pluggent_host.stored import open_session
from pluggent_host.transcript import rebuild
from pluggent_host.transcript_file import FileTranscript


def answer_stored(folder: Path, id: str, digests: Collection[str], approval: Approval, by: str) -> tuple[Pending, ...]:
    """Answer the requests *digests* of session *id* in *folder*, all or none; return their calls.

    ``by`` says who answered; it is recorded. Raises SessionError if there is no such session, another
    process has it open, it is damaged, or one of *digests* does not wait (any more).
    """
    try:
        open_session(folder, id).close()  # opening it to write would make one
    except OSError as error:
        raise SessionError(f"session '{id}' cannot be read: {folder / id}.jsonl: {error.strerror}") from error
    transcript = FileTranscript(folder, id)
    try:
        waiting = rebuild(transcript.entries()).waiting
        pending = {} if waiting is None else {each.digest: each for each in waiting.open}
        gone = [digest for digest in digests if digest not in pending]
        if waiting is None or gone:
            what = "no turn that waits for a person" if waiting is None else f"no request {', '.join(gone)} that waits"
            raise SessionError(f"session '{id}' has {what} (any more); see: pluggent approvals")
        answers = [
            Resolved(waiting.paused.turn_id, digest, approval.agreed, by, time(), approval.reach, approval.reason)
            for digest in dict.fromkeys(digests)
        ]
        transcript.append(*answers)
        transcript.sync()
    finally:
        transcript.close()
    return tuple(pending[each.digest] for each in answers)
