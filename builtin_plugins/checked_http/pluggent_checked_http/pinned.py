"""Looks up a name once, and sends a request to the addresses that were found and checked."""

from __future__ import annotations

import asyncio
import socket

import httpx2

LOOK_UP_S = 5.0
_HIGHEST_PORT = 65_535
MOST_ADDRESSES = 4
"""How many addresses of a name are tried."""


async def addresses_of(host: str) -> tuple[str, ...]:
    """Return the addresses of *host*, none if it cannot be looked up here."""
    try:
        async with asyncio.timeout(LOOK_UP_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


async def send(client: httpx2.AsyncClient, request: httpx2.Request, addresses: tuple[str, ...]) -> httpx2.Response:
    """Return the answer, not yet read, of the first of *addresses* that can be connected to; redirects are answers.

    Without addresses the request goes to the name in its URL, as a proxy needs it.
    """
    if (port := request.url.port) is not None and port > _HIGHEST_PORT:  # connecting would fail in ways of its own
        raise httpx2.ConnectError(f"there is no port {port}", request=request)
    tried = addresses[:MOST_ADDRESSES]
    for number, address in enumerate(tried, 1):
        try:
            return await client.send(to_address(request, address), stream=True, follow_redirects=False)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            if number == len(tried):
                raise
    return await client.send(request, stream=True, follow_redirects=False)


def to_address(request: httpx2.Request, address: str) -> httpx2.Request:
    """Return *request*, sent to *address*, for the host that it names: in its header, and in the certificate.

    >>> pinned = to_address(httpx2.Request("GET", "https://example.org/a"), "192.0.2.7")
    >>> str(pinned.url), pinned.headers["host"], pinned.extensions["sni_hostname"]
    ('https://192.0.2.7/a', 'example.org', 'example.org')
    """
    return httpx2.Request(
        request.method, request.url.copy_with(host=address), headers=request.headers, content=request.read(),
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )  # fmt: skip
