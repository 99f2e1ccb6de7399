"""Requests to authorization servers: only to permitted URLs, with limits on time and size.

The URLs come from an untrusted server. So nothing is sent unencrypted beyond this machine, and a
public server cannot lead to a private address: the addresses of a name are checked before the
request. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from enum import IntEnum
from urllib.parse import urlsplit

import httpx2

from pluggent_mcp.client.http_transport import PendingRequest, bounded, certificates_for
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.login_store import origin
from pluggent_mcp.oauth.settings import loopback

EXCHANGE_S = 20.0
"""For one request, its answer included."""
LOOK_UP_S = 5.0
MAX_BYTES = 1 << 18
LONGEST_URL = 8_192
OK = 200


class Place(IntEnum):
    """The network zone of an address."""

    OUTSIDE = 0
    NETWORK = 1
    MACHINE = 2


class Guard:
    """Checks the URLs of the login to the server at *url*. The pinned *issuer* is permitted, too."""

    def __init__(self, url: str, issuer: str = "") -> None:
        self._url = url
        self._known = {origin(each) for each in (url, issuer) if each}

    async def check(self, url: str) -> None:
        """Raise LoginError unless a request may be sent to *url*, or a browser may open it."""
        parts = urlsplit(url)
        if len(url) > LONGEST_URL or not parts.hostname or parts.username or not url.isascii() or not url.isprintable():
            raise LoginError("it leads to what is not a URL of an authorization server")
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
                await bounded(response, PendingRequest(), MAX_BYTES).aread()
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
    """Return the zones of the addresses of *host*; OUTSIDE if it does not resolve here: a proxy may resolve it."""
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
