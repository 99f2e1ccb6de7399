"""Values as TOML writes them, on one line. The standard library reads TOML only."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any, cast

import attrs
from pluggent_hookspecs.secrets import Secret

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(names: Sequence[str]) -> str:
    """Return a dotted key.

    >>> toml_key(["plugins", "llama.cpp"])
    'plugins."llama.cpp"'
    """
    return ".".join(name if _BARE.fullmatch(name) else toml_text(name) for name in names)


def toml_text(text: str) -> str:
    """Return *text* as TOML writes it: as JSON does, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """Return *value*, of a settings class, in TOML; what is None in it is left out. Raises TypeError.

    >>> toml_value({"kinds": ("a", "b"), "on": True, "at": None})
    '{ kinds = ["a", "b"], on = true }'
    """
    match value:
        case Enum():
            return toml_value(value.value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str() | PurePath():
            return toml_text(str(value))
        case Secret():
            return toml_text(reference_of(value))
        case list() | tuple() | set() | frozenset():
            return f"[{', '.join(map(toml_value, cast('Sequence[Any]', value)))}]"
        case _:
            return _table(value)


def _table(value: Any) -> str:
    kind = cast("Any", type(value))
    if isinstance(value, Mapping):
        values = cast("Mapping[str, Any]", value)
    elif attrs.has(kind):
        values = {one.name: getattr(value, one.name) for one in attrs.fields(kind)}
    elif dataclasses.is_dataclass(value):
        values = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    else:
        raise TypeError(f"TOML has no form for {kind.__name__}")
    entries = [f"{toml_key([name])} = {toml_value(each)}" for name, each in values.items() if each is not None]
    return f"{{ {', '.join(entries)} }}" if entries else "{}"


def reference_of(secret: Secret) -> str:
    """Return the reference that *secret* is, such as ``env:NAME``."""
    return repr(secret).removeprefix("Secret('").removesuffix("')")
