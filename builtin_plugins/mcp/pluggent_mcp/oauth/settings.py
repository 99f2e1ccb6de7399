"""OAuth settings of a server. Values only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import attrs
from pluggent_hookspecs import Secret

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def loopback(url: str) -> bool:
    """Say whether *url* is on this machine, as far as its text says.

    >>> loopback("http://127.0.0.1:80/mcp"), loopback("http://127.0.0.1.example.com/mcp")
    (True, False)
    """
    return (urlsplit(url).hostname or "") in LOOPBACK


def safe(url: str) -> bool:
    """Return whether *url* is encrypted or on this machine."""
    return urlsplit(url).scheme == "https" or (urlsplit(url).scheme == "http" and loopback(url))


def is_scope(text: str) -> bool:
    """Say whether *text* is one scope (RFC 6749, 3.3)."""
    return _SCOPE.fullmatch(text) is not None


def _scopes(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _check_scopes(_: object, __: object, value: tuple[str, ...]) -> None:
    for scope in value:
        if not is_scope(scope):
            raise ValueError(f'{scope!r} is not a scope: printable ASCII without blanks, " and \\')


def _check_issuer(_: object, __: object, value: str) -> None:
    if value and not safe(value):
        raise ValueError("issuer: expected the https:// URL of an authorization server")


@attrs.frozen(kw_only=True)
class OAuth:
    """How to log in to a server; with nothing set, everything is found out from the server.

    ``client_id`` is for an authorization server at which this client was registered beforehand,
    ``client_secret`` its secret if it has one. ``scopes`` are asked for in place of those that the
    server names. ``issuer`` is the only authorization server that may be used.

    >>> OAuth(scopes=["files:read"])
    OAuth(client_id='', client_secret=None, scopes=('files:read',), issuer='')
    """

    client_id: str = ""
    client_secret: Secret | None = None
    scopes: tuple[str, ...] = attrs.field(default=(), converter=_scopes, validator=_check_scopes)
    issuer: str = attrs.field(default="", validator=_check_issuer)

    def __attrs_post_init__(self) -> None:
        if self.client_secret is not None and not self.client_id:
            raise ValueError("a client_secret goes with a client_id")


FILE_KEYS = frozenset({"client_id", "scopes", "issuer"})
"""Keys that are read from files of other hosts: never a secret, since such a file may be part of a repository."""


def problem_in_file(value: object) -> str:
    """Return why *value* cannot stand as ``oauth`` in a file of other hosts, empty if it can, or is left aside there.

    >>> problem_in_file({"client_id": "a", "client_secret": "env:KEY"})
    '.client_secret: stands in your own settings alone'
    """
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        if "client_secret" in table:
            return ".client_secret: stands in your own settings alone"
        try:
            in_file(table)
        except (TypeError, ValueError) as error:
            return f": {error.args[0]}"
        return ""
    return "" if isinstance(value, bool) else ": expected true, false or a table"


def in_file(value: object) -> OAuth | bool:
    """Return the OAuth settings of a valid *value*. A table in the notation of another host is ignored.

    >>> in_file({"clientId": "a", "callbackPort": 8080})
    False
    """
    if not isinstance(value, Mapping):
        return value is True
    table = cast("Mapping[str, Any]", value)
    if not table.keys() <= FILE_KEYS:
        return False
    if not all(isinstance(table.get(key, ""), str) for key in ("client_id", "issuer")):
        raise TypeError("client_id and issuer are texts")
    if not isinstance(table.get("scopes", []), list) or not all(type(each) is str for each in table.get("scopes", [])):
        raise TypeError("scopes: expected a list of texts")
    return OAuth(**table)
