"""What servers say of another try: whether, and after how long. Headers and bodies of errors."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

_DURATION = re.compile(r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+(?:\.\d+)?)ms)?")
_MOST_CHARS = 64
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SECONDS_SINCE_1970 = 1e9
_MILLISECONDS_SINCE_1970 = 1e11
_RESETS = ("x-ratelimit-reset", "ratelimit-reset")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds after which the server wants to be asked again; None if it gave none.

    Reads ``retry-after-ms`` (milliseconds), then ``retry-after`` (seconds, also with a
    fraction, or an HTTP date, RFC 9110 10.2.3). What makes no sense counts as not given.

    >>> retry_after({"retry-after-ms": "250"}), retry_after({"retry-after": "soon"})
    (0.25, None)
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _seconds(text)
    return seconds if seconds is not None or not text else _until(text, time.time() if now is None else now)


def limit_reset(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds after which the limit that was hit is reset; None if the server does not say it.

    For an answer of status 429. ``x-ratelimit-reset`` is a time (OpenRouter, in milliseconds) or a number of
    seconds; ``x-ratelimit-reset-requests`` and ``-tokens`` (OpenAI, Groq) count where none of these remain.

    >>> limit_reset({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s"})
    62.5
    """
    found: list[float] = []
    for name in headers:
        start = next((start for start in _RESETS if name == start or name.startswith(f"{start}-")), None)
        if start is None:
            continue
        resource = name.removeprefix(start)
        remaining = headers.get(f"{start.replace('reset', 'remaining')}{resource}", "" if resource else "0")
        seconds = seconds_until(headers[name], time.time() if now is None else now)
        if seconds is not None and _seconds(remaining) == 0:
            found.append(seconds)
    return max(found, default=None)


def retry_delay(error: Mapping[str, Any]) -> float | None:
    """Return the seconds that an error object asks for in its body: ``retryDelay`` of Google's RetryInfo.

    https://cloud.google.com/apis/design/errors

    >>> retry_delay({"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]})
    34.5
    """
    details: object = error.get("details")
    for detail in cast("list[object]", details) if isinstance(details, list) else ():
        delay = cast("Mapping[str, Any]", detail).get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and (seconds := _duration(delay)) is not None:
            return seconds
    return None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return what the server says of another try in ``x-should-retry`` (OpenAI, Anthropic); None if nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text) if text else math.nan
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(text: str, now: float) -> float | None:
    try:
        when = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, when - now)


def seconds_until(text: str, now: float) -> float | None:
    """Return the seconds until what *text* means: a time, a number of seconds, or a duration; None if nothing.

    >>> seconds_until("1m2.5s", 0), seconds_until("6", 0), seconds_until("soon", 0)
    (62.5, 6.0, None)
    """
    number = _seconds(text)
    if number is None:
        return _duration(text) if text[:1].isdecimal() and "-" not in text else _until_date(text, now)
    if number < _SECONDS_SINCE_1970:
        return number
    return max(0.0, (number / 1000 if number >= _MILLISECONDS_SINCE_1970 else number) - now)


def _duration(text: str) -> float | None:
    found = _DURATION.fullmatch(text.strip()) if len(text) <= _MOST_CHARS else None
    if found is None or not any(found.groups()):
        return None
    seconds = sum(float(value) * _UNITS_S[unit] for unit, value in found.groupdict().items() if value)
    return seconds if math.isfinite(seconds) else None


def _until_date(text: str, now: float) -> float | None:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, when.timestamp() - now) if when.tzinfo is not None else None
