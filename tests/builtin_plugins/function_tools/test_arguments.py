import json
import math

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_function_tools.arguments import ArgumentProblems, Checker, canonical, parse, with_defaults
from pluggent_hookspecs import freeze, freeze_object

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
def test_canonical_bytes_survive_being_read_and_keep_no_order_of_keys(value):
    data = canonical(value)

    assert canonical(parse(data.decode())) == data
    assert canonical(dict(reversed(value.items()))) == data == canonical(freeze(value))
    assert parse(json.dumps(value)) == value


@given(st.text() | objects.map(json.dumps) | st.text(alphabet='{}[]":,\\u d8019eE+-.tfn\n', max_size=60))
def test_whatever_a_model_writes_is_an_object_or_a_list_of_problems(text):
    try:
        read = parse(text)
    except ArgumentProblems as error:
        read = {"problems": error.problems}

    assert isinstance(read, dict)
    assert read.get("problems") != ()


SHALLOW = "[{" * 500 + '"' + "\\"


@each_of(
    ("text", "value"),
    [
        ("", {}),
        ("  \n", {}),
        ('{"path": "/safe", "path": "/etc"}', {"path": "/etc"}),  # of duplicate keys the last
        ('{"id": 123456789012345678901234567890}', {"id": 123456789012345678901234567890}),
        (json.dumps({"code": SHALLOW, SHALLOW: 1}), {"code": SHALLOW, SHALLOW: 1}),  # brackets in a text do not nest
        ('{"a":[' + ",".join(["[]"] * 200) + "]}", {"a": [[]] * 200}),
    ],
)
def test_what_a_model_may_write_is_read(text, value):
    assert parse(text) == value


@each_of(
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
def test_what_is_not_a_json_object_is_refused_with_its_place(text, problem):
    assert problems_of(text) == (problem,)


@each_of("depth", [65, 1000, 400_000])
def test_deep_nesting_is_refused_before_it_is_parsed(depth):
    assert problems_of('{"a":' + "[" * depth + "]" * depth + "}") == ("nested more than 64 levels deep",)
    assert problems_of('{"a":' + "[" * depth) == ("nested more than 64 levels deep",)


def test_arrays_and_objects_are_deep_together():
    assert problems_of('{"a":[' * 40 + "]}" * 40) == ("nested more than 64 levels deep",)
    assert parse('{"a":[' * 32 + "]}" * 32)


def test_the_deepest_allowed_nesting_is_read():
    text = '{"a":' + "[" * 63 + "]" * 63 + "}"

    assert canonical(parse(text)).decode() == text


def test_hostile_quotes_are_read_in_linear_time():
    assert problems_of("[" * 65 + '"' + '\\"' * 400_000)


def test_too_long_a_text_is_refused():
    assert problems_of('{"a": "ééé"}', max_bytes=14) == ("longer than 14 bytes",)
    assert problems_of('{"a": "eeeeeeee"}', max_bytes=14) == ("longer than 14 bytes",)


def test_a_text_of_exactly_the_limit_is_read():
    assert parse('{"a": "éé"}', max_bytes=13) == {"a": "éé"}
    assert parse('{"a": "eeee"}', max_bytes=13) == {"a": "eeee"}


@each_of(
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


def test_long_values_and_many_problems_are_not_repeated():
    (problem,) = Checker({"properties": {"a": {"maxLength": 3}}}).problems({"a": "x" * 100_000})
    problems = Checker({"items": {"type": "string"}}).problems(list(range(100)))

    assert len(problem) < 400
    assert (len(problems), problems[-1]) == (21, "… and 80 more problems")


@each_of(("count", "last"), [(20, '$[19]: 19 is not of type "string"'), (21, "… and 1 more problems")])
def test_what_is_left_out_is_counted(count, last):
    problems = Checker({"items": {"type": "string"}}).problems(list(range(count)))

    assert (len(problems), problems[-1]) == (count, last)


def test_nulls_alone_are_taken_away_of_what_is_invalid():
    checker = Checker({"properties": {"days": {"type": "integer"}, "city": {"type": "string"}}})

    assert checker.without_nulls({"days": "two", "city": None}) == {"days": "two"}


@each_of(
    ("schema", "says"),
    [
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "references to other documents are not followed"),
        ({"properties": {"a": {"type": "banana"}}},
         r"the tool's own schema is invalid at \['properties'\]\['a'\]\['type'\]"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_named_at_its_first_use(schema, says):
    checker = Checker(schema)

    with pytest.raises(ArgumentProblems, match=says):
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


@each_of(
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
