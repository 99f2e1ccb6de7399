"""What a provider's settings class wants to know of a person. Any provider takes part: see the contract's README.

Asked for are the fields of type Secret and those without a default. A field ``servers``, a table of settings
with a ``base_url``, offers servers of one's own; the field's metadata may name some under ``examples``.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
from pluggent_hookspecs.secrets import Secret

from pluggent_cli.config.settings_class import Field, fields_of

SERVERS = "servers"


class Example(NamedTuple):
    """A server that a plugin knows of: its name and its settings."""

    name: str
    settings: Mapping[str, Any]


def asked(settings: type, *, optional: bool) -> tuple[Field, ...]:
    """Return the fields to ask for; with *optional* also secrets that need not be given."""
    return tuple(
        one
        for one in fields_of(settings)
        if one.required or (one.is_secret and (optional or isinstance(one.default, Secret)))
    )


def server_class(settings: type) -> type | None:
    """Return the class of the servers that *settings* has a table of, None if there is no such table."""
    for one in fields_of(settings):
        if one.name == SERVERS:
            inner = next(iter(typing.get_args(one.type)[-1:]), None)
            if not isinstance(inner, type) or not (attrs.has(inner) or dataclasses.is_dataclass(inner)):
                return None
            return inner if any(field.name == "base_url" for field in fields_of(inner)) else None
    return None


def examples(settings: type) -> tuple[Example, ...]:
    """Return the servers that the class names in the metadata of its field ``servers``."""
    named: Mapping[str, Mapping[str, Any]] = {}
    for one in fields_of(settings):
        if one.name == SERVERS:
            named = one.metadata.get("examples", named)
    return tuple(Example(name, values) for name, values in named.items())
