"""Sound that comes in pieces becomes one."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pluggent_provider_http.payload import MalformedError, Object, as_text


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
        """Return the sound as a whole reply would have it. Raises MalformedError if it is no base64."""
        return {**self._fields, "data": _joined(self._data), "transcript": "".join(self._words)}


def _joined(pieces: list[str]) -> str:
    """Join pieces that were encoded each by itself, or cut after they had been encoded."""
    each_by_itself = all(len(piece) % 4 == 0 for piece in pieces)
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    if not each_by_itself:
        raise MalformedError("its sound cannot be put together: pieces of base64 end in the middle")
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"its sound is no base64: {error}") from error
