"""Messages of a request in an order that servers take: behind calls come their results, and nothing before. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import msgspec
from pluggent_hookspecs import Message

from pluggent_openai.call_pairs import NO_RESULT, are_answered
from pluggent_openai.chat.content import unmarked_note

_encode = msgspec.json.Encoder().encode
_ASSISTANT = b'{"role":"assistant"'


class Piece(bytes):
    """A message of which there is more to say than its bytes.

    ``ids`` are those of its calls, ``answers`` the id of the call whose result it is. ``media`` is what a tool
    returned other than text, joined by commas, to follow in a message of the user; ``text`` what it returned in
    words. ``unmarked`` says that a cache point was left out.
    """

    ids: tuple[str, ...] = ()
    answers: str | None = None
    media: bytes = b""
    text: str = ""
    unmarked = False


class Calls(Piece):
    """A reply with calls, and of which there is nothing else to say."""


class Result(Piece):
    """The result of a call, and of which there is nothing else to say; ``checked`` as ``are_answered`` has it."""

    checked: list[bytes] | None = None


_ORDINARY = frozenset({bytes, Calls, Result})


@attrs.frozen
class Arranged:
    """Messages of a request, and what a person is told of them."""

    pieces: list[bytes]
    notes: tuple[str, ...] = ()


def arranged(messages: Sequence[Message], pieces: list[bytes]) -> Arranged:
    """Return the *pieces* of *messages* as servers take them: they refuse a call or a result without the other."""
    distinct = set(map(type, pieces))
    if len(distinct) == 1 and bytes in distinct:
        return Arranged(pieces)
    if distinct <= _ORDINARY and are_answered(pieces, Calls, Result):
        return Arranged(pieces)
    return _Arrangement(messages).of(pieces)


class _Arrangement:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._out: list[bytes] = []
        self._waiting: list[str] = []
        """Ids of calls without a result yet."""
        self._media: list[bytes] = []
        self._held: list[bytes] = []
        """What comes behind the results of the calls that wait."""
        self._missing = self._orphans = 0

    def of(self, pieces: Sequence[bytes]) -> Arranged:
        """Return all of *pieces*, which are those of the messages."""
        for place, piece in enumerate(pieces):
            special = piece if isinstance(piece, Piece) else None
            if special is not None and special.answers is not None:
                self._result(special, self._messages[place])
            elif self._waiting and not piece.startswith(_ASSISTANT):
                self._held.append(piece)
            else:
                self._flush()
                self._out.append(piece)
                self._waiting = [*special.ids] if special is not None else []
        self._flush()
        unmarked = sum([isinstance(piece, Piece) and piece.unmarked for piece in pieces])
        return Arranged(self._out, (*self._notes(), *unmarked_note(unmarked)))

    def _result(self, piece: Piece, message: Message) -> None:
        assert piece.answers is not None
        if piece.answers in self._waiting:
            self._waiting.remove(piece.answers)
            self._out.append(piece)
            self._media += [piece.media] if piece.media else []
            return
        self._orphans += 1
        said = f"Returned by a tool call ({message.name or piece.answers}) that is not in this conversation:"
        self._held.append(_encode({"role": "user", "content": f"{said}\n{piece.text}"}))
        if piece.media:
            self._held.append(_user_with([piece.media]))

    def _flush(self) -> None:
        """Add what has to stand before the next reply: results that are missing, media, and what was held back."""
        self._missing += len(self._waiting)
        self._out += [_encode({"role": "tool", "content": NO_RESULT, "tool_call_id": id}) for id in self._waiting]
        if self._media:
            self._out.append(_user_with(self._media))
        self._out += self._held
        self._waiting, self._media, self._held = [], [], []

    def _notes(self) -> tuple[str, ...]:
        found: list[str] = []
        if self._missing:
            calls = "one earlier call has" if self._missing == 1 else f"{self._missing} earlier calls have"
            found.append(f"{calls} no result in the conversation: the model was told so")
        if self._orphans:
            results = "one earlier result has" if self._orphans == 1 else f"{self._orphans} earlier results have"
            found.append(f"{results} no call in the conversation: sent as words of the user")
        return tuple(found)


def _user_with(media: Sequence[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(media)
