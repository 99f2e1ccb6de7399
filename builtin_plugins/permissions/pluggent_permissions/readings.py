"""How careful a condition is read. The one idea that everything else in this package follows.

A condition that forbids is read WIDE: one value that fits is enough, differences that a reader
may overlook count for nothing, and what cannot be evaluated fits. A condition that permits is
read EXACT: every value has to fit as it stands, and what cannot be evaluated does not. So doubt
always falls on the stricter side. ``unless`` is read the other way round than its rule.
"""

from __future__ import annotations

from enum import Enum


class Reading(Enum):
    """How a condition is read. ``in_doubt`` is what it answers where it cannot be evaluated."""

    WIDE = True
    EXACT = False

    @property
    def in_doubt(self) -> bool:
        """Whether what cannot be evaluated fits."""
        return self.value

    @property
    def other(self) -> Reading:
        """The reading of an exception to a rule with this one."""
        return Reading.EXACT if self is Reading.WIDE else Reading.WIDE
