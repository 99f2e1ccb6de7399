"""The ways in which a secret may be written: in JSON, URLs, HTML, Python, base64 and hexadecimal digits. Pure."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST_FORM = 6
"""Characters; a shorter one would be found in ordinary words."""
_ESCAPE = re.compile(r"%[0-9A-F]{2}|\\u[0-9a-f]{4}")
_GROUP = 3
"""Bytes that base64 writes together, as four characters."""


def forms(value: str) -> tuple[str, ...]:
    r"""Return how *value* may be written, itself first.

    >>> forms("a/b cdé")[:6]
    ('a/b cdé', 'a/b cd\\u00e9', 'a/b cd\\u00E9', 'a\\/b cd\\u00e9', 'a\\/b cd\\u00E9', 'a\\/b cdé')
    >>> {"a%2Fb%20cd%C3%A9", "a/b%20cd%c3%a9", "a%2fb+cd%c3%a9", "YS9iIGNkw6"} <= {*forms("a/b cdé")}
    True
    """
    found = dict.fromkeys((value, *_written(value)))
    return tuple(one for one in found if one == value or len(one) >= SHORTEST_FORM)


def _written(value: str) -> Iterator[str]:
    data = value.encode(errors="replace")
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        # PHP and others write \/ in JSON.
        for one in (escaped, escaped.replace("/", "\\/")):
            yield from _both_cases(one)
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data), quote_plus(data, safe="/")):
        yield from _both_cases(quoted)
    yield from (html.escape(value), html.escape(value, quote=False), repr(value)[1:-1])
    yield from _in_base64(data)
    yield from (data.hex(), data.hex().upper())


def _both_cases(text: str) -> tuple[str, str]:
    """Return *text* with its escapes in lower and in upper case, as it was first."""
    upper = _ESCAPE.sub(lambda found: found[0][:2] + found[0][2:].upper(), text)
    lower = _ESCAPE.sub(lambda found: found[0].lower(), text)
    return (text, lower if text == upper else upper)


def _in_base64(data: bytes) -> Iterator[str]:
    """Yield what of *data* is the same wherever it stands in something longer: at three places, in two alphabets."""
    for before in range(_GROUP):
        text = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        # The first characters hold bits of what stands before, the last one of what comes after.
        first = (before * 8 + 5) // 6
        last = len(text) - ((before + len(data)) % _GROUP > 0)
        yield text[first:last]
        yield text[first:last].translate({ord("+"): "-", ord("/"): "_"})
