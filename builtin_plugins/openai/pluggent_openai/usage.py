"""Token counts as servers write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pluggent_hookspecs import Json, Usage
from pluggent_provider_http.payload import Object, as_count

from pluggent_openai.compat import Dialect

COUNTERS: Mapping[str, str] = {
    "prompt_tokens": "input",
    "completion_tokens": "output",
    "prompt_cache_hit_tokens": "cached",  # DeepSeek
    "cached_tokens": "cached",  # Moonshot
}
"""Counters and the fields of Usage that have them."""
DETAILS: Mapping[str, Mapping[str, str]] = {
    "prompt_tokens_details": {
        "cached_tokens": "cached",
        "cache_write_tokens": "cache_write",
        "audio_tokens": "input_audio",
    },
    "completion_tokens_details": {"reasoning_tokens": "reasoning", "audio_tokens": "audio"},
}
"""The same inside other fields; where both have one, this one counts."""


def read_usage(said: object, dialect: Dialect) -> tuple[Usage, dict[str, Json]]:
    """Return the counts that the contract has, and every other one that is not 0, as the server wrote it.

    What the server did not say stays None.
    """
    if not isinstance(said, dict):
        return Usage(), {}
    found: dict[str, Any] = {}
    rest: dict[str, Json] = {}
    for name, value in cast("Object", said).items():
        if isinstance(value, dict):
            if more := _details(cast("Object", value), DETAILS.get(name, {}), found):
                rest[name] = more
        elif name in COUNTERS:
            if (count := as_count(value)) is not None:
                found.setdefault(COUNTERS[name], count)
        elif value:
            rest[name] = value
    if rest.get("total_tokens") == found.get("input", 0) + found.get("output", 0):
        del rest["total_tokens"]
    if dialect.cost and isinstance(rest.get("cost"), int | float):
        found["cost_usd"] = float(cast("float", rest.pop("cost")))
    return Usage(**found), rest


def _details(details: Object, known: Mapping[str, str], found: dict[str, Any]) -> dict[str, Json]:
    rest: dict[str, Json] = {}
    for name, value in details.items():
        if name not in known:
            if value:
                rest[name] = value
        elif (count := as_count(value)) is not None:
            found[known[name]] = count
    return rest
