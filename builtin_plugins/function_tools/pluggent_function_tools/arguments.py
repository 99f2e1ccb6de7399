"""Reads the arguments of a tool call: from a model's text to checked values and canonical bytes.

Strict, so that no two readers see different values: NaN, infinity, lone surrogates and excessive depth are
refused; of duplicate keys the last one wins, once, here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pluggent_hookspecs import Json, thaw

if TYPE_CHECKING:  # the library is loaded when a schema is first used, see validator
    import jsonschema_rs

MAX_DEPTH = 64
MAX_BYTES = 1_000_000

_SHOWN = 300
_MAX_PROBLEMS = 20
_MAX_SCHEMAS = 100
_WHITESPACE = " \t\r\n"
_KINDS: Mapping[type, str] = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
_FINITE = frozenset({str, int, bool})
_OBJECTS = (dict, MappingProxyType)
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS = dict.fromkeys(range(128)) | {ord("["): "[", ord("{"): "[", ord("]"): "]", ord("}"): "]"}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LONE_SURROGATE = re.compile(
    r"(?<!\\)(?:\\\\)*(\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|[c-fC-F][0-9a-fA-F]{2}))"
)
_BYTE = re.compile(r" \(byte (\d+)\)$")
_decode = msgspec.json.Decoder().decode


class ArgumentProblems(ValueError):  # noqa: N818 (it is what it carries: all that is wrong at once)
    """Unusable arguments; ``problems`` are sentences for the model, each with its path."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def parse(text: str, *, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object in *text*; empty text is an empty object.

    Integers of up to 4,300 digits survive exactly. Raises ArgumentProblems, and nothing else, for anything
    but one JSON object of at most *max_bytes* (UTF-8) and *max_depth* nested arrays and objects.
    """
    if not text.strip(_WHITESPACE):
        return {}
    data = _encoded(text, max_bytes)
    # Before parsing, because the parser recurses.
    if _has_brackets(text, max_depth) and _deeper_than(text, max_depth):
        raise ArgumentProblems([f"nested more than {max_depth} levels deep"])
    try:
        value: object = _decode(data)
    except (ValueError, RecursionError) as error:
        raise ArgumentProblems([_explained(error, text, data)]) from None
    if not isinstance(value, dict):
        raise ArgumentProblems([f"expected a JSON object, got {_KINDS.get(type(value), 'a number')}"])
    return cast("dict[str, Any]", value)


def canonical(value: object) -> bytes:
    """Return *value* as JSON with sorted keys and no spaces: equal values, equal bytes.

    Integers keep their digits; frozen mappings and tuples are allowed. Raises ArgumentProblems for NaN, infinity, lone
    surrogates, cycles and anything else that is not JSON.
    """
    try:
        data = sorted_json(value)
        # msgspec writes NaN and infinity as null; a long text is not searched for that word.
        if not is_flat(value) and b"null" in data:
            _refuse_not_finite(msgspec.to_builtins(value, str_keys=True, enc_hook=plain))
    except ArgumentProblems:
        raise
    except UnicodeEncodeError as error:
        raise ArgumentProblems([f"a text holds a lone surrogate (character {error.start})"]) from None
    except RecursionError:
        raise ArgumentProblems(["the value refers to itself or is nested too deeply"]) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentProblems([f"not JSON: {error}"]) from None
    return data


def sorted_json(value: object) -> bytes:
    """Return canonical(value) for a value known to be sound: NaN would become null."""
    try:
        return _sorted(value)
    except TypeError:
        # Keys that are no strings (dict[int, str]) can be written, but not sorted as they are.
        return _sorted(msgspec.to_builtins(value, str_keys=True, order="sorted", enc_hook=plain))


class Checker:
    """Checks values against one JSON Schema (2020-12 unless its ``$schema`` names another draft).

    Nothing is ever fetched: references are followed inside the schema only. The validator is made at the first
    check, which raises ArgumentProblems if the schema itself is invalid. *formats*: texts are checked for theirs.
    """

    def __init__(self, schema: Mapping[str, Json], *, formats: bool = False) -> None:
        self._schema = cast("dict[str, Any]", thaw(schema))
        self._formats = formats
        self._validator: jsonschema_rs.Validator | None = None
        self._has_defaults = b'"default":' in canonical(self._schema)

    def completed(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return *value* with the schema's defaults; costs nothing if it has none."""
        return with_defaults(value, self._schema) if self._has_defaults else value

    def check(self) -> None:
        """Raise ArgumentProblems if the schema itself is invalid."""
        if self._validator is None:
            self._made()

    def problems(self, value: object) -> tuple[str, ...]:
        """Return every problem of *value*, a JSON value, with its path; empty if it is valid."""
        validator = self._validator or self._made()
        try:
            return () if validator.is_valid(value) else self._found(validator, value)
        except ValueError as error:
            if isinstance(value, Mapping) and not isinstance(value, dict):
                return self.problems(thaw(cast("Mapping[str, Json]", value)))
            return (f"$: not JSON: {error}",)

    def without_nulls(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return *value* without the nulls that are invalid: models write null for an optional property not given.

        The same *value* if it has none. The result may be invalid: a required property is then missing.
        """
        validator = self._validator or self._made()
        done = value
        for path in [error.instance_path for error in validator.iter_errors(value) if error.instance is None]:
            if isinstance(path[-1] if path else None, str):
                done = _without(done, path)
        return done

    def _made(self) -> jsonschema_rs.Validator:
        try:
            made = validator(self._schema, formats=self._formats)
        except (ValueError, TypeError) as error:
            where = "".join(f"[{part!r}]" for part in getattr(error, "instance_path", ()))
            why: str = getattr(error, "message", str(error))
            where = where and f" at {where}"
            raise ArgumentProblems([f"the tool's own schema is invalid{where}: {_cut(why)}"]) from None
        self._validator = made
        return made

    def _found(self, validator: jsonschema_rs.Validator, value: object) -> tuple[str, ...]:
        found = [problem for error in validator.iter_errors(value) for problem in _told(error)]
        more = len(found) - _MAX_PROBLEMS
        return (*found[:_MAX_PROBLEMS], *([f"… and {more} more problems"] if more > 0 else []))


def _without(value: Any, path: Sequence[str | int]) -> Any:
    """Return *value* without the property at *path*; changes nothing in place."""
    first, *rest = path
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_without(item, rest) if index == first else item for index, item in enumerate(items)]
    fields = cast("dict[str, Any]", value)
    changed = {first: _without(fields[str(first)], rest)} if rest and first in fields else {}
    return {**{key: item for key, item in fields.items() if key != first}, **changed}


def with_defaults(value: Any, schema: Mapping[str, Json]) -> Any:
    """Return *value* with every missing property that has a ``default`` in *schema*; changes nothing in place.

    Looks into nested objects and arrays, through ``allOf`` and references inside the schema.
    """
    return _completed(value, _applicable([schema], schema), schema)


def _encoded(text: str, max_bytes: int) -> bytes:
    try:
        data = text.encode() if len(text) <= max_bytes else b""
    except UnicodeEncodeError as error:
        raise ArgumentProblems([f"not valid JSON: lone surrogate at character {error.start}"]) from None
    if not data or len(data) > max_bytes:
        raise ArgumentProblems([f"longer than {max_bytes} bytes"])
    return data


def _has_brackets(text: str, most: int) -> bool:
    """Say whether *text* has more than *most* opening brackets. A text of a megabyte is not counted through."""
    for bracket in "[{":
        at = text.find(bracket)
        while at >= 0:
            most -= 1
            if most < 0:
                return True
            at = text.find(bracket, at + 1)
    return False


def _deeper_than(text: str, limit: int) -> bool:
    """Remove the innermost brackets, layer by layer: linear, and no recursion."""
    left = _NOT_ASCII.sub("", _STRING.sub("", text)).translate(_BRACKETS)
    for _ in range(limit):
        peeled = left.replace("[]", "")
        if len(peeled) == len(left):
            break
        left = peeled
    return left.count("[") > 0 and (left.count("[") > limit or "[]" in left)


def _explained(error: Exception, text: str, data: bytes) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"not usable JSON: {str(error).partition(' - at ')[0].lower()}"
    if lone := _LONE_SURROGATE.search(text):
        return f"not valid JSON: lone surrogate {lone[1]} at character {lone.start(1)}"
    message = str(error).removeprefix("JSON is malformed: ")
    place = _BYTE.search(message)
    if place is None:
        return f"not valid JSON: it ends too early (at byte {len(data)})"
    at = int(place[1])
    near = data[at : at + 20].decode(errors="ignore")
    return f"not valid JSON: {message[: place.start()]} at byte {at}" + (f", near {near!r}" if near else "")


def plain(value: object) -> object:
    """Return a mapping as a dict, for msgspec, which knows no other. Raises TypeError for any other value."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


_sorted = msgspec.json.Encoder(order="sorted", enc_hook=plain).encode


def is_flat(value: object) -> bool:
    """Say whether *value* is an object of texts, integers and booleans alone, so that no number in it is NaN."""
    return type(value) in _OBJECTS and _FINITE.issuperset(map(type, cast("Mapping[str, object]", value).values()))


def _refuse_not_finite(value: object, path: str = "$") -> None:
    """Raise ArgumentProblems for the first NaN or infinity in *value*, plain JSON values."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            _refuse_not_finite(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[object]", value)):
            _refuse_not_finite(item, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ArgumentProblems([f"{path}: {value} is not JSON"])


def validator(schema: Mapping[str, Any], *, formats: bool = False) -> jsonschema_rs.Validator:
    """Return the validator of *schema*, of draft 2020-12 unless its ``$schema`` names another; nothing is fetched.

    *formats*: texts are checked for theirs. Raises ValueError for an invalid schema, or a reference out of it.

    >>> validator({"type": "object", "required": ["city"]}).is_valid({})
    False
    """
    # Inside: importing it costs 30 ms, and a tool made of a function never needs it.
    import jsonschema_rs

    drafts: dict[str, Callable[..., jsonschema_rs.Validator]] = {
        "json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
        "json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
        "json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
        "json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    }
    draft = str(schema.get("$schema")).partition("://")[2].rstrip("#")
    make = drafts.get(draft, jsonschema_rs.Draft202012Validator)
    return make(schema, retriever=_refuse_to_fetch, validate_formats=formats or None)


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed ({uri})")


def _told(error: jsonschema_rs.ValidationError) -> Iterator[str]:
    """Yield one sentence for each property that *error* is about."""
    path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    kind = error.kind
    match kind.name:
        case "required":
            yield f"{path}.{getattr(kind, 'property', '?')}: is required"
        case "additionalProperties" | "unevaluatedProperties":
            yield from (f"{path}.{name}: is not a known property" for name in getattr(kind, "unexpected", ()))
        case "anyOf" | "oneOf" if getattr(kind, "context", None):
            branches = cast("list[list[jsonschema_rs.ValidationError]]", getattr(kind, "context", []))
            why = "; or ".join(_cut(branch[0].message) for branch in branches[:5] if branch)
            yield f"{path}: fits none of the alternatives: {why}"
        case _:
            yield f"{path}: {_cut(error.message)}"


def _cut(text: str) -> str:
    half = _SHOWN // 2
    return text if len(text) <= _SHOWN else f"{text[:half]} … {text[-half:]}"


def _completed(value: object, schemas: list[Mapping[str, Any]], root: Mapping[str, Any]) -> object:
    if not schemas:
        return value
    if isinstance(value, dict):
        return _completed_object(cast("dict[str, Any]", value), schemas, root)
    if isinstance(value, list):
        within = _applicable([schema.get("items") for schema in schemas], root)
        return [_completed(item, within, root) for item in cast("list[object]", value)]
    return value


def _completed_object(
    value: dict[str, Any], schemas: list[Mapping[str, Any]], root: Mapping[str, Any]
) -> dict[str, Any]:
    known: dict[str, list[object]] = {}
    for schema in schemas:
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            for name, inner in cast("Mapping[str, object]", properties).items():
                known.setdefault(name, []).append(inner)
    done = dict(value)
    for name, inner in known.items():
        within = _applicable(inner, root)
        if name in done:
            done[name] = _completed(done[name], within, root)
        elif given := [schema for schema in within if "default" in schema]:
            done[name] = thaw(given[0]["default"])
    return done


def _applicable(schemas: Iterable[object], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all schemas that hold where *schemas* do: themselves, their ``$ref`` and ``allOf``."""
    waiting = list(schemas)
    seen: dict[int, Mapping[str, Any]] = {}
    while waiting and len(seen) < _MAX_SCHEMAS:
        schema = waiting.pop(0)
        if not isinstance(schema, Mapping) or id(cast("object", schema)) in seen:
            continue
        known = cast("Mapping[str, Any]", schema)
        seen[id(known)] = known
        waiting.append(_resolved(known.get("$ref"), root))
        every = known.get("allOf")
        waiting.extend(cast("Sequence[object]", every) if isinstance(every, list | tuple) else ())
    return list(seen.values())


def _resolved(reference: object, root: Mapping[str, Any]) -> object:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    place: object = root
    for part in reference[1:].split("/")[1:]:
        if not isinstance(place, Mapping):
            return None
        place = cast("Mapping[str, object]", place).get(part.replace("~1", "/").replace("~0", "~"))
    return place
