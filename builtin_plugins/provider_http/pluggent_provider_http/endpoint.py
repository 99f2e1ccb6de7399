"""Where a server is and how long to wait for it. Values only: nothing is opened or read here.

Light on purpose: a plugin names its settings before anything is asked of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

import attrs
from pluggent_hookspecs import Secret

_MAX_RESPONSE_BYTES: int = 33_554_432


def check_url(_: object, attribute: attrs.Attribute[Any], url: str) -> None:
    """Refuse, as a validator of attrs, what is not a URL of an HTTP server; empty stands for a default."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable:
        # The text is not repeated: it may hold a password.
        expected = "expected http://HOST/PATH or https://HOST/PATH, such as http://127.0.0.1:8000/v1"
        raise ValueError(f"{attribute.name}: {expected}")
    if "@" in parts.netloc:
        raise ValueError(f"{attribute.name}: a user name or password has no place in it; give the key as api_key")


def check_positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Refuse, as a validator of attrs, what is not above zero."""
    if not value > 0:
        raise ValueError(f"{attribute.name}: expected more than 0, got {value!r}")


def check_count(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Refuse, as a validator of attrs, what is not a whole number from 1 up."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{attribute.name}: expected a whole number from 1, got {value!r}")


def check_header(_: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    """Refuse, as a validator of attrs, a text that is not valid in a header; None means no header."""
    if value is not None and not is_sendable(value):
        raise ValueError(f"{attribute.name}: only printable ASCII characters can be sent in a header")


def check_headers(_: object, attribute: attrs.Attribute[Any], headers: Mapping[str, str | Secret]) -> None:
    """Refuse, as a validator of attrs, names and values that cannot be sent. A Secret is read when it is sent."""
    for name, value in headers.items():
        shown = "" if isinstance(value, Secret) else value
        if not name or not all(is_sendable(text) for text in (name, shown)):
            # The value is not shown: it may be a secret.
            problem = f"{name!r} or its value cannot be sent; both are printable ASCII characters"
            raise ValueError(f"{attribute.name}: {problem}")


def is_sendable(text: str) -> bool:
    """Say whether a header can carry *text*."""
    return text.isascii() and text.isprintable()


_REFERENCE = re.compile(r"(env|file|keyring):\S")


def _headers(headers: Mapping[str, str | Secret]) -> Mapping[str, str | Secret]:
    return MappingProxyType({name: _header(name, value) for name, value in headers.items()})


def _header(name: str, value: str | Secret) -> str | Secret:
    """Return the value of a header; what refers to a secret as an ``api_key`` does is one."""
    if isinstance(value, Secret) or not _REFERENCE.match(value):
        return value
    place = value.removeprefix("file:")
    if place != value and not place.startswith("~") and not Path(place).is_absolute():
        raise ValueError(f"headers: {name!r}: expected the whole path behind file:, or one from ~/ on")
    return Secret(value)


def check_names(*taken: str) -> Callable[[object, attrs.Attribute[Any], Mapping[str, Any]], None]:
    """Return a validator of attrs for settings by the names of providers, other than those that are *taken*."""

    def check(_: object, attribute: attrs.Attribute[Any], servers: Mapping[str, Any]) -> None:
        for name in servers:
            if not name or "/" in name or name in taken:
                expected = f"take a word without '/', other than {', '.join(taken)}"
                raise ValueError(f"{attribute.name}: {name!r} cannot name a provider; {expected}")

    return check


_NEVER = frozenset({
    "accept", "accept-encoding", "api-key", "authorization", "connection", "content-encoding", "content-length",
    "content-type", "cookie", "expect", "host", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    "x-api-key", "x-goog-api-key", "x-goog-user-project",
})  # fmt: skip
"""Headers that say who asks, or how the request is to be read."""


def _names(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_allowed(instance: object, attribute: attrs.Attribute[Any], names: tuple[str, ...]) -> None:
    check_headers(instance, attribute, dict.fromkeys(names, ""))
    for name in names:
        if name.lower() in _NEVER or name.lower().startswith(("x-amz-", "proxy-")):
            raise ValueError(f"{attribute.name}: {name!r} is for the settings alone: it says who asks, or what is sent")


@attrs.frozen(kw_only=True)
class Endpoint:
    """One server: the base of a provider's settings. Times are seconds.

    Requests go below ``base_url``, whose query is kept. ``api_key`` None sends no key.
    ``headers`` are sent with each request and shown nowhere; a value such as ``env:NAME`` refers to
    a secret as ``api_key`` does, and is read at each request. ``allow_headers`` are names of headers that
    ModelParameters.headers may add. ``connect_s`` is for the connection,
    ``first_byte_s`` counts from the start of a call to the first byte of its answer's body,
    ``silence_s`` between two pieces of it. An answer of more than ``max_response_bytes`` is an
    error. Subclass it to add what a vendor's servers know.

    >>> Endpoint(base_url="http://127.0.0.1:8000/v1").silence_s
    60.0
    """

    base_url: str = attrs.field(validator=check_url)
    """Where requests go, such as http://127.0.0.1:8000/v1; a query is kept."""
    api_key: Secret | None = None
    """The key: env:NAME, file:PATH or keyring:SERVICE/USER."""
    headers: Mapping[str, str | Secret] = attrs.field(
        factory=dict[str, "str | Secret"], converter=_headers, validator=check_headers, repr=False
    )
    """Further headers of each request; a value such as env:NAME refers to a secret."""
    allow_headers: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_check_allowed)
    """Names of headers that a request may add; none that says who asks."""
    connect_s: float = attrs.field(default=10.0, validator=check_positive)
    """Seconds until the connection stands."""
    first_byte_s: float = attrs.field(default=120.0, validator=check_positive)
    """Seconds from the call to the first byte of the body of the answer."""
    silence_s: float = attrs.field(default=60.0, validator=check_positive)
    """Seconds between two pieces of the answer."""
    max_response_bytes: int = attrs.field(default=_MAX_RESPONSE_BYTES, validator=check_positive)
    """A longer answer is an error."""


def target_of(base_url: str) -> str:
    """Return where requests go, without user, query and fragment, which may be secret.

    >>> target_of("https://u:p@example.org/v1/?key=1#x")
    'https://example.org/v1'
    """
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def url_below(base_url: str, path: str, query: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the URL of *path*, which may have a query, below *base_url*; *query* is added to what is there.

    >>> url_below("http://127.0.0.1:8000/v1/?api-version=1", "/models", {"limit": "9"})
    'http://127.0.0.1:8000/v1/models?api-version=1&limit=9'
    """
    parts, (path, _, own) = urlsplit(base_url), path.partition("?")
    asked = "&".join(filter(None, (parts.query, own, urlencode(query))))
    return parts._replace(path=parts.path.rstrip("/") + path, query=asked, fragment="").geturl()
