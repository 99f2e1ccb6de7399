"""Entries as lines of JSON: what every encoder can say, and what only the careful one can."""

import json
import math

import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import DecisionMade, Scope, Vote
from pluggent_host.transcript.codec import from_plain, line_of, to_plain


class Word(str):
    """A text of a class of its own."""

    __slots__ = ()


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(values)
def test_whatever_json_holds_comes_back_from_its_line(value):
    line = line_of(value)

    assert json.loads(line) == value
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"b": 1, "a": 2}, b'{"b":1,"a":2}\n'),
        ("天气", '"天气"\n'.encode()),
        ("half \ud83d", b'"half \xed\xa0\xbd"\n'),
        (None, b"null\n"),
        (["null"], b'["null"]\n'),
        (10**40, b"1" + b"0" * 40 + b"\n"),
        (Word("word"), b'"word"\n'),
        ({"at": math.inf}, b'{"at":Infinity}\n'),
    ],
    ids=["order", "characters", "half a character", "null", "the word null", "a large number", "own text", "infinity"],
)
def test_a_line_says_exactly_this(value, line):
    assert line_of(value) == line


def test_a_number_that_is_none_stays_one():
    assert math.isnan(json.loads(line_of({"cost": math.nan}))["cost"])


def test_what_is_no_json_is_no_line():
    with pytest.raises(TypeError):
        line_of({"what": object()})


def test_a_vote_of_a_class_of_its_own_is_written_with_all_it_has():
    class Longer(Vote):
        """A vote as a later version may have it."""

    made = DecisionMade(Scope("s"), "tool_call", "1", "d", "allow", "host", votes=(Vote("a", "none"), Longer("b", "x")))

    assert [vote["plugin"] for vote in to_plain(made)["votes"]] == ["a", "b"]
    assert from_plain(to_plain(Vote("a", "none")), Vote) == Vote("a", "none")
