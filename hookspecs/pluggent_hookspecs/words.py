"""Reads arguments of a tool from a command line: ``key=value`` words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.errors import ConfigError

__all__ = ["read_words"]


def read_words(words: Sequence[str], schema: Mapping[str, Json], where: str) -> dict[str, Json]:
    """Return *words* as arguments, not checked against the tool.

    ``key=value`` is text where *schema*, that of the tool, says text; otherwise JSON if it can be
    read so, else text. ``key:=value`` is always JSON. Raises ConfigError about *where* (a command),
    naming every word that is neither.

    >>> read_words(["city=10115", "days=2"], {"properties": {"city": {"type": "string"}}}, "acme call")
    {'city': '10115', 'days': 2}
    """
    properties = schema.get("properties")
    known: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
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
            made[name] = _value(text, known.get(name), problems, as_json=key.endswith(":"))
    if problems:
        raise ConfigError(where, problems)
    return made


def _value(text: str, schema: object, problems: list[str], *, as_json: bool) -> Json:
    if not as_json and isinstance(schema, Mapping) and cast("Mapping[str, Json]", schema).get("type") == "string":
        return text
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError) as error:
        if as_json:
            problems.append(f"{text!r} is no JSON: {error}")
        return text
