"""Answers calls of a paused turn in its stored session; the turn itself goes on with Session.resume.

No host is opened and no plugin is loaded: an answer is an entry of the transcript. Who may give one
is the caller's to check.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from time import time

from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import SessionError

from pluggent_host.pausing import Pending, answered, refusal
from pluggent_host.standing import Approvals
from pluggent_host.stored import open_session
from pluggent_host.transcript import rebuild
from pluggent_host.transcript_file import FileTranscript


def answer_stored(folder: Path, id: str, digests: Collection[str], approval: Approval, by: str) -> tuple[Pending, ...]:
    """Answer the requests *digests* of session *id* in *folder*, all or none; return their calls.

    ``by`` says who answered; it is recorded. Raises SessionError if there is no such session, another
    process has it open, it is damaged, one of *digests* does not wait (any more), or *by* is not among
    those to whom an ask is limited.
    """
    try:
        open_session(folder, id).close()  # opening it to write would make one
    except OSError as error:
        raise SessionError(f"session '{id}' cannot be read: {folder / id}.jsonl: {error.strerror}") from error
    transcript = FileTranscript(folder, id)
    try:
        past = rebuild(transcript.entries())
        waiting = past.waiting
        pending = {} if waiting is None else {each.digest: each for each in waiting.open}
        gone = [digest for digest in digests if digest not in pending]
        if waiting is None or gone:
            what = "no turn that waits for a person" if waiting is None else f"no request {', '.join(gone)} that waits"
            why = past.void or "see: pluggent approvals"
            raise SessionError(f"session '{id}' has {what} (any more); {why}")
        if problems := [problem for digest in digests if (problem := refusal(pending[digest], approval, by))]:
            raise SessionError(f"session '{id}': {'; '.join(problems)}")
        now = time()
        made = [answered(waiting.paused, pending[digest], approval, by, now) for digest in dict.fromkeys(digests)]
        standing = [stands for _, stands in made if stands is not None]
        transcript.append(*(answer for answer, _ in made), *standing)
        for stands in standing:
            if stands.reach == "always":
                Approvals(folder).keep(stands)
        transcript.sync()
    finally:
        transcript.close()
    return tuple(pending[answer.digest] for answer, _ in made)
