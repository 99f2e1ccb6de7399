"""Reads the host of a URL, or one that stands alone, and holds it against names and networks. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs

from pluggent_permissions import addresses
from pluggent_permissions.addresses import Address
from pluggent_permissions.text_patterns import Reading


@attrs.frozen
class Host:
    """A host as programs may take it: a name in ASCII, or addresses.

    ``name`` is empty for an address. ``plain`` says that every program reads it alike.
    """

    name: str
    addresses: tuple[Address, ...]
    plain: bool


@attrs.frozen
class Place:
    """A host with its port, None if none is written."""

    host: Host
    port: int | None


_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_PORT = re.compile(r"[0-9]{1,5}")
_LONGEST = 253
_HIGHEST_PORT = 65_535
_READ_DIFFERENTLY = frozenset("ßẞς\u200c\u200d")
"""IDNA 2003 and 2008 make different names of these (UTS #46, deviations)."""


def read_place(text: str) -> Place | None:
    """Return what ``host``, ``host:port`` or ``[::1]:port`` means; None if that is not clear.

    >>> place = read_place("EXAMPLE.org:8080")
    >>> place.host.name, place.port
    ('example.org', 8080)
    """
    if text.startswith("["):
        inside, closing, rest = text[1:].partition("]")
        if not closing or ":" not in inside or (rest and not rest.startswith(":")):
            return None
        host = read_host(inside)
        port = rest[1:] if rest else None
    elif text.count(":") > 1:
        host, port = read_host(text), None
    else:
        name, colon, after = text.partition(":")
        host, port = read_host(name), after if colon else None
    if host is None or (port is not None and not (_PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT)):
        return None
    return Place(host, None if port is None else int(port))


def read_host(text: str) -> Host | None:
    """Return what a host without port and brackets means; None if that is not clear."""
    name, plain = _in_ascii(text)
    if ":" in name:
        found = addresses.readings(name)
        return Host("", found, plain and addresses.is_plain(name)) if found else None
    if name.endswith("."):
        name, plain = name[:-1], False
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        return None
    if addresses.is_numeric(name):
        found = addresses.readings(name)
        return Host("", found, plain and addresses.is_plain(name)) if found else None
    return Host(name, (), plain)


def _in_ascii(text: str) -> tuple[str, bool]:
    """Return *text* in the form that the DNS knows, and whether all programs agree about it; "" for no name."""
    if text.isascii():
        return text.lower(), True
    if len(text) > _LONGEST or not _READ_DIFFERENTLY.isdisjoint(text):
        return "", False
    try:
        name = text.encode("idna").decode("ascii").lower()
        return name, name.encode("ascii").decode("idna") == text
    except UnicodeError:
        return "", False


# ---- tests -----------------------------------------------------------------------------


def name_test(patterns: Iterable[str], reading: Reading) -> Callable[[Host], bool]:
    """Return a test of hosts against names, ``*.example.org``, and addresses; see ``check_name``."""
    given = [pattern.lower().removesuffix(".") for pattern in patterns]
    numeric = [pattern.strip("[]") for pattern in given if _is_address(pattern)]
    literal = frozenset(address for pattern in numeric for address in addresses.readings(pattern))
    names = [_as_regex(pattern) for pattern in given if not _is_address(pattern)]
    fits = re.compile("|".join(names) or r"(?!)").fullmatch
    every = all if reading is Reading.EXACT else any

    def test(host: Host) -> bool:
        if not host.plain and reading is Reading.EXACT:
            return False
        if "*" in given:
            return True
        if host.name:
            return fits(host.name) is not None
        return every(address in literal for address in host.addresses)

    return test


def address_test(wanted: Iterable[str], reading: Reading) -> Callable[[Host], bool]:
    """Return a test of hosts against named sets and networks; see ``addresses.SETS``.

    A name is not looked up. Read EXACT it is in no set but ``name``; read WIDE, also in those
    that it is known to mean, such as ``localhost`` in ``loopback``.
    """
    given = tuple(wanted)
    sets = [each for each in given if each in addresses.SETS]
    networks = [addresses.network(each) for each in given if each not in addresses.SETS]

    def holds(address: Address) -> bool:
        return any(addresses.in_set(address, each) for each in sets) or any(address in each for each in networks)

    if reading is Reading.EXACT:
        return lambda host: (
            host.plain and (addresses.NAME in sets if host.name else all(holds(address) for address in host.addresses))
        )
    return lambda host: (
        any(addresses.name_in_set(host.name, each) for each in sets)
        if host.name
        else any(holds(address) for address in host.addresses)
    )


def check_name(pattern: str) -> None:
    """Raise ValueError for a host pattern that is not a host, or fits more than it seems to."""
    if pattern == "*" or _is_address(pattern):
        return
    name = pattern.lower().removesuffix(".")
    if not name.isascii():
        ascii_name, _ = _in_ascii(name)
        raise ValueError(f"{pattern!r}: write the name in ASCII{f': {ascii_name}' if ascii_name else ''}")
    if not _NAME.fullmatch(name.replace("*", "a").replace("?", "a")):
        raise ValueError(
            f"{pattern!r} is not a host: write a name such as *.example.org, without scheme, port and path"
        )
    *_, second, last = ("", *name.split("."))
    if addresses.is_numeric(name) or _is_wild(last):
        raise ValueError(f"{pattern!r}: its last part may not be wild; networks go under address, as 10.0.0.0/8")
    if (_is_wild(second) and second != "*") or (name.startswith("*") and not name.startswith("*.")):
        raise ValueError(f"{pattern!r} fits names of strangers too; a wild first part stands alone: *.example.org")


def _is_wild(label: str) -> bool:
    return "*" in label or "?" in label


def _is_address(pattern: str) -> bool:
    text = pattern.strip("[]")
    return bool(addresses.is_plain(text) and addresses.readings(text))


def _as_regex(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "[^.]")
