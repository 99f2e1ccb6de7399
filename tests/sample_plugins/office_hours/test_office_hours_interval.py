"""When the office is open: half-open ranges, past midnight, and clocks that are put forward and back."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from pluggent_office_hours.hours import DAYS, Hours

BERLIN = ZoneInfo("Europe/Berlin")
WORKDAYS = frozenset(DAYS[:5])
EVERY_DAY = frozenset(DAYS)

times = st.builds(time, st.integers(0, 23), st.integers(0, 59))
hours = st.builds(Hours, st.frozensets(st.sampled_from(DAYS)), times, times)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 (what a wall shows)


def ranges(open_in: Hours, day: date) -> tuple[datetime, datetime]:
    """Return when the range that begins on *day* begins and ends."""
    ends = day if open_in.opens < open_in.closes else day + timedelta(days=1)
    return datetime.combine(day, open_in.opens), datetime.combine(ends, open_in.closes)


@given(hours, moments)
def test_it_is_open_in_the_ranges_that_begin_on_its_days(open_in: Hours, now: datetime):
    days = [day for day in (now.date(), now.date() - timedelta(days=1)) if DAYS[day.weekday()] in open_in.days]

    begun = [ranges(open_in, day) for day in days]

    assert open_in.include(now) is any(begins <= now < ends for begins, ends in begun)


@given(times, times, moments)
def test_turned_round_a_range_is_open_when_it_was_closed(opens: time, closes: time, now: datetime):
    is_open = Hours(EVERY_DAY, opens, closes).include(now)
    turned = Hours(EVERY_DAY, closes, opens).include(now)

    assert (is_open, turned) == (True, True) if opens == closes else is_open is not turned


@given(hours, moments)
def test_a_week_later_it_is_the_same(open_in: Hours, now: datetime):
    assert open_in.include(now) is open_in.include(now + timedelta(days=7))


@pytest.mark.parametrize(
    ("now", "is_open"),
    [("08:59:59.999999", False), ("09:00", True), ("16:59:59.999999", True), ("17:00", False)],
)
def test_the_first_moment_belongs_to_the_hours_and_the_last_does_not(now: str, is_open: bool):
    friday = date(2026, 11, 20)

    assert Hours(WORKDAYS, time(9), time(17)).include(datetime.combine(friday, time.fromisoformat(now))) is is_open


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-11-20T21:59", False),
        ("2026-11-20T22:00", True),
        ("2026-11-21T05:59", True),  # saturday, of friday's night
        ("2026-11-21T06:00", False),
        ("2026-11-21T22:00", False),  # saturday has no night of its own
        ("2026-11-23T05:59", False),  # nor has sunday, which monday's morning belongs to
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_begins(now: str, is_open: bool):
    assert Hours(WORKDAYS, time(22), time(6)).include(datetime.fromisoformat(now)) is is_open


@pytest.mark.parametrize(
    ("utc", "is_open"),
    [
        ("2026-03-29T00:59", False),  # 01:59, and the next minute is 03:00
        ("2026-03-29T01:00", True),
        ("2026-10-25T00:29", False),  # 02:29 for the first time
        ("2026-10-25T00:30", True),
        ("2026-10-25T01:00", False),  # 02:00 again
        ("2026-10-25T01:30", True),
        ("2026-10-25T02:00", True),  # 03:00
    ],
)
def test_it_opens_by_the_clock_on_the_wall_when_that_is_put_forward_and_back(utc: str, is_open: bool):
    local = datetime.fromisoformat(utc).replace(tzinfo=UTC).astimezone(BERLIN)

    assert Hours(EVERY_DAY, time(2, 30), time(4)).include(local) is is_open


@pytest.mark.parametrize(("utc", "is_open"), [("2026-07-01T07:00", True), ("2026-12-01T07:00", False)])
def test_nine_in_the_morning_is_nine_in_summer_and_in_winter(utc: str, is_open: bool):
    local = datetime.fromisoformat(utc).replace(tzinfo=UTC).astimezone(BERLIN)

    assert Hours(WORKDAYS, time(9), time(17)).include(local) is is_open
