"""What a person can be asked to fill in: the schema of a question read as fields, for the plugin that asks a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

import attrs
from pluggent_function_tools.arguments import ArgumentProblems
from pluggent_hookspecs import Json, Value, thaw

from pluggent_contract_values.escape import escape_all

MOST_FIELDS: Final = 50

_BOUNDS = (
    "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minItems", "maxItems", "uniqueItems",
)  # fmt: skip
_FORMATS = ("email", "uri", "date", "date-time")


class FieldKind(StrEnum):
    """What is typed into a field."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "whole number"
    YES_NO = "yes or no"
    CHOICE = "one of these"
    CHOICES = "any of these"


_TYPES = {
    "string": FieldKind.TEXT,
    "number": FieldKind.NUMBER,
    "integer": FieldKind.INTEGER,
    "boolean": FieldKind.YES_NO,
}


@attrs.frozen(repr=False)
class Option(Value):
    """One value to choose, and how it is called."""

    value: Json
    title: str


@attrs.frozen(repr=False)
class Field(Value):
    """One thing to fill in. ``has_default`` tells a default of None from none; ``bounds`` are of its schema."""

    name: str
    kind: FieldKind
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

    @property
    def schema(self) -> Mapping[str, Json]:
        """The JSON Schema of what is filled in, as far as it is understood; a format is checked on its own."""
        made: dict[str, Json] = {key: value for key, value in self.bounds.items() if key != "format"}
        values: list[Json] = [option.value for option in self.options]
        match self.kind:
            case FieldKind.CHOICE:
                made["enum"] = values
            case FieldKind.CHOICES:
                made |= {"type": "array", "items": {"enum": values}}
            case kind:
                made["type"] = next(name for name, each in _TYPES.items() if each is kind)
        return made | ({"default": self.default} if self.has_default else {})

    def shown(self, value: Json) -> str:
        """Return *value* as a person would type it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return ", ".join(str(each) for each in value)
        return str(value)


def fields_of(schema: Mapping[str, Json]) -> tuple[Field, ...]:
    """Return the fields that *schema* describes. Raises ArgumentProblems, with every problem, if none can be made.

    >>> [field.label for field in fields_of({"type": "object", "properties": {"n": {"type": "number"}}})]
    ['n']
    """
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
    return tuple(fields)


def _field(name: str, given: object, *, required: bool) -> Field:
    if not isinstance(given, Mapping):
        raise ValueError("is not a schema")
    schema = cast("Mapping[str, Json]", given)
    options, several = _options(schema)
    if several:
        kind = FieldKind.CHOICES
    elif options:
        kind = FieldKind.CHOICE
    elif (found := _TYPES.get(str(schema.get("type")))) is not None:
        kind = found
    else:
        raise ValueError(f"a person can be asked for {', '.join(_TYPES)} and choices of them, not for this")
    wanted = schema.get("format")
    bounds = {key: schema[key] for key in _BOUNDS if key in schema}
    if kind is FieldKind.TEXT and wanted in _FORMATS:
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


def _listed(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("its choices have to be a list")
    return cast("Sequence[Any]", value)


def _text(schema: Mapping[str, Json], key: str) -> str:
    value = schema.get(key, "")
    return value if isinstance(value, str) else ""
