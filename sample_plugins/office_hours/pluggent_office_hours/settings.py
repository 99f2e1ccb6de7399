"""The settings under ``[plugins.pluggent-office-hours]``, checked when they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import time
from enum import StrEnum
from functools import cached_property
from typing import NoReturn
from zoneinfo import ZoneInfo

import attrs
from pluggent_hookspecs import Effect

from pluggent_office_hours.hours import DAYS, Hours

WORKDAYS = DAYS[:5]


class Outside(StrEnum):
    """What becomes of a call outside office hours."""

    DENY = "deny"
    ASK = "ask"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"outside: unknown answer {value!r}; it is {' or '.join(cls)}")


@attrs.frozen
class OfficeHoursSettings:
    """The effects that keep office hours, none by default, and the hours.

    ``days`` are mon to sun, ``opens`` and ``closes`` are written 09:00, ``time_zone`` is an IANA
    name such as Europe/Berlin. ``outside`` of the hours a call is denied, or a person is asked.
    """

    effects: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    """The effects that keep office hours."""
    days: tuple[str, ...] = attrs.field(default=WORKDAYS, converter=tuple)
    """The days of work."""
    opens: str = "09:00"
    """When work begins."""
    closes: str = "17:00"
    """When it ends."""
    time_zone: str = ""
    """The time zone of the hours, such as Europe/Berlin."""
    outside: Outside = attrs.field(default=Outside.DENY, converter=Outside)
    """What becomes of a call outside of them: deny or ask."""

    def __attrs_post_init__(self) -> None:
        given = any(getattr(self, field.name) != field.default for field in attrs.fields(OfficeHoursSettings))
        if given and (problems := list(self._problems())):
            raise ValueError("; ".join(problems))

    @cached_property
    def hours(self) -> Hours:
        """The hours, by the clock where the office is."""
        return Hours(frozenset(self.days), _time(self.opens), _time(self.closes))

    @cached_property
    def zone(self) -> ZoneInfo:
        """Where the office is."""
        return _zone(self.time_zone)

    @property
    def shown(self) -> str:
        """The hours in words, for the model and a person."""
        return f"{', '.join(self.days)}, {self.opens} to {self.closes} ({self.time_zone})"

    def concern(self, effects: frozenset[str] | None) -> bool:
        """Return whether a call with *effects* keeps hours; undeclared (None) counts as the worst."""
        return bool(self.effects) and (effects is None or not effects.isdisjoint(self.effects))

    def _problems(self) -> Iterator[str]:
        if not self.effects:
            yield 'effects: none given, so nothing would keep hours; write effects = ["messaging", "spend"]'
        known = (*Effect, "x:… for your own")
        unknown = [effect for effect in self.effects if effect not in set(Effect) and not effect.startswith("x:")]
        yield from (f"effects: unknown {effect!r}; known are {', '.join(known)}" for effect in unknown)
        if not self.days:
            yield 'days: none given, so the office would never open; write days = ["mon", "fri"]'
        yield from (f"days: unknown {day!r}; they are {', '.join(DAYS)}" for day in self.days if day not in DAYS)
        yield from _problem("opens", _time, self.opens)
        yield from _problem("closes", _time, self.closes)
        yield from _problem("time_zone", _zone, self.time_zone)


def _problem(name: str, read: Callable[[str], object], text: str) -> Iterator[str]:
    try:
        read(text)
    except ValueError as error:
        yield f"{name}: {error}"


def _time(text: str) -> time:
    if not re.fullmatch(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise ValueError(f'expected a time from "00:00" to "23:59", not {text!r}')
    return time.fromisoformat(text)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # unknown, a folder of zones, no path that is allowed
        hint = "on a system without time zones: pip install tzdata"
        raise ValueError(
            f"no time zone is called {name!r}; write an IANA name such as Europe/Berlin ({hint})"
        ) from None
