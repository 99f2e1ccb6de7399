"""Which calls keep office hours, what is said of one that comes outside of them, and which settings are refused."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pluggent_office_hours
import pytest
from pluggent_hookspecs import Ask, ConfigError, Decision, Deny, Scope, ToolCallEvent, ToolSpec
from pluggent_office_hours.plugin import OfficeHours
from pluggent_office_hours.settings import OfficeHoursSettings
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.discovery import discover
from pluggent_plugin_loader.loader import load, new_manager

SEND = "acme-mail:tool/send"
NOON = datetime(2026, 11, 20, 11, tzinfo=UTC)  # of a friday, in Berlin
NIGHT = datetime(2026, 11, 20, 22, 30, tzinfo=UTC)
RULE = f"{SEND} runs within office hours only: mon, tue, wed, thu, fri, 09:00 to 17:00 (Europe/Berlin)"


def settings(**changed: Any) -> OfficeHoursSettings:
    return OfficeHoursSettings(**{"effects": ("messaging", "x:fax"), "time_zone": "Europe/Berlin", **changed})


def decided(now: datetime, *effects: str, undeclared: bool = False, **changed: Any) -> Decision | None:
    policy = OfficeHours(settings(**changed), clock=lambda: now)
    counting = None if undeclared else frozenset(effects)
    return policy.decide_tool_call(ToolCallEvent(Scope(), "call", ToolSpec("send"), SEND, b"{}", effects=counting))


def test_within_office_hours_it_has_no_opinion():
    assert decided(NOON, "messaging") is None
    assert decided(NOON, undeclared=True) is None


def test_outside_of_them_the_model_reads_the_hours_and_the_time_and_the_person_the_hours():
    assert decided(NIGHT, "messaging") == Deny(
        f"{RULE}. It is fri 23:30 there: do not try again, tell the person", tell_user=RULE
    )


def test_a_person_may_be_asked_instead_in_words_that_an_approval_keeps_covering():
    asked = Ask(f"{RULE}. May it be called outside of them?", tell_model=f"{RULE}; a person is asked first")

    assert decided(NIGHT, "messaging", outside="ask") == asked
    assert decided(NIGHT.replace(minute=31), "messaging", outside="ask") == asked


def test_the_day_is_the_one_where_the_office_is():
    sunday_night = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)  # monday 08:30 in Tokyo

    assert decided(sunday_night, "messaging", time_zone="Asia/Tokyo", opens="08:00") is None
    assert isinstance(decided(sunday_night, "messaging", opens="00:00", closes="00:00", days=("sun",)), Deny)


@pytest.mark.parametrize("effects", [(), ("network_read",), ("spend", "x:post")])
def test_tools_with_other_effects_keep_no_hours(effects: tuple[str, ...]):
    assert decided(NIGHT, *effects) is None


def test_one_of_several_effects_is_enough_and_a_tool_that_says_nothing_has_them_all():
    assert isinstance(decided(NIGHT, "network_read", "x:fax"), Deny)
    assert isinstance(decided(NIGHT, undeclared=True), Deny)


def test_without_settings_no_tool_keeps_hours():
    policy = OfficeHours(clock=lambda: NIGHT)

    assert policy.decide_tool_call(ToolCallEvent(Scope(), "call", ToolSpec("send"), SEND, b"{}")) is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"effects": ()}, "effects: none given, so nothing would keep hours"),
        ({"effects": ("mesaging",)}, "effects: unknown 'mesaging'; known are filesystem_read, "),
        ({"days": ()}, "days: none given, so the office would never open"),
        ({"days": ("mon", "Tuesday")}, "days: unknown 'Tuesday'; they are mon, tue, wed, thu, fri, sat, sun"),
        ({"opens": "9:00"}, 'opens: expected a time from "00:00" to "23:59", not \'9:00\''),
        ({"closes": "24:00"}, 'closes: expected a time from "00:00" to "23:59", not \'24:00\''),
        ({"closes": "17:00\n"}, "closes: expected a time"),
        ({"opens": "\u0660\u0669:00"}, "opens: expected a time"),
        ({"time_zone": ""}, "time_zone: no time zone is called ''; write an IANA name such as Europe/Berlin"),
        ({"time_zone": "Berlin"}, "time_zone: no time zone is called 'Berlin'"),
        ({"time_zone": "Europe"}, "time_zone: no time zone is called 'Europe'"),
        ({"time_zone": "../etc/passwd"}, "time_zone: no time zone is called '../etc/passwd'"),
        ({"outside": "allow"}, "outside: unknown answer 'allow'; it is deny or ask"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=r"\w") as caught:
        settings(**wrong)

    assert problem in str(caught.value)


def test_all_mistakes_are_named_at_once():
    with pytest.raises(ValueError, match=r"effects: .*; days: .*; opens: .*; closes: .*; time_zone: "):
        settings(effects=("a",), days=("b",), opens="c", closes="d", time_zone="e")


def record() -> PluginRecord:
    home = next(each for each in discover().distributions if each.name == "pluggent-office-hours")
    value = "pluggent_office_hours.plugin:OfficeHours"
    id = "pluggent-office-hours"
    return PluginRecord(id, "0.1.0", "pluggent.hooks", "hooks", "office-hours", value, "available", "", "", home)


def test_the_demonstration_is_a_policy_that_decides_tool_calls():
    demo = tomllib.loads((Path(pluggent_office_hours.__file__).parents[1] / "demo.toml").read_text("utf-8"))

    loaded = load(record(), new_manager(), demo["plugins"]["pluggent-office-hours"])

    assert isinstance(loaded.plugin, OfficeHours)
    assert loaded.hooks == ("decide_tool_call",)


def test_mistakes_in_a_file_are_named_with_the_section():
    with pytest.raises(ConfigError) as caught:
        load(record(), new_manager(), {"opens": "25:00", "effects": ["shell"], "time_zone": "UTC"})

    expected = 'opens: expected a time from "00:00" to "23:59", not \'25:00\''
    assert caught.value.problems == (f"plugins.pluggent-office-hours: {expected}",)
