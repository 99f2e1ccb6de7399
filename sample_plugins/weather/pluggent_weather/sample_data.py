"""Weather that was never measured: the same city and day always give the same numbers."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

_SKIES = ("sunny", "partly cloudy", "cloudy", "light rain", "windy")


class Weather(NamedTuple):
    """The weather of one day: whole degrees Celsius, and the sky in words."""

    celsius: int
    sky: str


def weather_on(city: str, day: int) -> Weather:
    """Return the sample weather of *city*, *day* days from now. Upper and lower case are one city.

    >>> weather_on("Beijing", 0) == weather_on("BEIJING", 0)
    True
    """
    seed = crc32(city.strip().casefold().encode("utf-8", "backslashreplace"))
    drift = crc32(f"{seed}/{day}".encode())
    return Weather(seed % 31 + drift % 7 - 3, _SKIES[drift // 7 % len(_SKIES)])
