"""The network zone of an address, of those too that lead to another one. Pure.

``ipaddress`` calls addresses global that a translator on the way, or a cloud, takes to the inside; and it
says something else in every version of Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address


class Place(IntEnum):
    """The network zone of an address."""

    OUTSIDE = 0
    NETWORK = 1
    MACHINE = 2


_NOT_OUTSIDE_V4 = tuple(
    map(
        IPv4Network,
        (
            "100.64.0.0/10", "168.63.129.16/32",  # shared address space; Azure's host
            "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All that is global (RFC 4291, 2.4)."""
_NOT_OUTSIDE_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Teredo, 6to4 and other special purposes in it (IANA)."""
_TRANSPARENT = tuple(map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""What is reached is the IPv4 address at the end alone: mapped, and NAT64 of everybody (RFC 6052)."""
_V4_AT_THE_END = (*_TRANSPARENT, *map(IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48")))
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The upper bits of an interface that has an IPv4 address (RFC 5214, 6.1)."""


def place(text: str) -> Place:
    """Return where an address is.

    >>> place("10.0.0.1").name, place("::ffff:127.0.0.1").name, place("169.254.169.254").name
    ('NETWORK', 'MACHINE', 'NETWORK')
    >>> place("64:ff9b::a00:1").name, place("64:ff9b::808:808").name, place("168.63.129.16").name
    ('NETWORK', 'OUTSIDE', 'NETWORK')
    """
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        return _place_v4(address)
    inner = max(map(_place_v4, _inside(address)), default=Place.OUTSIDE)
    if any(address in network for network in _TRANSPARENT):
        return inner
    return max(inner, _place_v6(address))


def _place_v4(address: IPv4Address) -> Place:
    if address.is_loopback or address in IPv4Network("0.0.0.0/8"):
        return Place.MACHINE
    outside = address.is_global and not any(address in network for network in _NOT_OUTSIDE_V4)
    return Place.OUTSIDE if outside else Place.NETWORK


def _place_v6(address: IPv6Address) -> Place:
    if address.is_loopback or address.is_unspecified:
        return Place.MACHINE
    outside = address in _GLOBAL_V6 and not any(address in network for network in _NOT_OUTSIDE_V6)
    return Place.OUTSIDE if outside else Place.NETWORK


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that may be reached through *address*."""
    number = int(address)
    if any(address in network for network in _V4_AT_THE_END) or number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
