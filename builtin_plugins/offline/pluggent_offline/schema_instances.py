"""Makes the smallest value that a JSON Schema allows, so that structured output works without a model.

A value is put together from the schema's own words and then held against the whole of it by a
real validator; a schema for which that does not succeed is refused, never answered wrongly. Nothing
outside the schema is read. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import attrs
from pluggent_hookspecs import Json, thaw

MAX_DEPTH = 40
MAX_VALUES = 2_000
MAX_CHARS = 20_000
TRIES = 4
"""How many branches of a choice are tried."""

Schema: TypeAlias = Mapping[str, Any]

_TEXTS = (
    "", "a", "A", "0", "00", "aa", "AA", "abc", "ABC", "abc-123", "a b", "2026-01-01", "00:00:00Z",
    "2026-01-01T00:00:00Z", "P1D", "a@example.org", "https://example.org/", "example.org", "127.0.0.1", "::1",
    "00000000-0000-4000-8000-000000000000", "/a", "1.0.0", "+1 555 0100", "00000", "#000000", "en", "en-US", "USD",
)  # fmt: skip
"""Texts that may fit a pattern."""

_FORMATS: Mapping[str, str] = {
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "date-time": "2026-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@example.org",
    "idn-email": "a@example.org",
    "hostname": "example.org",
    "idn-hostname": "example.org",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.org/",
    "iri": "https://example.org/",
    "uri-reference": "/a",
    "iri-reference": "/a",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/a",
    "regex": "a",
}


class NoInstanceError(ValueError):
    """For a schema no value was found; the sentence says at which place and why."""


def smallest(schema: Schema) -> Json:
    """Return a small value that *schema* (JSON Schema, any draft that names itself) allows.

    Raises NoInstanceError if none is found, or if it is not a schema.

    >>> smallest({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    {'city': ''}
    """
    plain = cast("dict[str, Any]", thaw(schema))
    validator = _validator(plain)
    problem = NoInstanceError("$: no value was found that it allows")
    for turn in range(TRIES):
        try:
            value = _Writer(plain, turn).write(plain, _Place())
        except NoInstanceError as error:
            problem = error
            continue
        if validator.is_valid(value):
            return value
    raise problem


def _validator(schema: dict[str, Any]) -> Any:
    # Inside: it takes 30 ms to import, and most conversations ask for no form.
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse)
    except ValueError as error:
        message = getattr(error, "message", None) or str(error)
        raise NoInstanceError(f"it is not a JSON Schema: {message.splitlines()[0][:200]}") from error


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"references to other documents are not followed ({uri})")


@attrs.frozen
class _Place:
    """Where in the value something is written; ``nth`` of those that have to differ.

    ``seen`` are the references that were followed on the way here.
    """

    path: str = "$"
    depth: int = 0
    nth: int = 0
    seen: frozenset[str] = frozenset()

    def inside(self, step: str, nth: int = 0) -> _Place:
        return _Place(self.path + step, self.depth + 1, nth, self.seen)

    def refused(self, why: str) -> NoInstanceError:
        return NoInstanceError(f"{self.path}: {why}")


class _Writer:
    """Writes one value. *turn* says which branch of every choice, and which text, is taken first."""

    def __init__(self, root: Schema, turn: int) -> None:
        self._root = root
        self._turn = turn
        self._left = MAX_VALUES

    def write(self, schema: object, at: _Place) -> Json:
        """Return a value for *schema*."""
        self._left -= 1
        if at.depth > MAX_DEPTH or self._left < 0:
            raise at.refused(f"it goes deeper than {MAX_DEPTH} levels, or asks for too many values")
        if schema is False:
            raise at.refused("nothing is allowed here")
        if not isinstance(schema, Mapping):
            return None
        whole, at = self._resolved(cast("Schema", schema), at)
        if "const" in whole:
            return cast("Json", whole["const"])
        if "enum" in whole:
            return _at(whole["enum"], self._turn + at.nth, at)
        for word in ("anyOf", "oneOf"):
            if branches := whole.get(word):
                return self._first_of(branches, {name: value for name, value in whole.items() if name != word}, at)
        return self._of_type(whole, at)

    def _resolved(self, schema: Schema, at: _Place, depth: int = 0) -> tuple[Schema, _Place]:
        """Return *schema* with what it refers to and all of allOf in it, and what was seen by that."""
        if depth > MAX_DEPTH:
            raise at.refused(f"it goes deeper than {MAX_DEPTH} levels")
        rest = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
        parts: list[object] = list(schema.get("allOf", ()))
        if "$ref" in schema:
            parts.append(self._target(schema["$ref"], at))
            at = attrs.evolve(at, seen=at.seen | {schema["$ref"]})
        for part in parts:
            if part is False:
                raise at.refused("nothing is allowed here")
            if isinstance(part, Mapping):
                inner, at = self._resolved(cast("Schema", part), at, depth + 1)
                rest = _merged(inner, rest)
        return rest, at

    def _target(self, reference: str, at: _Place) -> object:
        place: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            place = cast("Schema", place).get(name) if isinstance(place, Mapping) else None
        if not reference.startswith("#") or place is None:
            raise at.refused(f"the reference {reference} is not followed")
        return place

    def _first_of(self, branches: Sequence[object], rest: Schema, at: _Place) -> Json:
        problem = at.refused("none of its alternatives allows anything")
        turned = [branches[(index + self._turn) % len(branches)] for index in range(len(branches))]
        # A branch that leads back to where we are makes the value larger: it comes last.
        for branch in sorted(turned, key=lambda branch: _reference(branch) in at.seen):
            try:
                return self.write({**rest, "allOf": (branch, *rest.get("allOf", ()))}, at.inside(""))
            except NoInstanceError as error:
                problem = error
        raise problem

    def _of_type(self, schema: Schema, at: _Place) -> Json:
        kind: str | Sequence[str] = schema.get("type", _meant(schema))
        match _at([kind] if isinstance(kind, str) else kind, self._turn, at):
            case "object":
                return self._object(schema, at)
            case "array":
                return self._array(schema, at)
            case "string":
                return self._text(schema, at)
            case "integer" | "number" as number:
                return _number(schema, at, whole=number == "integer")
            case "boolean":
                return bool(at.nth % 2)
            case _:
                return None

    def _object(self, schema: Schema, at: _Place) -> Json:
        properties: Schema = schema.get("properties", {})
        names = list(dict.fromkeys(schema.get("required", ())))
        least = _bounded(schema.get("minProperties", 0), at)
        spare = (name for name in (*properties, *(f"p{number}" for number in range(least))) if name not in names)
        names += [next(spare) for _ in range(least - len(names))]
        other = schema.get("additionalProperties", True)
        return {name: self.write(properties.get(name, other), at.inside(f".{name}")) for name in names}

    def _array(self, schema: Schema, at: _Place) -> Json:
        first: Sequence[object] = schema.get("prefixItems", ())
        contained = schema.get("minContains", 1) if "contains" in schema else 0
        least = _bounded(max(schema.get("minItems", 0), contained), at)
        items: object = schema["contains"] if contained else schema.get("items", True)
        differ = schema.get("uniqueItems") is True
        return [
            self.write(first[index] if index < len(first) else items, at.inside(f"[{index}]", index if differ else 0))
            for index in range(least)
        ]

    def _text(self, schema: Schema, at: _Place) -> str:
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength", MAX_CHARS)
        if least > MAX_CHARS:
            raise at.refused("it asks for too long a text")
        pattern = schema.get("pattern")
        fitting = [
            text
            for text in _texts(schema.get("format"), least, at.nth)
            if least <= len(text) <= most and (pattern is None or _matches(pattern, text))
        ]
        if not fitting:
            raise at.refused("no text was found for its pattern or length")
        return fitting[(self._turn + at.nth) % len(fitting) if pattern is not None else 0]


def _reference(branch: object) -> object:
    return cast("Schema", branch).get("$ref") if isinstance(branch, Mapping) else None


def _bounded(least: float, at: _Place) -> int:
    if least > MAX_VALUES:
        raise at.refused("it asks for too many values")
    return int(least)


def _at(choices: Sequence[Json], index: int, at: _Place) -> Json:
    if not choices:
        raise at.refused("nothing is allowed here")
    return choices[index % len(choices)]


def _meant(schema: Schema) -> str:
    """Return the type that a schema without one speaks of."""
    words = {
        "object": ("properties", "required", "minProperties", "additionalProperties"),
        "array": ("items", "prefixItems", "minItems", "contains"),
        "string": ("minLength", "maxLength", "pattern", "format"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
    return next((kind for kind, names in words.items() if any(name in schema for name in names)), "null")


def _merged(one: Schema, other: Schema) -> dict[str, Any]:
    """Return a schema that asks for what both ask for, as far as it can be said in one."""
    merged = {**one, **other}
    for name in set(one) & set(other):
        a, b = one[name], other[name]
        match name:
            case "properties":
                shared = {key: {"allOf": [a[key], b[key]]} for key in set(a) & set(b)}
                merged[name] = {**a, **b, **shared}
            case "required":
                merged[name] = [*a, *(each for each in b if each not in a)]
            case "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties":
                merged[name] = max(a, b)
            case "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties":
                merged[name] = min(a, b)
            case "enum":
                merged[name] = [each for each in a if each in b]
            case "type":
                merged[name] = _shared_types(a, b)
            case "items" | "additionalProperties":
                merged[name] = {"allOf": [a, b]}
            case _:
                pass
    return merged


def _shared_types(a: str | Sequence[str], b: str | Sequence[str]) -> list[str]:
    one, other = ([each] if isinstance(each, str) else list(each) for each in (a, b))
    shared = [kind for kind in one if kind in other]
    return shared or (["integer"] if {"integer", "number"} <= {*one, *other} else [])


def _texts(format_: object, least: int, nth: int) -> Iterator[str]:
    """Yield texts of at least so many characters, the likeliest first."""
    known = _FORMATS.get(str(format_))
    if known is not None:
        yield known
    elif nth:
        yield f"{nth}".rjust(least, "a")
    for text in _TEXTS:
        yield text
        if len(text) < least:
            yield text + "a" * (least - len(text))
            yield text + "0" * (least - len(text))


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False  # a word of ECMA's that Python does not know


def _number(schema: Schema, at: _Place, *, whole: bool) -> Json:
    """Return the number nearest to zero that is in range, and the ones behind it."""
    step = schema.get("multipleOf", 1 if whole else 0)
    lowest, highest = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    if isinstance(above, bool) or isinstance(below, bool):  # draft 4
        above, below = (lowest if above is True else -math.inf), (highest if below is True else math.inf)
    for value in _near_zero(lowest, highest, above, below, step, at.nth):
        if lowest <= value <= highest and above < value < below and math.isfinite(value):
            return int(value) if whole or float(value).is_integer() else value
    raise at.refused("no number was found in its range")


def _near_zero(lowest: float, highest: float, above: float, below: float, step: float, nth: int) -> Iterator[float]:
    yield step * nth if step else float(nth)
    for bound, way in ((max(lowest, above), 1), (min(highest, below), -1)):
        if not math.isfinite(bound):
            continue
        if step:
            count = math.ceil(bound / step) if way > 0 else math.floor(bound / step)
            yield from ((count + way * more) * step for more in (nth, nth + 1))
        else:
            yield bound + way * nth
            yield bound + way * (nth or 1) * 0.5
            yield (max(lowest, above) + min(highest, below)) / 2


def as_text(value: Json) -> str:
    """Return *value* as the text of a reply.

    >>> as_text({"city": "北京"})
    '{"city": "北京"}'
    """
    return json.dumps(value, ensure_ascii=False)
