"""Arranges pieces as the contents of a request, by the rules of the Gemini API.

- The first content is a user's.
- The content behind calls holds one result for each, in their order, and nothing else.
- Leading system messages are the system instruction; a later one becomes a part of the user's content.

Bytes are only joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import msgspec
from pluggent_hookspecs import Message
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.generate.parts import Piece, Pieces, content_of, encode

_NO_RESULT = "(no result was recorded)"
_BEFORE = encode({"text": "(earlier messages are left out)"})


@attrs.frozen
class Conversation:
    """The messages of a request.

    ``system`` are the parts of the system instruction, joined by commas; ``contents`` likewise. ``dropped`` counts the
    replies whose thinking or signatures were left out, ``unmarked`` the messages whose cache points were.
    """

    system: bytes
    contents: bytes
    dropped: int
    unmarked: int


def conversation(messages: Sequence[Message], pieces: Pieces) -> Conversation:
    """Return *messages* as contents. Raises UnsendableError."""
    found = pieces.of(messages)
    lead = next((place for place, piece in enumerate(found) if piece.speaker != "system"), len(found))
    if any(piece.fields for piece in found[:lead]):
        raise UnsendableError("extra of a system message: before the conversation it has no fields of its own")
    contents = as_they_are(messages, found, lead)
    if contents is None:
        contents = _Contents(pieces).arranged(list(zip(messages[lead:], found[lead:], strict=True)))
    if not contents:
        raise UnsendableError("no message says anything; the API wants at least one with content")
    system = b",".join([piece.parts for piece in found[:lead] if piece.parts])
    dropped, unmarked = sum([piece.dropped for piece in found]), sum([piece.unmarked for piece in found])
    return Conversation(system, b",".join(contents), dropped, unmarked)


def as_they_are(messages: Sequence[Message], pieces: Sequence[Piece], start: int) -> list[bytes] | None:
    """Return the contents of a conversation that keeps the rules by itself, as most do; None for any other.

    It begins with a user, roles alternate, and results stand in the order of their calls. This runs over the whole
    history with each request, so it does little.
    """
    contents: list[bytes] = []
    waiting: tuple[tuple[str, str], ...] = ()
    results: list[bytes] = []
    before = "model"
    for place in range(start, len(pieces)):
        piece = pieces[place]
        if not piece.content:
            return None
        if waiting:
            if piece.answers != waiting[len(results)][0] or not messages[place].name:
                return None
            results.append(piece.parts)
            if len(results) == len(waiting):
                contents.append(piece.content if len(results) == 1 else content_of(b"user", b",".join(results)))
                waiting, results = (), []
                before = "tool"
            continue
        if piece.speaker in (before, "tool") or not (contents or piece.speaker == "user"):
            return None
        contents.append(piece.content)
        before, waiting = piece.speaker, piece.calls
    return contents if contents and not waiting else None


class _Contents:
    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._contents: list[bytes] = []
        self._waiting: tuple[tuple[str, str], ...] = ()
        """Ids and names of calls without a result yet."""

    def arranged(self, said: Sequence[tuple[Message, Piece]]) -> list[bytes]:
        """Return the contents."""
        place = 0
        while place < len(said):
            start, model = place, said[place][1].speaker == "model"
            # A reply with calls ends its content: results have to follow.
            while place < len(said) and (said[place][1].speaker == "model") is model:
                place += 1
                if model and said[place - 1][1].calls:
                    break
            if model:
                self._reply([piece for _, piece in said[start:place]])
            else:
                self._user(said[start:place])
        if self._waiting:
            self._user(())
        return self._contents

    def _reply(self, run: Sequence[Piece]) -> None:
        if self._waiting:
            self._user(())
        parts = b",".join([piece.parts for piece in run if piece.parts])
        if not parts:
            return
        if not self._contents:
            self._contents.append(content_of(b"user", _BEFORE))
        self._contents.append(content_of(b"model", parts, *run))
        self._waiting = run[-1].calls

    def _user(self, run: Sequence[tuple[Message, Piece]]) -> None:
        """Add everything between two replies: results, then what was said."""
        results: list[bytes] = []
        beside: list[bytes] = []
        left = list(run)
        for id, name in self._waiting:
            place = next((at for at, (_, piece) in enumerate(left) if piece.answers == id), None)
            if place is None:
                results.append(_missing(id, name))
                continue
            message, piece = left.pop(place)
            found = piece if message.name else self._pieces.result(message, name)
            results.append(found.parts)
            beside += [found.beside] if found.beside else []
        self._waiting = ()
        if results:
            self._contents.append(content_of(b"user", b",".join(results)))
        said = [*beside, *(part for message, piece in left for part in _said(message, piece))]
        if said:
            self._contents.append(content_of(b"user", b",".join(said), *(piece for _, piece in left)))


def _said(message: Message, piece: Piece) -> Iterator[bytes]:
    if piece.speaker == "system":
        text = "\n".join(part["text"] for part in msgspec.json.decode(b"[%b]" % piece.parts) if "text" in part)
        if text:
            yield encode({"text": f"<system>\n{text}\n</system>"})
        return
    if piece.speaker == "tool":
        failed = " (failed)" if message.is_error else ""
        label = f"Result of an earlier call of {message.name or 'a tool'}{failed}:"
        yield encode({"text": f"{label}\n{message.text}"})
        if piece.beside:
            yield piece.beside
        inside: list[Any] = msgspec.json.decode(piece.parts)["functionResponse"].get("parts", [])
        if inside:
            yield encode(inside)[1:-1]
    elif piece.parts:
        yield piece.parts


def _missing(id: str, name: str) -> bytes:
    return encode({"functionResponse": {"id": id, "name": name, "response": {"error": _NO_RESULT}}})
