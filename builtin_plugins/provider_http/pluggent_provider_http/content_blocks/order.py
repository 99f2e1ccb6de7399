"""The order of a reply's blocks, where a message of the contract does not show it.

Neighbouring texts become one part and calls are kept apart from the parts, so what a server sent as
text, call, text, or as texts with citations of their own, is kept as a short list with the
message: a number is a text of so many characters, ``part`` the next other part, ``call`` the
next call, an object a text with more fields. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, cast

from pluggent_hookspecs import Part, Text, thaw

Object: TypeAlias = dict[str, Any]
Entry: TypeAlias = "int | str | Mapping[str, Any]"
Said: TypeAlias = Callable[[str, Object], Object]
"""Makes the block of a text that has these fields beside it."""


def needed(layout: Sequence[Entry]) -> bool:
    """Say whether *layout* has something that parts followed by calls do not show.

    >>> needed([5, "part", 3, "call"]), needed([5, 3]), needed(["call", 5])
    (False, True, True)
    """
    kinds = ["text" if isinstance(entry, int | Mapping) else entry for entry in layout]
    if any(isinstance(entry, Mapping) for entry in layout):
        return True
    after = list(pairwise(kinds))
    return ("text", "text") in after or any(first == "call" != second for first, second in after)


def arranged(
    parts: Sequence[tuple[Part, Sequence[Object]]], calls: Sequence[Object], layout: object, said: Said
) -> list[Object] | None:
    """Return the blocks of *parts* and *calls* in the order of *layout*, None if it does not fit.

    It does not if the message was changed since. Parts behind the last that it names
    are added at the end. *said* makes the block of a text.
    """
    if not isinstance(layout, Sequence) or isinstance(layout, str):
        return None
    walk = _Walk(parts, calls, said)
    entries = cast("Sequence[Entry]", layout)
    blocks = [block for entry in entries for block in walk.take(entry)]
    return [*blocks, *walk.rest()] if walk.fits() else None


class _Walk:
    def __init__(self, parts: Sequence[tuple[Part, Sequence[Object]]], calls: Sequence[Object], said: Said) -> None:
        self._parts = list(parts)
        self._calls = list(calls)
        self._said = said
        self._text = ""
        self._failed = False

    def take(self, entry: Entry) -> Iterator[Object]:
        match entry:
            case "call":
                yield from self._call()
            case "part":
                yield from self._part()
            case int():
                yield from self._piece(entry, {})
            case Mapping() if isinstance(length := entry.get("text"), int):
                yield from self._piece(length, entry)
            case _:
                self._failed = True

    def fits(self) -> bool:
        left = any(isinstance(part, Text) for part, _ in self._parts)
        return not (self._failed or self._text or self._calls or left)

    def rest(self) -> Iterator[Object]:
        for _, blocks in self._parts:
            yield from blocks

    def _call(self) -> Iterator[Object]:
        if self._calls:
            yield self._calls.pop(0)
        else:
            self._failed = True

    def _part(self) -> Iterator[Object]:
        if self._text or not self._parts or isinstance(self._parts[0][0], Text):
            self._failed = True
        else:
            yield from self._parts.pop(0)[1]

    def _piece(self, length: int, fields: Mapping[str, Any]) -> Iterator[Object]:
        while len(self._text) < length and self._parts and isinstance(part := self._parts[0][0], Text):
            self._text += part.text
            self._parts.pop(0)
        text, self._text = self._text[:length], self._text[length:]
        if len(text) != length or length <= 0:
            self._failed = True
        elif text.strip():
            yield self._said(text, {name: thaw(more) for name, more in fields.items() if name != "text"})
