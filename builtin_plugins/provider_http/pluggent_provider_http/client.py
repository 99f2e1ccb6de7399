"""The seam to HTTP: bytes of a request out; status, headers and bytes of the answer in.

Nothing outside this file knows which HTTP library is behind it. Import it when the first
request is made, since importing that library takes longer than the whole host.

The waits of one answer share a single timer, however many waits there are: ``asyncio.timeout``
around every read costs 6 µs each.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import MappingProxyType
from typing import TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import httpx2 as httpx
from pluggent_hookspecs import ModelTimeouts, ProviderError, ProviderErrorKind as Kind, ReplyMeta

from pluggent_provider_http.endpoint import Endpoint, target_of, url_below
from pluggent_provider_http.reply_meta import meta_of
from pluggent_provider_http.request_options import with_waits
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UnsendableError

_MAX_ERROR_BYTES = 65_536
_DRAIN_S = 1.0
_OK = range(200, 300)
_MAX_URLS = 64
_NO_QUERY: Mapping[str, str] = MappingProxyType({})
Sign: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Mapping[str, str]]
"""What adds headers to a request that is complete: of its method, URL, headers and body."""


class Answer:
    """An answer under way: iterate it once for its body, read by read.

    ``status`` and ``headers`` (case does not matter) are there at once. What goes wrong
    while it is read is a ProviderError: ``timeout``, ``stream_broken`` or ``protocol``.
    """

    def __init__(
        self, response: httpx.Response, patience: Patience, started: float, endpoint: Endpoint, faults: Faults
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._raw_headers = response.headers.raw
        self._response = response
        # Raw reads cost less, where there is nothing to decode and a transport has not read it all.
        plain = "content-encoding" not in response.headers and not response.is_stream_consumed
        self._body = response.aiter_raw() if plain else response.aiter_bytes()
        self._patience = patience
        self._endpoint = endpoint
        self._faults = faults
        self._length = 0
        self._started = started
        self._first_byte_s: float | None = None
        self._wait_s = ("first_byte_s", max(0.0, endpoint.first_byte_s - (monotonic() - started)))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        setting, seconds = self._wait_s
        try:
            chunk = await self._patience.wait(anext(self._body), seconds)
        except TimeoutError as error:
            raise _too_slow(self._faults, setting, getattr(self._endpoint, setting)) from error
        except httpx.DecodingError as error:
            raise self._faults.protocol(f"sent a body that cannot be decompressed: {error}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._faults.broken(f"broke off: the connection was lost ({_cause(error)})") from error
        self._wait_s = ("silence_s", self._endpoint.silence_s)
        if self._first_byte_s is None:
            self._first_byte_s = monotonic() - self._started
        self._length += len(chunk)
        if self._length > self._endpoint.max_response_bytes:
            limit = self._endpoint.max_response_bytes
            raise self._faults.protocol(f"sent more than {limit:,} bytes (setting max_response_bytes)")
        return chunk

    def meta(self) -> ReplyMeta:
        """Return what the headers say, and when the first byte of the body came."""
        # As a dict, once: the library decodes all headers for each that is looked up.
        plain = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._raw_headers}
        return meta_of(plain, self._faults, self._first_byte_s)

    async def check(self) -> None:
        """Raise the ProviderError that the answer is, if its status is not a success."""
        if self.status not in _OK:
            raise self._faults.from_status(self.status, self.headers, await self.read_some())

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
            await self._patience.wait(anext(self._body), min(_DRAIN_S, self._endpoint.silence_s))

    async def close(self) -> None:
        """Close it; the connection too, if the answer was not read to its end."""
        self._patience.stop()
        with suppress(httpx.HTTPError, httpx.StreamError):
            await self._body.aclose()
            await self._response.aclose()


class Client:
    """Sends requests to one server over connections that are kept, for each event loop its own.

    *client* is an application's own, which is used and never closed; *transport* is what
    clients made here send with. Without them proxies and certificates come from the
    environment, read when an event loop first asks: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY,
    NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR. *sign* adds headers to each request that is about to be sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: httpx.AsyncClient | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sign: Sign | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._sign = sign
        self._target = target_of(endpoint.base_url)
        self._urls: dict[str, httpx.URL] = {}
        self._given = client
        self._transport = transport
        self._timeout = httpx.Timeout(None, connect=endpoint.connect_s)
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    @asynccontextmanager
    async def post(
        self,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        faults: Faults,
        timeouts: ModelTimeouts | None = None,
    ) -> AsyncGenerator[Answer]:
        """Send *body* to *path* below the base URL; the answer, whatever its status, as soon as its headers are there.

        *timeouts* may shorten the waits of the settings. Leaving the block closes the answer. Raises ProviderError:
        ``unavailable``, ``timeout`` or ``protocol``.
        """
        async with self._send("POST", self._url(path), body, headers, faults, timeouts) as answer:
            yield answer

    @asynccontextmanager
    async def get(
        self, path: str, headers: Mapping[str, str], faults: Faults, query: Mapping[str, str] = _NO_QUERY
    ) -> AsyncGenerator[Answer]:
        """Ask for *path* below the base URL, such as a list of models; otherwise as ``post``."""
        url = httpx.URL(url_below(self._endpoint.base_url, path, query))
        async with self._send("GET", url, None, headers, faults) as answer:
            yield answer

    async def close(self) -> None:
        """Close the connections of this event loop; what the application gave stays open."""
        client = self._own.pop(asyncio.get_running_loop(), None)
        if client is not None and self._transport is None:
            await client.aclose()

    @asynccontextmanager
    async def _send(
        self, method: str, url: httpx.URL, body: bytes | None, headers: Mapping[str, str], faults: Faults,
        timeouts: ModelTimeouts | None = None,
    ) -> AsyncGenerator[Answer]:  # fmt: skip
        patience = Patience()
        started = monotonic()
        endpoint, timeout = self._endpoint, self._timeout
        if timeouts is not None:
            endpoint = _shortened(endpoint, timeouts, faults)
            timeout = httpx.Timeout(None, connect=endpoint.connect_s)
        try:
            client = self._client(faults)
            if self._sign is not None:
                headers = {**headers, **self._sign(method, str(url), headers, body or b"")}
            request = client.build_request(method, url, content=body, headers=headers, timeout=timeout)
            response = await self._response(client, request, faults, patience, endpoint)
            answer = Answer(response, patience, started, endpoint, faults)
        except BaseException:
            patience.stop()
            raise
        try:
            yield answer
        except ProviderError as error:
            error.meta = error.meta or answer.meta()
            raise
        finally:
            await answer.close()

    async def _response(
        self, client: httpx.AsyncClient, request: httpx.Request, faults: Faults, patience: Patience, endpoint: Endpoint
    ) -> httpx.Response:
        limit_s = endpoint.first_byte_s
        try:
            # One wait from here to the headers; redirects would carry the key to where they point.
            return await patience.wait(client.send(request, stream=True, follow_redirects=False), limit_s)
        except TimeoutError as error:
            raise _too_slow(faults, "first_byte_s", limit_s) from error
        except httpx.ConnectTimeout as error:
            raise _too_slow(faults, "connect_s", endpoint.connect_s) from error
        except httpx.ProxyError as error:
            problem = f"the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names did not reach {self._target}"
            passes = None if _may_pass(error) and "407" not in str(error) else False
            raise faults.error(Kind.UNAVAILABLE, f"{problem}: {_cause(error)}", retryable=passes) from error
        except httpx.RemoteProtocolError as error:
            if "disconnected" in str(error):
                raise faults.error(Kind.UNAVAILABLE, f"{self._target} hung up without an answer") from error
            # Not from error, whose words repeat what the server sent.
            raise faults.protocol(f"does not speak HTTP: {error}") from None
        except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
            problem = f"{self._target} cannot be reached: {_cause(error)}"
            passes = None if _may_pass(error) else False
            raise faults.error(Kind.UNAVAILABLE, problem, retryable=passes) from error

    def _url(self, path: str) -> httpx.URL:
        url = self._urls.get(path)
        if url is None:
            if len(self._urls) >= _MAX_URLS:  # paths may hold names of models
                self._urls.clear()
            url = self._urls[path] = httpx.URL(url_below(self._endpoint.base_url, path))
        return url

    def _client(self, faults: Faults) -> httpx.AsyncClient:
        if self._given is not None:
            if self._given.is_closed:
                raise faults.error(Kind.UNAVAILABLE, "the HTTP client that the application gave is closed")
            return self._given
        loop = asyncio.get_running_loop()
        client = self._own.get(loop)
        if client is None:
            client = self._own[loop] = self._new_client(faults)
        return client

    def _new_client(self, faults: Faults) -> httpx.AsyncClient:
        # No limit of connections: a request that waits for one would look like a slow server.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)
        verify = self._verify(faults)
        try:
            return httpx.AsyncClient(transport=self._transport, verify=verify, limits=limits, timeout=self._timeout)
        except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
            # Their words are not repeated: they show the URL of the proxy, which may hold a password.
            needs = " (a SOCKS proxy needs the package socksio)" if isinstance(error, ImportError) else ""
            problem = f"HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names no proxy that can be used{needs}"
            raise faults.error(Kind.BAD_REQUEST, problem) from None

    def _verify(self, faults: Faults) -> ssl.SSLContext | bool:
        # Loading the system's certificates takes longer than a request; without TLS they are
        # not loaded, and a context without any trusts no server.
        if self._endpoint.base_url.partition(":")[0].lower() != "https" or self._transport is not None:
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
        if file is None and folder is None:
            return True
        try:
            # Both count, as for OpenSSL; the HTTP library looks at the first one alone.
            return ssl.create_default_context(cafile=file, capath=folder)
        except OSError as error:
            problem = f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
            raise faults.error(Kind.BAD_REQUEST, problem) from error


_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.InvalidURL)


def was_refused(error: ProviderError) -> bool:
    """Say whether *error* proves that the server has done nothing: it was not reached, or it says no by its status."""
    if error.status is not None:
        return error.status not in _UNCLEAR
    return error.kind is Kind.BAD_REQUEST or isinstance(error.__cause__, _NEVER_SENT)


_UNCLEAR = frozenset({408, 500, 502, 504, 520, 522, 524})
"""Statuses with which something in front of a server, or half of it, may answer although the other half has begun."""


def _shortened(endpoint: Endpoint, timeouts: ModelTimeouts, faults: Faults) -> Endpoint:
    try:
        return with_waits(endpoint, timeouts)
    except UnsendableError as error:
        raise faults.unsendable(error) from error


def _too_slow(faults: Faults, setting: str, seconds: float) -> ProviderError:
    what = {"connect_s": "no connection", "first_byte_s": "no answer", "silence_s": "no more of the answer"}[setting]
    return faults.error(Kind.TIMEOUT, f"{what} from {faults.target} within {seconds:g} s (setting {setting})")


def _may_pass(error: BaseException) -> bool:
    """Whether another try may succeed: no certificate is trusted for being shown again, and no URL becomes one."""
    innermost = _innermost(error)
    lost = isinstance(innermost, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return lost or not isinstance(innermost, ssl.SSLError | httpx.InvalidURL)


def _cause(error: BaseException) -> str:
    """Return the words of the innermost cause: libraries wrap it in less telling ones."""
    error = _innermost(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error} (SSL_CERT_FILE names the file of a certificate authority of your own)"
    return str(error) or type(error).__name__


def _innermost(error: BaseException) -> BaseException:
    while inner := _inner(error):
        error = inner
    return error


def _inner(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error.__cause__ or error.__context__


# ---- deadlines --------------------------------------------------------------------------


T = TypeVar("T")


class Patience:
    """Waits, each with its own limit, in one loop; between them no limit runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._until: float | None = None
        self._waiter: asyncio.Task[object] | None = None
        self._expired = False

    async def wait(self, awaitable: Awaitable[T], seconds: float) -> T:
        """Return what *awaitable* returns. Raises TimeoutError once *seconds* have passed."""
        self._waiter = waiter = asyncio.current_task()
        assert waiter is not None
        cancelling = waiter.cancelling()
        self._until = until = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > until:
            self._set_timer(until)
        try:
            return await awaitable
        except asyncio.CancelledError as cancelled:
            if self._expired and waiter.uncancel() <= cancelling:
                raise TimeoutError from cancelled
            raise
        finally:
            self._until = self._waiter = None

    def stop(self) -> None:
        """Take the timer back; call it when the answer is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        self.stop()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._until is None or self._waiter is None:
            return
        if self._loop.time() < self._until:
            self._set_timer(self._until)
        else:
            self._expired = True
            self._waiter.cancel()
