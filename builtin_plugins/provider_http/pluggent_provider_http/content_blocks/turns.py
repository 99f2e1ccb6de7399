"""Arranges messages as the turns of a request, by the rules of wires whose content comes in blocks.

- Turns alternate; the first is a user's.
- The turn behind calls begins with one result for each, in their order.
- Ids of calls occur once in a request.
- What the vendor's own tools were asked has its result, or the reply waits for it at the end.
- A system message inside the conversation stands between a user's turn and a reply, or at the
  end; where it cannot, it becomes a block of the user's turn.

A conversation that keeps the rules costs one look at each piece; bytes are only joined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import msgspec
from pluggent_hookspecs import Message

from pluggent_provider_http.unsendable import UnsendableError

_encode = msgspec.json.Encoder().encode
_NO_RESULT = "(no result was recorded)"
_BEFORE = "(earlier messages are left out)"
_NOTHING = "(no answer)"


@attrs.frozen
class Piece:
    """A message as it goes into a request.

    ``turn`` is the message alone as a turn of the request, empty if it says nothing. ``calls``
    are ids that results have to follow, ``answers`` the id that a result is for; ``opened`` and
    ``closed`` are ids of the vendor's own tools. ``marks`` counts the cache points that the
    application set. ``fields`` are the vendor's own, other than role and content. ``dropped`` says that thinking
    was left out.
    """

    role: Literal["user", "assistant", "system", "tool"]
    turn: bytes
    calls: tuple[str, ...] = ()
    answers: str = ""
    opened: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    marks: int = 0
    thinks: bool = False
    fields: Mapping[str, Any] | None = None
    dropped: bool = False

    @property
    def blocks(self) -> bytes:
        """Its content blocks, joined by commas."""
        before = len(_head("user" if self.role == "tool" else self.role, self.fields))
        return self.turn[before:-2]


def turn_of(role: str, blocks: bytes, fields: Mapping[str, Any] | None = None) -> bytes:
    """Return *blocks*, joined by commas, as a turn with more *fields*; nothing if there are none."""
    return b"%b%b]}" % (_head(role, fields), blocks) if blocks else b""


def _head(role: str, fields: Mapping[str, Any] | None) -> bytes:
    more = b"%b," % _encode(fields)[1:-1] if fields else b""
    return b'{"role":"%b",%b"content":[' % (role.encode(), more)


class BlockWire(ABC):
    """How one wire writes messages. All bytes are content blocks, joined by commas."""

    def keeps_apart(self, said: Sequence[Piece]) -> bool:
        """Say whether what a user *said* behind results needs a turn of its own; no wire does unless it says so."""
        return False

    @abstractmethod
    def piece(self, message: Message) -> Piece:
        """Return the piece of *message*, made once for each message. Raises UnsendableError."""

    @abstractmethod
    def reply(self, message: Message, *, renamed: Mapping[int, str], without: frozenset[str], final: bool) -> Piece:
        """Return a reply as it goes back.

        *renamed* are ids for calls whose own are taken, by their place; *without* names uses and
        results of the vendor's tools to leave out. A *final* one may not end in white space.
        """

    @abstractmethod
    def result(self, message: Message, call_id: str) -> Piece:
        """Return the result in *message* as the answer to the call that the request calls *call_id*."""

    @abstractmethod
    def no_result(self, call_id: str, words: str) -> bytes:
        """Return a failed result that says *words*."""

    @abstractmethod
    def text(self, words: str) -> bytes:
        """Return the block that says *words*."""

    @abstractmethod
    def note(self, message: Message) -> bytes:
        """Return a system message as a block of a user's turn, for models that take it nowhere else."""

    @abstractmethod
    def orphan(self, message: Message) -> bytes:
        """Return a result whose call is not in the turn before as ordinary content of a user's turn."""


@attrs.frozen
class Conversation:
    """The messages of a request.

    ``system`` are blocks joined by commas, ``turns`` messages of the request, ``users`` the places
    of the user's last two among them, the last one first. ``marks`` counts the cache points that
    the application set; ``replied`` says that there is a reply, ``thinks`` that thinking goes back, and
    ``dropped`` counts the replies of which some was left out.
    """

    system: bytes
    turns: list[bytes]
    users: tuple[int, ...]
    marks: int = 0
    replied: bool = False
    thinks: bool = False
    dropped: int = 0


def conversation(messages: Sequence[Message], wire: BlockWire, *, system_turns: bool) -> Conversation:
    """Return *messages* as turns of *wire*. Raises UnsendableError.

    *system_turns* says that the model takes system messages inside the conversation.
    """
    pieces = [wire.piece(message) for message in messages]
    lead = next((place for place, piece in enumerate(pieces) if piece.role != "system"), len(pieces))
    if any(piece.fields for piece in pieces[:lead]):
        raise UnsendableError("extra of a system message: before the conversation it has no fields but cache_control")
    system = b",".join(piece.blocks for piece in pieces[:lead] if piece.turn)
    turns = _as_they_are(pieces, lead, wire)
    if turns is not None:
        last = len(turns) - 1
        users: tuple[int, ...] = (last, last - 2)[: 2 if last else 1]
    else:
        said = [(message, piece) for message, piece in zip(messages[lead:], pieces[lead:], strict=True) if piece.turn]
        turns, users = _Turns(wire, system_turns=system_turns).arrange(said)
    if not turns:
        raise UnsendableError("no message says anything; the API wants at least one with content")
    marks = sum([piece.marks for piece in pieces])
    thinks, dropped = True in [piece.thinks for piece in pieces], sum([piece.dropped for piece in pieces])
    return Conversation(system, turns, users, marks, len(turns) > 1, thinks, dropped)


def _as_they_are(pieces: Sequence[Piece], start: int, wire: BlockWire) -> list[bytes] | None:
    """Return the turns of a conversation that keeps the rules by itself, as most do; None for any other.

    It begins and ends with a user, results stand in the order of their calls, and nothing in
    it is special. This runs over the whole history with each request, so it does little.
    """
    turns: list[bytes] = []
    ids: set[str] = set()
    waiting: tuple[str, ...] = ()
    place, end = start, len(pieces)
    while place < end:
        first = place
        while place < end and pieces[place].role != "assistant":
            place += 1
        turn = _user_turn(pieces[first:place], waiting, wire)
        if not turn:
            return None
        turns.append(turn)
        if place == end:
            return turns
        piece = pieces[place]
        waiting = piece.calls
        if not piece.turn or piece.opened or piece.closed or (waiting and not _are_new(waiting, ids)):
            return None
        turns.append(piece.turn)
        place += 1
    return None


def _user_turn(run: Sequence[Piece], waiting: tuple[str, ...], wire: BlockWire) -> bytes:
    """Return one turn that answers the calls that wait, in their order, before anything else; else nothing."""
    if len(run) == 1:
        answers, piece = (waiting[0] if len(waiting) == 1 else ""), run[0]
        return piece.turn if piece.answers == answers and len(waiting) <= 1 and piece.role != "system" else b""
    results, said = run[: len(waiting)], run[len(waiting) :]
    if tuple([piece.answers for piece in results]) != waiting or any(piece.fields for piece in run):
        return b""
    if any(piece.role != "user" or not piece.turn for piece in said):
        return b""
    if waiting and said and wire.keeps_apart(said):
        return b""
    return turn_of("user", b",".join([piece.blocks for piece in run]))


def _are_new(calls: tuple[str, ...], ids: set[str]) -> bool:
    if not ids.isdisjoint(calls) or len(set(calls)) != len(calls):
        return False
    ids.update(calls)
    return True


class _Turns:
    def __init__(self, wire: BlockWire, *, system_turns: bool) -> None:
        self._wire = wire
        self._system_turns = system_turns
        self._turns: list[bytes] = []
        self._users: list[int] = []
        self._ids: set[str] = set()
        self._used: set[str] = set()
        self._waiting: list[tuple[str, str]] = []
        """Calls without a result yet: the id that their results know, and that of the request."""

    def arrange(self, said: list[tuple[Message, Piece]]) -> tuple[list[bytes], tuple[int, ...]]:
        """Return the turns, and the places of the user's last two, the last one first."""
        place = 0
        while place < len(said):
            reply = said[place][1].role == "assistant"
            end = place + 1
            while end < len(said) and (said[end][1].role == "assistant") is reply:
                end += 1
            if reply:
                self._replies(said[place:end], last=end == len(said))
            else:
                self._user(said[place:end])
            place = end
        if self._waiting:
            self._user([])
        return self._turns, tuple(reversed(self._users[-2:]))

    def _add(self, role: str, blocks: bytes, run: Sequence[tuple[Message, Piece]] = ()) -> None:
        fields: dict[str, Any] = {}
        for _, piece in run:
            fields |= piece.fields or {}
        if role == "user":
            self._users.append(len(self._turns))
        self._turns.append(turn_of(role, blocks, fields))

    # ---- replies --------------------------------------------------------------------------

    def _replies(self, run: list[tuple[Message, Piece]], *, last: bool) -> None:
        """Add replies in a row: one turn, unless results have to come between them."""
        start = 0
        for place, (_, piece) in enumerate(run):
            if piece.calls and place + 1 < len(run):
                self._reply(run[start : place + 1], last=False)
                self._user([])
                start = place + 1
        self._reply(run[start:], last=last)

    def _reply(self, run: list[tuple[Message, Piece]], *, last: bool) -> None:
        if not self._turns:
            self._add("user", self._wire.text(_BEFORE))
        without = self._broken(run, last=last)
        pieces: list[bytes] = []
        for place, (message, piece) in enumerate(run):
            final = last and place + 1 == len(run)
            renamed = self._renamed(piece)
            if renamed or without or (final and not piece.calls):
                piece = self._wire.reply(message, renamed=renamed, without=without, final=final)  # noqa: PLW2901
            pieces += [piece.blocks] if piece.turn else []
            self._ids.update(piece.calls)
        self._add("assistant", b",".join(pieces) or self._wire.text(_NOTHING), run)

    def _renamed(self, piece: Piece) -> dict[int, str]:
        """Note which results have to follow; return new ids for calls whose own are taken."""
        renamed: dict[int, str] = {}
        for place, known in enumerate(piece.calls):
            chosen, number = known, 1
            while chosen in self._ids or any(chosen == taken for _, taken in self._waiting):
                number += 1
                chosen = f"{known}_{number}"
            if chosen != known:
                renamed[place] = chosen
            self._waiting.append((known, chosen))
        return renamed

    def _broken(self, run: list[tuple[Message, Piece]], *, last: bool) -> frozenset[str]:
        """Return ids of the vendor's own tools that were used without a result, or the other way round."""
        if not any(piece.opened or piece.closed for _, piece in run):
            return frozenset()
        opened = frozenset[str]().union(*(piece.opened for _, piece in run))
        closed = frozenset[str]().union(*(piece.closed for _, piece in run))
        orphans = closed - opened - self._used
        # The use may wait: for results of calls that it made itself, or for the model to go on.
        waits = last or any(piece.calls for _, piece in run)
        self._used |= opened
        return orphans if waits else orphans | (opened - closed)

    # ---- users ----------------------------------------------------------------------------

    def _user(self, run: list[tuple[Message, Piece]]) -> None:
        """Add everything between two replies: results, what was said, system messages at its end."""
        system = self._trailing(run)
        blocks = list(self._results(run))
        said = run[: len(run) - len(system)]
        if blocks and said and self._wire.keeps_apart([piece for _, piece in said]):
            self._add("user", b",".join(blocks))
            self._add("assistant", self._wire.text(_NOTHING))
            blocks = []
        blocks += self._said(said)
        if system and (not self._system_turns or not blocks):
            blocks += [note for message, _ in system if (note := self._wire.note(message))]
            system = []
        if blocks:
            self._add("user", b",".join(blocks), said)
        if system:
            self._add("system", b",".join(piece.blocks for _, piece in system), system)

    @staticmethod
    def _trailing(run: list[tuple[Message, Piece]]) -> list[tuple[Message, Piece]]:
        end = len(run)
        while end and run[end - 1][1].role == "system":
            end -= 1
        return run[end:]

    def _results(self, run: list[tuple[Message, Piece]]) -> Iterator[bytes]:
        """Yield one result for each call that waits, in their order, and take them off *run*."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        given: list[tuple[Message, Piece] | None] = list(run)
        for known, chosen in waiting:
            place = next((at for at, one in enumerate(given) if one is not None and one[1].answers == known), None)
            if place is None:
                yield self._wire.no_result(chosen, _NO_RESULT)
                continue
            message, piece = run[place]
            given[place] = None
            yield piece.blocks if chosen == known else self._wire.result(message, chosen).blocks
        run[:] = [one for one in given if one is not None]

    def _said(self, run: list[tuple[Message, Piece]]) -> Iterator[bytes]:
        for message, piece in run:
            match piece.role:
                case "tool":
                    yield self._wire.orphan(message)
                case "system":
                    if note := self._wire.note(message):
                        yield note
                case _:
                    yield piece.blocks
