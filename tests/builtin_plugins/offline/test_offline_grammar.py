from __future__ import annotations

import json

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_hookspecs import thaw
from pluggent_offline.grammar import Call, GrammarError, Rounds, first_word, parse, render


def arguments(text: str) -> object:
    ((call,),) = parse(f"tool {text}")
    return thaw(call.arguments)


def parsed(text: str) -> Rounds | GrammarError:
    try:
        return parse(text)
    except GrammarError as error:
        return error


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Beijing", "Beijing"),
        ("北京", "北京"),
        ('"New York"', "New York"),
        (r'"a \"b\" \\ é \n"', 'a "b" \\ é \n'),
        ('"two\nlines"', "two\nlines"),
        ('""', ""),
        ("3", 3),
        ("-0.5e2", -50.0),
        ("9" * 30, int("9" * 30)),
        ("007", "007"),
        ('"7"', "7"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("True", "True"),
        ("it's", "it's"),
        ("a=b", "a=b"),
        ("http://a/?b=1&c=2;d", "http://a/?b=1&c=2;d"),
        ('{"a": [1, {"b": "} ; &"}]}', {"a": [1, {"b": "} ; &"}]}),
        ("[]", []),
    ],
)
def test_a_value_is_read_as_documented(text: str, value: object):
    assert arguments(f"x={text}") == {"x": value}


def test_calls_are_joined_side_by_side_and_one_after_the_other():
    rounds = parse("a x=1 & b\n;c y=2&d ; e z=f; g")

    assert [[call.name for call in calls] for calls in rounds] == [["a", "b"], ["c"], ["e"], ["g"]]
    assert rounds[1][0].arguments["y"] == "2&d"


@each_of(
    ("text", "problem"),
    [
        ("", "expected the name of a tool (character 1)"),
        ("a ;", "expected the name of a tool (character 4)"),
        ("a && b", "expected the name of a tool (character 4)"),
        ("a b", "expected an argument, key=value, found 'b' (character 3)"),
        ('a "b"', "expected an argument, key=value (character 3)"),
        ("a b =1", "expected an argument, key=value, found 'b' (character 3)"),
        ("a b= c", "expected a value after 'b='; empty text is b=\"\" (character 5)"),
        ("a b=;", "expected a value after 'b='; empty text is b=\"\" (character 5)"),
        ("a b=1 b=2", "'b' is given twice (character 7)"),
        ('a b="x', "this quote is never closed (character 5)"),
        ('a b="x"y', "expected white space after the value of 'b' (character 8)"),
        ("a b=[1", "this bracket is never closed (character 5)"),
        ('a b=["x]', "this bracket is never closed (character 5)"),
        ("a b=[1,]", "not JSON: "),
        ('a b="\\q"', "not JSON: Invalid \\escape (character 6)"),
        ("a b=[NaN]", "NaN is not JSON (character 5)"),
        ("a b=1e999", "the number 1e999… is too large (character 5)"),
        ("a b=" + "9" * 401, "is too large (character 5)"),
        ('a b={"x": 1, "x": 2}', "'x' is given twice (character 5)"),
        ("a b=" + "[" * 65, "nested deeper than 64 (character 69)"),
        ('a b="\\ud800"', "a lone surrogate (character 5)"),
        ("a b=x\ud800", "a lone surrogate (character 6)"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, problem: str):
    with pytest.raises(GrammarError) as caught:
        parse(text)

    assert problem in str(caught.value)


def test_hostile_texts_are_refused_quickly():
    for text in ("a b=" + '["' + '\\"' * 200_000, "a b=" + "[" * 200_000, 'a b="' + "\\" * 200_001, "a " * 200_000):
        with pytest.raises(GrammarError):
            parse(text)


def test_the_first_word_is_what_stands_before_white_space():
    assert [first_word(text) for text in ("  weather x=1", "weather", "", "{}", "北京 天气")] == [
        "weather",
        "weather",
        "",
        "",
        "北京",
    ]


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True)
letters = st.text(st.characters(exclude_categories=["Cs"]))
floats = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.sampled_from('ab1;& ="\\[]{}\u3000北-.e'))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | letters | words,
    lambda inner: st.lists(inner) | st.dictionaries(letters, inner),
    max_leaves=8,
)
calls = st.builds(Call, names, st.dictionaries(names, values, max_size=4))


@given(st.lists(st.lists(calls, min_size=1, max_size=3), min_size=1, max_size=3))
def test_rendered_calls_parse_back_to_themselves(rounds: list[list[Call]]):
    assert parse(render(rounds)) == tuple(tuple(each) for each in rounds)


pieces = st.sampled_from(
    [*' &;="[]{}\\,:\n', "weather", "city", "x=", '"a"', "1", "1e5", "NaN", "null", "\ud800", "北京"]
)


@given(st.text() | st.lists(pieces).map("".join))
def test_nothing_but_grammar_errors_is_raised(text: str):
    read = parsed(text)

    if isinstance(read, GrammarError):
        assert 0 <= read.position <= len(text)
    else:
        assert read
        json.dumps([[thaw(call.arguments) for call in calls] for calls in read], ensure_ascii=False).encode()
