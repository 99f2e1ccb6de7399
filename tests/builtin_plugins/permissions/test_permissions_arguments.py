"""Which values of a call a rule looks at."""

from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from permitting import call, fits, rule, ruling, settings
from pluggent_hookspecs import ConfigError
from pluggent_permissions.arguments import Absent, values_at
from pluggent_permissions.text_patterns import Reading

NONE = Absent.ABSENT


@each_of(
    ("path", "arguments", "found"),
    [
        ("a", {"a": 1}, [1]),
        ("a", {"b": 1}, [NONE]),
        ("a", {"a": None}, [None]),
        ("a.b", {"a": {"b": 1}}, [1]),
        ("a.b", {"a.b": 1}, [1]),
        ("a.b", {"a.b": 1, "a": {"b": 2}}, [2, 1]),
        ("a.b.c", {"a.b": {"c": 1}, "a": {"b.c": 2}}, [2, 1]),
        ("a.b", {"a": 1}, [NONE]),
        ("a.b", {"a": {}}, [NONE]),
        ("a.1", {"a": [1, 2]}, [2]),
        ("a.2", {"a": [1, 2]}, [NONE]),
        ("a.b", {"a": [1, 2]}, [NONE]),
        ("a.*", {"a": [1, 2]}, [1, 2]),
        ("a.*", {"a": []}, []),
        ("a.*", {"a": {"x": 1, "y": 2}}, [1, 2]),
        ("a.*", {"a": 1}, [NONE]),
        ("a.*.b", {"a": [{"b": 1}, {"c": 2}]}, [1, NONE]),
        ("a", {"a": [1, [2, [3]]]}, [1, 2, 3]),
        ("a.*.b", {"a": [{"b": [1, 2]}]}, [1, 2]),
        ("*", {"a": 1, "b": {"c": 2}}, [1, {"c": 2}]),
        ("**", {"a": 1, "b": {"c": [2, {"d": "x"}]}, "e": None}, [1, 2, "x"]),
        ("b.**", {"a": 1, "b": {"c": [2]}}, [2]),
        ("b.**", {"a": 1}, [NONE]),
        ("**", {}, []),
    ],
)
def test_a_path_leads_to_every_value_it_can_mean(path: str, arguments: dict[str, Any], found: list[Any]):
    assert list(values_at(arguments, tuple(path.split(".")))) == found


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)),
    st.lists(st.sampled_from(["a", "*", "0", "", "."]), min_size=1, max_size=4),
)
def test_any_path_leads_somewhere_or_nowhere(value: Any, parts: list[str]):
    assert isinstance(list(values_at(value, tuple(parts))), list)


SMUGGLED = [
    {"mail": {"to": "x@evil.example"}},
    {"mail": {"to": ["x@good.example", "x@evil.example"]}},
    {"mail.to": "x@evil.example", "mail": {"to": "x@good.example"}},
    {"mail": {"to": "X@EVIL.example"}},
    {"mail": {"to": {"address": "x@evil.example"}}},
    {"mail": {}},
    {"mail": "x@evil.example"},
    {"mail": {"to": 5}},
    {},
]


@pytest.mark.parametrize("arguments", SMUGGLED)
def test_what_is_smuggled_past_a_path_is_not_permitted_and_what_may_be_forbidden_is(arguments: dict[str, Any]):
    good, evil = {"glob": "*@good.example"}, {"glob": "*@evil.example"}
    allow = {"defaults": {"pure": "deny"}, "rules": [rule("a", "allow", when={"arguments": {"mail.to": good}})]}
    deny = {"rules": [rule("d", "deny", when={"arguments": {"mail.to": evil}})]}

    assert ruling(allow, call(**arguments)) == "deny"
    assert ruling(deny, call(**arguments)) == ("deny" if arguments != {"mail": {"to": 5}} else None)


@pytest.mark.parametrize("value", [{}, {"a": None}, {"a": []}])
def test_an_optional_argument_that_is_not_there_is_not_held_against_the_call(value: dict[str, Any]):
    given = {"glob": "x", "optional": True}
    deny = {"rules": [rule("d", "deny", when={"arguments": {"a": given}})]}
    allow = {"rules": [rule("a", "allow", when={"arguments": {"a": given}})]}

    assert ruling(deny, call(**value)) is None
    assert ruling(allow, call(**value)) == "allow"
    assert ruling(allow, call(a="y")) is None
    assert ruling(deny, call(a="x")) == "deny"


@pytest.mark.parametrize("missing", [{}, {"a": None}])
def test_an_argument_that_is_not_there_cannot_be_evaluated(missing: dict[str, Any]):
    assert ruling({"rules": [rule("d", "deny", when={"arguments": {"a": {"glob": "x"}}})]}, call(**missing)) == "deny"
    assert ruling({"rules": [rule("d", "ask", when={"arguments": {"a": {"glob": "x"}}})]}, call(**missing)) == "ask"
    assert ruling({"rules": [rule("d", "allow", when={"arguments": {"a": {"glob": "*"}}})]}, call(**missing)) is None


def test_every_leaf_can_be_looked_at():
    deny = {"rules": [rule("d", "deny", when={"arguments": {"**": {"glob": "*PRIVATE KEY*"}}})]}

    assert ruling(deny, call(a={"b": [{"c": "-- private key --"}]})) == "deny"
    assert ruling(deny, call(a={"b": [{"c": 5, "d": None}]})) is None
    assert ruling(deny, call()) is None


@pytest.mark.parametrize("path", ["", "a.", ".a", "a..b", "**.a", "a.**.b"])
def test_a_path_that_leads_nowhere_is_refused(path: str):
    with pytest.raises(ConfigError, match="is not a path"):
        settings({"rules": [rule("d", "deny", when={"arguments": {path: {"glob": "x"}}})]})


def test_a_lone_value_that_a_test_trips_over_is_in_doubt_beside_good_ones():
    assert fits({"inside": "/srv"}, ["/srv/x", 5], Reading.WIDE)
    assert not fits({"inside": "/srv"}, ["/srv/x", 5], Reading.EXACT)


@each_of(
    ("path", "wanted", "arguments", "denied"),
    [
        ("**", {"glob": "*PRIVATE KEY*"}, {"parts": {"-- PRIVATE KEY --": 1}}, True),
        ("**", {"glob": "*PRIVATE KEY*"}, {"parts": [{"a": {"-- PRIVATE KEY --": None}}]}, True),
        ("parts.**", {"regex": ".*PRIVATE KEY.*"}, {"parts": {"-- private key --": 1}}, True),
        ("parts.*.**", {"equals": "x"}, {"parts": [{"x": 1}]}, True),
        ("other.**", {"glob": "*PRIVATE KEY*"}, {"parts": {"-- PRIVATE KEY --": 1}, "other": {}}, False),
        ("**", {"glob": "parts"}, {"parts": {"a": 1}}, False),
        ("**", {"gt": 5}, {"parts": {"a": 1}}, False),
    ],
)
def test_what_is_forbidden_is_not_said_by_a_name_either(path: str, wanted: Any, arguments: Any, denied: bool):
    given = {"rules": [rule("r", "deny", when={"tool": "*", "arguments": {path: wanted}})]}

    assert (ruling(given, call(**arguments)) == "deny") is denied
