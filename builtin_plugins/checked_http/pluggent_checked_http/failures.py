"""Says in words why a request failed: the innermost cause knows best. Nothing of the URL is repeated."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import cast

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


def reason(error: BaseException) -> str:
    """Return why a request failed with *error*.

    >>> wrong = httpx2.ConnectError("[Errno 111]")
    >>> wrong.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
    >>> reason(wrong)
    'the connection is refused; see whether it is running'
    """
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
    # The HTTP library appends links to documentation.
    return str(error).partition("\n")[0]
