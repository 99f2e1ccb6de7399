"""In which accounts a call is counted, and when they begin anew."""

from datetime import UTC, datetime

import pytest
from budgets import SCOPE, model_call, rule, tool_call
from hypothesis import given, strategies as st
from pluggent_budget.accounts import LONGEST, Facts, rule_of
from pluggent_budget.periods import Calendar
from pluggent_budget.settings import BudgetSettings, Limit
from pluggent_hookspecs import ReserveEvent, Scope

UTC_CALENDAR = Calendar("UTC")


def text_of(limit: Limit, event: ReserveEvent, now: float = 0.0) -> str | None:
    """Return the key of the account in which *event* is counted."""
    found = rule(limit).account(Facts.of(event), UTC_CALENDAR, now)
    return None if found is None else found.text


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


def test_every_combination_has_an_account_of_its_own() -> None:
    limit = Limit(per=("principal", "agent"), tokens=1)
    scopes = [Scope(principal=principal, agent=agent) for principal in ("a", "b") for agent in ("a", "b", "")]

    assert len({text_of(limit, model_call(scope=scope)) for scope in scopes}) == len(scopes)


def test_the_order_of_dimensions_does_not_matter() -> None:
    first, second = (Limit(per=per, tokens=1) for per in (("day", "principal"), ("principal", "day")))

    assert text_of(first, model_call()) == text_of(second, model_call())


def test_turns_of_two_sessions_are_two() -> None:
    limit = Limit(per=("turn",), tokens=1)
    one, other = (model_call(scope=Scope(session_id=id, turn_id="t1")) for id in ("s1", "s2"))

    assert text_of(limit, one) != text_of(limit, other)


@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_no_two_places_share_an_account_whatever_they_are_called(places: list[tuple[str, str]]) -> None:
    limit = Limit(per=("principal", "agent"), tokens=1)
    one, other = (text_of(limit, model_call(scope=Scope(principal=a, agent=b))) for a, b in places)

    assert one != other


def test_another_name_that_a_client_claims_is_no_other_budget() -> None:
    limit = Limit(per=("principal", "day"), tokens=1)
    names = ("claimed:ide", "claimed:ide2", "claimed:", "ide", "")
    keys = [text_of(limit, model_call(scope=Scope(principal=name))) for name in names]

    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 3
    only = Limit(where={"principal": "claimed:ide"}, tokens=1)
    found = [text_of(only, model_call(scope=Scope(principal=name))) for name in names]
    assert [key is not None for key in found] == [True, False, False, False, False]


def test_a_long_name_leaves_no_limit() -> None:
    limit = Limit(where={"principal": "*@acme.example"}, tokens=1)

    assert text_of(limit, model_call(scope=Scope(principal="x" * 1_000 + "@acme.example"))) is not None
    assert text_of(limit, model_call(scope=Scope(principal="x" * 1_000))) is None


def test_a_name_without_end_makes_no_key_without_end() -> None:
    one, other = (model_call(scope=Scope(principal="x" * 10**6 + end)) for end in ("1", "2"))
    keys = {text_of(Limit(per=("principal",), tokens=1), event) for event in (one, other)}

    assert len(keys) == 2
    assert all(key is not None and len(key) < LONGEST + 100 for key in keys)


def test_a_pattern_narrows_a_limit() -> None:
    limit = Limit(where={"model": "openai/*", "principal": "a?n"}, tokens=1)

    assert text_of(limit, model_call(model="openai/gpt-5"))
    assert text_of(limit, model_call(model="local/x")) is None
    assert text_of(limit, model_call(model="openai/gpt-5", scope=Scope(principal="annie"))) is None


def test_a_limit_for_tools_does_not_see_models_nor_the_other_way_round() -> None:
    by_tool, by_model = Limit(per=("tool",), tool_calls=1), Limit(per=("model",), tokens=1)
    search = Limit(where={"tool": "*:tool/search"}, tool_calls=1)

    assert text_of(by_tool, model_call()) is None
    assert text_of(by_model, tool_call()) is None
    assert text_of(search, tool_call("acme:tool/search"))
    assert text_of(search, tool_call("acme:tool/find")) is None
    assert text_of(Limit(per=("session",), tokens=1), tool_call())


def test_a_day_ends_at_midnight_and_a_month_on_its_last() -> None:
    day, month = Limit(per=("day",), tokens=1), Limit(per=("month",), tokens=1)
    last, first = at(2026, 11, 30, 23, 59, 59), at(2026, 12, 1)

    assert '"2026-11-30"' in str(text_of(day, model_call(), last))
    assert '"2026-12-01"' in str(text_of(day, model_call(), first))
    assert '"2026-11"' in str(text_of(month, model_call(), last))
    assert '"2026-12"' in str(text_of(month, model_call(), first))


def test_a_clock_that_goes_back_comes_back_to_the_account_of_that_day() -> None:
    limit, calendar = rule(Limit(per=("day",), tokens=1)), Calendar("UTC")
    days = [limit.account(Facts.of(model_call()), calendar, at(2026, 11, day)) for day in (20, 21, 20)]

    assert days[0] == days[2] != days[1]


@pytest.mark.parametrize(
    ("zone", "moment", "day", "hours"),
    [
        ("UTC", (2026, 11, 20, 23, 30), "2026-11-20", 24),
        ("Europe/Berlin", (2026, 11, 20, 23, 30), "2026-11-21", 24),
        ("Europe/Berlin", (2026, 3, 29, 12), "2026-03-29", 23),
        ("Europe/Berlin", (2026, 10, 25, 12), "2026-10-25", 25),
        ("Asia/Beirut", (2026, 3, 29, 12), "2026-03-29", 23),
        ("Pacific/Kiritimati", (2026, 11, 20, 11), "2026-11-21", 24),
    ],
)
def test_a_day_is_that_of_the_zone_however_long_it_is(zone: str, moment: tuple[int, ...], day: str, hours: int) -> None:
    period = Calendar(zone).period("day", at(*moment))

    assert (period.name, period.ends - period.begins) == (day, hours * 3600)
    assert period.begins <= at(*moment) < period.ends


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.sampled_from(["day", "month"]))  # noqa: DTZ001 (of any zone)
def test_periods_follow_one_another_without_a_gap(moment: datetime, kind: str) -> None:
    calendar = Calendar("America/New_York")
    now = moment.replace(tzinfo=UTC).timestamp()

    period = calendar.period(kind, now)

    assert period.begins <= now < period.ends
    assert calendar.period(kind, period.ends).begins == period.ends
    assert calendar.period(kind, period.begins - 1).ends == period.begins


def test_days_of_two_zones_are_not_the_same_account() -> None:
    limit = Limit(per=("day",), tokens=1)
    prefixes = {
        rule_of(limit, BudgetSettings(limits=(limit,), path=":memory:", zone=zone)).prefix
        for zone in ("UTC", "Europe/Berlin")
    }

    assert len(prefixes) == 2


def test_an_attempt_says_everything_that_limits_are_counted_for() -> None:
    assert Facts.of(model_call(model="a/b")) == Facts("t1", "s1", "writer", "ann", "a/b", "")
    assert Facts.of(tool_call("x:tool/y")) == Facts("t1", "s1", "writer", "ann", "", "x:tool/y")
    assert SCOPE.principal == "ann"
