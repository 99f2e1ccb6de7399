"""A JSON Schema as Anthropic's structured output takes it, also at Amazon Bedrock: closed objects, few keywords.

What it does not take is written into the description, where the model reads it. Whatever
follows the result in shape follows the original too, but for what became a description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec
from pluggent_hookspecs import Json, thaw

Object: TypeAlias = dict[str, Any]

_COMBINED = ("allOf", "anyOf")
_NAMED = ("$defs", "definitions", "properties")
_PLAIN = ("$ref", "additionalProperties", "const", "default", "description", "enum", "items", "pattern", "required")
_TAKEN = frozenset((*_COMBINED, *_NAMED, *_PLAIN, "title", "type"))
_FORMATS = frozenset(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"])


def closed_schema(schema: Mapping[str, Json]) -> Object:
    """Return *schema* in the words that the API knows.

    >>> closed_schema({"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}})["properties"]
    {'age': {'type': 'integer', 'description': '{"minimum":0}'}}
    """
    return _taken(cast("Object", thaw(schema)))


def _taken(schema: Object) -> Object:
    out = dict(schema)
    out.pop("$schema", None)
    if "oneOf" in out and "anyOf" not in out:
        out["anyOf"] = out.pop("oneOf")
    left = {name: out.pop(name) for name in list(out) if not _is_taken(name, out[name])}
    for name in _NAMED:
        if isinstance(out.get(name), dict):
            out[name] = {key: _inner(value) for key, value in out[name].items()}
    for name in _COMBINED:
        if isinstance(out.get(name), list):
            out[name] = [_inner(value) for value in out[name]]
    if "items" in out:
        out["items"] = _inner(out["items"])
    if out.get("type") == "object" or "properties" in out:
        out.setdefault("additionalProperties", False)
    if left:
        said = msgspec.json.encode(left).decode()
        out["description"] = f"{out['description']}\n\n{said}" if out.get("description") else said
    return out


def _is_taken(name: str, value: object) -> bool:
    if name == "format":
        return value in _FORMATS
    return name in _TAKEN or (name == "minItems" and value in (0, 1))


def _inner(schema: object) -> object:
    return _taken(cast("Object", schema)) if isinstance(schema, dict) else schema
