"""Patterns of the operator: what may be written, how long a match can be, and why something is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from pluggent_redact.patterns import pattern
from pluggent_redact.settings import KINDS, PatternSettings, RedactSettings
from pluggent_redact.stream_engine import Engine
from workspace import names_in, tables


@pytest.mark.parametrize(
    ("source", "width"),
    [("EMP-[0-9]{6}", 10), ("(?:ab|cde){2,3}x?", 10), (r"\d{3}-\d{2}-\d{4}", 11), ("[]a]{3}", 3), (r"[^\]x]{4}", 4)],
)
def test_the_longest_match_is_known(source, width):
    assert pattern("p", source).width == width


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("EMP-[0-9]+", r"at character 9: \+ has no end"), ("a*bcd", r"\* has no end"), ("abc{2,}", "a repeat is"),
        ("^abc", r"\^ is not possible"), (r"\bsecret", r"\\b is not possible"), ("(?=abc)", "of groups with"),
        ("(?P<a>bcd)", "of groups with"), ("ab", "matches 2 to 2"), ("a{1001}", "a repeat goes up to"),
        ("(a{100}){100}", "10000"), ("abc)", "too many"), ("(abc", "is missing"), ("[abc", "is missing"),
        ("a{3}{4}", "is not repeated"), ("a" * 501, "up to 500"), ("[z-a]{4}", "RE2 cannot read it"),
        ("(" * 60, "deep"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(source, problem):
    with pytest.raises(ValueError, match=problem):
        PatternSettings(kind="p", match=source)


@given(st.text("ab[]{}(),|?:.0123\\d-", max_size=20), st.text("ab0123", max_size=40))
@settings(max_examples=400, deadline=None)
def test_no_match_is_longer_than_was_read(source, text):
    try:
        made = pattern("p", source)
    except ValueError:
        return

    found = made.find(text, 0, len(text))
    assert found is None or 0 < found.end() - found.start() <= made.width


def test_a_pattern_replaces_and_ignores_case_if_told():
    engine = Engine(finders=(pattern("staff", "emp-[0-9]{3}", ignore_case=True),))

    assert engine.redact("EMP-123, emp-456 \ud800") == "[redacted:staff], [redacted:staff] \ud800"


def test_a_pattern_that_makes_others_think_for_ever_does_not():
    engine = Engine(finders=(pattern("p", "(?:a?){100}a{100}b"),))

    assert engine.redact("a" * 20_000) == "a" * 20_000


@pytest.mark.parametrize(
    ("given_", "problem"),
    [({"off": ("x",)}, "unknown 'x'; there are private-key"), ({"off": "jwt"}, "expected a list")],
)
def test_settings_say_what_is_wrong_with_them(given_, problem):
    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        RedactSettings(**given_)
    with pytest.raises(ValueError, match="is not a kind"):
        PatternSettings(kind="Two Words", match="abc")


def test_the_readme_tells_every_setting_and_kind():
    said = tables(Path(__file__).parents[3] / "builtin_plugins" / "redact" / "README.md")

    assert {name.strip("`") for name in said["setting default"]} == names_in(RedactSettings)
    assert [name.strip("`") for name in said["kind what it is"]] == [*KINDS, "secret"]
