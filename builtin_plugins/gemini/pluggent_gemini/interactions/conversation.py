"""Arranges pieces as the input of an interaction: the first step is a user's, and results stand behind their calls.

Leading system messages are the system instruction; a later one becomes a step of the user's. Bytes are only joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from pluggent_hookspecs import Audio, File, Image, Message
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.interactions.pieces import Piece, Pieces, encode, user_input

_NO_RESULT = "(no result was recorded)"
_BEFORE = user_input([{"type": "text", "text": "(earlier messages are left out)"}])


@attrs.frozen
class Conversation:
    """The messages of a request.

    ``steps`` are joined by commas. ``dropped`` counts the replies whose thinking or own steps were left out,
    ``unmarked`` the messages whose cache points were.
    """

    instruction: str
    steps: bytes
    dropped: int
    unmarked: int


def conversation(messages: Sequence[Message], pieces: Pieces) -> Conversation:
    """Return *messages* as steps. Raises UnsendableError."""
    found = pieces.of(messages)
    lead = next((place for place, piece in enumerate(found) if piece.speaker != "system"), len(found))
    steps = _arranged(messages, found, lead, pieces)
    if not steps:
        raise UnsendableError("no message says anything; the API wants at least one with content")
    if found[lead].speaker == "model":
        steps.insert(0, _BEFORE)
    instruction = b"\n\n".join([piece.steps for piece in found[:lead] if piece.steps]).decode()
    dropped, unmarked = sum([piece.dropped for piece in found]), sum([piece.unmarked for piece in found])
    return Conversation(instruction, b",".join(steps), dropped, unmarked)


def _arranged(messages: Sequence[Message], found: Sequence[Piece], lead: int, pieces: Pieces) -> list[bytes]:
    steps: list[bytes] = []
    waiting: dict[str, str] = {}
    beside: list[bytes] = []
    for place in range(lead, len(found)):
        piece = found[place]
        if piece.answers in waiting:
            name = waiting.pop(piece.answers)
            made = piece if messages[place].name else pieces.result(messages[place], name)
            steps.append(made.steps)
            beside += [made.beside] if made.beside else []
            continue
        if waiting or beside:
            steps += [*_missing(waiting), *beside]
            waiting, beside = {}, []
        if piece.speaker in ("user", "model"):
            steps += [piece.steps] if piece.steps else []
            waiting = dict(piece.calls)
        else:
            steps += _apart(messages[place], piece, pieces)
    return [*steps, *_missing(waiting), *beside]


def _missing(waiting: dict[str, str]) -> Iterator[bytes]:
    for id, name in waiting.items():
        yield encode({"type": "function_result", "call_id": id, "name": name, "result": _NO_RESULT, "is_error": True})


def _apart(message: Message, piece: Piece, pieces: Pieces) -> Iterator[bytes]:
    """Yield an instruction or a result without a call, for which the API has no step, as words of the user."""
    if piece.speaker == "system":
        if piece.steps:
            yield user_input([{"type": "text", "text": f"<system>\n{piece.steps.decode()}\n</system>"}])
        return
    failed = " (failed)" if message.is_error else ""
    label = f"Result of an earlier call of {message.name or 'a tool'}{failed}:"
    media = [part for part in message.content if isinstance(part, Image | Audio | File)]
    shown = [pieces.shown(part) for part in media]
    yield user_input([{"type": "text", "text": f"{label}\n{message.text}"}, *shown])
