"""Cursors of memory lists as callers get them: sealed, because a store's own may name a key that a policy hides.

Encrypt-then-MAC: SHAKE-256 of a secret prefix and a nonce as the stream (Bertoni and others, "Cryptographic sponge
functions", 2011, section 5.2), HMAC-SHA256 over nonce, place and text as the tag. The key lives as long as the host.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from pluggent_hookspecs.errors import MemoryStoreError, MemoryStoreErrorKind

_NONCE, _TAG = 16, 16
_BLOCK = 256
"""Bytes to whose multiples a cursor is filled up: its length would tell that of a key."""


class CursorSeal:
    """Seals the cursors of one host, each for one list of one principal."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._tag_key = secrets.token_bytes(32)

    def seal(self, cursor: str, place: str) -> str:
        """Return *cursor*, given for the list *place*, so that nothing can be read from it."""
        nonce = secrets.token_bytes(_NONCE)
        plain = cursor.encode("utf-8", "surrogatepass") + b"\x01"
        text = self._mixed(plain + b"\x00" * (-len(plain) % _BLOCK), nonce)
        return base64.urlsafe_b64encode(nonce + self._tag(nonce, text, place) + text).decode()

    def open(self, sealed: str, place: str) -> str:
        """Return the cursor in *sealed*. Raises MemoryStoreError ``invalid`` if it was not given for *place*."""
        try:
            data = base64.b64decode(sealed.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error, ValueError):
            data = b""
        nonce, tag, text = data[:_NONCE], data[_NONCE : _NONCE + _TAG], data[_NONCE + _TAG :]
        if not text or not hmac.compare_digest(tag, self._tag(nonce, text, place)):
            problem = "this is not a cursor of this list; a cursor holds as long as the host that gave it is open"
            raise MemoryStoreError(MemoryStoreErrorKind.INVALID, problem)
        return self._mixed(text, nonce).rstrip(b"\x00")[:-1].decode("utf-8", "surrogatepass")

    def _mixed(self, text: bytes, nonce: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + nonce).digest(len(text))
        return (int.from_bytes(text) ^ int.from_bytes(stream)).to_bytes(len(text))

    def _tag(self, nonce: bytes, text: bytes, place: str) -> bytes:
        about = place.encode("utf-8", "surrogatepass")
        return hmac.digest(self._tag_key, nonce + len(about).to_bytes(8) + about + text, "sha256")[:_TAG]
