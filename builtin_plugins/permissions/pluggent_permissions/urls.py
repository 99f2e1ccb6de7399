"""Reads URLs so that no program can take one for something else, and holds them against rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import attrs

from pluggent_permissions import text_patterns as texts
from pluggent_permissions.argument_settings import HostTest, UrlTest
from pluggent_permissions.hosts import Place, address_test, name_test, read_place
from pluggent_permissions.text_patterns import Reading

PlaceTest: TypeAlias = Callable[[Place], bool]


@attrs.frozen
class Url:
    """A URL with an authority. ``port`` is that of the scheme where none is written."""

    scheme: str
    place: Place
    path: str


_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,63})://([^/?#]*)([^?#]*)(?:[?#].*)?")
_UNCLEAR = re.compile(r"[\x00-\x20\\<>\"^`{|}\x7f-\xa0]")
"""What browsers remove or take for a slash, and what has to be encoded."""

_SHORT = 1000
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21, "ftps": 990, "ssh": 22, "sftp": 22}


def read_url(text: str) -> Url | None:
    """Return what *text* means to every program alike, None if that is not clear.

    Not clear are: anything but ``scheme://host``, a user name (``http://good@evil``),
    backslashes, white space, control and invisible characters, a host that is none.

    >>> url = read_url("HTTPS://Example.org/a?b")
    >>> url.scheme, url.place.host.name, url.place.port, url.path
    ('https', 'example.org', 443, '/a')
    """
    return _known(text) if len(text) <= _SHORT else _read(text)


@lru_cache(512)
def _known(text: str) -> Url | None:
    return _read(text)


def _read(text: str) -> Url | None:
    found = _URL.fullmatch(text)
    if found is None or _UNCLEAR.search(text) or texts.has_unseen(text):
        return None
    scheme = found[1].lower()
    place = read_place(found[2])
    if place is None:
        return None
    if place.port is None:
        place = attrs.evolve(place, port=_PORTS.get(scheme))
    return Url(scheme, place, found[3] or "/")


def url_test(wanted: UrlTest, reading: Reading) -> Callable[[str], bool]:
    """Return a test of texts that are URLs. An ambiguous URL is in doubt."""
    fits_place = _place_test(wanted.host, wanted.address, wanted.port, reading)
    schemes = frozenset(wanted.scheme)
    fits_path = _path_test(wanted.path, reading) if wanted.path else None

    def test(text: str) -> bool:
        url = read_url(text)
        if url is None:
            return reading.in_doubt
        return (
            (not schemes or url.scheme in schemes)
            and fits_place(url.place)
            and (fits_path is None or fits_path(url.path))
        )

    return test


def host_test(wanted: HostTest, reading: Reading) -> Callable[[str], bool]:
    """Return a test of texts that are hosts, with a port or without."""
    fits = _place_test(wanted.name, wanted.address, wanted.port, reading)

    def test(text: str) -> bool:
        place = None if texts.has_unseen(text) else read_place(text)
        return reading.in_doubt if place is None else fits(place)

    return test


def _place_test(
    names: tuple[str, ...], addresses: tuple[str, ...], ports: tuple[range, ...], reading: Reading
) -> PlaceTest:
    tests = [name_test(names, reading)] if names else []
    tests += [address_test(addresses, reading)] if addresses else []

    def test(place: Place) -> bool:
        if ports and not (reading.in_doubt if place.port is None else any(place.port in each for each in ports)):
            return False
        return all(fits(place.host) for fits in tests)

    return test


# ---- paths of URLs ---------------------------------------------------------------------


_ENCODED = re.compile(r"%(?:2[eEfF]|5[cC]|25|00)|%(?![0-9A-Fa-f]{2})")
_DOTS = re.compile(r"(?:^|/)\.{1,2}(?:/|;|$)|//|;")
_MANY = 10


def _path_test(patterns: tuple[str, ...], reading: Reading) -> Callable[[str], bool]:
    fits = texts.glob(patterns, reading)
    if reading is Reading.EXACT:
        return lambda path: not (_ENCODED.search(path) or _DOTS.search(path)) and fits(path)
    return lambda path: fits(path) or fits(_decoded(path))


def _decoded(path: str) -> str:
    """Return *path* as the most willing of servers reads it. Raises ValueError if it is never through."""
    # Here and not above: it costs 3 ms, and few rules speak of paths of URLs.
    from urllib.parse import unquote

    for _ in range(_MANY):
        decoded = unquote(path, errors="strict")
        if decoded == path:
            break
        path = decoded
    else:
        raise ValueError("encoded too many times")
    parts: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        name = part.partition(";")[0]
        if name == "..":
            del parts[-1:]
        elif name not in ("", "."):
            parts.append(name)
    return "/" + "/".join(parts) + ("/" if path.endswith("/") and parts else "")
