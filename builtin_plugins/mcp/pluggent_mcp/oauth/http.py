"""Requests to authorization servers: only to permitted URLs, with limits on time and size.

The URLs come from an untrusted server. So nothing is sent unencrypted beyond this machine, and a
public server cannot lead to a private address: a name is looked up once, its addresses are checked,
and the request goes to one of them. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from pluggent_checked_http.addresses import Place, place
from pluggent_checked_http.pinned import MOST_ADDRESSES, addresses_of, send

from pluggent_mcp.client.http_transport import PendingRequest, bounded, certificates_for
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.login_store import origin
from pluggent_mcp.oauth.settings import loopback

EXCHANGE_S = 20.0
"""For one request, its answer included."""
MAX_BYTES = 1 << 18
LONGEST_URL = 8_192
OK = 200


class Guard:
    """Checks the URLs of the login to the server at *url*. The pinned *issuer* is permitted, too.

    Each name is looked up once: what was checked is what is connected to, and a name that later leads
    elsewhere changes nothing.
    """

    def __init__(self, url: str, issuer: str = "") -> None:
        self._url = url
        self._known = {origin(each) for each in (url, issuer) if each}
        self._addresses: dict[str, tuple[str, ...]] = {}

    async def check(self, url: str) -> tuple[str, ...]:
        """Return the addresses of *url*; none if a proxy looks its name up.

        Raises LoginError unless a request may be sent to *url*, or a browser may open it.
        """
        parts = urlsplit(url)
        plain = parts.hostname and "@" not in parts.netloc and url.isascii() and url.isprintable()
        if len(url) > LONGEST_URL or not plain or not _has_port(url):
            raise LoginError("it leads to what is not a URL of an authorization server")
        there = origin(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and loopback(url) and loopback(self._url)):
            raise LoginError(f"it leads to {there}, which is not https://")
        host, own = parts.hostname or "", urlsplit(self._url).hostname or ""
        found = await self._looked_up(host)
        if not found and not proxied(url):
            raise LoginError(f"{there} cannot be spoken to: its name cannot be looked up")
        if there not in self._known and host != own and _inmost(found) > _outmost(await self._looked_up(own)):
            raise LoginError(f"it leads inside, to {there}; if that is right, set issuer = … for it")
        return () if proxied(url) else found

    async def _looked_up(self, host: str) -> tuple[str, ...]:
        if host not in self._addresses:
            self._addresses[host] = await addresses_of(host)
        return self._addresses[host]


def _inmost(found: tuple[str, ...]) -> Place:
    return max(map(place, found), default=Place.OUTSIDE)


def _outmost(found: tuple[str, ...]) -> Place:
    return min(map(place, found), default=Place.OUTSIDE)


def _has_port(url: str) -> bool:
    """Say whether the port of *url*, if it has one, is a number."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def proxied(url: str) -> bool:
    """Say whether requests to *url* go through a proxy that the environment names: it looks up names by itself."""
    parts, proxies = urlsplit(url), getproxies()
    return (parts.scheme in proxies or "all" in proxies) and not proxy_bypass(parts.netloc)


@asynccontextmanager
async def _sent(request: httpx2.Request, guard: Guard) -> AsyncGenerator[httpx2.Response]:
    """Send *request* to what was checked, and give its answer before it is read. Raises LoginError."""
    url = str(request.url)
    addresses = await guard.check(url)
    # Without a proxy nothing of the environment counts: a name that needs none is now an address.
    connect_s = EXCHANGE_S / max(1, min(len(addresses), MOST_ADDRESSES))
    certificates = await certificates_for(url)
    try:
        async with (
            asyncio.timeout(EXCHANGE_S),
            httpx2.AsyncClient(
                verify=certificates, timeout=httpx2.Timeout(EXCHANGE_S, connect=connect_s), trust_env=not addresses
            ) as client,
        ):
            response = await send(client, request, addresses)
            try:
                yield response
            finally:
                await response.aclose()
    except TimeoutError:
        raise LoginError(f"{origin(url)} did not answer within {EXCHANGE_S:g} s") from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        # Without its cause, which holds the request, and that a code or a token.
        said = str(error) if isinstance(error, httpx2.StreamError) else type(error).__name__
        raise LoginError(f"{origin(url)} cannot be spoken to: {said}") from None


async def exchange(request: httpx2.Request, guard: Guard) -> httpx2.Response:
    """Send *request* and return the answer, read to its end. Raises LoginError."""
    request.headers["Accept-Encoding"] = "identity"
    request.headers.setdefault("Accept", "application/json")
    async with _sent(request, guard) as response:
        await bounded(response, PendingRequest(), MAX_BYTES).aread()
    response.request = request
    return response


async def status_of(request: httpx2.Request, guard: Guard) -> tuple[int, str]:
    """Send *request*; return how it was answered, and the challenge, without reading the rest. Raises LoginError."""
    async with _sent(request, guard) as response:
        return response.status_code, response.headers.get("www-authenticate", "")
