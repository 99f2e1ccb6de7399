"""A JSON Schema as the API takes it.

The API takes a whole schema and honours a part of its keywords (the README lists them); the others are left in
place, since the host checks arguments against the schema of the tool by itself. What it would misread or refuse
is said in other words of the same meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from pluggent_hookspecs import Json, thaw

Object: TypeAlias = dict[str, Any]

_NAMED = ("$defs", "properties", "patternProperties", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_OLD = "#/definitions/"


def wire_schema(schema: Mapping[str, Json]) -> Object:
    """Return *schema* in words that the API knows: ``enum`` for ``const``, ``$defs``, nothing beside ``$ref``.

    >>> wire_schema({"$ref": "#/definitions/Town", "title": "where", "definitions": {"Town": {"const": "Rome"}}})
    {'title': 'where', '$defs': {'Town': {'enum': ['Rome']}}, 'anyOf': [{'$ref': '#/$defs/Town'}]}
    """
    return _taken(cast("Object", thaw(schema)))


def _taken(schema: Object) -> Object:
    out = {name: value for name, value in schema.items() if name != "$schema"}
    if "definitions" in out and "$defs" not in out:
        out["$defs"] = out.pop("definitions")
    if "const" in out and "enum" not in out:
        out["enum"] = [out.pop("const")]
    out = {name: _inside(name, value) for name, value in out.items()}
    return _with_reference(out) if isinstance(out.get("$ref"), str) else out


def _with_reference(schema: Object) -> Object:
    """Return a schema that has ``$ref``: beside it the API takes only names that begin with ``$``."""
    reference = schema["$ref"]
    if reference.startswith(_OLD):
        reference = f"#/$defs/{reference.removeprefix(_OLD)}"
    alone = all(name.startswith("$") for name in schema)
    if alone or "anyOf" in schema:
        return {**schema, "$ref": reference}
    return {**{name: value for name, value in schema.items() if name != "$ref"}, "anyOf": [{"$ref": reference}]}


def _inside(name: str, value: Any) -> Any:
    if name in _NAMED and isinstance(value, dict):
        return {key: _inner(schema) for key, schema in cast("Object", value).items()}
    if name in _LISTS and isinstance(value, list):
        return [_inner(schema) for schema in cast("list[object]", value)]
    return _inner(value) if name in _SCHEMAS else value


def _inner(schema: object) -> object:
    return _taken(cast("Object", schema)) if isinstance(schema, dict) else schema
