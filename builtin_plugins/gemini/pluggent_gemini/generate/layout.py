"""The parts of a reply, where a message of the contract does not show them. Pure.

An answer is a list of parts: texts, thoughts, calls, media, and others that only the vendor understands; any of
them may be signed. The vendor wants each signature back on the part that had it, and refuses a call of the current
turn without. A message of the contract has parts, and calls apart from them; neighbouring texts are one. So what is
lost on the way is kept as a short list with the message: a number is a text of so many characters, ``call`` the next
call, ``part`` the next other part, an object any of these with more fields. A seal over the words says whether
they were changed since: then the list does not count, for a signature would vouch for what the model never wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from pluggent_hookspecs import Json, Message, VendorPart, thaw

from pluggent_gemini.words import Words

Object: TypeAlias = dict[str, Any]
Entry: TypeAlias = "int | str | Mapping[str, Json]"

WIRE = "gemini"
"""The name of this wire format: the key of what only it understands."""
SIGNATURE = "thoughtSignature"
OWN = frozenset({"model", "server", "parts", "seal"})
"""Fields of Message.extra that are the provider's own notes, and no fields of a content."""


def described(entries: Sequence[Entry], words: Words, *, model: str, server: str) -> dict[str, Json]:
    """Return what Message.extra has of a reply of *model* at *server*; empty if the message shows all of it."""
    if all(isinstance(entry, int) for entry in entries):
        return {}
    return {"model": model, "server": server, "parts": cast("Json", list(entries)), "seal": words.seal(WIRE)}


def is_intact(message: Message, extra: Mapping[str, Json], *, model: str, server: str) -> bool:
    """Whether *message* is what *model* at *server* has said; signatures are valid nowhere else."""
    if "seal" not in extra or (extra.get("model"), extra.get("server")) != (model, server):
        return False
    return extra["seal"] == Words.of(message).seal(WIRE)


def signs(message: Message, extra: Mapping[str, Json]) -> bool:
    """Whether the reply had thinking or a signature, wherever it stood."""
    entries = extra.get("parts")
    if not isinstance(entries, list | tuple):
        return False
    with_fields = [entry for entry in cast("Sequence[Entry]", entries) if isinstance(entry, Mapping)]
    if any(SIGNATURE in entry or "thought" in entry for entry in with_fields):
        return True
    calls = (call.extra.get(WIRE) for call in message.tool_calls)
    parts = (part.value for part in message.content if isinstance(part, VendorPart) and part.vendor == WIRE)
    return any(isinstance(own, Mapping) and SIGNATURE in own for own in (*calls, *parts))


def restored(
    message: Message, extra: Mapping[str, Json], calls: Sequence[Object], others: Sequence[Object]
) -> list[Object]:
    """Return the parts of *message*, which is intact, in their order; *calls* and *others* as they are sent.

    Raises LookupError, TypeError or ValueError for notes that another program has written.
    """
    walk = _Walk(Words.of(message), calls, others)
    entries = cast("Sequence[Entry]", extra["parts"])
    found = [part for entry in entries for part in walk.take(entry)]
    if not walk.done():
        raise ValueError("parts")
    return found


class _Walk:
    def __init__(self, words: Words, calls: Sequence[Object], others: Sequence[Object]) -> None:
        self._texts = words.texts
        self._thoughts = words.thoughts
        self._signatures = list(words.signatures)
        self._calls = list(calls)
        self._others = list(others)

    def take(self, entry: Entry) -> Iterator[Object]:
        match entry:
            case "call":
                yield self._calls.pop(0)
            case "part":
                yield self._others.pop(0)
            case int():
                yield {"text": self._text(entry)}
            case Mapping():
                yield self._with_fields(cast("Object", thaw(entry)))
            case _:
                raise ValueError(entry)

    def done(self) -> bool:
        return not (self._texts or self._thoughts or self._signatures or self._calls or self._others)

    def _with_fields(self, entry: Object) -> Object:
        if "part" in entry:
            del entry["part"]
            return {**self._others.pop(0), **entry}
        if "thought" not in entry:
            return {**entry, "text": self._text(entry["text"])}
        length: int = entry.pop("thought")
        thought, self._thoughts = self._thoughts[:length], self._thoughts[length:]
        if entry.pop("signed", False):
            entry[SIGNATURE] = self._signatures.pop(0)
        return {**entry, "text": thought, "thought": True}

    def _text(self, length: int) -> str:
        text, self._texts = self._texts[:length], self._texts[length:]
        return text
