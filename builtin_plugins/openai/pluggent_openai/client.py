"""The seam to HTTP: bytes of a request out; status, headers and bytes of the answer in.

Nothing outside this file knows which HTTP library is behind it. It is imported when the
first request is made, since importing that library takes longer than the whole host.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import cast
from weakref import WeakKeyDictionary

import httpx2 as httpx
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind

from pluggent_openai.errors import Faults
from pluggent_openai.patience import Patience
from pluggent_openai.settings import Server, endpoint_of, target_of

_MAX_ERROR_BYTES = 65_536
_DRAIN_S = 1.0


class Answer:
    """An answer under way: iterate it once for its body, read by read."""

    def __init__(
        self, response: httpx.Response, patience: Patience, first_s: float, server: Server, faults: Faults
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        # Raw reads cost less, where there is nothing to decode and a transport has not read it all.
        plain = "content-encoding" not in response.headers and not response.is_stream_consumed
        self._body = response.aiter_raw() if plain else response.aiter_bytes()
        self._patience = patience
        self._server = server
        self._faults = faults
        self._length = 0
        self._wait_s = ("first_byte_s", first_s)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        setting, seconds = self._wait_s
        try:
            chunk = await self._patience.wait(anext(self._body), seconds)
        except TimeoutError as error:
            raise _too_slow(self._faults, setting, getattr(self._server, setting)) from error
        except httpx.DecodingError as error:
            raise self._faults.protocol(f"sent a body that cannot be decompressed: {error}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._faults.broken(f"broke off: the connection was lost ({_cause(error)})") from error
        self._wait_s = ("silence_s", self._server.silence_s)
        self._length += len(chunk)
        if self._length > self._server.max_response_bytes:
            limit = self._server.max_response_bytes
            raise self._faults.protocol(f"sent more than {limit:,} bytes (setting max_response_bytes)")
        return chunk

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self])

    async def read_some(self) -> bytes:
        """Return the start of the body, of an answer that is an error anyway."""
        some = bytearray()
        with suppress(ProviderError):
            async for chunk in self:
                some += chunk
                if len(some) >= _MAX_ERROR_BYTES:
                    break
        return bytes(some[:_MAX_ERROR_BYTES])

    async def drain(self) -> None:
        """Read on to the end of an answer of which nothing more is wanted, if it comes soon.

        A connection is used again only if its answer was read to the end.
        """
        with suppress(TimeoutError, StopAsyncIteration, httpx.HTTPError, httpx.StreamError):
            await self._patience.wait(anext(self._body), min(_DRAIN_S, self._server.silence_s))

    async def close(self) -> None:
        """Close it; the connection too, if the answer was not read to its end."""
        self._patience.stop()
        with suppress(httpx.HTTPError, httpx.StreamError):
            await self._body.aclose()
            await self._response.aclose()


class Client:
    """Sends requests to one server over connections that are kept, for each event loop its own."""

    def __init__(
        self, server: Server, client: httpx.AsyncClient | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._server = server
        self._url = httpx.URL(endpoint_of(server.base_url))
        self._target = target_of(server.base_url)
        self._given = client
        self._transport = transport
        self._timeout = httpx.Timeout(None, connect=server.connect_s)
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    @asynccontextmanager
    async def post(self, body: bytes, headers: Mapping[str, str], faults: Faults) -> AsyncGenerator[Answer]:
        """Send *body* and give its answer, whatever its status, as soon as its headers are there.

        Raises ProviderError: ``unavailable``, ``timeout`` or ``protocol``.
        """
        patience = Patience()
        started = monotonic()
        try:
            response = await self._send(body, headers, faults, patience)
            left_s = max(0.0, self._server.first_byte_s - (monotonic() - started))
            answer = Answer(response, patience, left_s, self._server, faults)
        except BaseException:
            patience.stop()
            raise
        try:
            yield answer
        finally:
            await answer.close()

    async def close(self) -> None:
        """Close the connections of this event loop; what the application gave stays open."""
        client = self._own.pop(asyncio.get_running_loop(), None)
        if client is not None and self._transport is None:
            await client.aclose()

    async def _send(
        self, body: bytes, headers: Mapping[str, str], faults: Faults, patience: Patience
    ) -> httpx.Response:
        client = self._client()
        if client.is_closed:
            raise faults.error(Kind.UNAVAILABLE, "the HTTP client that the application gave is closed")
        request = client.build_request("POST", self._url, content=body, headers=headers, timeout=self._timeout)
        server = self._server
        try:
            # One wait from here to the headers; redirects would carry the key to where they point.
            return await patience.wait(client.send(request, stream=True, follow_redirects=False), server.first_byte_s)
        except TimeoutError as error:
            raise _too_slow(faults, "first_byte_s", server.first_byte_s) from error
        except httpx.ConnectTimeout as error:
            raise _too_slow(faults, "connect_s", server.connect_s) from error
        except httpx.RemoteProtocolError as error:
            if "disconnected" in str(error):
                raise faults.error(Kind.UNAVAILABLE, f"{self._target} hung up without an answer") from error
            raise faults.protocol(f"does not speak HTTP: {error}") from error
        except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
            raise faults.error(Kind.UNAVAILABLE, f"{self._target} cannot be reached: {_cause(error)}") from error

    def _client(self) -> httpx.AsyncClient:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        client = self._own.get(loop)
        if client is None:
            client = self._own[loop] = self._new_client()
        return client

    def _new_client(self) -> httpx.AsyncClient:
        # Loading the system's certificates takes longer than a request; without TLS they are
        # not loaded, and a context without any trusts nobody.
        verify = True if self._url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # No limit of connections: a request that waits for one would look like a slow server.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)
        return httpx.AsyncClient(transport=self._transport, verify=verify, limits=limits, timeout=self._timeout)


def _too_slow(faults: Faults, setting: str, seconds: float) -> ProviderError:
    what = {"connect_s": "no connection", "first_byte_s": "no answer", "silence_s": "no more of the answer"}[setting]
    return faults.error(Kind.TIMEOUT, f"{what} from {faults.target} within {seconds:g} s (setting {setting})")


def _cause(error: BaseException) -> str:
    """Return the words of the innermost cause: libraries wrap it in less telling ones."""
    while inner := _inner(error):
        error = inner
    return str(error) or type(error).__name__


def _inner(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error.__cause__ or error.__context__
