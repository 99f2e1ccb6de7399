import json
import math

import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import freeze, freeze_object
from pluggent_host.tools.arguments import ArgumentProblems, Checker, canonical, parse, with_defaults

numbers = st.integers(min_value=-(10**40), max_value=10**40) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=("Cs",)))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(texts, values, max_size=5)


def problems_of(text: str, **limits: int) -> tuple[str, ...]:
    with pytest.raises(ArgumentProblems) as caught:
        parse(text, **limits)
    return caught.value.problems


@given(objects)
def test_canonical_bytes_survive_being_read_and_written_again(value):
    data = canonical(value)

    assert canonical(parse(data.decode())) == data


@given(objects)
def test_equal_objects_have_equal_bytes_whatever_the_order_of_their_keys(value):
    assert canonical(dict(reversed(value.items()))) == canonical(value) == canonical(freeze(value))


@given(st.text() | objects.map(json.dumps) | st.text(alphabet='{}[]":,\\u d8019eE+-.tfn\n', max_size=60))
def test_whatever_a_model_writes_is_an_object_or_a_list_of_problems(text):
    try:
        read = parse(text)
    except ArgumentProblems as error:
        read = {"problems": error.problems}

    assert isinstance(read, dict)
    assert read.get("problems") != ()


@given(objects)
def test_what_other_encoders_write_is_read_unchanged(value):
    assert parse(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_is_no_arguments(text):
    assert parse(text) == {}


def test_of_duplicate_keys_the_last_wins():
    assert parse('{"path": "/safe", "path": "/etc"}') == {"path": "/etc"}


def test_big_integers_keep_every_digit():
    assert canonical(parse('{"id": 123456789012345678901234567890}')) == b'{"id":123456789012345678901234567890}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": NaN}', "not valid JSON: invalid character at byte 6, near 'NaN}'"),
        ('{"a": Infinity}', "not valid JSON: invalid character at byte 6, near 'Infinity}'"),
        ('{"a": 1} and more', "not valid JSON: trailing characters at byte 10, near 'nd more'"),
        ('{"a": "\\ud800"}', "not valid JSON: lone surrogate \\ud800 at character 7"),
        ('{"a": "\ud800"}', "not valid JSON: lone surrogate at character 7"),
        ('{"a": 1e999}', "not usable JSON: number out of range"),
        ('{"a": ', "not valid JSON: it ends too early (at byte 6)"),
        ("[1]", "expected a JSON object, got an array"),
        ("null", "expected a JSON object, got null"),
        ('"text"', "expected a JSON object, got a string"),
        ("true", "expected a JSON object, got a boolean"),
        ("1", "expected a JSON object, got a number"),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_place(text, problem):
    assert problems_of(text) == (problem,)


@pytest.mark.parametrize("depth", [65, 1000, 400_000])
def test_deep_nesting_is_refused_before_it_is_parsed(depth):
    assert problems_of('{"a":' + "[" * depth + "]" * depth + "}") == ("nested more than 64 levels deep",)
    assert problems_of('{"a":' + "[" * depth) == ("nested more than 64 levels deep",)


def test_the_deepest_allowed_nesting_is_read():
    text = '{"a":' + "[" * 63 + "]" * 63 + "}"

    assert canonical(parse(text)).decode() == text


def test_brackets_inside_texts_are_no_nesting():
    text = "[{" * 500 + '"' + "\\"

    assert parse(json.dumps({"code": text, text: 1})) == {"code": text, text: 1}


def test_many_shallow_arrays_are_no_nesting():
    assert parse('{"a":[' + ",".join(["[]"] * 200) + "]}") == {"a": [[]] * 200}


def test_hostile_quotes_are_read_in_linear_time():
    assert problems_of("[" * 65 + '"' + '\\"' * 400_000)


def test_too_long_a_text_is_refused():
    assert problems_of('{"a": "ééé"}', max_bytes=14) == ("longer than 14 bytes",)
    assert problems_of('{"a": "eeeeeeee"}', max_bytes=14) == ("longer than 14 bytes",)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1.0, math.nan]}, "$.a[1]: nan is not JSON"),
        ({"a": {"b": math.inf, "c": None}}, "$.a.b: inf is not JSON"),
        ({"a": "\ud800"}, "a text holds a lone surrogate (character 0)"),
        ({"a": object()}, "not JSON: a value of type object is not JSON"),
    ],
)
def test_what_json_cannot_say_has_no_canonical_form(value, problem):
    with pytest.raises(ArgumentProblems) as caught:
        canonical(value)

    assert caught.value.problems == (problem,)


def test_a_value_that_holds_itself_has_no_canonical_form():
    value = {}
    value["self"] = value

    with pytest.raises(ArgumentProblems, match="refers to itself"):
        canonical(value)


SCHEMA = freeze_object(
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"Stop": {"type": "object", "properties": {"km": {"type": "number", "minimum": 0}}}},
    }
)


def test_every_problem_is_named_with_its_path():
    problems = Checker(SCHEMA).problems({"days": "two", "stops": [{"km": 1}, {"km": -1}], "town": "Oslo"})

    assert set(problems) == {
        "$.city: is required",
        '$.days: fits none of the alternatives: "two" is not of type "integer"; or "two" is not of type "null"',
        "$.stops[1].km: -1 is less than the minimum of 0",
        "$.town: is not a known property",
    }


def test_values_that_fit_have_no_problems_frozen_or_not():
    value = {"city": "Oslo", "days": 2, "stops": [{"km": 10**30}]}

    assert Checker(SCHEMA).problems(value) == Checker(SCHEMA).problems(freeze(value)) == ()


def test_a_problem_does_not_repeat_a_long_value():
    (problem,) = Checker({"properties": {"a": {"maxLength": 3}}}).problems({"a": "x" * 100_000})

    assert len(problem) < 400


def test_many_problems_are_counted_instead_of_listed():
    problems = Checker({"items": {"type": "string"}}).problems(list(range(100)))

    assert len(problems) == 21
    assert problems[-1] == "… and 80 more problems"


def test_references_to_other_documents_are_never_followed():
    with pytest.raises(ArgumentProblems, match="references to other documents are not followed"):
        Checker({"$ref": "http://127.0.0.1:1/schema.json"}).problems({})


def test_a_schema_that_is_invalid_is_named_at_its_first_use():
    checker = Checker({"properties": {"a": {"type": "banana"}}})

    with pytest.raises(
        ArgumentProblems, match=r"the tool's own schema is invalid at \['properties'\]\['a'\]\['type'\]"
    ):
        checker.problems({})


def test_a_schema_of_an_older_draft_is_read_as_such():
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}

    assert Checker(schema).problems(["a", 1]) == ()
    assert Checker(schema).problems([1]) == ('$[0]: 1 is not of type "string"',)


def test_missing_properties_get_their_defaults_at_every_level():
    schema = freeze_object(
        {
            "properties": {
                "unit": {"default": "km"},
                "where": {"$ref": "#/$defs/Place"},
                "more": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
                "options": {"default": {"fast": True}},
                "note": {"type": "string"},
            },
            "allOf": [{"properties": {"limit": {"default": 10}}}],
            "$defs": {"Place": {"properties": {"country": {"default": "no"}}}},
        }
    )
    value = {"where": {"city": "Oslo"}, "more": [{}, {"country": "se"}], "unit": None}

    assert with_defaults(value, schema) == {
        "unit": None,
        "where": {"city": "Oslo", "country": "no"},
        "more": [{"country": "no"}, {"country": "se"}],
        "options": {"fast": True},
        "limit": 10,
    }
    assert value == {"where": {"city": "Oslo"}, "more": [{}, {"country": "se"}], "unit": None}


def test_a_checker_fills_in_the_defaults_of_its_schema():
    assert Checker({"properties": {"unit": {"default": "km"}}}).completed({"a": 1}) == {"a": 1, "unit": "km"}
    assert Checker({"properties": {"unit": {"type": "string"}}}).completed({"a": 1}) == {"a": 1}


def test_a_default_is_a_fresh_value_each_time():
    schema = {"properties": {"tags": {"default": []}}}

    with_defaults({}, schema)["tags"].append("mine")

    assert with_defaults({}, schema) == {"tags": []}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/missing/x"},
        {"$ref": 5, "allOf": 3, "properties": [], "items": True},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {"$ref": "#"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/N"}},
            "$defs": {"N": {"default": {}, "properties": {"n": {"$ref": "#/$defs/N"}}}},
        },
    ],
)
def test_strange_references_end(schema):
    assert with_defaults({"a": {"n": {}}}, schema)["a"]["n"] is not None
