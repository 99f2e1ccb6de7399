"""Which stored sessions wait for a person, and with what; and answers to what waits.

Reading takes no lease. A session that the store lists as one that may wait is rebuilt as it is when it
is opened, so that what is listed is what counts. An answer is an entry of the transcript: no host is
opened, Session.resume continues the turn, and every policy decides anew. Who may answer is the caller's
to check.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.sessions import SessionStore
from pluggent_transcript.standing import DOUBT

from pluggent_cli.sessions.store import Sessions
from pluggent_cli.sessions.summary import without_name

if TYPE_CHECKING:  # looking through sessions of which none waits needs no host
    from pluggent_hookspecs.decisions import Approval
    from pluggent_transcript.pending import Pending, Resolved, Waiting as Stored
    from pluggent_transcript.rebuild import Rebuilt

T = TypeVar("T")

SHORT = 16
"""Characters of a digest that are enough to name a request by."""


class Call(NamedTuple):
    """One request that waits: a call, or what is said or asked of the model; then the ids are those of the operation.

    ``arguments`` is the JSON text of exactly what will run, ``asks`` (plugin, its words).

    ``answer`` is "" while it is open, else "approved" or "denied", ``by`` whom and with what ``reason``.
    A call without asks waits for nothing but one before it. ``workspace`` is the folder of the turn,
    ``principal`` who asks, ``reach`` the most that an approval is good for, ``approvers`` are those to whom asks
    are limited.
    """

    call_id: str
    tool: str
    capability: str
    arguments: str
    digest: str
    asks: tuple[tuple[str, str], ...]
    answer: str = ""
    by: str = ""
    reason: str = ""
    workspace: str = ""
    reach: str = "always"
    approvers: tuple[tuple[str, ...], ...] = ()
    kind: str = "tool_call"
    principal: str = ""

    @property
    def is_open(self) -> bool:
        """Whether an answer is wanted."""
        return bool(self.asks) and not self.answer

    @property
    def rendered(self) -> str:
        """The request for a person's eyes: made of the frozen arguments, everything invisible escaped."""
        hook = None if self.kind == "tool_call" else _without_data
        try:
            shown = json.dumps(json.loads(self.arguments, object_hook=hook), ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            shown = self.arguments
        head = f"{_HEADS.get(self.kind, self.kind)} {escape_all(self.tool)}  ({escape_all(self.capability)})"
        return "\n".join((head, *(escape_all(line) for line in shown.split("\n"))))


class Waiting(NamedTuple):
    """A session whose last turn is paused. ``at_s``: since when, in seconds since 1970.

    ``problem`` says why the session could not be read, or why its pause does not count; then nothing is
    known of its calls.
    """

    session: str
    turn: str = ""
    at_s: float = 0.0
    calls: tuple[Call, ...] = ()
    problem: str = ""

    @property
    def open(self) -> tuple[Call, ...]:
        """The calls that want an answer."""
        return tuple(call for call in self.calls if call.is_open)


def all_waiting(sessions: Sessions) -> Iterator[Waiting]:
    """Yield every session that waits, or cannot be read; the one last written to first.

    Raises SessionError if the sessions cannot be listed, ConfigError if the key that seals cannot be relied on.
    """
    for one in sessions.all():
        if one.problem:
            yield Waiting(one.id, problem=f"cannot be read: {one.problem}")
        elif one.waits:
            try:
                found = waiting_in(sessions, one.id)
            except SessionError as error:
                if one.id in sessions.matching(one.id):  # else it was deleted meanwhile
                    yield Waiting(one.id, problem=without_name(error, one.id))
                continue
            if found is not None:
                yield found


def waiting_in(sessions: Sessions, id: str) -> Waiting | None:
    """Return what session *id* waits with, as it says itself when it is opened; None if it does not wait.

    Raises SessionError if it cannot be read, ConfigError if the key that seals cannot be relied on.
    """
    # Here and not above: where nothing waits none of it is needed.
    from pluggent_transcript.codec import decode
    from pluggent_transcript.pending import Paused
    from pluggent_transcript.rebuild import rebuild

    entries = tuple(decode(sessions.lines(id), sessions.place(id)))
    past = rebuild(entries)
    if past.waiting is not None:
        paused = past.waiting.paused
        calls = [
            _call(each, past.waiting.resolved.get(each.digest))
            for each in paused.pending
            if each.kind != "tool_call" or each.call_id not in past.waiting.results
        ]
        return Waiting(id, paused.turn_id, paused.at_s, tuple(calls))
    if past.void:
        last = next(entry for entry in reversed(entries) if isinstance(entry, Paused))
        problem = f"cannot continue where it stopped: {past.void}: pluggent run --session {id}"
        return Waiting(id, last.turn_id, last.at_s, (), problem)
    return None


def _call(each: Pending, answer: Resolved | None) -> Call:
    said, by, reason = ("", "", "") if answer is None else (_said(answer), answer.by, answer.reason)
    return Call(
        each.call_id, each.name, each.capability, each.arguments_json.decode("utf-8", "surrogatepass"), each.digest,
        each.asks, said, by, reason, each.workspace, each.reach, each.approvers, each.kind, each.principal,
    )  # fmt: skip


def _said(answer: Resolved) -> str:
    return "approved" if answer.agreed else "denied"


def named(calls: Iterable[Call], word: str) -> tuple[Call, ...]:
    """Return those of *calls* that *word* means: a call id, or at least the first SHORT characters of a digest."""
    listed = tuple(calls)
    by_digest = tuple(call for call in listed if len(word) >= SHORT and call.digest.startswith(word))
    return by_digest or tuple(call for call in listed if call.call_id == word)


_LONG = 200
_HEADS = {"tool_call": "call", "input": "what is said:", "model_call": "what is asked of the model"}


def _without_data(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the bytes of an image, sound or document, which is unreadable: size and digest do."""
    data = value.get("data")
    if not isinstance(data, str) or len(data) <= _LONG:
        return value
    return {**value, "data": f"{len(data)} characters, sha256 {hashlib.sha256(data.encode()).hexdigest()}"}


# ---- answering --------------------------------------------------------------------------


def answer_stored(
    sessions: Sessions, id: str, digests: Collection[str], approval: Approval, by: str
) -> tuple[Pending, ...]:
    """Answer the requests *digests* of session *id*, all or none; return their calls.

    ``by`` says who answered; it is recorded. Raises SessionError if there is no such session, another
    writer has it open, it is damaged, one of *digests* does not wait (any more), or *by* is not among
    those to whom an ask is limited.
    """
    sessions.check(id)
    return sessions.finish(_answer(sessions.store, id, digests, approval, by))


async def _answer(
    store: SessionStore, id: str, digests: Collection[str], approval: Approval, by: str
) -> tuple[Pending, ...]:
    # Here and not above: what only looks at what waits needs no transcript that is written to.
    from pluggent_transcript.logs import StoredTranscript
    from pluggent_transcript.pending import answered
    from pluggent_transcript.rebuild import rebuild
    from pluggent_transcript.standing import Approvals

    log = store.open(id)
    transcript = StoredTranscript(await log if isinstance(log, Awaitable) else log, id)
    try:
        await transcript.load()
        past = rebuild(transcript.entries())
        waiting, pending = _checked(id, past, digests, approval, by)
        now = time()
        made = [answered(waiting.paused, pending[digest], approval, by, now) for digest in dict.fromkeys(digests)]
        standing = [stands for _, stands in made if stands is not None]
        transcript.append(*(answer for answer, _ in made), *standing)
        kept = Approvals(store.approvals())
        for stands in standing:
            if stands.reach == "always":
                kept.keep(stands)
        if (written := kept.flush()) is not None:
            await written
        await transcript.sync(_here)
    finally:
        await transcript.aclose()
    return tuple(pending[answer.digest] for answer, _ in made)


async def _here(work: Callable[[], T]) -> T:
    """Run *work*, which blocks, here: nothing else runs in the command."""
    return work()


def _checked(
    id: str, past: Rebuilt, digests: Collection[str], approval: Approval, by: str
) -> tuple[Stored, dict[str, Pending]]:
    """Return what waits and its open requests by digest. Raises SessionError if a request cannot be answered so."""
    from pluggent_transcript.pending import refusal  # here and not above: see _answer

    waiting = past.waiting
    pending = {} if waiting is None else {each.digest: each for each in waiting.open}
    gone = [digest for digest in digests if digest not in pending]
    if waiting is None or gone:
        what = "no turn that waits for a person" if waiting is None else f"no request {', '.join(gone)} that waits"
        raise SessionError(f"session '{id}' has {what} (any more); {past.void or 'see: pluggent approvals'}")
    doubtful = [digest for digest in digests if _is_doubtful(past, pending[digest])]
    if doubtful and approval.agreed:
        raise SessionError(
            f"session '{id}': {', '.join(pending[digest].call_id for digest in doubtful)}: the call was interrupted"
            f" and may already have taken effect; the approval that waits does not say so: pluggent resume {id}"
        )
    if problems := [problem for digest in digests if (problem := refusal(pending[digest], approval, by))]:
        raise SessionError(f"session '{id}': {'; '.join(problems)}")
    return waiting, pending


def _is_doubtful(past: Rebuilt, pending: Pending) -> bool:
    """Say whether *pending* had been dispatched when its process ended, and a person has not been asked about that."""
    dispatched = pending.kind == "tool_call" and past.doubts.interrupted(pending.call_id)
    return bool(dispatched) and all(plugin != DOUBT for plugin, _ in pending.asks)
