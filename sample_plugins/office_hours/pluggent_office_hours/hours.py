"""When an office is open, by the clock on its wall. Pure: the time is given."""

from __future__ import annotations

from datetime import datetime, time

import attrs

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@attrs.frozen
class Hours:
    """From ``opens`` until the clock next shows ``closes``, beginning on each of ``days``.

    A range may go past midnight, and still belongs to the day on which it begins; ``closes``
    the same as ``opens`` is 24 hours. Times are those of the clock on the wall, so daylight
    saving is ignored: an hour that is skipped is in no range, one that comes twice counts twice.
    """

    days: frozenset[str]
    opens: time
    closes: time

    def include(self, local: datetime) -> bool:
        """Return whether *local*, the time where the office is, lies within the hours.

        >>> late = Hours(frozenset({"fri"}), time(22), time(2))
        >>> late.include(datetime(2026, 11, 20, 23)), late.include(datetime(2026, 11, 21, 1))
        (True, True)
        >>> late.include(datetime(2026, 11, 20, 1)), late.include(datetime(2026, 11, 21, 2))
        (False, False)
        """
        clock, today, yesterday = local.time(), DAYS[local.weekday()], DAYS[local.weekday() - 1]
        if self.opens < self.closes:
            return today in self.days and self.opens <= clock < self.closes
        return (today in self.days and clock >= self.opens) or (yesterday in self.days and clock < self.closes)
