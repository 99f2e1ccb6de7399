"""Arguments of a tool as a person types them: ``key=value`` words, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.errors import ConfigError

_WHERE = "pluggent tools call"


def read_arguments(words: Sequence[str], schema: Mapping[str, Json]) -> str:
    """Return *words* as JSON text; whether they suit the tool is the host's to say.

    ``key=value`` is text where *schema* says text; otherwise JSON if it can be read so, else
    text. ``key:=value`` is always JSON. Raises ConfigError naming every word that is neither.

    >>> read_arguments(["city=10115", "days=2"], {"properties": {"city": {"type": "string"}}})
    '{"city": "10115", "days": 2}'
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return words[0]
    properties = schema.get("properties")
    known: Mapping[str, Any] = cast("Mapping[str, Any]", properties) if isinstance(properties, Mapping) else {}
    made: dict[str, Json] = {}
    problems: list[str] = []
    for word in words:
        key, equals, text = word.partition("=")
        name = key.removesuffix(":")
        if not equals or not name:
            problems.append(f"{word!r} is no KEY=VALUE and no JSON object")
        elif name in made:
            problems.append(f"{name!r} is given twice")
        else:
            made[name] = _value(text, key.endswith(":"), known.get(name), problems)
    if problems:
        raise ConfigError(_WHERE, problems)
    return json.dumps(made, ensure_ascii=False)


def _value(text: str, as_json: bool, schema: Any, problems: list[str]) -> Json:  # noqa: FBT001 (which of two ways)
    if not as_json and isinstance(schema, Mapping) and cast("Mapping[str, Any]", schema).get("type") == "string":
        return text
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError) as error:
        if as_json:
            problems.append(f"{text!r} is no JSON: {error}")
        return text
