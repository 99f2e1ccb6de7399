"""Why a place cannot be reached, in words: where it is, what is wrong, and what to look at."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import cast
from urllib.request import getproxies, proxy_bypass

import httpx2

_DEEPEST = 10
_LATE = "it does not answer; see whether it is running, and what stands in between"
_SILENT = "it took the connection, and said nothing in time"
_HUNG_UP = "it ended the connection without an answer"
_NO_HTTP = "what answers there does not speak HTTP"
_NO_TLS = "what answers there does not speak TLS; write http:// if that is meant"
_UNTRUSTED = "its certificate is not trusted: {}. For an authority of your own: SSL_CERT_FILE"
_UNKNOWN = "there is no host of that name; see how it is spelt, and whether there is a network"
_NO_NAMES = "its name cannot be looked up; see whether there is a network"


def unreachable(error: BaseException) -> str:
    """Return why a request failed with *error*; empty for what is no failure of a connection.

    What a URL may hold of secrets, its user and its query, is not repeated.

    >>> wrong = httpx2.ConnectError("[Errno 111]", request=httpx2.Request("POST", "http://ann:x@127.0.0.1:9/mcp?key=x"))
    >>> wrong.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
    >>> unreachable(wrong)
    'cannot reach http://127.0.0.1:9: the connection is refused; see whether it is running'
    """
    if not isinstance(error, httpx2.TransportError):
        return ""
    return f"cannot reach {_place(error)}: {_reason(error)}"


def _place(error: httpx2.TransportError) -> str:
    try:
        url = error.request.url
    except RuntimeError:  # what it says where there is none
        return "it"
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = f":{url.port}" if url.port is not None else ""
    proxied = url.scheme in getproxies() and not proxy_bypass(url.host)
    return f"{url.scheme}://{host}{port}" + (", by way of the proxy that the environment names" if proxied else "")


def _reason(error: httpx2.TransportError) -> str:
    for cause in _causes(error):
        if words := _words(cause):
            return words
    return _first_line(error) or type(error).__name__


def _words(cause: BaseException) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return _UNTRUSTED.format(cause.verify_message)
        case ssl.SSLError():
            return f"{_NO_TLS} ({cause.reason or _first_line(cause)})"
        case socket.gaierror():
            return _NO_NAMES if cause.errno == socket.EAI_AGAIN else _UNKNOWN
        case OSError(errno=errno.ECONNREFUSED):
            return "the connection is refused; see whether it is running"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case httpx2.ConnectTimeout():
            return _LATE
        case httpx2.TimeoutException():
            return _SILENT
        case httpx2.RemoteProtocolError():
            return _HUNG_UP if "disconnected" in str(cause) else _NO_HTTP
        case _:
            return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what led to *error*, itself last: the innermost knows best."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and len(chain) < _DEEPEST:
        if isinstance(found, BaseExceptionGroup):
            found = cast("BaseExceptionGroup[BaseException]", found).exceptions[0]
        chain.append(found)
        found = found.__cause__ or found.__context__
    return reversed(chain)


def _first_line(error: BaseException) -> str:
    # Behind it the HTTP library links to an encyclopedia.
    return str(error).partition("\n")[0]
