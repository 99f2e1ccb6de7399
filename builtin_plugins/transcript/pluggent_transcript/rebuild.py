"""Rebuilds a conversation from the entries of its transcript; finds the last exchange, to take it back. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs
from pluggent_contract_values.as_json import from_json
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.messages import Message, Role, Text, ToolCall, Usage
from pluggent_hookspecs.observations import DecisionMade

from pluggent_transcript.doubts import Doubts
from pluggent_transcript.entries import (
    WARNING,
    Decided,
    Dispatched,
    Entry,
    Given,
    ModelChosen,
    PutBack,
    RunRefused,
    Said,
    SessionAdopted,
    SessionBegan,
    Settled,
    Spending,
    TurnBegan,
    TurnOver,
    Undone,
)
from pluggent_transcript.pending import Outcome, Paused, Resolved, Resumed, Waiting
from pluggent_transcript.standing import Standing

_MOST_DIGITS = 9
"""No session has as many turns."""


@attrs.frozen(repr=False)
class Rebuilt(Value):
    """A conversation as its entries tell it.

    ``closing`` are the entries that give every call left open by a crash its one result;
    ``waiting`` is the turn that waits for a person, if one does: its calls stay open. ``void`` says
    why one that waited does not any more: its pause does not count, so it is closed, too.
    ``standing`` are approvals for the rest of the session, ``unsure`` the fingerprints of calls
    that may or may not have happened; ``doubts`` says so of those that come, too. ``principal`` is
    whose the session is, empty if it has no owner.
    """

    began: bool = False
    messages: tuple[Message, ...] = ()
    turns: int = 0
    usage: Usage = Usage()
    model: str = ""
    system: str = ""
    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])
    closing: tuple[Entry, ...] = ()
    unsure: frozenset[str] = frozenset()
    waiting: Waiting | None = None
    standing: tuple[Standing, ...] = ()
    void: str = ""
    principal: str = ""
    claimed: bool = False
    doubts: Doubts = attrs.field(factory=Doubts, eq=False)


def rebuild(entries: Iterable[Entry]) -> Rebuilt:
    """Return the conversation that *entries* tell. Pure; every call has exactly one result."""
    book = _Rebuilder()
    for entry in entries:
        book.read(entry)
    return book.rebuilt()


class _Rebuilder:
    """Reads entries in order; knows which calls of the last reply are open."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.turns = 0
        self.usage = Usage()
        self.runs: dict[str, Usage] = {}
        """What each background run used: another process may have read, and counted, it again."""
        self.model = self.system = self.turn_id = ""
        self.metadata: Mapping[str, str] = {}
        self.principal, self.claimed = "", False
        self.open: tuple[ToolCall, ...] = ()
        self.results: dict[str, Message] = {}
        self.doubts = Doubts()
        self.told: dict[str, Outcome] = {}
        self.below: set[str] = set()
        """Fingerprints of effects below calls of the last reply, since it was paused."""
        self.over = True
        self.began = False
        self.began_s = 0.0
        self.paused: Paused | None = None
        self.void = ""
        """Why the pause that was read last does not count; what was before it is not waited for again either."""
        self.said: Message | None = None
        self.resolved: dict[str, Resolved] = {}
        self.used: set[str] = set()
        """What was approved in this pause and has run: the same approval once more is none."""
        self.sent = False
        """Whether the request that follows the last messages may have been sent, and its reply was not kept."""
        self.standing: list[Standing] = []
        self.stood: dict[str, int] = {}
        """How many approvals for the session there were when a turn began: undoing it takes back the others."""
        self.starts: dict[str, int] = {}
        """Where in the messages those of a turn begin."""

    def read(self, entry: Entry) -> None:
        self._read(entry)
        self.doubts.follow(entry)

    def _read(self, entry: Entry) -> None:  # noqa: C901, PLR0912, PLR0915 (a case an entry)
        match entry:
            case SessionBegan(created_s=created_s, model=model, system=system, metadata=metadata):
                self.began, self.model, self.system, self.metadata = True, model, system, metadata
                self.began_s = created_s
                self.principal, self.claimed = entry.principal, entry.claimed
            case SessionAdopted(principal=principal):
                self.principal = self.principal or principal
            case Given(messages):
                self.messages += messages
            case TurnBegan(turn_id):
                self._flush()
                self.turn_id, self.over, self.said = turn_id, False, None
                # A turn of which nothing could be written has used up its number all the same.
                self.turns = max(self.turns + 1, _number_of(turn_id))
            case Said(message=message) if message.tool_call_id in {call.id for call in self.open}:
                self.results[message.tool_call_id or ""] = message
            case Said(turn_id, message, by) if by != WARNING:
                self._flush()
                self.starts.setdefault(turn_id, len(self.messages))
                self.stood.setdefault(turn_id, len(self.standing))
                self.said, self.sent = self.said or message, False
                self.messages.append(message)
                self.open = message.tool_calls if message.role is Role.ASSISTANT else ()
            case Dispatched(calls=calls):
                self._use_up({call_id for call_id, _, _ in calls})
            case Settled():
                self._settle(entry)
            case Spending(usage=usage, run=run) if run:
                self.runs[run] = usage
            case Spending(usage=usage):
                self.usage += usage
            case RunRefused():
                self.paused = None
            case TurnOver():
                self._flush()
                self.over = True
            case Paused():
                self._pause(entry)
            case Resolved(digest=digest):
                used = {digest, f"{digest} {entry.at_s}"} & self.used
                if self.paused is not None and entry.asked_at_s == self.paused.at_s and not used:
                    self.resolved[digest] = entry
            case Standing(turn_id=turn_id, at_s=at_s):  # else copied from another turn, or from before this session
                if turn_id == self.turn_id and at_s >= self.began_s:
                    self.standing.append(entry)
            case ModelChosen(model):
                self.model = model
            case Undone(turn_id):
                self._flush()
                del self.messages[self.starts.get(turn_id, len(self.messages)) :]
                del self.standing[self.stood.get(turn_id, len(self.standing)) :]
                self.turn_id = ""  # what stands behind it belongs to no turn
                self.starts = {turn: start for turn, start in self.starts.items() if start < len(self.messages)}
            case Decided(decision):
                # An earlier version did not write whose the session is, but who acted in it.
                self.principal = self.principal or decision.scope.principal
                self.sent = self.sent or (decision.verdict in _SENDS and self._is_round(decision))
                if decision.operation == "model_call" and decision.verdict == "approved":
                    # It may have been sent from here on: the same answer once more is none, a later one is.
                    given = self.resolved.pop(decision.digest, None)
                    self.used |= set() if given is None else {f"{decision.digest} {given.at_s}"}
            case Said() | Resumed():
                pass

    def _pause(self, entry: Paused) -> None:
        if self.paused is None or self.paused.at_s != entry.at_s:
            self.resolved, self.used = {}, set()
            self.below.clear()
            self.told.clear()
        if entry.stage == "model_call" and not entry.void:
            self._flush()  # all calls before it have their results
        self.paused, self.void = None if entry.void else entry, entry.void

    def _settle(self, entry: Settled) -> None:
        self.results[entry.call_id] = entry.message
        self.told |= {} if entry.told is None else {entry.call_id: entry.told}
        fingerprint = self.doubts.fingerprint(entry.call_id)
        if fingerprint and entry.call_id not in {call.id for call in self.open}:
            self.below.add(fingerprint)

    def _is_round(self, decision: DecisionMade) -> bool:
        """Say whether *decision* is about a request of the turn itself, or one in its place; none below a tool."""
        number = decision.operation_id.removeprefix(f"{self.turn_id}.").split(".r")[0]
        return decision.operation == "model_call" and number.isdecimal()

    def _doubt_hosted(self) -> None:
        """Approve no call at the vendor once more: with the request that was sent, it may have been made."""
        calls = {call.id for message in self.messages[-1:] for call in message.tool_calls if call.hosted}
        self.results = {id: _doubted(each) if id in calls else each for id, each in self.results.items()}
        begun = next((at for at, each in enumerate(reversed(self.messages)) if each.role is not Role.TOOL), 0)
        if begun:
            calls = {call.id for call in self.messages[-begun - 1].tool_calls if call.hosted}
            results = self.messages[-begun:]
            self.messages[-begun:] = [_doubted(each) if each.tool_call_id in calls else each for each in results]

    def _use_up(self, calls: Collection[str]) -> None:
        """An approval is good for one run of its call, whatever becomes of that."""
        for each in self.paused.pending if self.paused is not None else ():
            if each.call_id in calls:
                self.used.add(each.digest)
                self.resolved.pop(each.digest, None)

    def _waiting(self) -> Waiting | None:
        said = self.said or (None if self.paused is None else message_of(self.paused))
        if self.paused is None or said is None or self.paused.turn_id != self.turn_id:
            return None
        # What was about to run when the process ended may have happened, and what had happened below a
        # call that has no result must not happen again when that call is run anew.
        self.doubts.interrupt()
        self.doubts.calls |= self.below
        if self.sent and self.paused.run is None:
            self._doubt_hosted()
        return Waiting(self.paused, said, dict(self.results), dict(self.resolved), dict(self.told))

    def _flush(self) -> list[Settled]:
        void, self.void, self.paused = self.void, "", None
        closing: list[Settled] = []
        self.doubts.interrupt()
        for call in self.open:
            result = self.results.pop(call.id, None)
            if result is None:
                entry = close_call(self.turn_id, call, self.doubts.interrupted(call.id), void=bool(void))
                closing.append(entry)
                result = entry.message
            self.messages.append(result)
        self.doubts.close()
        self.open = ()
        return closing

    def rebuilt(self) -> Rebuilt:
        waiting, void = self._waiting(), "" if self.over else self.void
        closing: list[Entry] = [] if waiting is not None else list(self._flush())
        if not self.over and waiting is None:
            why, detail = ("denied", void) if void else ("interrupted", "the process ended in the middle of this turn")
            closing.append(TurnOver(self.turn_id, why, detail))
        if waiting is not None and waiting.paused.run is not None:
            self.runs.pop(waiting.paused.run.key, None)  # its reply is going to be read, and counted, again
        usage = sum(self.runs.values(), self.usage)
        return Rebuilt(
            self.began, tuple(self.messages), self.turns, usage, self.model, self.system, self.metadata,
            tuple(closing), frozenset(self.doubts.calls), waiting, tuple(self.standing), void,
            self.principal, self.claimed, self.doubts,
        )  # fmt: skip


INTERRUPTED = "This call was interrupted while it ran. Whether it took effect is unknown; it was not repeated."
_SENDS = ("allow", "approved")
UNKNOWN = "Whether this call was made is not known, so it is not made again. If it is still wanted, make it anew."
BEGUN = "This call was interrupted. It may have run in part."


def _number_of(turn_id: str) -> int:
    """Return the number of the turn; 0 for an id that no host has given."""
    digits = turn_id.removeprefix("t")
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0


def _doubted(result: Message) -> Message:
    return result if result.is_error else attrs.evolve(result, content=(Text(UNKNOWN),), is_error=True)


def close_call(turn_id: str, call: ToolCall, interrupted: str | None = None, *, void: bool = False) -> Settled:
    """Return the one result of a call that will never have a proper one.

    ``interrupted``: its fingerprint where it was dispatched, so that it may have taken effect; empty where it had only
    been allowed, so that what it called may have happened; None where it had not begun. ``void``: it waited in a pause
    that does not count.
    """
    kind = ToolErrorKind.CANCELLED
    if interrupted:
        kind, text = ToolErrorKind.OUTCOME_UNKNOWN, INTERRUPTED
    elif interrupted is not None:
        text = BEGUN
    elif void:
        kind = ToolErrorKind.DENIED
        text = (
            "Denied: this call waited for an approval, and what waited was not as pluggent had written it."
            " It was not run; if it is still wanted, make it again."
        )
    else:
        kind = ToolErrorKind.NOT_RUN
        text = "This call was not run: the turn ended before."
    return Settled(turn_id, call.id, Message.tool(call, text, is_error=True), str(kind))


def message_of(paused: Paused) -> Message | None:
    """Return the message that waits for an approval, None if something else does."""
    for each in paused.pending:
        if each.kind == "input":
            try:
                return from_json(each.arguments_json, Message)
            except ValueError:
                return None
    return None


_NOT_RUN = frozenset({str(ToolErrorKind.NOT_RUN), str(ToolErrorKind.SKIPPED), str(ToolErrorKind.DENIED)})


@attrs.frozen(repr=False)
class Exchange(Value):
    """A message and everything that followed it.

    ``effects`` are the capability ids of calls that did, or may have done, something to the
    world, in order; taking the exchange back does not undo them. ``put_backs`` are the calls that would, the
    last effect first, where a tool has said how; see ``Session.put_back``.
    """

    turn_id: str
    message: Message
    effects: tuple[str, ...] = ()
    put_backs: tuple[PutBack, ...] = ()


def unsaid(waiting: Waiting) -> Exchange | None:
    """Return what *waiting* would say if a person agreed; None if it waits for something else."""
    return Exchange(waiting.paused.turn_id, waiting.said) if waiting.paused.stage == "input" else None


def last_exchange(entries: Iterable[Entry]) -> Exchange | None:
    """Return the last exchange that was not taken back; None if there is none."""
    exchanges: list[Exchange] = []
    capabilities: dict[str, str] = {}
    effects: dict[str, list[tuple[str, str]]] = {}
    running: dict[str, tuple[str, str]] = {}
    put_backs: dict[str, tuple[PutBack, ...]] = {}
    for entry in entries:
        match entry:
            case Said(turn_id, message, by) if message.role is Role.USER and not by:
                exchanges.append(Exchange(turn_id, message))
            case Decided(decision) if decision.capability:
                capabilities[decision.call_id] = decision.capability
            case Dispatched(turn_id, calls):
                begun = {id: (id, capabilities.get(id, id)) for id, _, _ in calls}
                effects.setdefault(turn_id, []).extend(begun.values())
                running |= begun
            case Settled(turn_id, call_id, outcome=outcome, undo=undo):
                put_backs[turn_id] = (*undo, *put_backs.get(turn_id, ()))
                # Ids come again in later rounds: only the call that is running now is meant.
                call = running.pop(call_id, None)
                if call is not None and outcome in _NOT_RUN:
                    effects[turn_id].reverse()
                    effects[turn_id].remove(call)
                    effects[turn_id].reverse()
            case Undone(turn_id):
                turns = [exchange.turn_id for exchange in exchanges]
                del exchanges[turns.index(turn_id) if turn_id in turns else len(turns) :]
            case _:
                pass
    if not exchanges:
        return None
    last = exchanges[-1]
    done = tuple(capability for _, capability in effects.get(last.turn_id, []))
    return attrs.evolve(last, effects=done, put_backs=put_backs.get(last.turn_id, ()))
