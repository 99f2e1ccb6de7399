"""Reads JSON that a server sent, without trusting its shape."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec

from pluggent_provider_http.surrogates import MOST_BYTES, replaced

Object: TypeAlias = Mapping[str, Any]


class MalformedError(Exception):
    """An answer is not of the shape that it should have; the message says what is wrong with it."""


def decode(data: bytes) -> Any:
    """Return the JSON value of *data*. Raises MalformedError, also for endless nesting and lone surrogates.

    A number that is not finite (NaN, 1e999), which some servers write although JSON has none, is null.
    In the arguments of a tool it is refused: they would be other arguments.

    >>> decode(b'{"a": [1]}'), decode(b'{"logprob": NaN}')
    ({'a': [1]}, {'logprob': None})
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _decoded_leniently(data, error)
    except RecursionError as error:
        raise MalformedError(_TOO_DEEP) from error


def decode_whole(data: bytes) -> Any:
    r"""Return the JSON value of a whole answer, in which a lone surrogate is U+FFFD. Otherwise as ``decode``.

    In an event of a stream the other half may follow: see ReplyReader.

    >>> decode_whole(rb'"a\ud83c"')
    'a�'
    """
    try:
        return decode(data)
    except MalformedError:
        if (mended := replaced(data)) == data:
            raise
        return decode(mended)


_TOO_DEEP = "is nested too deeply"
_ARGUMENTS = ("arguments", "input", "args")


class _Impossible(float):
    """A number that is not finite, until it is known where it stands."""


def _decoded_leniently(data: bytes, cause: Exception) -> Any:
    try:
        if len(data) > MOST_BYTES or replaced(data) != data:  # which this decoder would take
            raise ValueError("a lone surrogate")  # noqa: TRY301 (one way out for all that is no JSON)
        value = json.loads(data.decode(), parse_float=_number, parse_constant=_Impossible)
        return _possible(value, in_arguments=False)
    except RecursionError as error:
        raise MalformedError(_TOO_DEEP) from error
    except ValueError:  # no JSON all the same, or no UTF-8
        raise MalformedError(f"is not JSON: {cause}") from cause


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _Impossible(number)


def _possible(value: object, *, in_arguments: bool) -> Any:
    if isinstance(value, _Impossible):
        if in_arguments:
            raise MalformedError("the arguments of a tool have a number that is not finite")
        return None
    if isinstance(value, list):
        return [_possible(item, in_arguments=in_arguments) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value).items()
        return {name: _possible(item, in_arguments=in_arguments or name in _ARGUMENTS) for name, item in fields}
    return value


def as_object(value: object, what: str) -> Object:
    """Return *value* if it is a JSON object. Raises MalformedError naming *what* is none."""
    if not isinstance(value, dict):
        raise MalformedError(f"{what} is not an object")
    return cast("Object", value)


def as_fields(value: object) -> Object:
    """Return *value* if it is a JSON object, otherwise an empty one.

    >>> as_fields({"a": 1}), as_fields([1])
    ({'a': 1}, {})
    """
    return cast("Object", value) if isinstance(value, dict) else {}


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


def as_number(value: object) -> float | None:
    """Return *value* if it is a finite number, otherwise None.

    >>> as_number(2), as_number(True), as_number(10**400), as_number("2")
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
