"""What the headers of an answer say: the id of the request and the limits of the account.

Headers come from outside: they are cut, and secrets are taken out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping

from pluggent_hookspecs import RateLimit, ReplyMeta

from pluggent_provider_http.retry_hints import seconds_until
from pluggent_provider_http.server_errors import REQUEST_IDS, Faults

_STARTS = ("x-ratelimit-", "ratelimit-", "anthropic-ratelimit-")
_FIELDS = ("limit", "remaining", "reset")
_MOST_LIMITS = 16
_MOST_HEADERS = 200
_CHARS = 200
_MOST_COUNT = 2**53
_LONGEST_S = 3.2e9
"""A hundred years: what is later is no moment."""


def meta_of(
    headers: Mapping[str, str], faults: Faults, first_byte_s: float | None = None, now: float | None = None
) -> ReplyMeta:
    """Return what *headers*, in lower case, say.

    >>> headers = {"x-request-id": "req_1", "x-ratelimit-remaining-tokens": "17", "x-ratelimit-reset-tokens": "6s"}
    >>> meta_of(headers, Faults("acme", "https://x"), now=100.0).limits
    (RateLimit(name='tokens', limit=None, remaining=17, resets_at=106.0),)
    """
    given = next((headers[name] for name in REQUEST_IDS if headers.get(name)), "")
    limits = _limits(headers, time.time() if now is None else now)
    return ReplyMeta(
        faults.shown(given, _CHARS) if given else "",
        tuple(RateLimit(faults.shown(name, _CHARS), *found) for name, found in limits.items()),
        first_byte_s,
    )


def _limits(headers: Mapping[str, str], now: float) -> dict[str, tuple[int | None, int | None, float | None]]:
    found: dict[str, dict[str, str]] = {}
    for name, field, text in _parts(headers):
        if name in found or len(found) < _MOST_LIMITS:
            found.setdefault(name, {})[field] = text
    read = {
        name: (_count(said.get("limit")), _count(said.get("remaining")), _moment(said.get("reset"), now))
        for name, said in found.items()
    }
    return {name: limit for name, limit in read.items() if limit != (None, None, None)}


def _parts(headers: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield what is limited, the field, and its text: ``…-remaining-tokens`` and ``…-tokens-remaining`` alike."""
    names = [name for name in headers if name.startswith(_STARTS)]
    for name in names[:_MOST_HEADERS]:
        words = name.partition("ratelimit-")[2].split("-")
        for place in (0, -1):
            if words[place] in _FIELDS:
                field = words.pop(place)
                yield "-".join(words), field, headers[name]
                break


def _count(text: str | None) -> int | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return int(number) if 0 <= number <= _MOST_COUNT else None


def _moment(text: str | None, now: float) -> float | None:
    seconds = seconds_until(text, now) if text else None
    return None if seconds is None or seconds > _LONGEST_S else now + seconds
