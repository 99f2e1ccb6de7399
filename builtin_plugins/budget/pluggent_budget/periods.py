"""Time: the clock of the plugin, and the days and months of a time zone."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, time as time_of_day, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

import attrs


class Period(NamedTuple):
    """A day or a month: its name, such as 2026-11-20 or 2026-11, and its bounds in seconds since 1970."""

    name: str
    begins: float
    ends: float


def zone_of(name: str) -> tzinfo:
    """Return the time zone called *name*. Raises ValueError with what to do.

    >>> zone_of("UTC").utcoffset(None)
    datetime.timedelta(0)
    """
    if name == "UTC":
        return UTC  # needs no database of zones
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(
            f"there is no time zone {name!r}: write a name such as Europe/Berlin (on a system without a"
            " database of zones: pip install tzdata)"
        ) from None


class Calendar:
    """Days and months as they begin and end in one zone.

    >>> Calendar("UTC").period("day", 0.0)
    Period(name='1970-01-01', begins=0.0, ends=86400.0)
    """

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self._tz = zone_of(zone)
        self._last: dict[str, Period] = {}

    def period(self, kind: str, now: float) -> Period:
        """Return the ``day`` or ``month`` in which *now* is."""
        last = self._last.get(kind)
        if last is None or not last.begins <= now < last.ends:
            last = self._last[kind] = self._made(kind, now)
        return last

    def shown(self, at: float) -> str:
        """Return the moment *at* for a person."""
        return f"{datetime.fromtimestamp(at, self._tz):%Y-%m-%d %H:%M} ({self.zone})"

    def _made(self, kind: str, now: float) -> Period:
        today = datetime.fromtimestamp(now, self._tz).date()
        if kind == "day":
            return Period(f"{today:%Y-%m-%d}", self._midnight(today), self._midnight(today + timedelta(days=1)))
        first = today.replace(day=1)
        after = (first + timedelta(days=32)).replace(day=1)
        return Period(f"{today:%Y-%m}", self._midnight(first), self._midnight(after))

    def _midnight(self, day: date) -> float:
        # Where the clocks skip midnight, this is the moment at which they do.
        return datetime.combine(day, time_of_day(), self._tz).timestamp()


class HighWater:
    """A clock that never goes back: *now*, or the latest moment that was seen. Safe to use from several threads.

    >>> times = iter([10.0, 5.0])
    >>> clock = HighWater(lambda: next(times))
    >>> clock(), clock()
    (10.0, 10.0)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._highest = -math.inf
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.raised(self._now())

    def raised(self, seen: float) -> float:
        """Return the latest of all moments that were seen, *seen* among them."""
        with self._lock:
            self._highest = max(self._highest, seen)
            return self._highest

    @property
    def behind_s(self) -> float:
        """By how much the clock is behind the latest moment that was seen."""
        return max(0.0, self._highest - self._now())


@attrs.frozen(eq=False)
class Clock:
    """``now`` returns seconds since 1970, ``monotonic`` seconds that never go back."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
