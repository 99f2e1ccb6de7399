"""What is counted: whole numbers of each unit, so that sums are exact in any order."""

from __future__ import annotations

import math
from typing import NamedTuple

import attrs

MOST = 10**15
"""No single amount is larger: a server may claim any number, and SQLite has 64 bits."""
NANO = 10**9


class Amount(NamedTuple):
    """How much of each unit; money in billionths of a dollar, time in thousandths of a second."""

    tokens: int = 0
    nanos: int = 0
    tool_calls: int = 0
    model_calls: int = 0
    wall_ms: int = 0

    def plus(self, other: Amount) -> Amount:
        """Return the sum.

        >>> Amount(tokens=2).plus(Amount(tokens=3, tool_calls=1)).tokens
        5
        """
        return Amount(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


WALL = 4
"""Where time stands in an Amount: it is not reserved, but runs while a call does."""


@attrs.frozen
class Unit:
    """One unit as settings and sentences have it; ``scale`` is how many of ours make one of theirs."""

    setting: str
    words: str
    scale: int = 1

    def shown(self, count: int) -> str:
        """Return *count* of them for a person.

        >>> UNITS[0].shown(12000), UNITS[1].shown(1_250_000_000), UNITS[2].shown(1)
        ('12,000 tokens', '$1.25', '1 tool call')
        """
        figure = self.figure(count)
        if self.scale > 1:
            return figure
        return f"{figure} {self.words if count != 1 else self.words.removesuffix('s')}"

    def figure(self, count: int) -> str:
        """Return *count* of them in the unit of the one that has been ``shown``.

        >>> UNITS[0].figure(12000), UNITS[4].figure(1500)
        ('12,000', '1.5 s')
        """
        if self.setting == "cost_usd":
            return f"${_plain(count / self.scale, 6, 2)}"
        if self.setting == "wall_s":
            return f"{_plain(count / self.scale, 3, 0)} s"
        return f"{count:,}"


def _plain(value: float, digits: int, least: int) -> str:
    """Return *value* with up to *digits* decimals, *least* of which stay although they are zeros."""
    whole, _, decimals = f"{value:,.{digits}f}".partition(".")
    kept = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{kept}" if kept else whole


UNITS = (
    Unit("tokens", "tokens"),
    Unit("cost_usd", "dollars", NANO),
    Unit("tool_calls", "tool calls"),
    Unit("model_calls", "model calls"),
    Unit("wall_s", "seconds", 1000),
)
"""In the order of an Amount."""


def bounded(value: float | None) -> int:
    """Return *value* as a count: whole, rounded up, not negative, at most MOST; anything odd is 0.

    >>> bounded(2.1), bounded(-5), bounded(None), bounded(float("nan")), bounded(10**30) == MOST
    (3, 0, 0, 0, True)
    """
    if value is None or value != value or value <= 0:  # noqa: PLR0124 (the test for NaN)
        return 0
    return MOST if value >= MOST else math.ceil(value)
