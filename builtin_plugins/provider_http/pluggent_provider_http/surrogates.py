r"""Escaped surrogate pairs that a server has cut in two, in JSON that is still bytes.

A server that streams JSON with ``\u`` escapes, token by token, may send the first half of an emoji in
one event and the second half in the next. Neither is text by itself, so both are refused as JSON.
"""

from __future__ import annotations

import re

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# An escaped backslash begins no escape, and a pair is whole: both are passed over.
_LONE = re.compile(rb"\\\\|" + _HIGH + _LOW + rb"|(?P<high>" + _HIGH + rb")|(?P<low>" + _LOW + rb")")
MOST_BYTES = 1_048_576
"""What is larger is left as it is, and so refused: a vendor's events are small, and this is read in Python."""
_REPLACEMENT = rb"\ufffd"


def ends_inside_a_pair(payload: bytes) -> bool:
    r"""Whether *payload* has the first half of a pair alone.

    >>> ends_inside_a_pair(rb'"\ud83c"'), ends_inside_a_pair(rb'"\ud83c\udf89 \\ud83c"')
    (True, False)
    """
    return len(payload) <= MOST_BYTES and any(found["high"] for found in _LONE.finditer(payload))


def joined(first: bytes, second: bytes) -> tuple[bytes, bytes]:
    r"""Return two payloads with the half pairs of *first* moved to where *second* continues them.

    >>> joined(rb'"a\ud83c"', rb'"\udf89b"')
    (b'"a"', b'"\\ud83c\\udf89b"')
    """
    if len(second) > MOST_BYTES:
        return replaced(first), second
    highs = [found["high"] for found in _LONE.finditer(first) if found["high"]]
    lows = [found["low"] for found in _LONE.finditer(second) if found["low"]]
    if len(highs) != len(lows):
        return replaced(first), second
    halves = iter(highs)
    return (
        _LONE.sub(lambda found: b"" if found["high"] else found[0], first),
        _LONE.sub(lambda found: next(halves) + found[0] if found["low"] else found[0], second),
    )


def replaced(payload: bytes) -> bytes:
    r"""Return *payload* with U+FFFD in place of every half that stands alone.

    >>> replaced(rb'"a\udf89 \ud83c\udf89"')
    b'"a\\ufffd \\ud83c\\udf89"'
    """
    if len(payload) > MOST_BYTES:
        return payload
    return _LONE.sub(lambda found: _REPLACEMENT if found["high"] or found["low"] else found[0], payload)
