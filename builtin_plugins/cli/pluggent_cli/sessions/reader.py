"""A stored session as a whole: its turns in order, with everything that was said and decided.

Reads without the writer's lease: a session in use is returned as far as it has come. export.py makes
a document of it for others.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.messages import Message, Usage
from pluggent_transcript.codec import decode_unsealed
from pluggent_transcript.entries import Entry, Given, SessionBegan, Spending, TurnBegan, TurnOver, Undone

from pluggent_cli.sessions.store import Sessions


@attrs.frozen
class StoredTurn:
    """One turn. ``entries`` is all that belongs to it, in order; ``usage`` what its model calls used.

    ``why`` is how it ended, empty while it has not. ``undone``: the person took it back.
    """

    began: TurnBegan
    entries: tuple[Entry, ...] = ()
    why: str = ""
    detail: str = ""
    usage: Usage = Usage()
    undone: bool = False


@attrs.frozen
class StoredSession:
    """A session as its store has it. ``given`` are the messages that it was begun with.

    ``problem`` says from where on it is damaged; empty if it is whole.
    """

    id: str
    began: SessionBegan | None = None
    given: tuple[Message, ...] = ()
    turns: tuple[StoredTurn, ...] = ()
    problem: str = ""

    @property
    def usage(self) -> Usage:
        """What all model calls used."""
        return sum((turn.usage for turn in self.turns), Usage())


def read_session(sessions: Sessions, id: str) -> StoredSession:
    """Return the session *id*, whatever its seals say: this shows what happened. Of a damaged one what comes before.

    Raises SessionError if there is none, or it cannot be read at all.
    """
    sessions.check(id)
    reader = _Reader(id)
    try:
        for entry in decode_unsealed(sessions.lines(id), sessions.place(id)):
            reader.read(entry)
    except (SessionError, ConfigError) as error:
        return attrs.evolve(reader.session(), problem=str(error))
    return reader.session()


class _Reader:
    """Reads entries in order, turn by turn."""

    def __init__(self, id: str) -> None:
        self._session = StoredSession(id)
        self._turns: list[StoredTurn] = []
        self._entries: list[Entry] = []
        self._usage = Usage()
        self._runs: dict[str, Usage] = {}

    def read(self, entry: Entry) -> None:
        match entry:
            case SessionBegan():
                self._session = attrs.evolve(self._session, began=entry)
            case Given(messages):
                self._session = attrs.evolve(self._session, given=(*self._session.given, *messages))
            case TurnBegan():
                self._end()
                self._turns.append(StoredTurn(entry))
            case TurnOver(why=why, detail=detail):
                self._over(why, detail)
            case Undone(turn_id):
                self._end()
                self._turns = list(_taken_back(self._turns, turn_id))
            case Spending(usage=usage, run=run):
                if run:  # read more than once, it was paid for once
                    self._runs[run] = usage
                else:
                    self._usage += usage
                self._entries.append(entry)
            case _:
                self._entries.append(entry)

    def _over(self, why: str, detail: str) -> None:
        if self._turns:
            self._turns[-1] = attrs.evolve(self._turns[-1], why=why, detail=detail)

    def _end(self) -> None:
        """Complete the turn that was read."""
        if self._turns:
            turn = self._turns[-1]
            entries, usage = (*turn.entries, *self._entries), sum(self._runs.values(), turn.usage + self._usage)
            self._turns[-1] = attrs.evolve(turn, entries=entries, usage=usage)
            self._entries, self._usage, self._runs = [], Usage(), {}

    def session(self) -> StoredSession:
        """Return what was read so far."""
        self._end()
        return attrs.evolve(self._session, turns=tuple(self._turns))


def _taken_back(turns: Iterable[StoredTurn], first: str) -> Iterable[StoredTurn]:
    undone = False
    for turn in turns:
        undone = undone or (turn.began.turn_id == first and not turn.undone)
        yield attrs.evolve(turn, undone=turn.undone or undone)
