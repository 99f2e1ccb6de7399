"""Reads a URL so that no program can take it for something else. Pure."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, urljoin

import attrs

LONGEST = 8_192
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_LONGEST_NAME = 253
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_READ_DIFFERENTLY = frozenset("ßẞς\u200c\u200d")
"""IDNA 2003 and 2008 make different names of these (UTS #46, deviations)."""
_PORTS = {"http": 80, "https": 443}
_HIGHEST_PORT = 65_535
_USER_PORT = 1024
_OTHER_PROTOCOLS = frozenset({
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})  # fmt: skip
"""What browsers refuse above 1023: servers of other protocols read a request as commands (WHATWG Fetch, 2.9)."""
_KEPT = "/?:@!$&'()*+,;=~-._%[]"


class UrlError(ValueError):
    """A URL that is not fetched; its text says why and what to do."""


@attrs.frozen
class Url:
    """A URL that every program reads alike: lower case, ASCII, without user and fragment.

    ``host`` is a name or an address without brackets; ``path`` begins with a slash and has the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host with its port, as the header Host has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.path


def read_url(text: str) -> Url:
    """Return what *text* means. Raises UrlError.

    >>> str(read_url("HTTPS://Example.ORG:443/ä b?q=1#part".replace(" ", "%20")))
    'https://example.org/%C3%A4%20b?q=1'
    """
    if len(text) > LONGEST:
        raise UrlError(f"the URL is longer than {LONGEST:,} characters")
    if not text.isprintable() or " " in text or "\\" in text:
        raise UrlError("the URL has blanks, backslashes or invisible characters in it; write them as %20, %5C, …")
    found = _URL.fullmatch(text)
    if found is None:
        raise UrlError("that is not a whole URL: write it with its scheme, such as https://example.org/page")
    scheme, place, path, query = found[1].lower(), found[2], found[3], found[4] or ""
    if scheme not in _PORTS:
        raise UrlError(f"{scheme}:// is not fetched; only https:// and http:// are")
    if "@" in place:
        raise UrlError("a URL with a user name or password is not fetched; leave out what is before the @")
    host, port = _read_place(place, scheme)
    return Url(scheme, host, port, quote((path or "/") + query, safe=_KEPT))


def follow(base: Url, location: str) -> Url:
    """Return where a redirect of *base* to *location* leads. Raises UrlError."""
    try:
        joined = urljoin(str(base), location.strip(" \t"))
    except ValueError:  # brackets that are none of an address
        return read_url(location)
    return read_url(joined)


def _read_place(text: str, scheme: str) -> tuple[str, int]:
    found = _PLACE.fullmatch(text)
    if found is None or not found[1]:
        raise UrlError("the URL has no host that can be read")
    port = int(found[2]) if found[2] else _PORTS[scheme]
    if not 0 < port <= _HIGHEST_PORT:
        raise UrlError(f"there is no port {found[2]}")
    if port not in _PORTS.values() and (port < _USER_PORT or port in _OTHER_PROTOCOLS):
        raise UrlError(f"port {port} belongs to another protocol; 80, 443 and most from 1024 on are fetched from")
    return read_host(found[1]), port


def read_host(text: str) -> str:
    """Return the host *text* as the DNS knows it, an address without brackets. Raises UrlError.

    >>> read_host("BÜCHER.example"), read_host("[2001:DB8::1]")
    ('xn--bcher-kva.example', '2001:db8::1')
    """
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1])) if "%" not in text else _fail(text)
        except AddressValueError:
            return _fail(text)
    name = _in_ascii(text).removesuffix(".")
    labels = name.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except AddressValueError:
            raise UrlError(f"{text!r} is an address that programs read differently; write it as 192.0.2.1") from None
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        return _fail(text)
    return name


def _in_ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    if len(text) > _LONGEST_NAME or not _READ_DIFFERENTLY.isdisjoint(text):
        return _fail(text)
    try:
        return text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return _fail(text)


def _fail(text: str) -> str:
    raise UrlError(f"{text[:100]!r} is not a host that all programs read alike")
