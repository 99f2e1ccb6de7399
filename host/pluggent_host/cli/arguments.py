"""Arguments of a tool as a person types them: ``key=value`` words, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pluggent_hookspecs._frozen import Json
from pluggent_hookspecs.words import read_words

_WHERE = "pluggent tools call"


def read_arguments(words: Sequence[str], schema: Mapping[str, Json]) -> str:
    """Return *words* as JSON text; whether they suit the tool is the host's to say, an object as it was typed.

    Raises ConfigError naming every word that is neither; see read_words.

    >>> read_arguments(["city=10115", "days=2"], {"properties": {"city": {"type": "string"}}})
    '{"city": "10115", "days": 2}'
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return words[0]
    return json.dumps(read_words(words, schema, _WHERE), ensure_ascii=False)
