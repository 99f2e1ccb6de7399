"""What a rule can want of one argument, checked when it is read. Compiled in arguments.py.

Fields that take one value or a list of them are annotated Any and hold a tuple afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import attrs

Attribute: TypeAlias = "attrs.Attribute[Any]"
Transformer: TypeAlias = Callable[[type, list[Attribute]], list[Attribute]]
_HIGHEST_PORT = 65_535


def a_text(value: object) -> str:
    """Return *value*, a text. Raises ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {value!r}")
    return value


def one_or_several(**fields: Callable[[object], object]) -> Transformer:
    """Return an attrs ``field_transformer``: these fields take one value or a list, and hold a tuple.

    What stands behind a name checks one value and returns it. Raises ValueError naming the field.
    """

    def transform(_: type, given: list[Attribute]) -> list[Attribute]:
        return [
            field.evolve(converter=functools.partial(_tuple, field.name, fields[field.name]))
            if field.name in fields
            else field
            for field in given
        ]

    return transform


def _tuple(name: str, each: Callable[[object], object], value: object) -> tuple[object, ...]:
    if isinstance(value, list) and not value:
        raise ValueError(f"{name}: the list is empty, so it would fit nothing")
    given = cast("Iterable[object]", value) if isinstance(value, list | tuple) else (value,)
    try:
        return tuple(each(one) for one in given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _address(value: object) -> str:
    # Here and below: this module is read at every start, the validators of its values only if there are rules.
    from pluggent_permissions import addresses

    text = a_text(value)
    if text not in addresses.SETS:
        addresses.network(text)
    return text


def _scheme(value: object) -> str:
    text = a_text(value)
    bare = text.replace("+", "").replace("-", "").replace(".", "")
    if not (bare.isascii() and bare.isalnum() and bare == bare.lower()):
        raise ValueError(f"{text!r} is not a scheme: write https")
    return text


def _regex(value: object) -> str:
    # See _address.
    from pluggent_permissions.text_patterns import check_regex

    text = a_text(value)
    try:
        check_regex(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None
    return text


def _name(value: object) -> str:
    # See _address.
    from pluggent_permissions import hosts

    text = a_text(value)
    hosts.check_name(text)
    return text


def _root(value: object) -> str:
    text = a_text(value)
    if not text.strip() or "\0" in text:
        raise ValueError(f'{text!r} is not a folder: write "." for the session\'s workspace, or an absolute path')
    return text


def _scalar(value: object) -> str | float:
    if not isinstance(value, str | bool | int | float):
        raise ValueError(f"expected a text, a number or a boolean, got {value!r}")
    return value


def _port(value: object) -> range:
    if isinstance(value, range):
        return value
    first, dash, last = str(value).partition("-")
    if isinstance(value, bool) or not (first.isdecimal() and (last.isdecimal() or not dash)):
        raise ValueError(f'{value!r} is not a port: write 443 or "8000-8999"')
    found = range(int(first), int(last or first) + 1)
    if not found or found[-1] > _HIGHEST_PORT:
        raise ValueError(f"{value!r} is not a port: they go from 0 to {_HIGHEST_PORT}")
    return found


@attrs.frozen(field_transformer=one_or_several(scheme=_scheme, host=_name, address=_address, port=_port, path=a_text))
class UrlTest:
    """What a URL has to be; all that is given. A URL that cannot be read is in doubt.

    ``scheme`` such as https; ``host`` names such as ``*.example.org``, or addresses;
    ``address`` networks and named sets (see ``addresses.SETS``); ``port`` numbers and ranges
    such as ``"8000-8999"``, where the scheme's own counts if none is written; ``path`` globs.
    """

    scheme: Any = ()
    host: Any = ()
    address: Any = ()
    port: Any = ()
    path: Any = ()


@attrs.frozen(field_transformer=one_or_several(name=_name, address=_address, port=_port))
class HostTest:
    """What a host has to be that is written without a URL around it, as ``example.org:8080``."""

    name: Any = ()
    address: Any = ()
    port: Any = ()


NO_URL = UrlTest()
NO_HOST = HostTest()


@attrs.frozen(field_transformer=one_or_several(glob=a_text, regex=_regex, equals=_scalar, inside=_root))
class ArgumentTest:
    """What the value of an argument has to be; all that is given.

    ``glob`` and ``regex`` fit the whole text; ``equals`` is one of several values; ``ge``,
    ``gt``, ``le``, ``lt`` bound numbers; ``inside`` names folders that a path lies in;
    ``url`` and ``host`` read addresses. A list is looked at item by item. With ``optional`` an
    argument that is missing or null is not held against the call.
    """

    glob: Any = ()
    regex: Any = ()
    equals: Any = ()
    ge: int | float | None = None
    gt: int | float | None = None
    le: int | float | None = None
    lt: int | float | None = None
    inside: Any = ()
    url: UrlTest = NO_URL
    host: HostTest = NO_HOST
    optional: bool = False

    def __attrs_post_init__(self) -> None:
        bounds = (self.ge, self.gt, self.le, self.lt)
        if any(isinstance(bound, bool) for bound in bounds):
            raise ValueError("ge, gt, le, lt: expected numbers")
        wanted = (self.glob, self.regex, self.equals, self.inside)
        if not any(wanted) and self.url == NO_URL and self.host == NO_HOST and bounds == (None,) * len(bounds):
            raise ValueError('nothing is wanted of it; to let every value fit, write glob = "*"')
