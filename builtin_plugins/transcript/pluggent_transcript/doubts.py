"""Which calls may have happened although no result of theirs is known. Pure.

An open session and a transcript that is read follow the same entries, so that both doubt the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.messages import Role

from pluggent_transcript.entries import (
    WARNING,
    Decided,
    Dispatched,
    Entry,
    RunRefused,
    Said,
    Settled,
    TurnBegan,
    TurnOver,
    Undone,
)
from pluggent_transcript.pending import Paused, Resumed, Run

UNSURE = frozenset({str(ToolErrorKind.OUTCOME_UNKNOWN), str(ToolErrorKind.TIMEOUT), str(ToolErrorKind.CANCELLED)})
"""Outcomes after which a dispatched call may have happened or not."""
SURE = frozenset({"", str(ToolErrorKind.FAILED), str(ToolErrorKind.RESULT), str(ToolErrorKind.WITHHELD)})
"""Outcomes of a call that ran to its end."""
_GO = frozenset({"allow", "approved"})


class Doubts:
    """The doubtful calls of one session, by fingerprint, and the calls that are running now, by id.

    A doubt ends with the result of a call that was dispatched while the doubt was known: a person has agreed to that
    one (``host:doubt`` asks). No denial, no refusal, and no result of a twin dispatched before ends it.
    """

    def __init__(self) -> None:
        self.calls: set[str] = set()
        """The fingerprints of the calls in doubt: of each what it is, not who made it."""
        self._running: dict[str, tuple[str, bool]] = {}
        """Fingerprint by call id, and whether that was doubtful when the call was dispatched."""
        self.allowed: set[str] = set()
        """The ids of calls that may be run."""
        self._interrupted: dict[str, str] = {}
        self._sending = ""
        """The content of the request that is about to be submitted as a background run."""

    @property
    def running(self) -> frozenset[str]:
        """The fingerprints of the calls that were dispatched and have no result yet."""
        return frozenset(fingerprint for fingerprint, _ in self._running.values())

    def fingerprint(self, call_id: str) -> str:
        """Return the fingerprint of a running call, empty if it is not running."""
        return self._running.get(call_id, ("", False))[0]

    def interrupted(self, call_id: str) -> str | None:
        """Return the fingerprint of an open call that the end of a process interrupted; None if none did.

        Empty for a call that was allowed and not dispatched: it has no effects of its own, and may have run in part.
        """
        return self._interrupted.get(call_id)

    def follow(self, entry: Entry) -> None:
        """Take note of *entry*, which has just been written or read."""
        note = _NOTES.get(type(entry))  # a match statement takes three times as long, for every entry of a call
        if note is not None:
            note(self, entry)

    def dispatch(self, calls: Iterable[tuple[str, str, str]]) -> None:
        """These calls, as in ``Dispatched``, are about to run."""
        for call_id, _, fingerprint in calls:
            self._running[call_id] = (fingerprint, fingerprint in self.calls)

    def settle(self, call_id: str, outcome: str) -> None:
        """The call has ended with *outcome*, a ToolErrorKind or empty for a result of its own."""
        fingerprint, known = self._running.pop(call_id, ("", False))
        self.allowed.discard(call_id)
        self._interrupted.pop(call_id, None)
        if fingerprint and outcome in UNSURE:
            self.calls.add(fingerprint)
        elif known and outcome in SURE:
            self.calls.discard(fingerprint)

    def submit(self, run: Run | None) -> None:
        """The request of *run* is about to be submitted or, if it has a ticket, has been: then it is no doubt."""
        if run is not None and run.ticket is not None:
            self._sending = ""
            self.calls.discard(run.content)
        elif run is not None:
            self._sending = run.content

    def refuse(self) -> None:
        """The vendor has refused what was submitted."""
        self._sending = ""

    def interrupt(self) -> None:
        """The process that ran the calls has ended: what has no result may have happened."""
        self._interrupted |= {call_id: fingerprint for call_id, (fingerprint, _) in self._running.items()}
        for call_id in self.allowed:  # allowed again after it was dispatched, it stays one that was dispatched
            self._interrupted.setdefault(call_id, "")
        self._end()

    def close(self) -> None:
        """No call is open any more; what was dispatched and never heard of again may have happened."""
        self._end()
        if self._interrupted:
            self._interrupted.clear()

    def _end(self) -> None:
        if self._sending:
            self.calls.add(self._sending)
            self._sending = ""
        if self._running or self.allowed:
            self.calls |= self.running
            self._running.clear()
            self.allowed.clear()


def _decided(doubts: Doubts, entry: Decided) -> None:
    decision = entry.decision
    if decision.call_id and decision.verdict in _GO:
        doubts.allowed.add(decision.call_id)


def _said(doubts: Doubts, entry: Said) -> None:
    if entry.message.role is not Role.TOOL and entry.by != WARNING:
        doubts.close()


def _paused(doubts: Doubts, entry: Paused) -> None:
    doubts.allowed.difference_update(each.call_id for each in entry.pending)
    doubts.submit(entry.run)


_NOTES: Mapping[type[Any], Callable[[Doubts, Any], None]] = {
    Decided: _decided,
    Dispatched: lambda doubts, entry: doubts.dispatch(entry.calls),
    Settled: lambda doubts, entry: doubts.settle(entry.call_id, entry.outcome),
    Paused: _paused,
    RunRefused: lambda doubts, _: doubts.refuse(),
    Resumed: lambda doubts, _: doubts.interrupt(),
    Said: _said,
    TurnBegan: lambda doubts, _: doubts.close(),
    TurnOver: lambda doubts, _: doubts.close(),
    Undone: lambda doubts, _: doubts.close(),
}
