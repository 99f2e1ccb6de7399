"""Fragments of a streamed reply put together: JSON of any shape, and audio.

Texts are appended, lists are extended, entries with an index find their own. What a stream says
other than text and calls (log-probabilities, citations, details of thinking, other choices) is not
interpreted here: it is put together by what its fragments look like.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, cast

from pluggent_provider_http.payload import MalformedError, Object, as_text

NOTHING: tuple[Any, ...] = (None, [], {})
"""Values that say nothing."""
# What names a thing is said again in each of its pieces, and does not grow.
_NAMES = frozenset({"id", "index", "type", "format", "role", "name", "object"})


class Grown:
    """An object that pieces are added to.

    >>> grown = Grown()
    >>> grown.add({"steps": [{"index": 0, "type": "text", "text": "on"}]})
    >>> grown.add({"steps": [{"index": 0, "type": "text", "text": "e"}, {"index": 1, "text": "two"}]})
    >>> grown.whole()
    {'steps': [{'index': 0, 'type': 'text', 'text': 'one'}, {'index': 1, 'text': 'two'}]}
    """

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def add(self, piece: Mapping[str, Any]) -> None:
        """Take one more piece. Nothing (null, an empty list or object) adds nothing."""
        for name, value in piece.items():
            if value in NOTHING:
                continue
            old = self._fields.get(name)
            self._fields[name] = _begun(value) if old is None else _joined(name, old, value)

    def replace(self, piece: Mapping[str, Any]) -> None:
        """Take a newer state of what does not grow."""
        self._fields.update(piece)

    def whole(self) -> dict[str, Any]:
        """Return all that came, as JSON."""
        return {name: _whole(value) for name, value in self._fields.items()}


class _Texts(list[str]):
    """A text that grows: its pieces, joined once at the end."""


class _Entries:
    """A list that grows; entries with an index are told apart by it and their type."""

    def __init__(self, entries: list[Any]) -> None:
        self._made: list[Any] = []
        self._numbered: dict[object, Grown] = {}
        self.add(entries)

    def add(self, entries: list[Any]) -> None:
        for entry in entries:
            place = _place(entry)
            known = self._numbered.get(place) if place is not None else None
            if known is not None:
                known.add(entry)
            elif place is not None:
                self._numbered[place] = grown = Grown()
                grown.add(entry)
                self._made.append(grown)
            else:
                self._made.append(entry)

    def whole(self) -> list[Any]:
        return [entry.whole() if isinstance(entry, Grown) else entry for entry in self._made]


def _place(entry: object) -> object:
    if not isinstance(entry, Mapping):
        return None
    fields = cast("Mapping[str, Any]", entry)
    index = fields.get("index")
    return (index, str(fields.get("type"))) if isinstance(index, int) else None


def _begun(value: Any) -> Any:
    if isinstance(value, Mapping):
        grown = Grown()
        grown.add(cast("Mapping[str, Any]", value))
        return grown
    return _Entries(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType]


def _joined(name: str, old: Any, new: Any) -> Any:
    if isinstance(new, str) and isinstance(old, str | _Texts) and name not in _NAMES:
        if isinstance(old, str):
            return _Texts((old, new))
        old.append(new)
        return old
    if isinstance(new, list) and isinstance(old, _Entries):
        old.add(new)  # pyright: ignore[reportUnknownArgumentType] (whatever JSON it holds)
        return old
    if isinstance(new, Mapping) and isinstance(old, Grown):
        old.add(cast("Mapping[str, Any]", new))
        return old
    return _begun(new)


def _whole(value: Any) -> Any:
    if isinstance(value, _Texts):
        return "".join(value)
    return value.whole() if isinstance(value, Grown | _Entries) else value


class Sound:
    """What the ``audio`` of a stream's deltas adds up to.

    >>> sound = Sound()
    >>> sound.add({"id": "a1", "data": "QQ==", "transcript": "Hel"})
    >>> sound.add({"data": "Qg==", "transcript": "lo", "expires_at": 7})
    >>> sound.whole()
    {'id': 'a1', 'expires_at': 7, 'data': 'QUI=', 'transcript': 'Hello'}
    """

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._data: list[str] = []
        self._words: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._fields or self._data or self._words)

    def add(self, piece: Object) -> None:
        """Take one more piece."""
        self._data += filter(None, [as_text(piece.get("data"))])
        self._words += filter(None, [as_text(piece.get("transcript"))])
        rest = ((name, value) for name, value in piece.items() if name not in ("data", "transcript"))
        self._fields.update((name, value) for name, value in rest if value is not None)

    def whole(self) -> dict[str, Any]:
        """Return the sound as a whole reply would have it. Raises MalformedError if it is not base64."""
        return {**self._fields, "data": _joined_base64(self._data), "transcript": "".join(self._words)}


def _joined_base64(pieces: list[str]) -> str:
    """Join pieces that were encoded each by itself, or cut after they had been encoded."""
    each_by_itself = all(len(piece) % 4 == 0 for piece in pieces)
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    if not each_by_itself:
        raise MalformedError("its sound cannot be put together: pieces of base64 end in the middle")
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"its sound is not base64: {error}") from error
