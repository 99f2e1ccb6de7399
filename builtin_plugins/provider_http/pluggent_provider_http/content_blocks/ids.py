"""Ids, names and arguments of tool calls as a wire accepts them."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import msgspec

_encode = msgspec.json.Encoder().encode


def fitted(given: str, longest: int, also: str = "") -> str:
    """Return *given* if it has letters, digits, ``_``, ``-`` and those in *also* alone; else a word made of it.

    The word is always the same for the same *given*, and at most *longest* characters long.

    >>> fitted("toolu_01A", 64), fitted("call.1|fc", 64), fitted("call.1", 64, also=".:")
    ('toolu_01A', 'call_1_fc_d9e4ce8d', 'call.1')
    """
    bad = _bad_letter(also)
    if given and len(given) <= longest and not bad.search(given):
        return given
    digest = hashlib.sha256(given.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{bad.sub('_', given)[: longest - 9]}_{digest}"


@lru_cache
def _bad_letter(also: str) -> re.Pattern[str]:
    return re.compile(f"[^a-zA-Z0-9_{re.escape(also)}-]")


def arguments_object(arguments: str) -> bytes:
    """Return *arguments* as the JSON object that a wire wants, in the model's own bytes wherever they are one.

    >>> arguments_object('{"a": 1}'), arguments_object("oops")
    (b'{"a": 1}', b'{"_invalid":"oops"}')
    """
    data = arguments.encode("utf-8", "replace").strip() or b"{}"
    try:
        if isinstance(msgspec.json.decode(data), dict):
            return data
    except (msgspec.DecodeError, RecursionError):
        pass
    # Invalid arguments of the model: the result reports that, and the model sees what it wrote.
    return _encode({"_invalid": arguments.encode("utf-8", "replace").decode()})
