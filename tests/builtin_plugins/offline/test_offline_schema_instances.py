from __future__ import annotations

import json

import jsonschema_rs
import pytest
from each_of import each_of
from hypothesis import given, settings, strategies as st
from pluggent_offline.schema_instances import MAX_CHARS, NoInstanceError, smallest

NODE = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            "required": ["next"],
        }
    },
    "$ref": "#/$defs/Node",
}

VALUES = {
    "nothing said": ({}, None),
    "anything": ({"title": "x", "description": "y", "default": 3}, None),
    "an object": ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
    "what is required": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]},
        {"a": 0, "b": None},
    ),
    "so many properties": (
        {"type": "object", "minProperties": 2, "properties": {"a": {"type": "boolean"}}},
        {"a": False, "p0": None},
    ),
    "a list": ({"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 3}}, [3, 3]),
    "different ones": ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "integer"}}, [0, 1, 2]),
    "different texts": (
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "string"}},
        ["", "1", "2"],
    ),
    "a tuple": ({"prefixItems": [{"type": "string"}, {"const": 7}], "minItems": 2}, ["", 7]),
    "one that is there": ({"type": "array", "contains": {"const": "x"}}, ["x"]),
    "a choice": ({"enum": ["b", "a"]}, "b"),
    "a constant": ({"const": {"a": [1]}}, {"a": [1]}),
    "a long text": ({"type": "string", "minLength": 5}, "aaaaa"),
    "a date": ({"type": "string", "format": "date"}, "2026-01-01"),
    "a pattern": ({"type": "string", "pattern": "^[A-Z]{3}$"}, "ABC"),
    "a range": ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.1}, 0.05),
    "below zero": ({"type": "integer", "maximum": -5}, -5),
    "a multiple": ({"type": "integer", "minimum": 10, "multipleOf": 7}, 14),
    "one of several": ({"anyOf": [False, {"type": "integer"}]}, 0),
    "just one": ({"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "string"}]}, ""),
    "all of them": (
        {"allOf": [{"type": "integer", "minimum": 3}, {"type": "number", "maximum": 4}, {"minimum": 4}]},
        4,
    ),
    "all properties": (
        {
            "allOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"a": {"minimum": 2}}},
            ]
        },
        {"a": 2},
    ),
    "a reference": ({"$defs": {"a/b": {"type": "boolean"}}, "$ref": "#/$defs/a~1b"}, False),
    "a tree": (NODE, {"next": None}),
    "null or text": ({"type": ["null", "string"]}, None),
    "draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "number",
            "minimum": 1,
            "exclusiveMinimum": True,
        },
        1.5,
    ),
    "not that": ({"type": "boolean", "not": {"const": True}}, False),
}

NONE = {
    "nothing allowed": False,
    "no schema": {"type": "nope"},
    "no end": {
        "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}},
        "$ref": "#/$defs/a",
    },
    "itself": {"$ref": "#"},
    "all of itself": {"allOf": [{"$ref": "#"}]},
    "no such place": {"$ref": "#/$defs/none"},
    "elsewhere": {"$ref": "https://example.org/schema.json"},
    "another kind of schema": {"$schema": "https://example.org/meta", "type": "string"},
    "a range of nothing": {"type": "integer", "minimum": 3, "maximum": 2},
    "two types at once": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "an odd pattern": {"type": "string", "pattern": "^qqqqqqqq-[0-9]{40}$"},
    "too long": {"type": "string", "minLength": MAX_CHARS + 1},
    "too many": {"type": "array", "minItems": 10**12},
    "too many properties": {"type": "object", "minProperties": 10**12},
    "too many altogether": {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000}},
    "the same twice, and different": {
        "type": "array",
        "minItems": 3,
        "uniqueItems": True,
        "items": {"type": "boolean"},
    },
}


@each_of(("schema", "value"), VALUES.values(), ids=VALUES)
def test_a_value_is_the_smallest_one_that_is_allowed(schema, value):
    assert json.dumps(smallest(schema)) == json.dumps(value)


@pytest.mark.parametrize("schema", NONE.values(), ids=NONE)
def test_a_schema_without_a_value_is_refused_in_a_sentence(schema):
    with pytest.raises(NoInstanceError) as caught:
        smallest(schema)

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("schema", [each for each, _ in VALUES.values()], ids=VALUES)
def test_every_value_is_valid_by_another_hand(schema):
    assert jsonschema_rs.is_valid(schema, smallest(schema))


_small = st.integers(-3, 6)
_schemas = st.recursive(
    st.one_of(
        st.booleans(),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer", "number", "boolean", "null"]),
                "minimum": _small,
                "maximum": _small,
                "multipleOf": st.integers(1, 4),
                "exclusiveMinimum": _small,
                "minLength": st.integers(0, 6),
                "maxLength": st.integers(0, 6),
                "pattern": st.sampled_from(["a", "^[0-9]+$", "["]),
                "enum": st.lists(_small, min_size=1),
                "const": _small,
                "format": st.sampled_from(["date", "email", "odd"]),
            },
        ),
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", ["array", "null"], "string"]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner),
            "required": st.lists(st.sampled_from("abcd"), unique=True),
            "additionalProperties": inner,
            "minProperties": st.integers(0, 3),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1),
            "minItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
            "contains": inner,
            "anyOf": st.lists(inner, min_size=1),
            "oneOf": st.lists(inner, min_size=1),
            "allOf": st.lists(inner, min_size=1),
            "not": inner,
            "$ref": st.sampled_from(["#", "#/properties/a", "#/x"]),
        },
    ),
    max_leaves=8,
)


@given(_schemas)
@settings(max_examples=200)
def test_any_schema_gets_a_value_that_it_allows_or_a_refusal(schema):
    try:
        value = smallest(schema)
    except NoInstanceError:
        return

    assert jsonschema_rs.is_valid(schema, value)
