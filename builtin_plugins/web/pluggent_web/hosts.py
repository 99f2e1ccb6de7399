"""Which hosts and addresses may be fetched from. Pure: looks nothing up."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import attrs
from pluggent_checked_http.addresses import Place, place

from pluggent_web.settings import WebSettings
from pluggent_web.urls import Url, UrlError, read_host

Network: TypeAlias = IPv4Network | IPv6Network

_NEVER_BY_NAME = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "0.0.0.0/8",
            "224.0.0.0/4", "240.0.0.0/4", "fe80::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::254/128",
        ),
    )
)  # fmt: skip
"""Metadata services of clouds, link-local and multicast addresses: an allowed name does not lead there."""
_LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "localdomain")


@attrs.frozen
class HostPattern:
    """``example.org``, ``*.example.org``, ``10.0.0.0/8``, each also with a port: ``localhost:8000``."""

    name: str
    network: Network | None
    port: int | None

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Read a pattern. Raises ValueError.

        >>> HostPattern.parse("[::1]:8080").port, HostPattern.parse("*.Example.org").name
        (8080, '*.example.org')
        """
        host, port = _split_port(text)
        bare = host.strip("[]")
        try:
            return cls("", ip_network(bare), port)
        except ValueError:
            pass
        if "/" in host:
            raise ValueError(f"{text!r} is not a network: write one as 10.0.0.0/8, and a host without scheme and path")
        wild = host.startswith("*.")
        try:
            name = read_host(host.removeprefix("*."))
        except UrlError as error:
            raise ValueError(f"{text!r} is not a host: {error}") from None
        return cls(f"*.{name}" if wild else name, None, port)

    def fits_name(self, url: Url) -> bool:
        """Say whether the name in *url* is meant."""
        if self.network is not None or (self.port is not None and self.port != url.port):
            return False
        return url.host.endswith(self.name[1:]) if self.name.startswith("*.") else url.host == self.name

    def fits_address(self, url: Url, address: str) -> bool:
        """Say whether *address*, which *url* leads to, is meant."""
        if self.network is None or (self.port is not None and self.port != url.port):
            return False
        return any(each in self.network for each in _readings(address))


def _readings(address: str) -> Iterable[object]:
    read = ip_address(address.partition("%")[0])
    mapped = getattr(read, "ipv4_mapped", None)
    return (read,) if mapped is None else (read, mapped)


def _split_port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdigit() and (":" not in host or host.endswith("]")):
        return host, int(port)
    return text, None


def patterns(texts: Iterable[str]) -> tuple[HostPattern, ...]:
    """Read patterns, from settings. Raises ValueError naming all that cannot be read."""
    if isinstance(texts, str):
        raise ValueError(f"expected a list, got the text {texts!r}; write [{texts!r}]")
    read: list[HostPattern] = []
    problems: list[str] = []
    for text in texts:
        try:
            read.append(HostPattern.parse(text))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(read)


@attrs.frozen
class HostRules:
    """What an operator says of hosts: ``only`` these (empty: all), none of ``deny``, and these inside."""

    only: tuple[HostPattern, ...] = ()
    deny: tuple[HostPattern, ...] = ()
    allow_private: tuple[HostPattern, ...] = ()

    def check_name(self, url: Url) -> None:
        """Raise UrlError if the host of *url* is refused whatever its addresses are."""
        if any(rule.fits_name(url) for rule in self.deny):
            raise UrlError(f"{url.origin} is refused by the settings (deny)")

    def check_addresses(self, url: Url, addresses: Iterable[str]) -> None:
        """Raise UrlError if *url*, looked up, leads where nothing may be fetched from: one address suffices."""
        addresses = tuple(addresses)
        if self.only and not any(
            rule.fits_name(url) or (addresses and all(rule.fits_address(url, each) for each in addresses))
            for rule in self.only
        ):
            raise UrlError(f"{url.origin} is not one of the hosts that the settings allow (only)")
        for address in addresses:
            if any(rule.fits_address(url, address) for rule in self.deny):
                raise UrlError(f"{url.origin} is refused by the settings (deny)")
            if not self._permits(url, address):
                # The address is not named: it is nothing that a page or a model should learn.
                raise UrlError(
                    f"{url.origin} leads inside this machine or its network, where nothing is fetched from. The user "
                    "can allow it in the settings: [plugins.pluggent-web] allow_private"
                )

    def check_behind_proxy(self, url: Url) -> None:
        """Raise UrlError for hosts that are inside by their name: a proxy looks names up by itself."""
        if is_address(url.host):
            self.check_addresses(url, (url.host,))
            return
        self.check_addresses(url, ())
        local = "." not in url.host or any(url.host == name or url.host.endswith(f".{name}") for name in _LOCAL_NAMES)
        if local and not any(rule.fits_name(url) for rule in self.allow_private):
            raise UrlError(f"{url.origin} is a name inside a network; the settings can allow it (allow_private)")

    def _permits(self, url: Url, address: str) -> bool:
        if place(address) is Place.OUTSIDE or any(rule.fits_address(url, address) for rule in self.allow_private):
            return True
        never = any(each in network for each in _readings(address) for network in _NEVER_BY_NAME)
        return not never and any(rule.fits_name(url) for rule in self.allow_private)


def is_address(host: str) -> bool:
    """Say whether *host* is an address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def host_rules(settings: WebSettings) -> HostRules:
    """Return what *settings* say of hosts."""
    return HostRules(patterns(settings.only), patterns(settings.deny), patterns(settings.allow_private))
