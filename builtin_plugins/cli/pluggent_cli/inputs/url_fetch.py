"""Fetches what a person attaches by its URL: from public addresses alone, those that were checked, after redirects too.

Import it when a URL is attached: the HTTP library behind it takes longer than the host's start.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

import httpx2
from pluggent_checked_http.addresses import Place, place
from pluggent_checked_http.certificates import trusted
from pluggent_checked_http.failures import reason
from pluggent_checked_http.pinned import addresses_of, send
from pluggent_hookspecs.attachments import LIMIT_BYTES
from pluggent_hookspecs.errors import ConfigError

TIMEOUT_S = 60.0
_CONNECT_S = 10.0
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_GOOD = range(200, 300)
_HEADERS = {"User-Agent": "pluggent/0.1", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}

Resolver = Callable[[str], Awaitable[tuple[str, ...]]]


def is_public(address: str) -> bool:
    """Say whether *address* is neither on this machine nor in its network."""
    return place(address) is Place.OUTSIDE


def fetch(url: str, *, resolver: Resolver = addresses_of, permits: Callable[[str], bool] = is_public) -> bytes:
    """Return what is at *url*, looked up by *resolver*, if it *permits* each address. Raises ConfigError."""
    return asyncio.run(_fetched(url, resolver, permits))


async def _fetched(url: str, resolver: Resolver, permits: Callable[[str], bool]) -> bytes:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            target = _read_url(url, url)
            for _ in range(_MAX_REDIRECTS + 1):
                found = await _get(url, target, resolver, permits)
                if isinstance(found, bytes):
                    return found
                was, target = target, _read_url(url, found)
                if was.scheme == "https" and target.scheme == "http":
                    problem = f"redirects from https to http://{target.host}, where others can read and change it"
                    raise ConfigError(url, [f"{problem}; it is not followed"])
    except TimeoutError:
        raise ConfigError(url, [f"did not answer in full within {TIMEOUT_S:g} s"]) from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
        raise ConfigError(url, [f"cannot be fetched: {reason(error)}"]) from error
    raise ConfigError(url, [f"redirects more than {_MAX_REDIRECTS} times"])


def _read_url(given: str, target: str) -> httpx2.URL:
    try:
        url = httpx2.URL(target)
    except httpx2.InvalidURL as error:
        raise ConfigError(_without_user(given), [f"is not a URL: {error}"]) from error
    where = "" if target == given else f"redirects to {url.scheme}://{url.host}, which "
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(given, [f"{where}is not a URL that begins with https:// or http://"])
    if url.userinfo:
        problem = f"{where}has a user name or password in it, which is not sent"
        raise ConfigError(_without_user(given), [problem])
    return url


def _without_user(url: str) -> str:
    """Return *url* without what may be a password: an error is printed, and kept in logs.

    >>> _without_user("https://ann:s3cret@example.com/a")
    'https://example.com/a'
    """
    scheme, separator, rest = url.partition("://")
    end = next((at for at, letter in enumerate(rest) if letter in "/?#"), len(rest))
    return f"{scheme}{separator}{rest[:end].rpartition('@')[2]}{rest[end:]}"


async def _get(given: str, url: httpx2.URL, resolver: Resolver, permits: Callable[[str], bool]) -> bytes | str:
    """Return the content of *url*, or where it redirects to."""
    addresses = (url.host,) if _is_address(url.host) else await resolver(url.host)
    if not addresses:
        raise ConfigError(given, [f"cannot be fetched: there is no host {url.host!r}, or no network"])
    if not all(map(permits, addresses)):
        problem = f"{url.host} is inside this machine or its network, where nothing is fetched from"
        raise ConfigError(given, [f"{problem}. Fetch it yourself, and attach the file, or pipe it in: -a -"])
    # Without any authority a context trusts no server; plain HTTP needs none.
    certificates = await trusted() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    timeout = httpx2.Timeout(None, connect=_CONNECT_S)
    async with httpx2.AsyncClient(verify=certificates, timeout=timeout, trust_env=False) as client:
        response = await send(client, httpx2.Request("GET", url, headers=_HEADERS), addresses)
        try:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return str(url.join(response.headers["location"]))
            if response.status_code not in _GOOD:
                raise ConfigError(given, [f"the server answered with status {response.status_code}"])
            return await _body(given, response)
        finally:
            await response.aclose()


async def _body(given: str, response: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > LIMIT_BYTES:
            raise ConfigError(given, [f"is larger than {LIMIT_BYTES:,} bytes"])
    return bytes(body)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
