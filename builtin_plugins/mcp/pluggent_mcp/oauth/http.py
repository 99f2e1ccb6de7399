"""Speaks to authorization servers: only where a login may lead, never for long, never more than a few bytes.

Where it leads is said by a server that may be anybody's. So nothing is sent in clear text beyond
this machine, and no server of the outside leads to one of the inside: a name's addresses are looked
at before it is spoken to. Redirects are not followed here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from enum import IntEnum
from urllib.parse import urlsplit

import httpx2

from pluggent_mcp.client.body import Body
from pluggent_mcp.client.posts import Post
from pluggent_mcp.client.remote import certificates_for
from pluggent_mcp.oauth.kept import origin
from pluggent_mcp.oauth.settings import loopback
from pluggent_mcp.oauth.words import LoginError

EXCHANGE_S = 20.0
"""For one request, its answer included."""
LOOK_UP_S = 5.0
MAX_BYTES = 1 << 18
LONGEST_URL = 8_192
OK = 200


class Place(IntEnum):
    """How far inside an address is."""

    OUTSIDE = 0
    NETWORK = 1
    MACHINE = 2


class Guard:
    """Knows where the login to the server at *url* may lead. What the operator pinned as *issuer* is as good."""

    def __init__(self, url: str, issuer: str = "") -> None:
        self._url = url
        self._known = {origin(each) for each in (url, issuer) if each}

    async def check(self, url: str) -> None:
        """Raise LoginError unless *url* may be spoken to, or be opened for a person."""
        parts = urlsplit(url)
        if len(url) > LONGEST_URL or not parts.hostname or parts.username or not url.isascii() or not url.isprintable():
            raise LoginError("it leads to what is no address of an authorization server")
        there = origin(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and loopback(url) and loopback(self._url)):
            raise LoginError(f"it leads to {there}, which is not https://")
        if there in self._known:
            return
        host, own = parts.hostname, urlsplit(self._url).hostname or ""
        if host != own and max(await places(host)) > min(await places(own)):
            raise LoginError(f"it leads inside, to {there}; if that is right, set issuer = … for it")


async def exchange(request: httpx2.Request, guard: Guard) -> httpx2.Response:
    """Send *request* and return the answer, read to its end. Raises LoginError."""
    url = str(request.url)
    await guard.check(url)
    request.headers["Accept-Encoding"] = "identity"
    request.headers.setdefault("Accept", "application/json")
    try:
        async with (
            asyncio.timeout(EXCHANGE_S),
            httpx2.AsyncClient(verify=await certificates_for(url), timeout=EXCHANGE_S) as client,
        ):
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                packed = response.headers.pop("content-encoding", "").strip().lower()
                response.stream = Body(response.stream, Post(), MAX_BYTES, packed)
                await response.aread()
            finally:
                await response.aclose()
    except TimeoutError:
        raise LoginError(f"{origin(url)} did not answer within {EXCHANGE_S:g} s") from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        # Without its cause, which holds the request, and that a code or a token.
        said = str(error) if isinstance(error, httpx2.StreamError) else type(error).__name__
        raise LoginError(f"{origin(url)} cannot be spoken to: {said}") from None
    return response


async def status_of(request: httpx2.Request, guard: Guard) -> tuple[int, str]:
    """Send *request*; return how it was answered, and the challenge, without reading the rest. Raises LoginError."""
    url = str(request.url)
    await guard.check(url)
    try:
        async with (
            asyncio.timeout(EXCHANGE_S),
            httpx2.AsyncClient(verify=await certificates_for(url), timeout=EXCHANGE_S) as client,
        ):
            response = await client.send(request, stream=True, follow_redirects=False)
            await response.aclose()
    except TimeoutError:
        raise LoginError(f"{origin(url)} did not answer within {EXCHANGE_S:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise LoginError(f"{origin(url)} cannot be spoken to: {type(error).__name__}") from None
    return response.status_code, response.headers.get("www-authenticate", "")


async def places(host: str) -> list[Place]:
    """Return where *host* is, each of its addresses; outside if nobody here knows it: a proxy may."""
    try:
        async with asyncio.timeout(LOOK_UP_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return [Place.OUTSIDE]
    return [place(str(address[0])) for *_, address in found] or [Place.OUTSIDE]


def place(text: str) -> Place:
    """Return where an address is.

    >>> place("10.0.0.1").name, place("::ffff:127.0.0.1").name, place("169.254.169.254").name
    ('NETWORK', 'MACHINE', 'NETWORK')
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback or address.is_unspecified:
        return Place.MACHINE
    return Place.OUTSIDE if address.is_global else Place.NETWORK
