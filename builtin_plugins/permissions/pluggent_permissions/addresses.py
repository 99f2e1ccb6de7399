"""Networks by name, and every address that a spelling of one can mean. Pure; no name is looked up.

The ranges are those of IANA's special-purpose registries (RFC 6890 and its updates), written
down here because ``ipaddress`` says something else in every version of Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # 3 ms, and few policies speak of addresses
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address: TypeAlias = "IPv4Address | IPv6Address"
Network: TypeAlias = "IPv4Network | IPv6Network"

_RANGES = {
    "loopback": ("127.0.0.0/8", "0.0.0.0/8", "::1/128", "::/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"),
    "link_local": ("169.254.0.0/16", "fe80::/10"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "metadata": (
        "169.254.169.254/32",  # AWS, Google, Azure, and most others
        "169.254.170.2/32",  # AWS ECS
        "169.254.170.23/32",  # AWS EKS
        "169.254.0.23/32",  # Tencent
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure's host
        "192.0.0.192/32",  # Oracle
        "fd00:ec2::254/128",
        "fd00:ec2::23/128",
        "fd20:ce::254/128",  # Google
    ),
    "reserved": (
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
        # All but 2000::/3, the global addresses, and what stands above (RFC 4291, 2.4): NAT64 is in the first.
        "::/3", "4000::/2", "8000::/2", "c000::/3", "e000::/4", "f000::/5", "f800::/6", "fe00::/9",
    ),
}  # fmt: skip

_NAMES = {
    "loopback": ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "localtest.me", "lvh.me"),
    "metadata": (
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
        "metadata.tencentyun.com",
    ),
    "private": (
        "corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "private",
        "nip.io", "sslip.io", "xip.io",  # an address of one's choice, as a name
    ),
}  # fmt: skip
"""Names that are known to mean such an address, with everything below them."""

INTERNAL = "internal"
PUBLIC = "public"
NAME = "name"
SETS = (*_RANGES, INTERNAL, PUBLIC, NAME)
"""``internal`` is all of the ranges, ``public`` none of them, ``name`` everything that is not an address."""


def network(text: str) -> Network:
    """Return the network that *text* names. Raises ValueError with a sentence."""
    # Inside: see the TYPE_CHECKING block.
    import ipaddress

    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        known = ", ".join(SETS)
        raise ValueError(f"{text!r} is not a network: write one as 10.0.0.0/8, or one of {known} ({error})") from None


def in_set(address: Address, name: str) -> bool:
    """Say whether *address* belongs to the named set."""
    match name:
        case "internal":
            return any(address in each for each in _all_ranges())
        case "public":
            return not any(address in each for each in _all_ranges())
        case "name":
            return False
        case _:
            return any(address in each for each in _networks(name))


def name_in_set(name: str, wanted: str) -> bool:
    """Say whether a host's name is known to mean an address of the named set."""
    match wanted:
        case "name":
            return True
        case "public":
            return False
        case "internal":
            return any(name_in_set(name, each) for each in _NAMES)
        case "private" if "." not in name:
            return True
        case _:
            return any(name == known or name.endswith(f".{known}") for known in _NAMES.get(wanted, ()))


def readings(text: str) -> tuple[Address, ...]:
    """Return every address that a program may take *text* for; empty if no program does.

    IPv4 as ``inet_aton`` reads it, and as those do who read leading zeros as decimal; IPv6 with
    the IPv4 address inside it. *text* is lower case, without brackets and without a last dot.
    """
    # Inside: see the TYPE_CHECKING block.
    import ipaddress

    if ":" in text:
        try:
            return tuple(_inside(ipaddress.IPv6Address(text.partition("%")[0])))
        except ValueError:
            return ()
    return tuple(ipaddress.IPv4Address(number) for number in sorted(set(_numbers(text))))


def is_plain(text: str) -> bool:
    """Say whether *text* is an address in the one form that every program reads alike.

    >>> is_plain("10.0.0.1"), is_plain("10.1"), is_plain("010.0.0.1"), is_plain("::1")
    (True, False, False, True)
    """
    return (":" in text and "%" not in text) or _PLAIN_V4.fullmatch(text) is not None


def is_numeric(text: str) -> bool:
    """Say whether the last label makes *text* an address, or nothing (WHATWG URL, "ends in a number")."""
    last = text.rpartition(".")[2]
    return _NUMBER.fullmatch(last) is not None


_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_PLAIN_V4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_V4_PARTS = 4
_V4_AT_THE_END = ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")
"""NAT64 (RFC 6052, 8215), IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765)."""
_LOCAL_NAT64 = "64:ff9b:1::/48"
_SHORTER_PREFIXES = (48, 56, 64)
"""Lengths that a prefix of local NAT64 may have besides 96: the octet behind bit 64 is left out (RFC 6052, 2.2)."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The upper bits of an interface that has an IPv4 address (RFC 5214, 6.1)."""


def _numbers(text: str) -> Iterator[int]:
    parts = text.split(".")
    if len(parts) > _V4_PARTS or not all(_NUMBER.fullmatch(part) and len(part) <= _LONGEST_PART for part in parts):
        return
    for chosen in product(*(tuple(_values(part)) for part in parts)):
        *leading, last = chosen
        size = 256 ** (_V4_PARTS - len(leading))
        if last < size and all(value <= _BYTE for value in leading):
            yield sum(value << (24 - 8 * place) for place, value in enumerate(leading)) + last


_BYTE = 255
_LONGEST_PART = 40


def _values(part: str) -> Iterable[int]:
    if part[:2] in ("0x", "0X"):
        return {int(part[2:] or "0", 16)}
    found = {int(part)}
    if part.startswith("0") and not set(part) & {"8", "9"}:
        found.add(int(part, 8))
    return sorted(found)


def _inside(address: IPv6Address) -> Iterator[Address]:
    """Yield *address* and the IPv4 addresses that are reached through it."""
    # Inside: see the TYPE_CHECKING block.
    import ipaddress

    yield address
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    number = int(address)
    if any(address in network(each) for each in _V4_AT_THE_END) or number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address in network(_LOCAL_NAT64):
        bits = number >> 64 << 56 | number & (1 << 56) - 1
        found = (bits >> (120 - 32 - length) & 0xFFFFFFFF for length in _SHORTER_PREFIXES)
        yield from (ipaddress.IPv4Address(each) for each in found if each)


@cache
def _networks(name: str) -> tuple[Network, ...]:
    return tuple(network(text) for text in _RANGES[name])


@cache
def _all_ranges() -> tuple[Network, ...]:
    return tuple(each for name in _RANGES for each in _networks(name))
