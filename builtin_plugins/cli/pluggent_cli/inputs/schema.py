"""The form of an answer, from what ``--schema`` was given: a file, JSON Schema, or the short form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli.inputs.reading import Say, read_file
from pluggent_cli.inputs.texts import read_text

TYPES: Mapping[str, str] = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_FIELD = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:[ \t]+(?P<type>[A-Za-z]+(?:\[[A-Za-z]*\])?))?")
_OPTION = "--schema"


def read_schema(given: str, say: Say) -> Mapping[str, Any]:
    """Return the JSON Schema that *given* is, leads to, or is short for. Raises ConfigError."""
    text = given.strip()
    if text.startswith("{"):
        return _of_json(text, _OPTION)
    if text.endswith(".json") or Path(text).is_file():
        mend = 'Write JSON Schema, or the short form: --schema "name str, age int"'
        return _of_json(read_text(read_file(text, say), text, mend), text)
    return of_short_form(given)


def of_short_form(text: str) -> Mapping[str, Any]:
    """Return the schema of fields by name, type and description; commas or lines divide them. Raises ConfigError.

    >>> of_short_form("name, age int: in years")["properties"]
    {'name': {'type': 'string'}, 'age': {'type': 'integer', 'description': 'in years'}}
    """
    properties: dict[str, Any] = {}
    problems: list[str] = []
    for field in re.split(r"\n" if "\n" in text.strip() else ",", text):
        if field.strip():
            _add(field, properties, problems)
    if not properties and not problems:
        problems.append('names no field; write: --schema "name str, age int"')
    if problems:
        raise ConfigError(_OPTION, problems)
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _add(field: str, properties: dict[str, Any], problems: list[str]) -> None:
    head, _, description = field.partition(":")
    found = _FIELD.fullmatch(head.strip())
    if found is None:
        problems.append(
            f"{field.strip()!r} is not a field: write name, type and description, as in 'age int: in years'"
        )
        return
    made = _type_of(found["type"] or "str")
    if found["name"] in properties:
        problems.append(f"{found['name']!r} is named twice")
    elif isinstance(made, str):
        problems.append(f"{head.strip()!r}: {made}")
    else:
        about = {"description": description.strip()} if description.strip() else {}
        properties[found["name"]] = {**made, **about}


def _type_of(name: str) -> dict[str, Any] | str:
    """Return the schema of the type *name*, or what is wrong with it."""
    inner = name.removeprefix("list[").removesuffix("]") if name.startswith("list[") else ""
    if inner or name == "list":
        made = _type_of(inner or "str")
        return made if isinstance(made, str) else {"type": "array", "items": made}
    if name not in TYPES:
        known = [*TYPES, *(f"list[{each}]" for each in TYPES)]
        return f"there is no type {name!r}{did_you_mean(name, known) or '; there are: ' + ', '.join(known)}"
    return {"type": TYPES[name]}


def _of_json(text: str, where: str) -> Mapping[str, Any]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(where, [f"is not JSON: {error}"]) from error
    if not isinstance(found, dict):
        raise ConfigError(where, ["is not a JSON Schema, which is an object"])
    schema = cast("Mapping[str, Any]", found)
    if schema.get("type") != "object":
        mend = 'for a list, make it a property: {"type": "object", "properties": {"items": {"type": "array", …}}}'
        raise ConfigError(where, [f'is not the schema of an object ("type": "object"); {mend}'])
    return schema
