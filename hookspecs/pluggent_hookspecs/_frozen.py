"""Read-only views of JSON values, so that what was approved cannot be edited by accident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, cast

__all__ = ["EMPTY", "Json", "freeze", "freeze_object", "thaw"]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_LEAVES = frozenset({str, int, float, bool, type(None)})
"""The exact classes of what holds nothing else; asked first, since asking for a Mapping takes longer."""

EMPTY: Mapping[str, Json] = MappingProxyType({})


def freeze(value: Json) -> Json:
    """Return *value* with every dict read-only and every list a tuple.

    >>> freeze({"a": [1, {"b": 2}]})
    mappingproxy({'a': (1, mappingproxy({'b': 2}))})
    """
    if type(value) in _LEAVES:
        return value
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def freeze_object(value: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return *value*, a JSON object, read-only all the way down; the converter of attrs fields."""
    return value if value is EMPTY else cast("Mapping[str, Json]", freeze(value))


def freeze_maybe(value: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
    """Return *value* read-only, None as it is; the converter of optional objects."""
    return None if value is None else freeze_object(value)


def thaw(value: Json) -> Json:
    """Return *value* as plain dicts and lists, for encoders that know no others."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
