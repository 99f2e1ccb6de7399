"""What a person can be asked to fill in: schemas read, shown, and answers checked."""

import pytest
from pluggent_contract_values.question_fields import MOST_FIELDS, Field, FieldKind, Option
from pluggent_function_tools.arguments import ArgumentProblems
from pluggent_host.operations.question import form_of


def of(**properties):
    """Return the form of *properties*, the first of them required."""
    return form_of({"type": "object", "properties": properties, "required": list(properties)[:1]})


TITLED = [{"const": "c", "title": "Celsius"}, {"const": "f", "title": "Fahrenheit"}]
OPTIONS = (Option("c", "Celsius"), Option("f", "Fahrenheit"))


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": "string", "title": "T", "description": "d"}, Field("x", FieldKind.TEXT, "T", "d", True)),
        ({"type": "number", "minimum": 1}, Field("x", FieldKind.NUMBER, required=True, bounds={"minimum": 1})),
        ({"type": "integer"}, Field("x", FieldKind.INTEGER, required=True)),
        ({"type": "boolean", "default": False}, Field("x", FieldKind.YES_NO, "", "", True, True, False)),
        ({"type": "string", "enum": ["c"]}, Field("x", FieldKind.CHOICE, required=True, options=(Option("c", "c"),))),
        (
            {"type": "string", "enum": ["c", "f"], "enumNames": ["Celsius", "Fahrenheit"]},
            Field("x", FieldKind.CHOICE, required=True, options=OPTIONS),
        ),
        ({"type": "string", "oneOf": TITLED}, Field("x", FieldKind.CHOICE, required=True, options=OPTIONS)),
        (
            {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1},
            Field("x", FieldKind.CHOICES, required=True, options=OPTIONS, bounds={"minItems": 1}),
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["c"]}},
            Field("x", FieldKind.CHOICES, required=True, options=(Option("c", "c"),)),
        ),
        ({"type": "string", "format": "email"}, Field("x", FieldKind.TEXT, required=True, bounds={"format": "email"})),
        ({"type": "string", "format": "colour"}, Field("x", FieldKind.TEXT, required=True)),
    ],
)
def test_every_field_that_mcp_knows_is_understood(schema, field):
    assert of(x=schema).fields == (field,)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({}, "has to be of type object"),
        ({"type": "object", "properties": [1]}, "has to be of type object"),
        ({"type": "object", "properties": {"x": 1}}, "'x': is not a schema"),
        ({"type": "object", "properties": {"x": {"type": "object"}}}, "'x': a person can be asked for"),
        ({"type": "object", "properties": {"x": {"type": ["string", "null"]}}}, "'x': a person can be asked for"),
        ({"type": "object", "properties": {"x": {"$ref": "#/y"}}}, "'x': a person can be asked for"),
        ({"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}}, "one of choices"),
        ({"type": "object", "properties": {"x": {"type": "string", "oneOf": [{"title": "t"}]}}}, "needs a const"),
        ({"type": "object", "properties": {"x": {"enum": [{"a": 1}]}}}, "choices are texts"),
        ({"type": "object", "properties": {"x": {"enum": "abc"}}}, "have to be a list"),
        ({"type": "object", "properties": {"x": {"type": "string", "minLength": "a"}}}, "schema is invalid"),
        ({"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}, "schema is invalid"),
        ({"type": "object", "required": ["y"], "properties": {}}, "'y' is required, and no property"),
        (
            {"type": "object", "properties": {str(n): {"type": "string"} for n in range(MOST_FIELDS + 1)}},
            "50 fields at most",
        ),
    ],
)
def test_what_no_form_can_be_made_of_is_said(schema, says):
    with pytest.raises(ArgumentProblems, match=says):
        form_of(schema)


def test_every_problem_is_told_at_once():
    with pytest.raises(ArgumentProblems) as caught:
        of(a={"type": "object"}, b={"enum": "x"})

    assert len(caught.value.problems) == 2


def test_an_answer_is_completed_by_the_defaults():
    form = of(city={"type": "string"}, days={"type": "integer", "default": 3})

    assert form.fitted({"city": "Oslo"}) == {"city": "Oslo", "days": 3}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "maxLength": 2}, "abc"),
        ({"type": "string", "format": "email"}, "no-address"),
        ({"type": "string", "format": "date"}, "yesterday"),
        ({"type": "string", "format": "date-time"}, "2026-11-22"),
        ({"type": "string", "format": "uri"}, "not a uri"),
        ({"type": "integer", "maximum": 3}, 4),
        ({"type": "integer"}, 4.5),
        ({"type": "number"}, "4"),
        ({"type": "boolean"}, "yes"),
        ({"type": "string", "enum": ["c"]}, "f"),
        ({"type": "array", "items": {"enum": ["c"]}}, ["c", "f"]),
        ({"type": "array", "items": {"enum": ["c"]}, "maxItems": 1}, ["c", "c"]),
        ({"type": "string"}, None),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(schema, value):
    form = of(x=schema)

    with pytest.raises(ArgumentProblems):
        form.fitted({"x": value})
    assert form.problems(form.fields[0], value)


@pytest.mark.parametrize(
    "content",
    [{}, {"x": "a", "more": 1}, {"x": float("nan")}, {1: "a"}, {"x": object()}],
    ids=["missing", "more", "not a number", "no name", "no json"],
)
def test_what_is_missing_or_too_much_or_no_json_is_refused(content):
    with pytest.raises(ArgumentProblems):
        of(x={"type": "string"}).fitted(content)


def test_a_lone_surrogate_of_a_person_is_replaced():
    assert of(x={"type": "string"}).fitted({"x": "a\ud800"}) == {"x": "a\ufffd"}
