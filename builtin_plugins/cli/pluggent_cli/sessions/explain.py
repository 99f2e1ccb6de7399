"""Why each operation of a stored turn was done or not: its entries, put together by operation. Pure.

The document (``format`` pluggent-explanation, ``version`` 1; a later version 1 may add keys, nothing
else) has, at every level, all its keys, null or empty where there is nothing:

- ``session``, ``turn``, ``began_s`` (since 1970), ``origin``, ``dry_run``, ``chains`` (the digest of
  the hooks in force), ``why`` and ``detail`` (how it ended; empty while it has not), ``undone``, ``usage``
- ``operations``: ``id``, ``operation`` (input, model_call, tool_call, …), ``capability``, ``call_id``,
  ``arguments`` (JSON text, exactly what was decided on), ``digest``; ``decisions``; ``answers``;
  ``dispatched`` (it has effects, and was about to run), ``settled``, ``outcome`` (a ToolErrorKind, empty
  if all went well), ``result`` (text)
- a decision: ``verdict``, ``by`` (who won), ``reason``, ``elapsed_us``, ``votes`` (``plugin``, ``verdict``,
  ``reason``, ``elapsed_us``), ``changes`` (``plugin``, ``paths``, ``before``, ``after``; these two are null
  for plugins of the band "security")
- an answer of a person: ``agreed``, ``by``, ``at_s``, ``reach``, ``reason``
- ``model_calls``: ``model``, ``usage``, ``error``
- ``pauses``: ``at_s``, ``pending`` (ids of calls, or of operations that are none), and ``resumed``: seconds since 1970
"""

from __future__ import annotations

from typing import Any

import attrs
from pluggent_hookspecs import thaw
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.observations import DecisionMade
from pluggent_transcript.entries import Decided, Dispatched, Entry, Said, Settled, Spending
from pluggent_transcript.pending import Paused, Resolved, Resumed

from pluggent_cli.sessions.reader import StoredTurn
from pluggent_cli.terminal.screen import vote_document

FORMAT = "pluggent-explanation"
VERSION = 1


@attrs.define
class Explained:
    """One operation of a turn, with everything that the record has about it."""

    id: str
    operation: str
    call_id: str = ""
    name: str = ""
    decisions: list[DecisionMade] = attrs.field(factory=list[DecisionMade])
    answers: list[Resolved] = attrs.field(factory=list[Resolved])
    dispatched: bool = False
    settled: Settled | None = None


@attrs.define
class Explanation:
    """A turn by its operations, in the order in which they were first decided about."""

    session: str
    turn: StoredTurn
    operations: list[Explained] = attrs.field(factory=list[Explained])
    model_calls: list[Spending] = attrs.field(factory=list[Spending])
    pauses: list[Paused] = attrs.field(factory=list[Paused])
    resumed: list[Resumed] = attrs.field(factory=list[Resumed])


def explain(session: str, turn: StoredTurn) -> Explanation:
    """Return the entries of *turn* by its operations."""
    book = _Explainer(Explanation(session, turn))
    for entry in turn.entries:
        book.read(entry)
    return book.made


class _Explainer:
    """Reads entries in order; a call id is that of the last reply that has it."""

    def __init__(self, made: Explanation) -> None:
        self.made = made
        self._by_id: dict[tuple[str, str], Explained] = {}
        self._by_call: dict[str, Explained] = {}
        self._names: dict[str, str] = {}

    def read(self, entry: Entry) -> None:
        match entry:
            case Said(message=message):
                self._said(message)
            case Decided(decision):
                self._decided(decision)
            case Dispatched(calls=calls):
                for call_id, _, _ in calls:
                    self._call(call_id).dispatched = True
            case Settled(call_id=call_id):
                self._call(call_id).settled = entry
            case Resolved(digest=digest):
                for one in self.made.operations:
                    if any(decision.digest == digest for decision in one.decisions):
                        one.answers.append(entry)
            case _:
                self._aside(entry)

    def _aside(self, entry: Entry) -> None:
        match entry:
            case Spending():
                self.made.model_calls.append(entry)
            case Paused():
                self.made.pauses.append(entry)
            case Resumed():
                self.made.resumed.append(entry)
            case _:
                pass

    def _said(self, message: Message) -> None:
        for call in message.tool_calls:
            self._names[call.id] = call.name
            self._by_call.pop(call.id, None)  # some models number their calls anew in every reply

    def _decided(self, decision: DecisionMade) -> None:
        key = decision.operation, decision.operation_id
        if key not in self._by_id:
            name = self._names.get(decision.call_id, "")
            self._by_id[key] = self._new(decision.operation_id, decision.operation, decision.call_id, name)
        one = self._by_id[key]
        one.decisions.append(decision)
        if decision.operation == "tool_call":
            self._by_call[decision.call_id] = one

    def _new(self, id: str, operation: str, call_id: str, name: str) -> Explained:
        one = Explained(id, operation, call_id, name)
        self.made.operations.append(one)
        return one

    def _call(self, call_id: str) -> Explained:
        """Return the call of that id; one that could not even be decided about begins here."""
        if call_id not in self._by_call:
            self._by_call[call_id] = self._new("", "tool_call", call_id, self._names.get(call_id, ""))
        return self._by_call[call_id]


# ---- the document -----------------------------------------------------------------------


def as_document(made: Explanation) -> dict[str, Any]:
    """Return *made* as JSON has it; see the first lines of this module."""
    turn = made.turn
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": made.session,
        "turn": turn.began.turn_id,
        "began_s": turn.began.at_s,
        "origin": turn.began.origin,
        "dry_run": turn.began.dry_run,
        "chains": turn.began.chains,
        "why": turn.why,
        "detail": turn.detail,
        "undone": turn.undone,
        "usage": attrs.asdict(turn.usage),
        "operations": [_operation(one) for one in made.operations],
        "model_calls": [
            {"model": one.model, "usage": attrs.asdict(one.usage), "error": one.error} for one in made.model_calls
        ],
        "pauses": [
            {"at_s": one.at_s, "pending": [each.call_id for each in one.pending if each.asks]} for one in made.pauses
        ],
        "resumed": [one.at_s for one in made.resumed],
    }


def _operation(one: Explained) -> dict[str, Any]:
    last = one.decisions[-1] if one.decisions else None
    settled = one.settled
    return {
        "id": one.id,
        "operation": one.operation,
        "capability": last.capability if last else "",
        "call_id": one.call_id,
        "name": one.name,
        "arguments": last.arguments_json.decode() if last and last.arguments_json else None,
        "digest": last.digest if last else "",
        "decisions": [_decision(decision) for decision in one.decisions],
        "answers": [
            {"agreed": each.agreed, "by": each.by, "at_s": each.at_s, "reach": each.reach, "reason": each.reason}
            for each in one.answers
        ],
        "dispatched": one.dispatched,
        "settled": settled is not None,
        "outcome": settled.outcome if settled else "",
        "result": None if settled is None else settled.message.text if settled.whole is None else settled.whole,
    }


def _decision(decision: DecisionMade) -> dict[str, Any]:
    return {
        "verdict": decision.verdict,
        "by": decision.by,
        "reason": decision.reason,
        "elapsed_us": decision.elapsed_us,
        "votes": [{**vote_document(vote), "elapsed_us": vote.elapsed_us} for vote in decision.votes],
        "changes": [
            {"plugin": each.plugin, "paths": list(each.paths), "before": thaw(each.before), "after": thaw(each.after)}
            for each in decision.changes
        ],
    }
