"""Answers calls of a paused turn in its stored session; Session.resume continues the turn.

No host is opened and no plugin is loaded: an answer is an entry of the transcript. Who may give one
is the caller's to check.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from time import time

from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import SessionError
from pluggent_host.approvals.pending import Pending, answered, refusal
from pluggent_host.common.names import DOUBT
from pluggent_host.transcript.rebuild import Rebuilt, rebuild
from pluggent_state_files.listing import open_session

from pluggent_cli.sessions.transcript_file import FileStanding, FileTranscript


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
        doubtful = [digest for digest in digests if _is_doubtful(past, pending[digest])]
        if doubtful and approval.agreed:
            raise SessionError(
                f"session '{id}': {', '.join(pending[digest].call_id for digest in doubtful)}: the call was interrupted"
                f" and may already have taken effect; the approval that waits does not say so: pluggent resume {id}"
            )
        if problems := [problem for digest in digests if (problem := refusal(pending[digest], approval, by))]:
            raise SessionError(f"session '{id}': {'; '.join(problems)}")
        now = time()
        made = [answered(waiting.paused, pending[digest], approval, by, now) for digest in dict.fromkeys(digests)]
        standing = [stands for _, stands in made if stands is not None]
        transcript.append(*(answer for answer, _ in made), *standing)
        for stands in standing:
            if stands.reach == "always":
                FileStanding(folder).keep(stands)
        transcript.force()
    finally:
        transcript.close()
    return tuple(pending[answer.digest] for answer, _ in made)


def _is_doubtful(past: Rebuilt, pending: Pending) -> bool:
    """Say whether *pending* had been dispatched when its process ended, and a person has not been asked about that."""
    dispatched = pending.kind == "tool_call" and past.doubts.interrupted(pending.call_id)
    return bool(dispatched) and all(plugin != DOUBT for plugin, _ in pending.asks)
