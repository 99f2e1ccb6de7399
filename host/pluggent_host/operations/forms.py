"""What a person can be asked to fill in: a flat JSON Schema, read, shown, and its answers checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

import attrs
from pluggent_hookspecs import Json, freeze, thaw
from pluggent_hookspecs.escape import escape_all

from pluggent_host.common.sanitize import clean_json
from pluggent_host.tools.arguments import ArgumentProblems, Checker, canonical, parse

MOST_FIELDS: Final = 50
MOST_BYTES: Final = 16_384
"""How long a question may be, message and schema together: a person has to read it."""

_BOUNDS = (
    "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minItems", "maxItems", "uniqueItems",
)  # fmt: skip
_FORMATS = ("email", "uri", "date", "date-time")


class Kind(StrEnum):
    """What is typed into a field."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "whole number"
    YES_NO = "yes or no"
    CHOICE = "one of these"
    CHOICES = "any of these"


_KINDS = {"string": Kind.TEXT, "number": Kind.NUMBER, "integer": Kind.INTEGER, "boolean": Kind.YES_NO}


@attrs.frozen
class Option:
    """One value to choose, and how it is called."""

    value: Json
    title: str


@attrs.frozen
class Field:
    """One thing to fill in. ``has_default`` tells a default of None from none; ``bounds`` are of its schema."""

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    required: bool = False
    has_default: bool = False
    default: Json = None
    options: tuple[Option, ...] = ()
    bounds: Mapping[str, Json] = attrs.field(factory=dict[str, Json])

    @property
    def label(self) -> str:
        """How the person knows it; what a stranger wrote, escaped."""
        return escape_all(self.title or self.name)

    def lines(self) -> Iterator[str]:
        """Yield what a person has to know of it, escaped, a line at a time."""
        notes = [str(self.kind), *(f"{name} {escape_all(str(thaw(value)))}" for name, value in self.bounds.items())]
        notes += [] if self.required else ["may be left out"]
        notes += [f"default {escape_all(self.shown(self.default))}"] if self.has_default else []
        named = f" [{escape_all(self.name)}]" if self.title and self.title != self.name else ""
        yield f"{self.label}{named}: {', '.join(notes)}"
        if self.description:
            yield f"  {escape_all(self.description)}"
        for number, option in enumerate(self.options, 1):
            value = escape_all(str(option.value))
            yield f"  {number}. {escape_all(option.title)}{'' if option.title == option.value else f' ({value})'}"

    def shown(self, value: Json) -> str:
        """Return *value* as a person would type it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return ", ".join(str(each) for each in value)
        return str(value)


@attrs.frozen(eq=False)
class Form:
    """Fields, and the schema that an answer has to fit: what is understood of the one that was given."""

    fields: tuple[Field, ...]
    schema: Mapping[str, Json]

    def fitted(self, content: Mapping[str, Json]) -> dict[str, Any]:
        """Return *content* with the defaults filled in. Raises ArgumentProblems for what does not fit."""
        value = plain_object(content)
        checker = Checker(self.schema)
        value = checker.completed(value)
        problems = [*checker.problems(value), *(each for field in self.fields for each in _ill_formed(field, value))]
        if problems:
            raise ArgumentProblems(problems)
        return value

    def problems(self, field: Field, value: Json) -> tuple[str, ...]:
        """Return what is wrong with *value* for one field; empty if nothing is."""
        alone: dict[str, Json] = {"type": "object", "properties": {field.name: _properties(self.schema)[field.name]}}
        return (*Checker(alone).problems({field.name: value}), *_ill_formed(field, {field.name: value}))


def plain_object(value: object) -> dict[str, Any]:
    """Return *value*, which a plugin gave, as a JSON object with nothing in it that cannot be written down.

    Raises ArgumentProblems if it is none.
    """
    try:
        return parse(canonical(clean_json(thaw(cast("Json", value)))).decode())
    except (AttributeError, TypeError, RecursionError) as error:
        raise ArgumentProblems(["$: is not a JSON object"]) from error


def form_of(schema: Mapping[str, Json]) -> Form:
    """Return the form that *schema* describes. Raises ArgumentProblems, with every problem, if none can be made."""
    properties = schema.get("properties", {})
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise ArgumentProblems(["the schema of a question has to be of type object, with properties"])
    if len(properties) > MOST_FIELDS:
        raise ArgumentProblems([f"a question has {MOST_FIELDS} fields at most; this one has {len(properties)}"])
    required = schema.get("required", ())
    needed = {str(name) for name in required} if isinstance(required, Sequence) else set[str]()
    fields: list[Field] = []
    problems = [f"'{name}' is required, and no property" for name in sorted(needed - set(properties))]
    for name, given in properties.items():
        try:
            fields.append(_field(name, given, required=name in needed))
        except ValueError as error:
            problems.append(f"'{name}': {error}")
    if problems:
        raise ArgumentProblems(problems)
    form = Form(tuple(fields), cast("Mapping[str, Json]", freeze(_schema(fields, needed))))
    Checker(form.schema).problems({})  # a bound that is none is told here, and not to the person
    return form


def _field(name: str, given: object, *, required: bool) -> Field:
    if not isinstance(given, Mapping):
        raise ValueError("is not a schema")
    schema = cast("Mapping[str, Json]", given)
    options, several = _options(schema)
    if several:
        kind = Kind.CHOICES
    elif options:
        kind = Kind.CHOICE
    elif (found := _KINDS.get(str(schema.get("type")))) is not None:
        kind = found
    else:
        raise ValueError(f"a person can be asked for {', '.join(_KINDS)} and choices of them, not for this")
    wanted = schema.get("format")
    bounds = {key: schema[key] for key in _BOUNDS if key in schema}
    if kind is Kind.TEXT and wanted in _FORMATS:
        bounds["format"] = wanted
    return Field(
        name, kind, _text(schema, "title"), _text(schema, "description"), required, "default" in schema,
        schema.get("default"), options, bounds,
    )  # fmt: skip


def _options(schema: Mapping[str, Json]) -> tuple[tuple[Option, ...], bool]:
    """Return what there is to choose from, and whether several may be chosen."""
    if schema.get("type") == "array":
        items = schema.get("items")
        options = _options(items)[0] if isinstance(items, Mapping) else ()
        if not options:
            raise ValueError("a list has to be one of choices: items with enum, or with anyOf of const and title")
        return options, True
    titled = schema.get("oneOf", schema.get("anyOf"))
    if titled is not None:
        return tuple(_option(each) for each in _listed(titled)), False
    values = _listed(schema.get("enum", ()))
    names = _listed(schema.get("enumNames", ()))
    titles = [str(name) for name in names] if len(names) == len(values) else [str(value) for value in values]
    if any(isinstance(value, Mapping | list | tuple) for value in values):
        raise ValueError("choices are texts, numbers or yes and no")
    return tuple(Option(value, title) for value, title in zip(values, titles, strict=True)), False


def _option(given: object) -> Option:
    nothing: Mapping[str, Json] = {}
    choice = cast("Mapping[str, Json]", given) if isinstance(given, Mapping) else nothing
    if not isinstance(choice.get("const"), str | int | float):
        raise ValueError("each of its choices needs a const, and may have a title")
    return Option(choice["const"], str(choice.get("title", choice["const"])))


def _schema(fields: Sequence[Field], required: set[str]) -> dict[str, Json]:
    properties: dict[str, Json] = {field.name: _property(field) for field in fields}
    closed: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    return closed | ({"required": sorted(required)} if required else {})


def _property(field: Field) -> dict[str, Json]:
    types = {kind: name for name, kind in _KINDS.items()}
    values: list[Json] = [option.value for option in field.options]
    made: dict[str, Json] = {key: value for key, value in field.bounds.items() if key != "format"}
    match field.kind:
        case Kind.CHOICE:
            made["enum"] = values
        case Kind.CHOICES:
            made |= {"type": "array", "items": {"enum": values}}
        case kind:
            made["type"] = types[kind]
    return made | ({"default": field.default} if field.has_default else {})


def _ill_formed(field: Field, value: Mapping[str, Any]) -> Iterator[str]:
    wanted, given = field.bounds.get("format"), value.get(field.name)
    if wanted is None or not isinstance(given, str):
        return
    # Inside: it costs 30 ms, and few questions ask for such a text.
    import jsonschema_rs

    if not jsonschema_rs.Draft202012Validator({"format": wanted}, validate_formats=True).is_valid(given):
        yield f"$.{field.name}: is not a valid {wanted}"


def _properties(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", schema["properties"])


def _listed(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("its choices have to be a list")
    return cast("Sequence[Any]", value)


def _text(schema: Mapping[str, Json], key: str) -> str:
    value = schema.get(key, "")
    return value if isinstance(value, str) else ""
