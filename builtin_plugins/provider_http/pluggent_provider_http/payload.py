"""Reads JSON that a server sent, without trusting its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec

Object: TypeAlias = Mapping[str, Any]


class MalformedError(Exception):
    """An answer is not of the shape that it should have; the message says what is wrong with it."""


def decode(data: bytes) -> Any:
    """Return the JSON value of *data*. Raises MalformedError, also for endless nesting.

    >>> decode(b'{"a": [1]}')
    {'a': [1]}
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(f"is not JSON: {error}") from error
    except RecursionError as error:
        raise MalformedError("is nested too deeply") from error


def as_object(value: object, what: str) -> Object:
    """Return *value* if it is a JSON object. Raises MalformedError naming *what* is none."""
    if not isinstance(value, dict):
        raise MalformedError(f"{what} is not an object")
    return cast("Object", value)


def as_list(value: object, what: str) -> list[Any]:
    """Return *value* if it is a JSON array. Raises MalformedError naming *what* is none."""
    if not isinstance(value, list):
        raise MalformedError(f"{what} is not a list")
    return value  # pyright: ignore[reportUnknownVariableType] (whatever JSON it holds)


def as_text(value: object) -> str:
    """Return *value* if it is a text, otherwise the empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """Return *value* if it is a whole number, otherwise None.

    >>> as_count(3), as_count(True), as_count("3")
    (3, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) else None
