"""One request and its answer, with limits on everything. Follows no redirect, keeps no cookie.

A name is looked up once, its addresses are checked, and the request goes to one of them.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.request import getproxies, proxy_bypass

import attrs
import httpx2
from pluggent_checked_http.certificates import trusted
from pluggent_checked_http.failures import reason
from pluggent_checked_http.pinned import MOST_ADDRESSES, send

from pluggent_web.answers import Answer, FetchError
from pluggent_web.decoding import Decoder, PackedError
from pluggent_web.fetch_tool import Resolver
from pluggent_web.hosts import HostRules, is_address
from pluggent_web.settings import WebSettings
from pluggent_web.urls import Url

_CONNECT_S = 10.0
_PIECE = 65_536
_ACCEPT = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, \
image/*;q=0.7, */*;q=0.5"


@attrs.frozen
class Exchange:
    """Fetches URLs as the settings say."""

    settings: WebSettings
    rules: HostRules
    resolver: Resolver

    async def get(self, url: Url) -> Answer:
        """Return the answer to a GET of *url*. Raises UrlError and FetchError."""
        self.rules.check_name(url)
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                proxy = self._proxy(url)
                if proxy:
                    self.rules.check_behind_proxy(url)
                addresses = () if proxy else await self._addresses(url)
                return await self._answer(url, addresses, proxy)
        except TimeoutError:
            raise FetchError(f"{url.origin} did not answer in full within {self.settings.timeout_s:g} s") from None
        except PackedError as error:
            raise FetchError(f"the answer of {url.origin} {error}") from error
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
            # Without its cause: the words of a proxy's error show the proxy's password.
            raise FetchError(f"{url.origin} cannot be fetched from: {_why(error)}") from None

    async def _addresses(self, url: Url) -> tuple[str, ...]:
        found = (url.host,) if is_address(url.host) else await self.resolver(url.host)
        if not found:
            raise FetchError(f"{url.origin} cannot be fetched from: there is no host of that name, or no network")
        self.rules.check_addresses(url, found)
        return found

    def _proxy(self, url: Url) -> str:
        """Return the proxy for *url*, "" for none. The environment counts only where the settings say so."""
        if self.settings.proxy != "environment":
            return self.settings.proxy
        if proxy_bypass(url.authority):
            return ""
        proxies = getproxies()
        return proxies.get(url.scheme) or proxies.get("all") or ""

    async def _answer(self, url: Url, addresses: tuple[str, ...], proxy: str) -> Answer:
        request = httpx2.Request("GET", str(url), headers=_headers(url, self.settings))
        secure = url.scheme == "https" or proxy.startswith("https:")
        # Without any authority a context trusts no server; plain HTTP needs none.
        certificates = await trusted() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        connect_s = min(_CONNECT_S, self.settings.timeout_s / max(1, min(len(addresses), MOST_ADDRESSES)))
        async with httpx2.AsyncClient(
            verify=certificates, timeout=httpx2.Timeout(None, connect=connect_s), trust_env=False, proxy=proxy or None
        ) as client:
            response = await send(client, request, addresses)
            try:
                return await self._read(url, response)
            finally:
                await response.aclose()

    async def _read(self, url: Url, response: httpx2.Response) -> Answer:
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(url, response.status_code, headers)
        if answer.location is not None:
            return answer
        limit = self.settings.max_bytes
        decoder = Decoder(headers.get("content-encoding", ""), limit)
        received = 0
        async for piece in response.aiter_raw(_PIECE):
            received += len(piece)
            decoder.feed(piece)
            if decoder.full:
                break
            if received > limit + _PIECE:  # packed, it is longer than unpacked
                raise PackedError("is packed in a way that makes it longer")
        decoder.end()
        return attrs.evolve(answer, body=bytes(decoder.body), cut=decoder.full)


def _headers(url: Url, settings: WebSettings) -> dict[str, str]:
    return {
        "Host": url.authority,
        "User-Agent": settings.user_agent or "pluggent-web/0.1 (fetches a page that an AI agent asked for)",
        "Accept": _ACCEPT,
        "Accept-Encoding": "gzip, deflate",
        "Connection": "close",
    }


def _why(error: Exception) -> str:
    if isinstance(error, httpx2.RemoteProtocolError) and "complete message body" in str(error):
        return "the connection ended before the whole answer had come"
    if isinstance(error, httpx2.ProxyError | ValueError):
        return "the proxy of the settings did not take the request"
    return reason(error)
