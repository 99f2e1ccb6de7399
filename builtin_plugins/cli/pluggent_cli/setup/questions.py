"""What a provider's settings class wants to know of a person. Any provider takes part: see the contract's README.

Asked for are the fields of type Secret and those without a default. A field ``servers``, a table of settings
with a ``base_url``, offers servers of one's own; the field's metadata may name some under ``examples``.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import attrs
from pluggent_hookspecs.secrets import Secret

from pluggent_cli.config.field_docs import field_docs

SERVERS = "servers"


class Field(NamedTuple):
    """One field of a settings class. ``default`` is None where ``required``, or where that is the default."""

    name: str
    type: Any
    required: bool
    default: Any
    about: str
    metadata: Mapping[str, Any]

    @property
    def is_secret(self) -> bool:
        """Whether it holds a secret, or may."""
        return self.type is Secret or Secret in typing.get_args(self.type)


class Example(NamedTuple):
    """A server that a plugin knows of: its name and its settings."""

    name: str
    settings: Mapping[str, Any]


def fields_of(settings: type) -> Iterator[Field]:
    """Yield the fields of *settings*, an attrs class or a dataclass, in their order."""
    docs = field_docs(settings)
    try:
        types = typing.get_type_hints(settings)
    except (NameError, TypeError):
        types = {}  # types of the author's own that stand nowhere at run time
    for one in attrs.fields(settings) if attrs.has(settings) else dataclasses.fields(settings):
        if one.init:
            required, default = _default(one)
            wanted = types.get(one.name, one.type)
            yield Field(one.name, wanted, required, default, docs.get(one.name, ""), one.metadata)


def _default(one: Any) -> tuple[bool, Any]:
    if isinstance(one, dataclasses.Field):
        if one.default_factory is not dataclasses.MISSING:
            return False, one.default_factory()
        return one.default is dataclasses.MISSING, None if one.default is dataclasses.MISSING else one.default
    if one.default is attrs.NOTHING:
        return True, None
    if isinstance(one.default, attrs.Factory):  # type: ignore[arg-type]
        return False, None if one.default.takes_self else one.default.factory()
    return False, one.default


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
    found = (one.metadata.get("examples", {}) for one in fields_of(settings) if one.name == SERVERS)
    named: Mapping[str, Mapping[str, Any]] = next(found, {})
    return tuple(Example(name, values) for name, values in named.items())
