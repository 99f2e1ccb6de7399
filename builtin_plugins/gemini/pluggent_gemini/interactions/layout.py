"""The steps of a reply, where a message of the contract does not show them. Pure.

An answer is a list of steps: thoughts with their signatures, what the model says, calls, and those of the vendor's own
tools. A message of the contract has parts, and calls apart from them; neighbouring texts are one. So the steps are kept
with the message without their words: ``call`` is the next call, ``part`` the next other part, an object a thought or
what the model said, with lengths in place of its texts. A seal over the words says whether they were changed since:
then the list does not count, for a signature would vouch for what the model never thought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from pluggent_hookspecs import Json, Message, thaw

from pluggent_gemini.words import Words

Object: TypeAlias = dict[str, Any]
Entry: TypeAlias = "str | Mapping[str, Json]"

WIRE = "gemini_interactions"
"""The name of this wire format: the key of what only it understands."""
OWN = frozenset({"model", "server", "steps", "seal"})
"""Fields of Message.extra that are the provider's own notes, and no fields of a step."""
CALL = "call"
PART = "part"


def described(entries: Sequence[Entry], words: Words, *, model: str, server: str) -> dict[str, Json]:
    """Return what Message.extra has of a reply of *model* at *server*; empty if the message shows all of it."""
    if not (words.thoughts or words.signatures or words.others) and _is_plain(entries):
        return {}
    return {"model": model, "server": server, "steps": cast("Json", list(entries)), "seal": words.seal(WIRE)}


def _is_plain(entries: Sequence[Entry]) -> bool:
    """Whether *entries* are one text without anything else about it, and calls behind it."""
    return all(entry == CALL for entry in entries[1:]) and all(
        entry == CALL or _is_one_text(entry) for entry in entries
    )


def _is_one_text(entry: Entry) -> bool:
    if not isinstance(entry, Mapping) or set(entry) != {"type", "content"} or entry["type"] != "model_output":
        return False
    content: Any = entry["content"]
    return len(content) == 1 and set(content[0]) == {"type", "text"}


def is_intact(message: Message, extra: Mapping[str, Json], *, model: str, server: str) -> bool:
    """Whether *message* is what *model* at *server* has said; signatures are valid nowhere else."""
    if "seal" not in extra or (extra.get("model"), extra.get("server")) != (model, server):
        return False
    return extra["seal"] == Words.of(message).seal(WIRE)


def signs(extra: Mapping[str, Json]) -> bool:
    """Whether the reply had thinking, or steps of the vendor's own tools."""
    entries = extra.get("steps")
    listed: Sequence[Any] = entries if isinstance(entries, list | tuple) else ()
    return any(entry == PART or (isinstance(entry, Mapping) and entry.get("type") == "thought") for entry in listed)


def restored(
    message: Message, extra: Mapping[str, Json], calls: Sequence[Object], others: Sequence[Object]
) -> list[Object]:
    """Return the steps of *message*, which is intact, in their order; *calls* and *others* as they are sent.

    Raises LookupError, TypeError or ValueError for notes that another program has written.
    """
    walk = _Walk(Words.of(message), calls, others)
    found = [step for entry in cast("Sequence[Entry]", extra["steps"]) for step in walk.take(entry)]
    if not walk.done():
        raise ValueError("steps")
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
            case Mapping():
                step = cast("Object", thaw(entry))
                yield self._thought(step) if step["type"] == "thought" else self._spoken(step)
            case _:
                raise ValueError(entry)

    def done(self) -> bool:
        return not (self._texts or self._thoughts or self._signatures or self._calls or self._others)

    def _thought(self, step: Object) -> Object:
        if step.pop("signed", False):
            step["signature"] = self._signatures.pop(0)
        for content in step.get("summary", ()):
            if isinstance(content.get("text"), int):
                content["text"], self._thoughts = _cut(self._thoughts, content["text"])
        return step

    def _spoken(self, step: Object) -> Object:
        return {**step, "content": [self._content(content) for content in step["content"]]}

    def _content(self, content: Any) -> Object:
        if content == PART:
            return self._others.pop(0)
        text, self._texts = _cut(self._texts, content["text"])
        return {**content, "text": text}


def _cut(text: str, length: int) -> tuple[str, str]:
    return text[:length], text[length:]
